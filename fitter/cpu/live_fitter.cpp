// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fitter/cpu/kernel.hpp"
#include "fitter/options.hpp"

namespace driftd::fitter {
namespace {

class CpuLiveFitter final : public LiveFitter {
 public:
  CpuLiveFitter(int roi_px, std::size_t capacity, const FitOptions& options)
      : roi_px_(roi_px),
        capacity_(capacity),
        lines_per_slot_((static_cast<std::size_t>(roi_px * roi_px) * sizeof(std::uint16_t) +
                         sizeof(CacheLine) - 1) /
                        sizeof(CacheLine)),
        options_(options),
        staging_(lines_per_slot_ * capacity),
        results_(capacity),
        workspaces_(cpu::kFlights),
        lane_workspaces_(1),
        kernels_(cpu::choose_kernels()),
        description_(std::string("cpu (") + kernels_.target + ")") {}

  int roi_px() const noexcept override { return roi_px_; }
  std::size_t capacity() const noexcept override { return capacity_; }
  const char* description() const noexcept override { return description_.c_str(); }

  std::uint16_t* staging(std::size_t i) noexcept override {
    return staging_[i * lines_per_slot_].pixels;
  }

  std::span<const Localization> fit(std::span<const Start> starts) noexcept override {
    const std::size_t count = std::min(starts.size(), capacity_);
    const std::size_t in_lanes = cpu::live_in_lanes(kernels_, roi_px_, options_.estimator, count);
    if (in_lanes > 0) kernels_.fit_in_lanes(job(starts, 0, in_lanes), lane_workspaces_.front());
    if (in_lanes < count)
      kernels_.fit_across_lanes(job(starts, in_lanes, count - in_lanes), workspaces_.data());
    return {results_.data(), count};
  }

 private:
  struct alignas(64) CacheLine {
    std::uint16_t pixels[32];
  };

  cpu::FitJob job(std::span<const Start> starts, std::size_t first, std::size_t count) noexcept {
    return {staging(first),
            lines_per_slot_ * sizeof(CacheLine),
            PixelType::U16,
            roi_px_,
            count,
            starts.data() + first,
            nullptr,
            nullptr,
            nullptr,
            &options_,
            results_.data() + first};
  }

  int roi_px_;
  std::size_t capacity_;
  std::size_t lines_per_slot_;
  FitOptions options_;
  std::vector<CacheLine> staging_;
  std::vector<Localization> results_;
  std::vector<cpu::Workspace> workspaces_;
  std::vector<cpu::LaneWorkspace> lane_workspaces_;  ///< one
  cpu::Kernels kernels_;
  std::string description_;
};

}  // namespace

std::unique_ptr<LiveFitter> make_cpu_live_fitter(int roi_px, std::size_t capacity,
                                                 const FitOptions& options) {
  check_roi_px(roi_px);
  check_live_options(options);
  if (capacity == 0) throw FitterError("fitter: capacity is 0, at least 1 is needed");
  return std::make_unique<CpuLiveFitter>(roi_px, capacity, options);
}

}  // namespace driftd::fitter
