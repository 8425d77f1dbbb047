// SPDX-License-Identifier: MIT
#include "tools/driftfit/spot_fitter.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <thread>

#include "base/counted.hpp"
#include "fitter/instruction_sets.hpp"
#include "fitter/options.hpp"
#include "fitter/pixel_type.hpp"

namespace driftd::tools {
namespace {

/// The number of spots that a core fits in the time that starting a thread takes. Fewer spots a
/// thread are slower than one thread less.
constexpr std::size_t kSpotsPerThread = 128;

/// What a pixel's variance is by the noise model.
class VarianceModel {
 public:
  /// @param read  variances of each pixel's read noise, adu^2, or null: by the noise model
  VarianceModel(const fitter::NoiseModel& noise, const float* read)
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
  const fitter::NoiseModel& noise_;
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
float expected_of(const fitter::Localization& l, int column, int row) {
  const float u = (static_cast<float>(column) - l.x_px) / l.sigma_x_px;
  const float v = (static_cast<float>(row) - l.y_px) / l.sigma_y_px;
  return l.amplitude_adu * std::exp(-0.5f * (u * u + v * v)) + l.background_adu;
}

/// @throws fitter::FitterError for settings that the library refuses
void check(const SpotFitterSettings& settings) {
  const float variance = 1;
  const bool weighted = fitter::needs_variances(settings.options.estimator);
  const fitter::Batch nothing{.roi_px = fitter::kMinRoiPx,
                              .variances = weighted ? &variance : nullptr};
  fitter::fit_batch_cpu(nothing, settings.options, {});
}

/// `count` spots, beginning with `first`, without start values.
fitter::Batch cold_part(const fitter::Batch& batch, std::size_t first, std::size_t count) {
  const auto side = static_cast<std::size_t>(batch.roi_px);
  const std::size_t first_pixel = first * side * side;
  fitter::Batch part = batch;
  part.pixels = static_cast<const std::byte*>(batch.pixels) +
                first_pixel * fitter::bytes_per_pixel(batch.type);
  part.count = count;
  part.starts = nullptr;
  if (batch.variances != nullptr) part.variances += first_pixel;
  return part;
}

}  // namespace

SpotFitter::SpotFitter(const SpotFitterSettings& settings)
    : settings_(settings),
      threads_(settings.threads > 0
                   ? settings.threads
                   : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {
  settings_.options.noise = fitter::with_excess(settings_.options.noise, settings.excess_noise);
  check(settings);
  const bool much = settings.large_batches || settings.cold_start == ColdStart::Swarm;
  gpu_sought_ = settings.back_end == BackEnd::Auto && much && fitter::cuda_device_count() > 0;
  const bool auto_cpu = settings.back_end == BackEnd::Auto && !gpu_sought_;
  back_end_.emplace(auto_cpu ? BackEnd::Cpu : settings.back_end,
                    fitter::CudaBatchOptions{.devices = settings.devices});
  began_on_gpu_ = back_end_->on_gpu();
}

std::string SpotFitter::back_end() const {
  if (!began_on_gpu_) return "CPU";
  return back_end_->on_gpu() ? "CUDA" : "CUDA, then CPU";
}

std::string SpotFitter::instruction_set() const {
  return back_end_->on_gpu() ? "" : std::string(fitter::cpu_instruction_set());
}

std::string SpotFitter::description() const {
  if (back_end_->on_gpu()) return "CUDA, " + counted(settings_.devices.size(), "device");
  std::string text = "CPU, " + counted(static_cast<std::size_t>(threads_), "thread");
  if (gpu_sought_) text += " (" + back_end_->reason() + ")";
  return text;
}

/// All pixels of a ROI as its mean light makes them.
void SpotFitter::weigh_evenly(const fitter::Batch& batch) {
  const auto area = static_cast<std::size_t>(batch.roi_px) * static_cast<std::size_t>(batch.roi_px);
  const VarianceModel variance(settings_.options.noise, batch.variances);
  variances_.resize(batch.count * area);
  fitter::with_pixels(batch.type, batch.pixels, [&](const auto* pixels) {
    for (std::size_t i = 0; i < batch.count; ++i) {
      const float mean = mean_of(pixels, i * area, area, variance);
      for (std::size_t k = i * area; k < (i + 1) * area; ++k) variances_[k] = variance.of(k, mean);
    }
  });
}

/// Those of the ROIs that were fitted as the fit expects them, which their fits then start from.
void SpotFitter::weigh_by_fits(const fitter::Batch& batch,
                               std::span<const fitter::Localization> fits) {
  const int side = batch.roi_px;
  const VarianceModel variance(settings_.options.noise, batch.variances);
  fitted_.resize(batch.count);
  std::size_t pixel = 0;
  for (std::size_t i = 0; i < batch.count; ++i) {
    const fitter::Localization& fit = fits[i];
    const bool good = fitter::converged(fit.status);
    fitted_[i] = batch.starts != nullptr ? batch.starts[i] : fitter::Start{};
    if (good) fitted_[i] = {fit.x_px, fit.y_px, fit.sigma_x_px, fit.sigma_y_px};
    for (int row = 0; row < side; ++row)
      for (int c = 0; c < side; ++c, ++pixel)
        if (good) variances_[pixel] = variance.of(pixel, expected_of(fit, c, row));
  }
}

/// Gives every spot a start, by a swarm where it has none; spots are numbered as they come.
void SpotFitter::search_cold(const fitter::Batch& batch, std::span<fitter::Localization> results) {
  const auto is_cold = [&](std::size_t i) {
    return batch.starts == nullptr || !(batch.starts[i].sigma_x_px > 0);
  };
  starts_.clear();
  for (std::size_t i = 0; i < batch.count;) {
    std::size_t cold = 0;
    while (i + cold < batch.count && is_cold(i + cold)) ++cold;
    if (cold == 0) {
      starts_.push_back(batch.starts[i++]);
      continue;
    }
    reports_.resize(cold);
    const fitter::Batch part = cold_part(batch, i, cold);
    const fitter::SwarmOptions swarm = {.first_roi = searched_};
    const auto fits = results.subspan(i, cold);
    back_end_->search(part, settings_.options, swarm, fits, reports_, threads_);
    for (const fitter::SwarmReport& report : reports_) starts_.push_back(report.best);
    searched_ += cold;
    i += cold;
  }
}

void SpotFitter::fit(fitter::Batch batch, std::span<fitter::Localization> results) {
  if (batch.count == 0) return;
  const bool weighted = fitter::needs_variances(settings_.options.estimator);
  const fitter::Batch given = batch;
  if (weighted) {
    weigh_evenly(given);
    batch.variances = variances_.data();
  }
  if (settings_.cold_start == ColdStart::Swarm) {
    search_cold(batch, results);
    batch.starts = starts_.data();
  }
  const int threads = std::min(threads_, static_cast<int>(batch.count / kSpotsPerThread) + 1);
  back_end_->fit(batch, settings_.options, results, threads);
  if (!weighted) return;
  fitter::Batch again = given;
  again.starts = batch.starts;
  weigh_by_fits(again, results);
  batch.starts = fitted_.data();
  back_end_->fit(batch, settings_.options, results, threads);
}

}  // namespace driftd::tools
