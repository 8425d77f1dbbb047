// SPDX-License-Identifier: MIT
#include "tools/driftfit/spot_fitter.hpp"

#include <algorithm>
#include <cstddef>
#include <thread>

#include "base/counted.hpp"
#include "fitter/instruction_sets.hpp"
#include "fitter/options.hpp"

namespace driftd::tools {
namespace {

/// The number of spots that a core fits in the time that starting a thread takes. Fewer spots a
/// thread are slower than one thread less.
constexpr std::size_t kSpotsPerThread = 128;

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

bool SpotFitter::find_spots(fitter::SpotJob job, fitter::FoundInFrames& found) {
  job.options = settings_.options;
  if (fitter::needs_variances(settings_.options.estimator) ||
      settings_.cold_start == ColdStart::Swarm)
    job.roi_px = 0;
  return gpu_search_.find(*back_end_, job, found);
}

void SpotFitter::fit(fitter::Batch batch, std::span<fitter::Localization> results) {
  if (batch.count == 0) return;
  const bool weighted = fitter::needs_variances(settings_.options.estimator);
  const fitter::Batch given = batch;
  if (weighted) {
    weights_.weigh_evenly(given, settings_.options);
    batch.variances = weights_.variances();
  }
  if (settings_.cold_start == ColdStart::Swarm) {
    search_cold(batch, results);
    batch.starts = starts_.data();
  }
  if (weighted) batch.details = weights_.details();
  const int threads = std::min(threads_, static_cast<int>(batch.count / kSpotsPerThread) + 1);
  back_end_->fit(batch, settings_.options, results, threads);
  if (!weighted) return;
  fitter::Batch again = given;
  again.starts = batch.starts;
  weights_.weigh_by_fits(again, settings_.options.noise, results);
  batch.details = given.details;
  batch.starts = weights_.starts();
  batch.angles_rad = weights_.angles_rad();
  back_end_->fit(batch, settings_.options, results, threads);
}

}  // namespace driftd::tools
