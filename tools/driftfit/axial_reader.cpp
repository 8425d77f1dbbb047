// SPDX-License-Identifier: MIT
#include "tools/driftfit/axial_reader.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "control/axial/surroundings.hpp"
#include "tools/driftfit/errors.hpp"

namespace driftd::tools {
namespace {

/// A z known worse than by this share of the curve's range is none, as in a lock
/// (control/axial/axial_estimator.cpp).
constexpr double kMostSdShare = 0.1;
/// No spot through a lens or out of focus is a Gaussian: it is no marker's fault.
constexpr float kAnyResidualRatio = 1e6f;

/// Picasso's does not say how it was fitted; it is taken for elliptical fits at the pixels' centres
/// (control/axial/picasso_curve.hpp), by whatever estimator.
control::CurveFits fits_of_picasso(const Options& options, bool estimator_told) {
  const fitter::FitOptions& fit = options.fitter.options;
  return {.model = fitter::Model::EllipticalGaussian,
          .estimator = estimator_told ? fit.estimator : fitter::Estimator::PoissonLikelihood,
          .integrated = false,
          .roi_px = options.roi_px,
          .pixel_size_nm = options.pixel_nm};
}

control::CurveFile file_of(const Options& options) {
  try {
    return control::read_curve_file(options.axial_curve);
  } catch (const control::CurveFileError& error) {  // names the file
    throw InputError(std::string("--axial-curve: ") + error.what());
  }
}

}  // namespace

void fit_as_curve(const CLI::App& app, Options& o) {
  if (o.axial_curve.empty()) return;
  auto file = std::make_shared<const control::CurveFile>(file_of(o));
  fitter::FitOptions& fit = o.fitter.options;
  const control::CurveFits curve =
      file->fits.value_or(fits_of_picasso(o, app.count("--estimator") > 0));
  if (app.count("--model") == 0) fit.model = curve.model;
  if (app.count("--estimator") == 0) fit.estimator = curve.estimator;
  if (app.count("--integrated") == 0) fit.integrated = curve.integrated;
  if (o.roi_px == 0) o.roi_px = curve.roi_px;
  if (file->fits && !o.pixel_told) {
    o.pixel_nm = curve.pixel_size_nm;
    o.pixel_told = true;
  }
  if (app.count("--max-residual-ratio") == 0) o.detection.max_residual_ratio = kAnyResidualRatio;
  const std::string why = why_not_for(curve, {.model = fit.model,
                                              .estimator = fit.estimator,
                                              .integrated = fit.integrated,
                                              .roi_px = o.roi_px,
                                              .pixel_size_nm = o.pixel_nm});
  const std::string name = "--axial-curve " + o.axial_curve.string();
  if (!why.empty()) {
    throw UsageError(name + " is not for these fits: " + why +
                     ". Leave these options to the curve, or make one for these fits by driftfit "
                     "calibrate-z");
  }
  const bool gain_known = fit.noise.gain_e_per_adu > 0 || !o.maps.gain.empty();
  if (curve.gain_e_per_adu > 0 && !gain_known &&
      fit.estimator == fitter::Estimator::PoissonLikelihood) {
    throw UsageError(name +
                     " is of fits in electrons, whose widths depend on how many there are: --gain "
                     "says how many a count is");
  }
  o.curve = std::move(file);
}

std::string unread_in_words(const HeightCounts& counts) {
  std::string text;
  const auto add = [&](HeightReading reading, const char* words) {
    const std::int64_t count = counts[static_cast<std::size_t>(reading)];
    if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + words;
  };
  add(HeightReading::OutOfRange, "out of the curve's range");
  add(HeightReading::Unclear, "of widths that no place of the curve explains alone");
  add(HeightReading::TooDim, "too dim to tell z");
  add(HeightReading::Company, "of markers that something shines beside");
  return text;
}

AxialReader::AxialReader(const control::CurveFile& file, const fitter::FitOptions& fit, int roi_px,
                         std::size_t markers, const camera::StackShape& shape)
    : curves_(curves_of(file)),
      fit_(fit),
      pixels_(fit.estimator == fitter::Estimator::PoissonLikelihood && fit.noise.gain_e_per_adu > 0
                  ? roi_px * roi_px
                  : 0),
      roi_px_(roi_px),
      shape_(shape),
      most_sd_nm_(kMostSdShare * (file.curve.upper_nm() - file.curve.lower_nm())),
      lights_(markers),
      counts_(markers) {}

void AxialReader::read(Spot& spot) const noexcept {
  const fitter::Localization& l = spot.fit;
  const fitter::NoiseModel& noise = fit_.noise;
  const double gain = noise.gain_e_per_adu > 0 ? static_cast<double>(noise.gain_e_per_adu) : 1;
  const auto x_sd = static_cast<double>(l.sigma_x_sd_px);
  const auto y_sd = static_cast<double>(l.sigma_y_sd_px);
  const control::AxialReading z = curves_.read(
      {.sigma_x_px = static_cast<double>(l.sigma_x_px),
       .sigma_y_px = static_cast<double>(l.sigma_y_px),
       .variance = {x_sd * x_sd, y_sd * y_sd, 0},  // their correlation is small, as in a lock
       .amplitude_e = gain * static_cast<double>(l.amplitude_adu),
       .background_e = gain * static_cast<double>(l.background_adu - noise.offset_adu),
       .read_noise_e = static_cast<double>(noise.read_noise_e),
       .chi_square = static_cast<double>(l.chi_square),
       .pixels = pixels_});
  if (!z.measured) {
    const bool outside = z.side == control::AxialSide::Below || z.side == control::AxialSide::Above;
    spot.reading = outside ? HeightReading::OutOfRange : HeightReading::Unclear;
    return;
  }
  if (!std::isfinite(z.z_nm) || !(z.sd_nm > 0 && z.sd_nm <= most_sd_nm_)) {
    spot.reading = HeightReading::TooDim;
    return;
  }
  spot.reading = HeightReading::Read;
  spot.z_nm = static_cast<float>(z.z_nm);
  spot.z_sd_nm = static_cast<float>(z.sd_nm);
}

namespace {

float number_at(const std::byte* pixels, camera::PixelType type, std::size_t index) noexcept {
  const auto as = [&](auto value) {
    std::memcpy(&value, pixels + index * sizeof(value), sizeof(value));
    return static_cast<float>(value);
  };
  switch (type) {
    case camera::PixelType::U8:
      return as(std::uint8_t{});
    case camera::PixelType::U16:
      return as(std::uint16_t{});
    case camera::PixelType::F32:
      return as(float{});
  }
  return std::numeric_limits<float>::quiet_NaN();
}

}  // namespace

void AxialReader::judge_light(Spot& spot, const std::byte* frame) noexcept {
  const auto pixel_at = [&](int x, int y) {
    const bool inside = x >= 0 && y >= 0 && x < shape_.width_px && y < shape_.height_px;
    return inside && frame != nullptr
               ? number_at(frame, shape_.type,
                           static_cast<std::size_t>(y) * static_cast<std::size_t>(shape_.width_px) +
                               static_cast<std::size_t>(x))
               : std::numeric_limits<float>::quiet_NaN();
  };
  const auto first_of = [&](double px) { return static_cast<int>(std::lround(px)) - roi_px_ / 2; };
  control::MarkerObservation o;
  o.amplitude_adu = spot.fit.amplitude_adu;
  o.background_adu = spot.fit.background_adu;
  o.sigma_x_px = spot.fit.sigma_x_px;
  o.sigma_y_px = spot.fit.sigma_y_px;
  o.surroundings_adu =
      control::surroundings_adu(pixel_at, first_of(spot.x_px), first_of(spot.y_px), roi_px_);
  control::FitLight& light = lights_[static_cast<std::size_t>(spot.marker)];
  light.see(o, {.gain_e_per_adu = static_cast<double>(fit_.noise.gain_e_per_adu),
                .offset_adu = static_cast<double>(fit_.noise.offset_adu),
                .read_noise_e = static_cast<double>(fit_.noise.read_noise_e),
                .pixels = roi_px_ * roi_px_});
  if (light.is_far()) spot.reading = HeightReading::OutOfRange;
}

void AxialReader::refuse_grown() noexcept {
  changes_.clear();
  for (const Spot& spot : spots_) {
    const double change = lights_[static_cast<std::size_t>(spot.marker)].light_over_known();
    if (spot.reading == HeightReading::Read && std::isfinite(change)) changes_.push_back(change);
  }
  const auto common = control::common_change(changes_);
  for (Spot& spot : spots_) {
    if (spot.reading != HeightReading::Read) continue;
    control::FitLight& light = lights_[static_cast<std::size_t>(spot.marker)];
    if (common && light.has_grown(*common))
      spot.reading = HeightReading::Company;
    else
      light.keep();
  }
}

std::span<const Spot> AxialReader::read(std::span<const Spot> spots, const std::byte* frame) {
  spots_.assign(spots.begin(), spots.end());
  for (Spot& spot : spots_) {
    read(spot);
    if (spot.reading == HeightReading::Read) judge_light(spot, frame);
  }
  refuse_grown();
  for (Spot& spot : spots_) {
    if (spot.reading != HeightReading::Read) {
      spot.z_nm = spot.z_sd_nm = std::numeric_limits<float>::quiet_NaN();
    }
    ++counts_[static_cast<std::size_t>(spot.marker)][static_cast<std::size_t>(spot.reading)];
    ++all_[static_cast<std::size_t>(spot.reading)];
  }
  return spots_;
}

}  // namespace driftd::tools
