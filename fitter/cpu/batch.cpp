// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>
#include <vector>

#include "fitter/cpu/kernel.hpp"
#include "fitter/frames.hpp"
#include "fitter/options.hpp"
#include "fitter/parts.hpp"

namespace driftd::fitter {
namespace {

/// Memory of each thread, made where the fits are of that kind.
template <class Workspace>
std::unique_ptr<Workspace[]> workspaces(bool wanted, std::size_t count) {
  return wanted ? std::make_unique_for_overwrite<Workspace[]>(count) : nullptr;
}

/// Calls each(fit, part, from, count) for pieces of ROIs like those of a batch, on threads;
/// fit(job) fits in the memory of the thread. @param each  must not throw
template <class Each>
void fit_on_threads(const Batch& like, Model model, int threads, const Each& each) {
  const cpu::Kernels kernels = cpu::choose_kernels();
  const bool separable = is_separable(model);
  if (!separable && kernels.fit_pixelwise == nullptr)
    throw FitterError(
        "fitter: models that are not separable need a processor whose vectors have several lanes");
  const bool in_lanes = separable && cpu::batch_in_lanes(kernels, like.roi_px);
  const bool across = separable && !in_lanes;
  const std::size_t whole = across ? kPieceAcross : kPieceInLanes;
  const std::size_t parts = parts_of(like.count, threads, whole);
  const auto of_pixels = workspaces<cpu::PixelwiseWorkspace>(!separable, parts);
  const auto of_lanes = workspaces<cpu::LaneWorkspace>(in_lanes, parts);
  const auto of_flights = workspaces<cpu::Workspace>(across, cpu::kFlights * parts);
  run_in_parts(like.count, threads, whole, [&](std::size_t part, std::size_t from, std::size_t n) {
    const auto fit = [&](const cpu::FitJob& job) {
      if (in_lanes) kernels.fit_in_lanes(job, of_lanes[part]);
      if (across) kernels.fit_across_lanes(job, &of_flights[part * cpu::kFlights]);
      if (!separable) kernels.fit_pixelwise(job, of_pixels[part]);
    };
    each(fit, part, from, n);
  });
}

/// @param results  as many as the batch has ROIs
cpu::FitJob job_of(const Batch& batch, const FitOptions& options, Localization* results) {
  return {batch.pixels, roi_bytes(batch), batch.type,         batch.roi_px,    batch.count,
          batch.starts, batch.levels,     batch.bounds,       batch.variances, &options,
          results,      batch.angles_rad, batch.angle_bounds, batch.details,   batch.bounds_axes(),
          batch.places};
}

}  // namespace

void fit_batch_cpu(const Batch& batch, const FitOptions& options, std::span<Localization> results,
                   int threads) {
  check_batch(batch, options, results.size());
  fit_on_threads(batch, options.model, threads,
                 [&](const auto& fit, std::size_t, std::size_t from, std::size_t count) {
                   fit(job_of(part_of(batch, from, count), options, results.data() + from));
                 });
}

void fit_frames_cpu(const FrameFits& fits, const FitOptions& options,
                    std::span<Localization> results, int threads) {
  check_frames(fits, options, results.size());
  check_places(fits);
  const FitOptions of_cut = options_of_cut(fits.frames, options);
  // ROIs cut at a time, whole groups of lanes: what stays in the second cache beside a
  // LaneWorkspace. More only of ROIs of which one group is larger.
  constexpr std::size_t kCutBytes = std::size_t{1} << 16;
  const std::size_t at_a_time =
      (kCutBytes / CutRois::bytes_of_each(fits) / cpu::kMaxLanes + 1) * cpu::kMaxLanes;
  std::vector<CutRois> cut;
  const std::size_t parts = parts_of(fits.rois.count, threads, kPieceAcross);
  cut.reserve(parts);
  while (cut.size() < parts) cut.emplace_back(fits, options, at_a_time);
  fit_on_threads(fits.rois, options.model, threads,
                 [&](const auto& fit, std::size_t part, std::size_t from, std::size_t count) {
                   const std::size_t end = from + count;
                   for (std::size_t n = 0; from < end; from += n) {
                     n = std::min(at_a_time, end - from);
                     cut[part].cut(from, n);
                     fit(job_of(cut[part].batch(from, n), of_cut, &results[from]));
                     cut[part].to_frame(from, results.subspan(from, n));
                   }
                 });
}

}  // namespace driftd::fitter
