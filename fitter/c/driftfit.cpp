// SPDX-License-Identifier: MIT
#include "fitter/c/driftfit.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>

#include "fitter/c/arguments.hpp"
#include "fitter/cuda_fitter.hpp"
#include "fitter/instruction_sets.hpp"

using namespace driftd::fitter;
using namespace driftd::fitter::c;

namespace {

/// Images between two calls of the progress callback.
constexpr std::size_t kSearchBlock = std::size_t{1} << 11;

}  // namespace

const char* driftfit_version(void) {
  return DRIFTD_VERSION;
}

int32_t driftfit_cuda_devices(void) {
  return cuda_device_count();
}

void* driftfit_allocate_pinned(size_t bytes) {
  return allocate_pinned(bytes);
}

void driftfit_free_pinned(void* memory) {
  free_pinned(memory);
}

void driftfit_default_options(driftfit_options* options, uint32_t size) {
  const FitOptions d;
  const driftfit_options all = {.size = size,
                                .model = DRIFTFIT_CIRCULAR_GAUSSIAN,
                                .estimator = DRIFTFIT_IMPLICIT_LEAST_SQUARES,
                                .max_iterations = d.max_iterations,
                                .lambda_start = d.lambda_start,
                                .lambda_max = d.lambda_max,
                                .min_chi_square = d.min_chi_square,
                                .min_decrease = d.min_decrease,
                                .min_step = d.min_step,
                                .saturation = 0,
                                .min_background = d.min_background_adu,
                                .gain = d.noise.gain_e_per_adu,
                                .read_noise = d.noise.read_noise_e,
                                .offset = d.noise.offset_adu,
                                .fixed = d.fixed,
                                .spots_only = d.spots_only ? 1 : 0,
                                .bounds = std::bit_cast<driftfit_bounds>(d.bounds),
                                .excess_noise = 1,
                                .integrated = d.integrated ? 1 : 0};
  if (options != nullptr) std::memcpy(options, &all, std::min<std::size_t>(size, sizeof all));
}

int driftfit_create(int32_t backend, int32_t threads, const int32_t* devices, size_t device_count,
                    driftfit_fitter** fitter, char* message, size_t message_size) {
  if (fitter == nullptr) {
    tell(message, message_size, "driftfit: no place given for the fitter");
    return DRIFTFIT_BAD_ARGUMENT;
  }
  *fitter = nullptr;
  return guarded(DRIFTFIT_NO_BACKEND, message, message_size, [&] {
    if (backend < DRIFTFIT_AUTO || backend > DRIFTFIT_CUDA) {
      tell(message, message_size,
           "driftfit: backend is " + std::to_string(backend) +
               ", allowed are 0 (auto), 1 (cpu) and 2 (cuda)");
      return DRIFTFIT_BAD_ARGUMENT;
    }
    if (threads < 0 || (devices == nullptr && device_count > 0)) {
      tell(message, message_size,
           threads < 0
               ? "driftfit: threads is " + std::to_string(threads) + ", allowed is 0 or more"
               : "driftfit: devices counted but not given");
      return DRIFTFIT_BAD_ARGUMENT;
    }
    CudaBatchOptions options;
    if (device_count > 0) options.devices.assign(devices, devices + device_count);
    *fitter = new driftfit_fitter{threads, BatchBackEnd(static_cast<BackEnd>(backend), options)};
    return DRIFTFIT_OK;
  });
}

void driftfit_destroy(driftfit_fitter* fitter) {
  delete fitter;
}

const char* driftfit_backend(const driftfit_fitter* fitter) {
  return fitter != nullptr && fitter->back_end.on_gpu() ? "cuda" : "cpu";
}

const char* driftfit_backend_reason(const driftfit_fitter* fitter) {
  return fitter != nullptr ? fitter->back_end.reason().c_str() : "";
}

int driftfit_fit_images(driftfit_fitter* fitter, const driftfit_options* given,
                        const driftfit_images* images, driftfit_result* results,
                        driftfit_progress progress, void* user, char* message,
                        size_t message_size) {
  CheckedCall call;
  const int checked = guarded(DRIFTFIT_BAD_ARGUMENT, message, message_size, [&] {
    call = checked_call(fitter, given, images, results);
    return DRIFTFIT_OK;
  });
  if (checked != DRIFTFIT_OK) return checked;
  auto* const fits = reinterpret_cast<Localization*>(results);
  return in_blocks(call.batch.count, kBlock, {progress, user, message, message_size},
                   [&](std::size_t first, std::size_t n) {
                     fitter->back_end.fit(part_of(call.batch, first, n), call.options,
                                          {fits + first, n}, fitter->threads);
                   });
}

int driftfit_fit(driftfit_fitter* fitter, const driftfit_options* options, const void* pixels,
                 int32_t pixel_type, int32_t side, size_t count, const driftfit_start* starts,
                 driftfit_result* results, driftfit_progress progress, void* user, char* message,
                 size_t message_size) {
  const driftfit_images images = {.size = sizeof images,
                                  .pixel_type = pixel_type,
                                  .side = side,
                                  .reserved = 0,
                                  .count = count,
                                  .pixels = pixels,
                                  .starts = starts,
                                  .levels = nullptr,
                                  .variances = nullptr,
                                  .bounds = nullptr,
                                  .angles = nullptr,
                                  .details = nullptr};
  return driftfit_fit_images(fitter, options, &images, results, progress, user, message,
                             message_size);
}

const char* driftfit_instruction_set(void) {
  return cpu_instruction_set().data();
}

int driftfit_use_instruction_set(const char* name, char* message, size_t message_size) {
  return guarded(DRIFTFIT_BAD_ARGUMENT, message, message_size, [&] {
    use_cpu_instruction_set(name != nullptr ? name : "");
    return DRIFTFIT_OK;
  });
}

void driftfit_default_swarm_options(driftfit_swarm_options* swarm, uint32_t size) {
  const SwarmOptions d;
  const driftfit_swarm_options all = {.size = size,
                                      .particles = d.particles,
                                      .iterations = d.iterations,
                                      .inertia = d.inertia,
                                      .own_pull = d.own_pull,
                                      .swarm_pull = d.swarm_pull,
                                      .max_velocity = d.max_velocity,
                                      .spread_of_last = d.spread_of_last,
                                      .seed = d.seed,
                                      .first_image = d.first_roi};
  if (swarm != nullptr) std::memcpy(swarm, &all, std::min<std::size_t>(size, sizeof all));
}

int driftfit_search(driftfit_fitter* fitter, const driftfit_options* options,
                    const driftfit_swarm_options* given, const driftfit_images* images,
                    driftfit_result* results, driftfit_swarm_report* reports,
                    driftfit_progress progress, void* user, char* message, size_t message_size) {
  CheckedCall call;
  SwarmOptions swarm;
  const int checked = guarded(DRIFTFIT_BAD_ARGUMENT, message, message_size, [&] {
    call = checked_call(fitter, options, images, results);
    swarm = swarm_from(given);
    check_swarm(call.batch, swarm);
    return DRIFTFIT_OK;
  });
  if (checked != DRIFTFIT_OK) return checked;
  auto* const fits = reinterpret_cast<Localization*>(results);
  auto* const found = reinterpret_cast<SwarmReport*>(reports);
  const std::uint64_t first_roi = swarm.first_roi;
  return in_blocks(call.batch.count, kSearchBlock, {progress, user, message, message_size},
                   [&](std::size_t first, std::size_t n) {
                     swarm.first_roi = first_roi + first;
                     const std::span<SwarmReport> block(found == nullptr ? found : found + first,
                                                        found == nullptr ? 0 : n);
                     fitter->back_end.search(part_of(call.batch, first, n), call.options, swarm,
                                             {fits + first, n}, block, fitter->threads);
                   });
}
