// SPDX-License-Identifier: MIT
// The tracking loop's end of ObserverPorts: takes what the observer's thread found to the law, and
// what the law sees to that thread. Tracking loop; noexcept; no allocation.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "control/lock/supervisor.hpp"
#include "daemon/loop/observer_worker.hpp"

namespace driftd::daemon {

class ObserverLink {
 public:
  using Forecast = std::array<std::optional<control::ResidualForecast>, control::kAxes>;

  ObserverLink(control::Supervisor& supervisor, ObserverPorts& ports)
      : supervisor_(supervisor), ports_(ports) {}

  /// What was found since the last call, for the decision at `now_ns`.
  void take(std::int64_t now_ns) noexcept;
  /// After a decision. @param taken_ns  of the frame
  void give(std::int64_t taken_ns) noexcept;
  /// The camera is to send its frames later by control::kSlowerShare. Of a lock alone that holds.
  bool wants_slower_frames() const noexcept;
  /// It is asked to, for whatever lock.
  void tell_slower(bool slower) noexcept {
    ports_.asked_slower.store(slower, std::memory_order_release);
  }
  /// How still this lock will be; nothing: not known yet.
  const Forecast& forecast() const noexcept { return forecast_; }

 private:
  bool is_meant(const control::ObserverSettings& wish, std::int64_t taken_ns) noexcept;

  control::Supervisor& supervisor_;
  ObserverPorts& ports_;
  std::optional<control::ObserverSettings> wished_;  ///< last; none: nothing yet
  std::int64_t wished_otherwise_ns_ = 0;             ///< since when another rate would be wished
  std::uint32_t foretold_epoch_ = 0;                 ///< of the observer whose forecast it is
  Forecast forecast_{};
};

}  // namespace driftd::daemon
