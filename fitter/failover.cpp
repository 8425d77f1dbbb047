// SPDX-License-Identifier: MIT
#include "fitter/failover.hpp"

#include <algorithm>
#include <utility>

namespace driftd::fitter {
namespace {

class FailoverLiveFitter final : public LiveFitter {
 public:
  FailoverLiveFitter(std::unique_ptr<LiveFitter> primary, std::unique_ptr<LiveFitter> twin)
      : primary_(std::move(primary)), twin_(std::move(twin)) {}

  int roi_px() const noexcept override { return primary_->roi_px(); }
  std::size_t capacity() const noexcept override { return primary_->capacity(); }
  std::uint16_t* staging(std::size_t i) noexcept override { return primary_->staging(i); }
  const char* error() const noexcept override { return primary_->error(); }
  const char* description() const noexcept override {
    return error() == nullptr ? primary_->description() : twin_->description();
  }

  std::span<const Localization> fit(std::span<const Start> starts) noexcept override {
    if (error() == nullptr) {
      const auto fits = primary_->fit(starts);
      if (error() == nullptr) return fits;
    }
    const std::size_t count = std::min(starts.size(), capacity());
    for (std::size_t i = 0; i < count; ++i)
      std::copy_n(primary_->staging(i), roi_px() * roi_px(), twin_->staging(i));
    return twin_->fit(starts);
  }

 private:
  std::unique_ptr<LiveFitter> primary_;
  std::unique_ptr<LiveFitter> twin_;
};

}  // namespace

std::unique_ptr<LiveFitter> make_failover_live_fitter(std::unique_ptr<LiveFitter> primary,
                                                      std::unique_ptr<LiveFitter> twin) {
  if (primary->roi_px() != twin->roi_px() || primary->capacity() != twin->capacity())
    throw FitterError("fitter: two back ends of different ROI side or capacity");
  return std::make_unique<FailoverLiveFitter>(std::move(primary), std::move(twin));
}

}  // namespace driftd::fitter
