// SPDX-License-Identifier: MIT
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/counted.hpp"
#include "base/median.hpp"
#include "clients/driftctl/camera/photon_transfer.hpp"
#include "clients/driftctl/camera/quantised_noise.hpp"

namespace driftd::clients {
namespace {

constexpr double kNormalMad = 1.4826;
/// With less noise than this, or less of a pattern, the true levels do not lie evenly between whole
/// ones.
constexpr double kNoiseThatDithers = 0.5;
constexpr double kPatternThatDithers = 0.48;
constexpr double kNoiseBehindALimit = 1;

struct Pixels {
  std::vector<double> mean, variance;  ///< of the pixels kept; variance with rounding
  int hot = 0;
  std::size_t at_zero = 0;  ///< next to always, and not among the kept
};

/// Mean and variance where many values are 0, that is below half a step.
Normal behind_the_limit(const FrameStatistics& s, std::size_t pixel) {
  const double step = s.step();
  const double all = s.frames();
  const double below = s.zeros(pixel);
  CensoredSample sample{below, all - below, 0, 0};
  sample.mean_above = s.mean(pixel) * all / sample.above;
  const double square = (s.spread(pixel) + s.mean(pixel) * s.mean(pixel)) * all / sample.above;
  sample.var_above = std::max(0.0, square - sample.mean_above * sample.mean_above);
  const Normal fit = fit_censored(sample, 0.5 * step);
  return {fit.mean, fit.variance * all / (all - 1)};
}

Pixels all_pixels(const FrameStatistics& s, bool clipped) {
  constexpr std::size_t kEnoughFitted = 65'536;
  constexpr double kMostClipped = 0.85;
  Pixels pixels;
  const std::size_t count = s.shape().pixels();
  const std::size_t every = clipped ? std::max<std::size_t>(1, count / kEnoughFitted) : 1;
  for (std::size_t i = 0; i < count; i += every) {
    if (!clipped) {
      pixels.mean.push_back(s.mean(i));
      pixels.variance.push_back(s.variance(i));
    } else if (s.zeros(i) <= kMostClipped * s.frames()) {
      const Normal normal = behind_the_limit(s, i);
      pixels.mean.push_back(normal.mean);
      pixels.variance.push_back(normal.variance);
    } else {
      ++pixels.at_zero;
    }
  }
  if (pixels.mean.size() < count / every / 2) return {};
  return pixels;
}

/// All but hot pixels and those whose level jumps.
Pixels usual_ones(const Pixels& all, double step) {
  const double middle = median(all.mean);
  std::vector<double> away(all.mean.size());
  std::transform(all.mean.begin(), all.mean.end(), away.begin(),
                 [middle](double mean) { return std::abs(mean - middle); });
  const double most_away = 6 * kNormalMad * median(away) + 2 * step;
  Pixels kept = all;
  for (int round = 0; round < 3; ++round) {
    const double mean_variance = std::accumulate(kept.variance.begin(), kept.variance.end(), 0.0) /
                                 static_cast<double>(kept.variance.size());
    const double most = std::max(5 * mean_variance, step * step);
    kept = {};
    kept.at_zero = all.at_zero;
    for (std::size_t i = 0; i < all.mean.size(); ++i) {
      if (all.variance[i] > most || std::abs(all.mean[i] - middle) > most_away) {
        ++kept.hot;
      } else {
        kept.mean.push_back(all.mean[i]);
        kept.variance.push_back(all.variance[i]);
      }
    }
  }
  return kept;
}

/// Patches of bright pixels whose noise is larger, too: light.
void refuse_light(const FrameStatistics& s, const DarkResult& dark, double sd_adu) {
  constexpr int kMostInPatches = 15;
  const int width = s.shape().width_px;
  const double limit =
      dark.offset_adu.value + std::max({10 * sd_adu, 10 * dark.pattern_adu, 5.0 * s.step()});
  const auto bright = [&](int x, int y) {
    return s.mean(static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                  static_cast<std::size_t>(x)) > limit;
  };
  int in_patches = 0;
  for (int y = 1; y + 1 < s.shape().height_px; ++y) {
    for (int x = 1; x + 1 < width; ++x) {
      if (!bright(x, y)) continue;
      int neighbours = -1;
      for (int dy = -1; dy <= 1; ++dy) {
        for (int dx = -1; dx <= 1; ++dx) neighbours += bright(x + dx, y + dy) ? 1 : 0;
      }
      const auto i = static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                     static_cast<std::size_t>(x);
      if (neighbours >= 4 && s.variance(i) > 2 * sd_adu * sd_adu) ++in_patches;
    }
  }
  if (in_patches > kMostInPatches) {
    throw CannotCalibrate(fmt::format(
        "it is not dark: {} in bright patches. Close the shutter or switch the light off",
        counted(in_patches, "pixel")));
  }
}

/// How sure the mean is: its scatter from frame to frame, its way over the series, the pattern.
double sd_of_offset(const FrameStatistics& s, const Pixels& pixels, double pattern_adu) {
  const std::vector<double>& means = s.frame_means();
  const auto n = static_cast<double>(means.size());
  const auto half = means.begin() + static_cast<std::ptrdiff_t>(means.size() / 2);
  const double first = std::accumulate(means.begin(), half, 0.0) / std::floor(n / 2);
  const double second = std::accumulate(half, means.end(), 0.0) / std::ceil(n / 2);
  return std::hypot(pattern_adu / std::sqrt(static_cast<double>(pixels.mean.size())),
                    (second - first) / 2);
}

void add_warnings(DarkResult& dark, const FrameStatistics& s) {
  if (dark.only_bound) {
    dark.warnings.push_back(
        "nearly all dark values are 0: the offset (black level) is 0 or less, and hides the read "
        "noise. Raise it until no value is 0");
    return;
  }
  if (dark.clipped_share > kClipped) {
    dark.warnings.push_back(fmt::format(
        "{:.1f} % of the dark values are 0: the offset is so low that noise is cut off. Raise the "
        "camera's black level until none are",
        100 * dark.clipped_share));
  }
  if (!dark.read_noise_adu) {
    dark.warnings.push_back(fmt::format(
        "the read noise is below {:.2g} ADU, too little for levels {} ADU apart to show: raise the "
        "camera's gain to measure it",
        dark.most_read_noise_adu, dark.step_adu));
  } else if (dark.read_noise_adu->value < 0.29 * dark.step_adu) {
    dark.warnings.push_back(fmt::format(
        "the read noise is less than that of rounding to levels {} ADU apart: a higher gain of "
        "the camera would show fainter light",
        dark.step_adu));
  }
  if (dark.hot_pixels > static_cast<double>(s.shape().pixels()) / 100) {
    dark.warnings.push_back(counted(dark.hot_pixels, "pixel is hot or noisy and was left out",
                                    "pixels are hot or noisy and were left out"));
  }
}

}  // namespace

namespace {

/// What two levels alone do not tell: how far apart they are in units of the noise.
bool shows_three_levels(const FrameStatistics& s) {
  constexpr double kFewest = 1e-3;
  const auto step = static_cast<std::size_t>(s.step());
  std::uint64_t all = 0;
  std::uint64_t most_of_two = 0;
  for (std::size_t level = 0; level < s.levels().size(); level += step) {
    all += s.levels()[level];
    most_of_two =
        std::max(most_of_two, s.levels()[level] + (level >= step ? s.levels()[level - step] : 0));
  }
  return static_cast<double>(all - most_of_two) > kFewest * static_cast<double>(all);
}

/// Pixels that nearly always show 0 count as below all others.
double median_with_zeros(const Pixels& pixels) {
  std::vector<double> means = pixels.mean;
  means.insert(means.end(), pixels.at_zero, -1e9);
  return median(std::move(means));
}

/// Offset, pattern and read noise of the pixels that are as most are.
void describe(DarkResult& dark, const FrameStatistics& s, const Pixels& pixels, bool clipped) {
  const double step = dark.step_adu;
  const auto count = static_cast<double>(pixels.mean.size());
  dark.hot_pixels = pixels.hot;
  const double offset = clipped
                            ? median_with_zeros(pixels)
                            : std::accumulate(pixels.mean.begin(), pixels.mean.end(), 0.0) / count;
  const double variance =
      std::accumulate(pixels.variance.begin(), pixels.variance.end(), 0.0) / count;
  double spread = 0;
  for (const double mean : pixels.mean) spread += (mean - offset) * (mean - offset) / count;
  dark.pattern_adu = std::sqrt(std::max(0.0, spread - variance / s.frames()));
  dark.offset_adu = {offset, sd_of_offset(s, pixels, dark.pattern_adu)};

  // What is behind the limit was fitted as if not rounded but for the twelfth.
  double sd = clipped ? std::sqrt(std::max(0.0, variance - step * step / 12))
                      : step * sd_before_rounding(variance / (step * step));
  // Each pixel's variance is known to a part of sqrt(3 / frames); of the rounding's formula more.
  double share = std::sqrt(3 / (count * s.frames())) / 2 + (clipped ? 0.02 : 0.003);
  bool shows = sd > (clipped ? kNoiseBehindALimit : kNoiseThatDithers) * step ||
               (!clipped && dark.pattern_adu > kPatternThatDithers * step && variance > 0);
  if (!shows && !clipped && variance > 0 && shows_three_levels(s)) {
    const RoundedPixels before = before_rounding(offset / step, (spread + variance) / (step * step),
                                                 variance / (step * step));
    sd = step * before.noise_sd;
    dark.pattern_adu = step * before.pattern_sd;
    dark.offset_adu = {step * before.mean, std::hypot(dark.offset_adu.sd, 0.02 * step)};
    share = 0.05;
    shows = true;
  } else if (!shows) {
    dark.offset_adu.sd = std::hypot(dark.offset_adu.sd, 0.29 * step);
  }
  if (clipped) dark.offset_adu.sd = std::hypot(dark.offset_adu.sd, 0.1 * step);
  if (shows) {
    dark.read_noise_adu = Estimate{sd, sd * share};
  } else {
    dark.most_read_noise_adu = std::max(kNoiseThatDithers * step, clipped ? 1.2 * sd : sd);
  }
  if (variance > 0 && s.repeated() > s.frames() / 2 && s.repeated() + 1 < s.frames()) {
    throw CannotCalibrate(
        "the camera repeats the same picture: a test pattern, or it stands still");
  }
  refuse_light(s, dark, std::sqrt(variance));
}

}  // namespace

DarkResult measure_dark(const FrameStatistics& s) {
  if (s.frames() < kFewestFrames) {
    throw CannotCalibrate(fmt::format(
        "{} too few: {} are needed", counted(s.frames(), "frame is", "frames are"), kFewestFrames));
  }
  DarkResult dark;
  dark.shape = s.shape();
  dark.frames = s.frames();
  dark.step_adu = s.step();
  const double step = dark.step_adu;
  dark.clipped_share = s.share_at_zero();
  const bool clipped = dark.clipped_share > kClipped;
  const Pixels all = all_pixels(s, clipped);
  if (all.mean.empty()) {
    dark.only_bound = true;
    dark.offset_adu = {0, 0.5 * step};
    dark.most_read_noise_adu = kNoiseThatDithers * step;
  } else {
    describe(dark, s, usual_ones(all, step), clipped);
  }
  add_warnings(dark, s);
  return dark;
}

}  // namespace driftd::clients
