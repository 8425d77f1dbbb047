// SPDX-License-Identifier: MIT
#include "tools/driftfit/spot_fitter.hpp"

#include <algorithm>
#include <cstddef>
#include <thread>

#include "fitter/options.hpp"

namespace driftd::tools {
namespace {

/// The number of spots that a core fits in the time that starting a thread takes. Fewer spots a
/// thread are slower than one thread less.
constexpr std::size_t kSpotsPerThread = 128;

std::string counted(std::size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// Variance of pixels under the noise model, adu^2: shot noise of what is above the offset, read
/// noise, and never less than one electron's.
/// @param read  variances of each pixel's read noise, adu^2, or null: by the noise model
template <class Pixel>
void add_variances(const Pixel* pixels, std::size_t count, const fitter::NoiseModel& noise,
                   const float* read, std::vector<float>& variances) {
  const float gain = noise.gain_e_per_adu > 0 ? noise.gain_e_per_adu : 1.0f;
  for (std::size_t i = 0; i < count; ++i) {
    const float electrons = (static_cast<float>(pixels[i]) - noise.offset_adu) * gain;
    const float read_e2 =
        read != nullptr ? read[i] * (gain * gain) : noise.read_noise_e * noise.read_noise_e;
    const float variance_e2 = std::max(electrons + read_e2, 1.0f);
    variances.push_back(variance_e2 / (gain * gain));
  }
}

/// @throws fitter::FitterError for settings that the library refuses
void check(const SpotFitterSettings& settings) {
  const float variance = 1;
  const fitter::Batch nothing{.roi_px = fitter::kMinRoiPx, .variances = &variance};
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
}

std::string SpotFitter::description() const {
  if (back_end_->on_gpu()) return "CUDA, " + counted(settings_.devices.size(), "device");
  std::string text = "CPU, " + counted(static_cast<std::size_t>(threads_), "thread");
  if (gpu_sought_) text += " (" + back_end_->reason() + ")";
  return text;
}

void SpotFitter::weigh(const fitter::Batch& batch) {
  const auto side = static_cast<std::size_t>(batch.roi_px);
  const std::size_t count = batch.count * side * side;
  const fitter::NoiseModel& noise = settings_.options.noise;
  variances_.clear();
  variances_.reserve(count);
  switch (batch.type) {
    case fitter::PixelType::U8:
      add_variances(static_cast<const std::uint8_t*>(batch.pixels), count, noise, batch.variances,
                    variances_);
      break;
    case fitter::PixelType::U16:
      add_variances(static_cast<const std::uint16_t*>(batch.pixels), count, noise, batch.variances,
                    variances_);
      break;
    case fitter::PixelType::F32:
      add_variances(static_cast<const float*>(batch.pixels), count, noise, batch.variances,
                    variances_);
      break;
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
  if (fitter::needs_variances(settings_.options.estimator)) {
    weigh(batch);
    batch.variances = variances_.data();
  }
  if (settings_.cold_start == ColdStart::Swarm) {
    search_cold(batch, results);
    batch.starts = starts_.data();
  }
  const auto useful = static_cast<int>(batch.count / kSpotsPerThread) + 1;
  back_end_->fit(batch, settings_.options, results, std::min(threads_, useful));
}

}  // namespace driftd::tools
