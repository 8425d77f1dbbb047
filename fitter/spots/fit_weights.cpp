// SPDX-License-Identifier: MIT
#include "fitter/spots/fit_weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "fitter/pixel_type.hpp"

namespace driftd::fitter {
namespace {

/// What a pixel's variance is by the noise model.
class VarianceModel {
 public:
  /// @param read  variances of each pixel's read noise, adu^2, or null: by the noise model
  VarianceModel(const NoiseModel& noise, const float* read)
      : noise_(noise), gain_(noise.gain_e_per_adu > 0 ? noise.gain_e_per_adu : 1.0f), read_(read) {}

  /// Adu^2: shot noise of what is above the offset, read noise, and never less than one electron's.
  /// @param light_adu  expected of the pixel: its own count would give weight to dark pixels
  float of(std::size_t pixel, float light_adu) const {
    const float read_e2 = read_ != nullptr ? read_[pixel] * (gain_ * gain_)
                                           : noise_.read_noise_e * noise_.read_noise_e;
    const float variance_e2 = std::max((light_adu - noise_.offset_adu) * gain_ + read_e2, 1.0f);
    return variance_e2 / (gain_ * gain_);
  }
  bool is_there(std::size_t pixel) const { return read_ == nullptr || std::isfinite(read_[pixel]); }

 private:
  const NoiseModel& noise_;
  float gain_;
  const float* read_;
};

/// Mean of the pixels that are there.
template <class Pixel>
float mean_of(const Pixel* pixels, std::size_t first, std::size_t count,
              const VarianceModel& variance) {
  double sum = 0;
  std::size_t there = 0;
  for (std::size_t i = first; i < first + count; ++i) {
    if (!variance.is_there(i)) continue;
    sum += static_cast<double>(pixels[i]);
    ++there;
  }
  return static_cast<float>(sum / static_cast<double>(std::max<std::size_t>(there, 1)));
}

/// What a fit expects of a pixel.
class ExpectedLight {
 public:
  /// @param angle_rad  of the axis of sigma_x
  ExpectedLight(const Localization& fit, float angle_rad)
      : fit_(fit), cosine_(std::cos(angle_rad)), sine_(std::sin(angle_rad)) {}

  float at(int column, int row) const {
    const float x = static_cast<float>(column) - fit_.x_px;
    const float y = static_cast<float>(row) - fit_.y_px;
    const float u = (cosine_ * x + sine_ * y) / fit_.sigma_x_px;
    const float v = (cosine_ * y - sine_ * x) / fit_.sigma_y_px;
    return fit_.amplitude_adu * std::exp(-0.5f * (u * u + v * v)) + fit_.background_adu;
  }

 private:
  const Localization& fit_;
  float cosine_, sine_;
};

}  // namespace

void FitWeights::weigh_evenly(const Batch& batch, const FitOptions& options) {
  const auto area = static_cast<std::size_t>(batch.roi_px) * static_cast<std::size_t>(batch.roi_px);
  const VarianceModel variance(options.noise, batch.variances);
  variances_.resize(batch.count * area);
  const std::size_t angles = options.model == Model::RotatedGaussian ? batch.count : 0;
  details_.resize(angles);
  angles_rad_.resize(angles);
  with_pixels(batch.type, batch.pixels, [&](const auto* pixels) {
    for (std::size_t i = 0; i < batch.count; ++i) {
      const float mean = mean_of(pixels, i * area, area, variance);
      for (std::size_t k = i * area; k < (i + 1) * area; ++k) variances_[k] = variance.of(k, mean);
    }
  });
}

void FitWeights::weigh_by_fits(const Batch& batch, const NoiseModel& noise,
                               std::span<const Localization> fits) {
  const int side = batch.roi_px;
  const VarianceModel variance(noise, batch.variances);
  starts_.resize(batch.count);
  std::size_t pixel = 0;
  for (std::size_t i = 0; i < batch.count; ++i) {
    const Localization& fit = fits[i];
    const bool good = converged(fit.status);
    starts_[i] = batch.starts != nullptr ? batch.starts[i] : Start{};
    if (good) starts_[i] = {fit.x_px, fit.y_px, fit.sigma_x_px, fit.sigma_y_px};
    const float angle_rad = good && !details_.empty() ? details_[i].angle_rad : 0.0f;
    if (!angles_rad_.empty()) angles_rad_[i] = angle_rad;
    const ExpectedLight expected(fit, angle_rad);
    for (int row = 0; row < side; ++row)
      for (int c = 0; c < side; ++c, ++pixel)
        if (good) variances_[pixel] = variance.of(pixel, expected.at(c, row));
  }
}

}  // namespace driftd::fitter
