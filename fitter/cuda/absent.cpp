// SPDX-License-Identifier: MIT
// Stands in for the CUDA back end in a build without it.
#include "fitter/cuda_fitter.hpp"

namespace driftd::fitter {
namespace {

constexpr const char* kAbsent = "CUDA: this build of driftd has no CUDA back end (DRIFTD_CUDA)";

}  // namespace

int cuda_device_count() noexcept {
  return 0;
}

std::string cuda_obstacle(int) {
  return kAbsent;
}

int cuda_current_device() noexcept {
  return 0;
}

std::optional<int> cuda_device_of(const void*) noexcept {
  return std::nullopt;
}

bool host_can_read(const void*) noexcept {
  return true;
}

CudaVersions cuda_versions() noexcept {
  return {};
}

void* allocate_pinned(std::size_t, std::optional<int>) noexcept {
  return nullptr;
}

void free_pinned(void*) noexcept {}

void cuda_copy(void*, const void*, std::size_t) {
  throw FitterError(kAbsent);
}

std::unique_ptr<LiveFitter> make_cuda_live_fitter(int, std::size_t, const FitOptions&,
                                                  const CudaLiveOptions&) {
  throw FitterError(kAbsent);
}

std::unique_ptr<CudaBatchFitter> make_cuda_batch_fitter(const CudaBatchOptions&) {
  throw FitterError(kAbsent);
}

std::unique_ptr<CudaSpotFinder> make_cuda_spot_finder(const CudaBatchOptions&) {
  throw FitterError(kAbsent);
}

}  // namespace driftd::fitter
