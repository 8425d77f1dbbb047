// SPDX-License-Identifier: MIT
#include "control/lock/acquisition_gate.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {
namespace {

constexpr int kEnoughFrames = 1'000'000'000;  // counted no further

}  // namespace

void AcquisitionGate::restart() noexcept {
  frames_ = 0;
  settled_s_ = 0;
  mean_square_nm2_ = {};
}

void AcquisitionGate::set(GateReason reason, std::int64_t now_ns) noexcept {
  const bool in_lock = reason == GateReason::InLock;
  state_.reason = reason;
  if (in_lock == state_.in_lock) return;
  state_.in_lock = in_lock;
  state_.since_ns = now_ns;
  if (!in_lock) ++state_.closed;
}

void AcquisitionGate::close(GateReason reason, std::int64_t now_ns) noexcept {
  restart();
  state_.residual_nm = GateState{}.residual_nm;
  set(reason, now_ns);
}

void AcquisitionGate::not_locked(std::int64_t now_ns) noexcept {
  close(GateReason::NotLocked, now_ns);
}

void AcquisitionGate::getting_acquainted(std::int64_t now_ns) noexcept {
  close(GateReason::GettingAcquainted, now_ns);
}

void AcquisitionGate::moving(std::int64_t now_ns) noexcept {
  close(GateReason::Moving, now_ns);
}

void AcquisitionGate::measured(Vec2 residual_nm, std::int64_t now_ns) noexcept {
  const double farthest_nm = kMovedTolerances * settings_.tolerance_nm;
  // A mean square would remember a step for long: it starts anew behind it.
  if (!(std::abs(residual_nm.x) <= farthest_nm && std::abs(residual_nm.y) <= farthest_nm)) {
    restart();
    state_.residual_nm = {std::abs(residual_nm.x), std::abs(residual_nm.y)};
    set(GateReason::Moved, now_ns);
    return;
  }
  const double interval_s =
      frames_ > 0 ? std::max(0.0, static_cast<double>(now_ns - last_ns_) * 1e-9) : 0;
  last_ns_ = now_ns;
  frames_ = std::min(frames_ + 1, kEnoughFrames);
  settled_s_ = std::min(settled_s_ + interval_s, 2 * settings_.average_s);
  const double share =
      std::max(1.0 / frames_, std::min(interval_s / settings_.average_s, 1.0 / kLeastFrames));
  mean_square_nm2_.x += share * (residual_nm.x * residual_nm.x - mean_square_nm2_.x);
  mean_square_nm2_.y += share * (residual_nm.y * residual_nm.y - mean_square_nm2_.y);
  state_.residual_nm = {std::sqrt(mean_square_nm2_.x), std::sqrt(mean_square_nm2_.y)};

  const double limit_nm = settings_.tolerance_nm * (state_.in_lock ? kHysteresis : 1);
  const bool enough = frames_ >= kLeastFrames && settled_s_ >= settings_.average_s;
  if (state_.residual_nm.x > limit_nm || state_.residual_nm.y > limit_nm) {
    settled_s_ = 0;
    set(GateReason::Residual, now_ns);
  } else if (!state_.in_lock && !enough) {
    set(GateReason::Settling, now_ns);
  } else {
    set(GateReason::InLock, now_ns);
  }
}

const char* name_of(GateReason reason) noexcept {
  switch (reason) {
    case GateReason::InLock:
      return "in_lock";
    case GateReason::NotLocked:
      return "not_locked";
    case GateReason::GettingAcquainted:
      return "getting_acquainted";
    case GateReason::Moving:
      return "moving";
    case GateReason::Settling:
      return "settling";
    case GateReason::Residual:
      return "residual";
    case GateReason::Moved:
      return "moved";
  }
  return "unknown";
}

}  // namespace driftd::control
