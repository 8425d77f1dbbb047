// SPDX-License-Identifier: MIT
#include "clients/driftctl/photon_transfer.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "clients/driftctl/quantised_noise.hpp"
#include "clients/driftctl/saturation.hpp"

namespace driftd::clients {
namespace {

constexpr double kNormalMad = 1.4826;
/// Median of chi^2 with 15 degrees of freedom over its mean.
constexpr double kMedianOverMean = 0.9559;
constexpr std::size_t kGroups = 16;  ///< of tiles, left out in turn for the uncertainty
/// With less noise rounding is no noise of its own any more, unless a pattern makes it one.
constexpr double kLeastNoise = 0.5, kLeastNoiseWithPattern = 0.5, kPatternThatDithers = 0.42;
/// Below, a pixel's variance depends on where between two levels it lies: only averages tell.
constexpr double kNoiseOfOnePixel = 0.8;
/// So far from 0 next to nothing is cut off.
constexpr double kClearOfZeroSd = 3;
/// Of a gain, that neither classes nor tiles show: pixels' gains, motion not wholly taken out.
constexpr double kShareOfDoubt = 0.003;
constexpr int kFewestInClass = 16;
constexpr std::size_t kWantedInClass = 40;
constexpr double kMostGainSd = 0.1;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Variance before rounding: intercept + slope * mean.
struct Line {
  double intercept = 0, slope = 0;
  double at(double unit, double light) const { return intercept * unit + slope * light; }
};

/// Averages over a class of pixels, of one group of tiles or of all.
struct Sums {
  double n = 0, mean = 0, variance = 0, unit = 0, light = 0, unit2 = 0;
  double weight2 = 0;  ///< sum of (predicted variance)^2 / degrees of freedom, times 2
  void add(const Sums& o, double sign) {
    n += sign * o.n;
    mean += sign * o.mean;
    variance += sign * o.variance;
    unit += sign * o.unit;
    light += sign * o.light;
    unit2 += sign * o.unit2;
    weight2 += sign * o.weight2;
  }
};
using Classes = std::vector<Sums>;

/// A pixel over all blocks that count.
struct Pixel {
  double mean = 0, variance = 0, unit = 0, light = 0;
  double neighbours = 0;  ///< mean of the eight around it
  int blocks = 0;
  std::size_t group = 0;
};

class Fit {
 public:
  Fit(const NoiseBlocks& noise, const DarkResult* dark, double step, double saturation_adu)
      : noise_(noise), dark_(dark), step_(step), saturation_adu_(saturation_adu) {
    taken_.resize(noise.tiles().size());
    for (std::size_t t = 0; t < taken_.size(); ++t) {
      taken_[t].assign(static_cast<std::size_t>(noise.blocks()), true);
    }
  }

  void run() {
    gather(true);
    divide();
    line_ = solve_robustly(sum_classes(true));
    for (int round = 0; round < 4; ++round) {
      leave_out_disturbed();
      gather(false);
      classes_ = sum_classes(false);
      line_ = solve_robustly(total(classes_));
    }
  }

  const Line& line() const noexcept { return line_; }
  double brightest_adu() const noexcept { return brightest_adu_; }
  double disturbed_share() const noexcept { return disturbed_share_; }

  /// From leaving out each group of tiles in turn (jackknife).
  Line sd() const {
    std::vector<Line> lines;
    for (std::size_t g = 0; g < kGroups; ++g) {
      Classes part = total(classes_);
      for (std::size_t c = 0; c < part.size(); ++c) part[c].add(classes_[c * kGroups + g], -1);
      lines.push_back(solve_robustly(part));
    }
    Line sum;
    for (const Line& line : lines) {
      sum.intercept += std::pow(line.intercept - line_.intercept, 2);
      sum.slope += std::pow(line.slope - line_.slope, 2);
    }
    constexpr double kShare = (kGroups - 1.0) / kGroups;
    return {std::sqrt(kShare * sum.intercept),
            std::hypot(std::sqrt(kShare * sum.slope), kShareOfDoubt * line_.slope)};
  }

  /// Mean and variance of each class that the line was fitted to.
  std::vector<TransferPoint> curve() const {
    std::vector<TransferPoint> points;
    for (const Sums& sums : total(classes_)) {
      if (!counts(sums)) continue;
      const double mean = sums.mean / sums.n;
      const double expected = line_.at(sums.unit, sums.light);
      const double rounding = rounding_of(mean);
      const double at_mean = line_.at(1, mean) + rounding;
      const double ratio = sums.variance / (expected + sums.unit * rounding);
      points.push_back({mean, at_mean * ratio - rounding,
                        at_mean * std::sqrt(sums.weight2) / (expected + sums.unit * rounding),
                        static_cast<std::int64_t>(sums.n)});
    }
    return points;
  }

 private:
  /// What rounding adds to the variance of pixels of that mean.
  double rounding_of(double mean) const {
    const double sd = std::sqrt(std::max(0.0, line_.at(1, mean))) / step_;
    return step_ * step_ * (rounded_variance(sd) - sd * sd);
  }
  bool dithered(double mean) const {
    const double sd = std::sqrt(std::max(0.0, line_.at(1, mean))) / step_;
    return sd > (pattern_adu_ > kPatternThatDithers * step_ ? kLeastNoiseWithPattern : kLeastNoise);
  }
  bool counts(const Sums& sums) const {
    return sums.n >= kFewestInClass && sums.unit > 0 && dithered(sums.mean / sums.n);
  }

  /// Sums each pixel over its blocks. @param by_median  before it is known which blocks count
  void gather(bool by_median) {
    pixels_.clear();
    for (std::size_t t = 0; t < noise_.tiles().size(); ++t) {
      const NoiseBlocks::Tile& tile = noise_.tiles()[t];
      std::vector<Pixel> own(kTilePixels);
      for (std::size_t i = 0; i < kTilePixels; ++i) {
        std::vector<double> variances;
        for (std::size_t b = 0; b < tile.blocks.size(); ++b) {
          const TileNoise& block = tile.blocks[b];
          if (!taken_[t][b] || block.unit[i] <= 0) continue;
          own[i].mean += static_cast<double>(block.mean[i]);
          own[i].unit += static_cast<double>(block.unit[i]);
          own[i].light += static_cast<double>(block.light[i]);
          own[i].variance += static_cast<double>(block.variance[i]);
          if (by_median) variances.push_back(static_cast<double>(block.variance[i]));
          ++own[i].blocks;
        }
        Pixel& p = own[i];
        p.group = t % kGroups;
        if (p.blocks == 0) continue;
        for (double* value : {&p.mean, &p.unit, &p.light, &p.variance}) *value /= p.blocks;
        if (by_median) p.variance = median(std::move(variances)) / kMedianOverMean;
      }
      add_neighbours(own);
      for (const Pixel& p : own) {
        if (p.blocks > 0) pixels_.push_back(p);
      }
    }
    if (pixels_.empty()) {
      throw CannotCalibrate("all pixels are at a limit of the levels: less light, or more offset");
    }
  }

  static void add_neighbours(std::vector<Pixel>& tile) {
    for (int y = 0; y < kTileSide_px; ++y) {
      for (int x = 0; x < kTileSide_px; ++x) {
        double sum = 0;
        int count = 0;
        for (int dy = -1; dy <= 1; ++dy) {
          for (int dx = -1; dx <= 1; ++dx) {
            const int to_x = x + dx;
            const int to_y = y + dy;
            if ((dx == 0 && dy == 0) || to_x < 0 || to_y < 0 || to_x >= kTileSide_px ||
                to_y >= kTileSide_px) {
              continue;
            }
            const Pixel& other = tile[static_cast<std::size_t>(to_y * kTileSide_px + to_x)];
            if (other.blocks == 0) continue;
            sum += other.mean;
            ++count;
          }
        }
        Pixel& own = tile[static_cast<std::size_t>(y * kTileSide_px + x)];
        own.neighbours = count > 0 ? sum / count : own.mean;
      }
    }
  }

  /// Classes by the brightness of a pixel's neighbours: its own would put a pixel with a high
  /// offset among brighter ones.
  void divide() {
    std::vector<double> around;
    std::vector<double> away;
    for (const Pixel& p : pixels_) {
      around.push_back(p.neighbours);
      away.push_back(std::abs(p.mean - p.neighbours));
    }
    pattern_adu_ = kNormalMad * median(away);
    std::sort(around.begin(), around.end());
    const double from = around[around.size() / 1000];
    const double to = around.back();
    double edge = from;
    std::size_t taken = 0;
    while (edge < to) {
      edge += std::max(4 * pattern_adu_ + step_, 0.3 * (edge - from));
      const auto below = static_cast<std::size_t>(
          std::lower_bound(around.begin(), around.end(), edge) - around.begin());
      if (below - taken < kWantedInClass && edge < to) continue;
      edges_.push_back(edge);
      taken = below;
    }
    // What is left at the top joins the class below.
    if (edges_.size() > 1 &&
        around.end() - std::lower_bound(around.begin(), around.end(), edges_[edges_.size() - 2]) <
            static_cast<std::ptrdiff_t>(kWantedInClass)) {
      edges_.erase(edges_.end() - 2);
    }
    if (edges_.empty()) edges_.push_back(to + step_);
  }

  std::size_t class_of(const Pixel& p) const {
    const auto edge = std::upper_bound(edges_.begin(), edges_.end(), p.neighbours);
    return std::min(static_cast<std::size_t>(edge - edges_.begin()), edges_.size() - 1);
  }

  /// Sums over the pixels of each class and group; @param by_class  over groups as well
  Classes sum_classes(bool by_class) {
    const bool first = classes_.empty();
    Classes classes(edges_.size() * (by_class ? 1 : kGroups));
    brightest_adu_ = dimmest_adu_ = pixels_.front().mean;
    for (const Pixel& p : pixels_) {
      const double degrees = p.blocks * (kBlockFrames - 1.0);
      double predicted = p.variance;
      if (!first || !by_class) {
        // A pixel's own offset makes its mean another than its light's: in even places the
        // neighbours tell that better.
        const bool even = std::abs(p.mean - p.neighbours) < 6 * pattern_adu_ + step_;
        const double mean = even ? p.neighbours : p.mean;
        const double before = line_.at(p.unit, p.light + p.unit * (mean - p.mean));
        predicted = before + p.unit * rounding_of(mean);
        if (predicted <= 0 ||
            p.neighbours < 2.5 * pattern_adu_ + kClearOfZeroSd * std::sqrt(predicted)) {
          continue;
        }
        const bool tells = before > kNoiseOfOnePixel * kNoiseOfOnePixel * step_ * step_;
        const double most_away =
            std::max(6 * std::sqrt(2 / degrees), 0.25) + 3 * pattern_adu_ * line_.slope / predicted;
        if (tells ? std::abs(p.variance / predicted - 1) > most_away
                  : p.variance > 4 * (predicted + step_ * step_)) {
          continue;
        }
        if (p.mean + 5 * std::sqrt(predicted) >= saturation_adu_) continue;
      }
      const std::size_t c = class_of(p);
      if (c == 0 && std::abs(p.mean - p.neighbours) > 8 * pattern_adu_ + 2 * step_) continue;
      Sums one{1,
               p.mean,
               p.variance,
               p.unit,
               p.light,
               p.unit * p.unit,
               2 * predicted * predicted / degrees};
      classes[by_class ? c : c * kGroups + p.group].add(one, 1);
      brightest_adu_ = std::max(brightest_adu_, p.mean);
      dimmest_adu_ = std::min(dimmest_adu_, p.mean);
    }
    return classes;
  }

  static Classes total(const Classes& by_group) {
    Classes classes(by_group.size() / kGroups);
    for (std::size_t i = 0; i < by_group.size(); ++i) classes[i / kGroups].add(by_group[i], 1);
    return classes;
  }

  /// Weighted line through the classes, and the dark where it is known; classes that stand far off
  /// count less (Huber). The weights and the rounding follow the line.
  Line solve_robustly(const Classes& classes) const;

  void leave_out_disturbed();

  const NoiseBlocks& noise_;
  const DarkResult* dark_;
  double step_, saturation_adu_;
  std::vector<std::vector<bool>> taken_;  ///< by tile and block
  std::vector<Pixel> pixels_;
  std::vector<double> edges_;
  Classes classes_;  ///< class * kGroups + group
  Line line_;
  double pattern_adu_ = 0, dimmest_adu_ = 0, brightest_adu_ = 0, disturbed_share_ = 0;
};

/// One equation: variance = intercept * unit + slope * light, known to sd.
struct Equation {
  double variance, unit, light, sd;
};

/// Weighted least squares; nothing where the equations are not independent.
std::optional<Line> solve(const std::vector<Equation>& equations, const Line* before) {
  double uu = 0;
  double ul = 0;
  double ll = 0;
  double uv = 0;
  double lv = 0;
  for (const Equation& e : equations) {
    double weight = 1 / (e.sd * e.sd);
    if (before != nullptr) {
      constexpr double kHuber = 3;
      const double off = std::abs(e.variance - before->at(e.unit, e.light)) / e.sd;
      if (off > kHuber) weight *= kHuber / off;
    }
    uu += weight * e.unit * e.unit;
    ul += weight * e.unit * e.light;
    ll += weight * e.light * e.light;
    uv += weight * e.unit * e.variance;
    lv += weight * e.light * e.variance;
  }
  const double determinant = uu * ll - ul * ul;
  if (determinant <= 1e-9 * uu * ll) return std::nullopt;
  return Line{(uv * ll - lv * ul) / determinant, (uu * lv - ul * uv) / determinant};
}

Line Fit::solve_robustly(const Classes& classes) const {
  Line line = line_;
  bool known = line.slope > 0;
  for (int round = 0; round < 12; ++round) {
    std::vector<Equation> equations;
    for (const Sums& sums : classes) {
      if (sums.n < kFewestInClass || sums.unit <= 0) continue;
      const double mean = sums.mean / sums.n;
      double variance = sums.variance / sums.n;
      const double unit = sums.unit / sums.n;
      double rounding = step_ * step_ / 12;
      if (known) {
        const double sd = std::sqrt(std::max(0.0, line.at(1, mean))) / step_;
        const bool pattern = pattern_adu_ > kPatternThatDithers * step_;
        if (sd < (pattern ? kLeastNoiseWithPattern : kLeastNoise)) continue;
        rounding = step_ * step_ * (rounded_variance(sd) - sd * sd);
      }
      variance -= unit * rounding;
      // A pixel's gain differs by a percent or so: classes of few are not known better.
      const double pattern_share = 0.02 / std::sqrt(sums.n);
      const double sd =
          std::hypot(std::sqrt(sums.weight2) / sums.n, pattern_share * sums.variance / sums.n);
      equations.push_back({variance, unit, sums.light / sums.n, sd});
    }
    if (dark_ != nullptr && dark_->read_noise_adu) {
      const double read = dark_->read_noise_adu->value;
      const double slope = known ? line.slope : 0;
      const double sd = std::hypot(2 * read * dark_->read_noise_adu->sd,
                                   slope * (dark_->offset_adu.sd + 0.005 * step_));
      equations.push_back(
          {read * read, 1, dark_->offset_adu.value, std::max(sd, 1e-4 * step_ * step_)});
    }
    if (equations.size() < 2) {
      throw CannotCalibrate(
          "the frames are too dark or too even: their noise does not show above the steps of the "
          "levels at two different brightnesses. More light (or more gain), or a dark series");
    }
    const auto solved = solve(equations, known ? &line : nullptr);
    if (!solved || !(solved->slope > 0)) {
      if (known && line_.slope > 0 && solved) return *solved;
      throw CannotCalibrate(
          "brighter pixels are not noisier: this is not the noise of light. Is the camera's image "
          "processed, or the frame a test pattern?");
    }
    line = *solved;
    known = true;
  }
  return line;
}

void Fit::leave_out_disturbed() {
  constexpr double kMostRatio = 6;  // chi^2 of 15 degrees: beyond once in 1e12
  constexpr double kMostExcess = 0.25;
  std::size_t lit = 0;
  std::size_t disturbed = 0;
  std::size_t any = 0;
  std::size_t disturbed_of_any = 0;
  const double dim = dimmest_adu_ + 8 * pattern_adu_ + 2 * step_;
  for (std::size_t t = 0; t < taken_.size(); ++t) {
    const NoiseBlocks::Tile& tile = noise_.tiles()[t];
    for (std::size_t b = 0; b < tile.blocks.size(); ++b) {
      const TileNoise& block = tile.blocks[b];
      double left = 0;
      double expected = 0;
      double most = 0;
      int bright = 0;
      for (std::size_t i = 0; i < kTilePixels; ++i) {
        if (block.unit[i] <= 0) continue;
        const auto mean = static_cast<double>(block.mean[i]);
        const auto unit = static_cast<double>(block.unit[i]);
        const double predicted =
            line_.at(unit, static_cast<double>(block.light[i])) + unit * step_ * step_ / 12;
        if (line_.at(1, mean) < kNoiseOfOnePixel * kNoiseOfOnePixel * step_ * step_) continue;
        left += static_cast<double>(block.variance[i]);
        expected += predicted;
        if (mean <= dim) continue;
        ++bright;
        // A pixel noisy by itself is in all blocks, and left out as a pixel.
        most = std::max(most, static_cast<double>(block.variance[i]) / predicted);
      }
      const bool is_lit = bright >= 9;
      taken_[t][b] = most < kMostRatio && left <= (1 + kMostExcess) * expected;
      if (is_lit) ++lit;
      if (is_lit && !taken_[t][b]) ++disturbed;
      ++any;
      if (!taken_[t][b]) ++disturbed_of_any;
    }
  }
  disturbed_share_ = lit > 0 ? static_cast<double>(disturbed) / static_cast<double>(lit)
                             : static_cast<double>(disturbed_of_any) / static_cast<double>(any);
}

/// How far the variance half way up is off a straight line, and by how many standard deviations.
std::pair<double, double> bend(const std::vector<TransferPoint>& curve, const Line& line,
                               const DarkResult* dark) {
  // Least squares of the residuals to c (m - low) (m - high), which is 0 at both ends.
  if (curve.size() < 4) return {0, 0};
  const double low = dark != nullptr ? dark->offset_adu.value : curve.front().mean_adu;
  const double high = curve.back().mean_adu;
  double pp = 0;
  double pr = 0;
  for (const TransferPoint& point : curve) {
    const double shape = (point.mean_adu - low) * (point.mean_adu - high);
    const double sd = std::hypot(point.sd_adu2, 0.01 * point.variance_adu2);
    const double off = point.variance_adu2 - line.at(1, point.mean_adu);
    pp += shape * shape / (sd * sd);
    pr += shape * off / (sd * sd);
  }
  if (pp <= 0) return {0, 0};
  const double half = -(high - low) * (high - low) / 4;
  const double at_half = line.at(1, (high + low) / 2);
  return {pr / pp * half / at_half, pr / std::sqrt(pp)};
}

void add_warnings(LightResult& light, const FrameStatistics& statistics, const Line& line,
                  const DarkResult* dark) {
  auto& warnings = light.warnings;
  if (light.step_adu > 1) {
    warnings.push_back(fmt::format(
        "the levels go in steps of {}: the camera's {} bits are left aligned in {}. That is fine; "
        "all ADU here are those of the frames as they come, as the configuration has them",
        light.step_adu, light.shape.bits - static_cast<int>(std::lround(std::log2(light.step_adu))),
        light.shape.bits));
  }
  if (const double missing = statistics.missing_levels(); missing > 0.1) {
    warnings.push_back(
        fmt::format("{:.0f} % of the levels never occur: the camera multiplies its levels (digital "
                    "gain), which "
                    "adds nothing but coarser rounding. Switch it off",
                    100 * missing));
  }
  const double full_scale_e = light.gain_e_per_adu.value * (1 << light.shape.bits);
  if (full_scale_e < 300 || full_scale_e > 5e6) {
    warnings.push_back(
        fmt::format("a gain of {:.3g} e-/ADU would make {:.2g} e- of the whole range of {} bits: "
                    "no usual sensor",
                    light.gain_e_per_adu.value, full_scale_e, light.shape.bits));
  }
  const auto [bent, sds] = bend(light.curve, line, dark);
  light.nonlinear_share = bent;
  if (std::abs(bent) > 0.05 && std::abs(sds) > 6) {
    warnings.push_back(fmt::format(
        "the variance is no straight line over the mean: {:+.0f} % half way up. Gamma, a look-up "
        "table or other processing is on in the camera, or the light does something by itself",
        100 * bent));
  }
  const NeighbourNoise& n = light.neighbours;
  if (const double most = std::max(std::abs(n.right), std::abs(n.below)); most > 0.06) {
    warnings.push_back(fmt::format(
        "the noise of neighbours goes together (right {:+.2f}, below {:+.2f}): smoothing, "
        "sharpening, debayering or interpolation in the camera, or noise of whole rows. Smoothed "
        "noise makes the gain come out too high",
        n.right, n.below));
  }
  if (light.gain_e_per_adu.sd > 0.02 * light.gain_e_per_adu.value) {
    warnings.push_back("the gain is not known to 2 %: more frames, more light, or a dark series");
  }
  if (light.disturbed_share > 0.25) {
    warnings.push_back(fmt::format(
        "{:.0f} % of the bright places were left out for a while: markers blink or move by "
        "themselves",
        100 * light.disturbed_share));
  }
}

void check_frames(const FrameStatistics& s, const NoiseBlocks& noise, const DarkResult* dark) {
  if (s.frames() < kFewestFrames || noise.blocks() < kFewestFrames / kBlockFrames) {
    throw CannotCalibrate(
        fmt::format("{} frames are too few: {} are needed", s.frames(), kFewestFrames));
  }
  if (noise.tiles().empty()) {
    throw CannotCalibrate(fmt::format("a frame of {} x {} px is too small: {} px are needed",
                                      s.shape().width_px, s.shape().height_px, kTileSide_px));
  }
  if (s.repeated() > s.frames() / 2) {
    throw CannotCalibrate(
        "the frames are all the same: a test pattern, a camera that stands still, or no light");
  }
  if (dark != nullptr && dark->shape != s.shape()) {
    throw CannotCalibrate(fmt::format(
        "the dark series is of {} x {} px and {} bits, the camera now gives {} x {} and {}: "
        "measure the dark anew",
        dark->shape.width_px, dark->shape.height_px, dark->shape.bits, s.shape().width_px,
        s.shape().height_px, s.shape().bits));
  }
}

/// Light makes nothing darker.
void check_not_darker(const FrameStatistics& s, const DarkResult& dark) {
  std::vector<double> means(s.shape().pixels());
  for (std::size_t i = 0; i < means.size(); ++i) means[i] = s.mean(i);
  const double middle = median(std::move(means));
  if (middle < dark.offset_adu.value - 3 * dark.offset_adu.sd - dark.pattern_adu - s.step()) {
    throw CannotCalibrate(fmt::format(
        "frames with light are darker ({:.1f} ADU) than the dark series ({:.1f} ADU): the camera's "
        "settings have changed, or there was light. Measure the dark anew",
        middle, dark.offset_adu.value));
  }
}

/// Do they belong together?
void check_dark(LightResult& light, const DarkResult& dark, const Line& line) {
  if (!dark.read_noise_adu) return;
  const double read = dark.read_noise_adu->value;
  const double at_offset = line.at(1, dark.offset_adu.value);
  const double off = at_offset - read * read;
  if (std::abs(off) > 0.3 * read * read + 0.02 * light.step_adu * light.step_adu) {
    light.warnings.push_back(fmt::format(
        "light and dark do not meet: at the offset of the dark series ({:.1f} ADU) the line gives "
        "a variance of {:.3g} ADU^2, the dark had {:.3g}. Was it dark, and were exposure and gain "
        "the same?",
        dark.offset_adu.value, at_offset, read * read));
  }
}

}  // namespace

double read_noise_at(const LightResult& light, double offset_adu) {
  const double gain = light.gain_e_per_adu.value;
  return std::sqrt(std::max(0.0, gain * (offset_adu - light.least_offset_adu)));
}

LightResult measure_light(const FrameStatistics& statistics, const NoiseBlocks& noise,
                          const DarkResult* dark) {
  check_frames(statistics, noise, dark);
  if (dark != nullptr) check_not_darker(statistics, *dark);
  LightResult light;
  light.shape = statistics.shape();
  light.frames = statistics.frames();
  light.step_adu = statistics.step();
  const Saturation saturation = find_saturation(statistics);
  light.saturation_adu = saturation.level_adu;
  light.saturation_text = saturation.text;

  Fit fit(noise, dark, light.step_adu,
          saturation.seen ? static_cast<double>(*saturation.level_adu) : 1e9);
  fit.run();
  const Line line = fit.line();
  const Line sd = fit.sd();
  if (!(line.slope > 0) || sd.slope > kMostGainSd * line.slope) {
    throw CannotCalibrate(fmt::format(
        "the light does not tell the gain ({:.3g} e-/ADU to within {:.0f} %): more light, more "
        "frames, or a dark series",
        1 / line.slope, 100 * sd.slope / std::abs(line.slope)));
  }
  light.disturbed_share = fit.disturbed_share();
  if (light.disturbed_share > 0.7) {
    throw CannotCalibrate(fmt::format(
        "the light changes too much: {:.0f} % of the bright places moved or blinked by themselves. "
        "Wait until the sample is still",
        100 * light.disturbed_share));
  }
  const double gain = 1 / line.slope;
  light.gain_e_per_adu = {gain, sd.slope / line.slope * gain};
  light.curve = fit.curve();
  light.brightest_adu = fit.brightest_adu();
  light.neighbours = noise.neighbours();
  // Read noise 0 puts the offset where the line meets 0, no light puts it at the dimmest pixels.
  light.least_offset_adu = -line.intercept * gain;
  light.most_offset_adu = std::max(light.least_offset_adu, light.curve.front().mean_adu);
  light.most_read_noise_e = read_noise_at(light, light.most_offset_adu);
  if (dark != nullptr) {
    light.offset_adu = dark->offset_adu;
    if (dark->read_noise_adu) {
      const double read = dark->read_noise_adu->value;
      light.read_noise_e = Estimate{
          read * gain, std::hypot(dark->read_noise_adu->sd * gain, read * light.gain_e_per_adu.sd)};
    }
    light.warnings = dark->warnings;
    check_dark(light, *dark, line);
  }
  if (saturation.seen) light.warnings.push_back(saturation.text);
  add_warnings(light, statistics, line, dark);
  return light;
}

}  // namespace driftd::clients
