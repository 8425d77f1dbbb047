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
        kernel_(cpu::choose_kernel()),
        description_(std::string("cpu (") + kernel_.target + ")") {}

  int roi_px() const noexcept override { return roi_px_; }
  std::size_t capacity() const noexcept override { return capacity_; }
  const char* description() const noexcept override { return description_.c_str(); }

  std::uint16_t* staging(std::size_t i) noexcept override {
    return staging_[i * lines_per_slot_].pixels;
  }

  std::span<const Localization> fit(std::span<const Start> starts) noexcept override {
    const std::size_t count = std::min(starts.size(), capacity_);
    kernel_.fit({staging_.data(), lines_per_slot_ * sizeof(CacheLine), PixelType::U16, roi_px_,
                 count, starts.data(), nullptr, nullptr, nullptr, &options_, results_.data()},
                workspaces_.data());
    return {results_.data(), count};
  }

 private:
  struct alignas(64) CacheLine {
    std::uint16_t pixels[32];
  };

  int roi_px_;
  std::size_t capacity_;
  std::size_t lines_per_slot_;
  FitOptions options_;
  std::vector<CacheLine> staging_;
  std::vector<Localization> results_;
  std::vector<cpu::Workspace> workspaces_;
  cpu::ChosenKernel kernel_;
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
