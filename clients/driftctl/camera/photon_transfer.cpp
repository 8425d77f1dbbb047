// SPDX-License-Identifier: MIT
#include "clients/driftctl/camera/photon_transfer.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/counted.hpp"
#include "base/median.hpp"
#include "clients/driftctl/camera/saturation.hpp"
#include "clients/driftctl/camera/transfer_line.hpp"

namespace driftd::clients {
namespace {

constexpr double kMostGainSd = 0.1;

/// How far the variance half way up is off a straight line, and by how many standard deviations.
std::pair<double, double> bend(const std::vector<TransferPoint>& curve, const VarianceLine& line,
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

void add_warnings(LightResult& light, const FrameStatistics& statistics, const VarianceLine& line,
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
                    "gain), which adds nothing but coarser rounding. Switch it off",
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
  // A dark series tells it itself.
  if (const double clipped = statistics.share_at_zero(); dark == nullptr && clipped > kClipped) {
    warnings.push_back(fmt::format(
        "{:.1f} % of the values are 0: the offset is so low that noise is cut off, and the gain is "
        "less sure than it says. Raise the camera's black level until none are",
        100 * clipped));
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
    throw CannotCalibrate(fmt::format(
        "{} too few: {} are needed", counted(s.frames(), "frame is", "frames are"), kFewestFrames));
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
void check_dark(LightResult& light, const DarkResult& dark, const VarianceLine& line) {
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

  TransferLine fit(noise, dark, light.step_adu,
                   saturation.seen ? static_cast<double>(*saturation.level_adu) : 1e9);
  fit.run();
  const VarianceLine line = fit.line();
  const VarianceLine sd = fit.sd();
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
