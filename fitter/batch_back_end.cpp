// SPDX-License-Identifier: MIT
#include "fitter/batch_back_end.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <future>
#include <vector>

#include "fitter/options.hpp"
#include "fitter/parts.hpp"

namespace driftd::fitter {
namespace {

bool all_readable(const Batch& batch, std::span<const Localization> results,
                  std::span<const SwarmReport> reports = {}) {
  return host_can_read(batch.pixels) && host_can_read(batch.starts) &&
         host_can_read(batch.levels) && host_can_read(batch.variances) &&
         host_can_read(batch.bounds) && host_can_read(batch.angles_rad) &&
         host_can_read(batch.angle_bounds) && host_can_read(batch.details) &&
         host_can_read(results.data()) && host_can_read(reports.data());
}

bool all_readable(const FrameFits& fits, std::span<const Localization> results) {
  const Frames& frames = fits.frames;
  return host_can_read(frames.pixels) && host_can_read(frames.gains_e_per_adu) &&
         host_can_read(frames.offsets_adu) && host_can_read(frames.variances_adu2) &&
         host_can_read(fits.places) && all_readable(fits.rois, results);
}

/// Checks frames that the host cannot read. @throws FitterError
void check_of_gpu(const Frames& frames) {
  const auto is_multiple = [](const void* address, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
  };
  for (const float* map : {frames.gains_e_per_adu, frames.offsets_adu, frames.variances_adu2}) {
    if (map != nullptr && host_can_read(map))
      throw FitterError("fitter: frames lie in a GPU's memory, maps have to lie there, too");
    if (!is_multiple(map, sizeof(float)))
      throw FitterError("fitter: a map in a GPU's memory has to lie at a multiple of 4 bytes");
  }
  const std::size_t pixel = bytes_per_pixel(frames.type);
  if (!is_multiple(frames.pixels, pixel) || frames.row_bytes % pixel != 0 ||
      frames.frame_bytes % pixel != 0)
    throw FitterError(
        "fitter: frames in a GPU's memory, row_stride and frame_stride have to be multiples of a "
        "pixel, " +
        std::to_string(pixel) + " bytes");
}

}  // namespace

std::byte* BatchBackEnd::PinnedBlock::of(std::size_t bytes, int device) noexcept {
  if (bytes > asked_for_) {
    memory_.reset();
    asked_for_ = std::bit_ceil(bytes);
    memory_.reset(static_cast<std::byte*>(allocate_pinned(asked_for_, device)));
  }
  return memory_.get();
}

BatchBackEnd::BatchBackEnd(BackEnd wish, const CudaBatchOptions& cuda)
    : wish_(wish), options_(cuda) {
  if (wish == BackEnd::Cpu) {
    reason_ = "the CPU was asked for";
    return;
  }
  try {
    cuda_ = make_cuda_batch_fitter(cuda);
    reason_ = wish == BackEnd::Cuda ? "CUDA was asked for" : "there is a GPU that can be used";
  } catch (const FitterError& error) {
    if (wish == BackEnd::Cuda) throw;
    reason_ = error.what();
  }
}

/// @param cpu_could  whether the CPU can step in
template <class OnGpu>
bool BatchBackEnd::done_on_gpu(bool cpu_could, const OnGpu& on_gpu) {
  try {
    on_gpu(*cuda_);
    return true;
  } catch (const FitterError& error) {
    if (!cpu_could) throw;
    reason_ = error.what();
  }
  cuda_.reset();
  return false;
}

void BatchBackEnd::fit(const Batch& batch, const FitOptions& options,
                       std::span<Localization> results, int threads) {
  check_batch(batch, options, results.size());
  if (cuda_) {
    const bool cpu_could = wish_ == BackEnd::Auto && all_readable(batch, results);
    if (done_on_gpu(cpu_could, [&](CudaBatchFitter& cuda) { cuda.fit(batch, options, results); }))
      return;
  }
  fit_batch_cpu(batch, options, results, threads);
}

void BatchBackEnd::check(const FrameFits& fits, const FitOptions& options,
                         std::span<const Localization> results) const {
  check_frames(fits, options, results.size());
  if (!cuda_ || host_can_read(fits.places)) check_places(fits);
  if (!cuda_) return;
  if (!host_can_read(fits.frames.pixels)) return check_of_gpu(fits.frames);
  if (!all_readable(fits, results))
    throw FitterError(
        "fitter: of frames in the host's memory, maps, places, what is known of each ROI and "
        "results have to lie there, too");
}

void BatchBackEnd::fit_frames(const FrameFits& fits, const FitOptions& options,
                              std::span<Localization> results, int threads) {
  if (!cuda_) return fit_frames_cpu(fits, options, results, threads);
  check(fits, options, results);
  if (results.empty()) return;
  if (!host_can_read(fits.frames.pixels)) return cuda_->fit_frames(fits, options, results);
  constexpr std::size_t kBlockBytes = std::size_t{1} << 24;
  const std::size_t each = CutRois::bytes_of_each(fits);
  const std::size_t block = std::min(kBlockBytes / each, results.size());
  const FitOptions of_cut = options_of_cut(fits.frames, options);
  std::vector<CutRois> cut;
  for (std::size_t begin = 0; begin < results.size() && cut.size() < cut_.size(); begin += block)
    cut.emplace_back(fits, options, block,
                     cut_[cut.size()].of(block * each, options_.devices.front()));
  const auto part = [&](std::size_t begin) {
    return results.subspan(begin, std::min(block, results.size() - begin));
  };
  const auto cut_from = [&](std::size_t begin) {
    return std::async(std::launch::async, [&, begin] {
      run_in_parts(part(begin).size(), threads, kPieceOfWork,
                   [&](std::size_t, std::size_t from, std::size_t count) {
                     cut[begin / block % cut.size()].cut(begin + from, count, from);
                   });
    });
  };
  std::future<void> next = cut_from(0);
  for (std::size_t done = 0; done < results.size(); done += block) {
    next.get();
    if (done + block < results.size()) next = cut_from(done + block);
    const CutRois& rois = cut[done / block % cut.size()];
    fit(rois.batch(done, part(done).size()), of_cut, part(done), threads);
    rois.to_frame(done, part(done));
  }
}

bool BatchBackEnd::run_on_gpu(const std::function<void(const CudaBatchOptions&)>& work) {
  return cuda_ && done_on_gpu(wish_ == BackEnd::Auto, [&](CudaBatchFitter&) { work(options_); });
}

void BatchBackEnd::search(const Batch& batch, const FitOptions& options, const SwarmOptions& swarm,
                          std::span<Localization> results, std::span<SwarmReport> reports,
                          int threads) {
  check_batch(batch, options, results.size());
  check_swarm(batch, swarm, reports);
  if (cuda_) {
    const bool cpu_could = wish_ == BackEnd::Auto && all_readable(batch, results, reports);
    if (done_on_gpu(cpu_could, [&](CudaBatchFitter& cuda) {
          cuda.search(batch, options, swarm, results, reports);
        }))
      return;
  }
  fit_swarm_cpu(batch, options, swarm, results, reports, threads);
}

}  // namespace driftd::fitter
