// SPDX-License-Identifier: MIT
// What the demo showed, in figures, and whether the lock held. Positions are judged by the
// simulator's truth alone, never by the daemon's own estimate; only latency, back end and the state
// of the lock are the daemon's word. Pure functions of the recording.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "clients/common/shown/daemon_view.hpp"
#include "clients/demo/recording.hpp"
#include "clients/demo/stalls.hpp"

namespace driftd::clients {

/// At least so long must be left to be judged, else the computer was too busy to tell.
constexpr double kLeastJudged_s = 3;
/// A demo that missed more messages than this share of the frames does not know its figures.
constexpr double kMostMissed = 0.05;
/// The lock is not good if more than this is left, or if there was nothing to hold still.
constexpr double kLargestResidual_nm = 1.0;
/// Of a computer that was busy, whose simulated stage follows late: the hold is bad beyond this,
/// and where the lock let go for more than this share of the time.
constexpr double kLargestResidualBusy_nm = 3.0;
constexpr double kMostLetGoBusy = 0.25;
constexpr double kSmallestUnlocked_nm = 20.0;
/// z is known less well: sixteen markers of 3e4 photons tell it to 1 nm in a frame.
constexpr double kLargestResidualZ_nm = 2.0;

/// When what began, CLOCK_MONOTONIC.
struct Phases {
  std::int64_t unlocked_ns = 0;  ///< the drift is watched
  std::int64_t lock_ns = 0;      ///< the lock was commanded
  std::int64_t fault_ns = 0;     ///< the camera went away
  std::int64_t fault_end_ns = 0;
  std::int64_t end_ns = 0;
};

/// What the configuration asks for.
struct Expected {
  double rate_hz = 0;
  double frame_age_ms = 50;  ///< an older frame is stale
  double step_limit_nm = 0;
  std::optional<double> z_step_limit_nm;  ///< z is held, too
};

/// z, as x and y in Report; in nm.
struct AxialFigures {
  double residual_rms_nm = 0, residual_max_nm = 0;
  double unlocked_rms_nm = 0, watched_unlocked_rms_nm = 0;
  std::size_t judged_frames = 0, judged_not_locked = 0;
  double largest_step_nm = 0;
  std::optional<double> reconnect_s;
};

struct Report {
  /// sample_nm about its mean over the frames that the reference was taken from.
  PerAxis residual_rms_nm{}, residual_max_nm{};
  /// disturbance_nm over the same frames about the same reference: as if there were no lock.
  PerAxis unlocked_rms_nm{};
  /// sample_nm from unlocked_ns to lock_ns about its first half second: what a viewer saw.
  PerAxis watched_unlocked_rms_nm{};
  std::size_t judged_frames = 0;      ///< that the residual is over
  double judged_s = 0;                ///< the time of these frames
  std::size_t judged_not_locked = 0;  ///< of those, frames without the state locked
  std::size_t frames = 0;             ///< that the camera sent, of all phases
  std::size_t frames_lost = 0;        ///< of those, never fitted; the fault excluded
  double rate_hz = 0;                 ///< fitted frames, the fault excluded
  std::optional<double> reconnect_s;  ///< from the camera's going to locked again
  double away_s = 0;
  double largest_step_nm = 0;  ///< |delta| per axis of any correction
  double largest_step_after_reconnect_nm = 0;
  std::optional<AxialFigures> z;  ///< where it was to be held
  bool busy = false;              ///< stalls, or fewer frames than asked for: the computer's fault
  Expected expected;
  nlohmann::json latency_us;  ///< status.latency_us.total of the daemon; null if none
  std::string backend;
  std::uint64_t messages_missed = 0;
  std::vector<Stall> stalls;  ///< while locked; they and kSettling_s after each are not judged
  std::vector<std::string> failures;  ///< a sentence each; none: the lock held
};

/// The mean truth of the frames that the reference was taken from (state `referencing`).
struct Reference {
  PerAxis sample_nm{}, disturbance_nm{};
  std::int64_t locked_ns = 0;  ///< the first frame in state locked
};
/// Empty until there is a locked frame after lock_ns.
std::optional<Reference> reference_of(const Recording& recording, std::int64_t lock_ns);

/// Mean truth of the first half second from from_ns on.
PerAxis start_of(const Recording& recording, std::int64_t from_ns);

/// The first locked frame after the fault; empty while there is none.
std::optional<std::int64_t> relocked_ns(const Recording& recording, const Phases& phases);

/// @param status  the daemon's last status message
Report make_report(const Recording& recording, const Phases& phases, const nlohmann::json& status,
                   const Expected& expected);

nlohmann::json to_json(const Report& report);
std::vector<Line> to_lines(const Report& report);

}  // namespace driftd::clients
