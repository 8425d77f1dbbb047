// SPDX-License-Identifier: MIT
// Tells whether the sample lies still enough for images: the lock's residual, measured over the
// last moments, is within what the user tolerates. For the programs that pause a microscope.
// Tracking loop; no allocation; noexcept.
#pragma once

#include <cstdint>
#include <limits>

#include "control/values/types.hpp"

namespace driftd::control {

enum class GateReason : std::uint8_t {
  InLock,
  NotLocked,
  GettingAcquainted,  ///< locked, but the lock gets to know its stage first
  Moving,             ///< on the way to another place, by intention
  Settling,           ///< within the tolerance, but not for long enough
  Residual,           ///< its rms is beyond the tolerance
  Moved,              ///< a single frame was several times the tolerance away
};

/// Positive.
struct GateSettings {
  double tolerance_nm;  ///< of the residual's rms, per axis
  double average_s;     ///< over about so long
};

struct GateState {
  bool in_lock = false;
  GateReason reason = GateReason::NotLocked;
  std::int64_t since_ns = 0;  ///< that in_lock is as it is
  std::uint64_t closed = 0;   ///< so many times it went from true to false
  /// rms; with the noise of the measurement, so that it errs on the side of pausing.
  Vec2 residual_nm = {std::numeric_limits<double>::quiet_NaN(),
                      std::numeric_limits<double>::quiet_NaN()};
  double tolerance_nm = std::numeric_limits<double>::quiet_NaN();  ///< that it is held against
};

class AcquisitionGate {
 public:
  /// Once open it closes where the rms is beyond so many tolerances ...
  static constexpr double kHysteresis = 1.25;
  /// ... or where one frame is so many away from the place of lock.
  static constexpr double kMovedTolerances = 4;
  /// Fewer say nothing of a rms.
  static constexpr int kLeastFrames = 8;

  explicit AcquisitionGate(const GateSettings& settings) noexcept { change_settings(settings); }

  void change_settings(const GateSettings& settings) noexcept {
    settings_ = settings;
    state_.tolerance_nm = settings.tolerance_nm;
  }
  /// A frame gave a drift while locked.
  /// @param residual_nm  of this frame alone, from where the lock is to hold the sample
  void measured(Vec2 residual_nm, std::int64_t now_ns) noexcept;
  /// Nothing is locked, or it is held: at any time, any number of times.
  void not_locked(std::int64_t now_ns) noexcept;
  /// No law decides where the stage goes yet: likewise.
  void getting_acquainted(std::int64_t now_ns) noexcept;
  /// The sample is being moved: likewise.
  void moving(std::int64_t now_ns) noexcept;
  const GateState& state() const noexcept { return state_; }

 private:
  void restart() noexcept;
  void close(GateReason reason, std::int64_t now_ns) noexcept;
  void set(GateReason reason, std::int64_t now_ns) noexcept;

  GateSettings settings_;
  GateState state_;
  // Since it was last restarted.
  int frames_ = 0;
  double settled_s_ = 0;
  Vec2 mean_square_nm2_;
  std::int64_t last_ns_ = 0;
};

const char* name_of(GateReason reason) noexcept;

}  // namespace driftd::control
