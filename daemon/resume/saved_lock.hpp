// SPDX-License-Identifier: MIT
// What outlives the daemon of a lock: its references, where the stage was told to be, and what
// gives these numbers their meaning. As a text, which a checksum guards. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/vec2.hpp"
#include "control/axial/reflection_estimator.hpp"
#include "control/values/types.hpp"
#include "daemon/loop/loop_values.hpp"

namespace driftd::daemon {

/// A text that is no saved lock; what() is a sentence's end: "its checksum is wrong".
struct StateError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// When it was. Across a start of the computer only the wall clock tells, which may be wrong.
struct SavedTime {
  std::int64_t wall_ns = 0;    ///< CLOCK_REALTIME
  std::int64_t uptime_ns = 0;  ///< CLOCK_BOOTTIME
  std::string boot_id = {};

  static SavedTime now();
};

struct SavedMarker {
  std::uint32_t id = 0;
  control::MarkerRole role = control::MarkerRole::Tracking;
  control::MarkerReference reference;
};

/// What the stage's driver said of its place.
struct SavedStage {
  std::string driver, description;
  std::map<std::string, double> position_nm;  ///< on the controller's own axes, by their names
};

/// The lock of z, that held beside that of x and y or alone.
struct SavedAxial {
  std::uint64_t lock_id = 0;
  std::string reading;  ///< by what z was read, which has to be the same: axial_reading()
  double total_nm = 0, carried_nm = 0, travelled_nm = 0, set_nm = 0;  ///< SavedLock's, of z
  std::optional<control::SpotZero> spot = std::nullopt;  ///< its zero; none: the markers' are
  bool driver_reported = false;                          ///< that of the stage of z
  /// When it was held last; none: when x and y were.
  std::optional<SavedTime> time = std::nullopt;
  /// At which it was still to be locked; empty: it was held.
  std::string place = {};
};

struct SavedLock {
  SavedTime time;
  std::string session;
  std::uint64_t lock_id = 0;
  bool lost = false;  ///< it was lost before it was interrupted
  /// Name and value of what has to be the same for the numbers to mean the same.
  std::map<std::string, std::string> meaning;
  std::vector<SavedMarker> markers;
  double spot_sigma_px = 0;  ///< in use; 0: as configured, and not written then
  int roi_px = 0;            ///< likewise
  int saturation_adu = 0;    ///< as the image showed it; 0: it was known
  bool chosen = false;       ///< somebody chose the markers by command: their roles stay
  Vec2 total_nm;             ///< that the stage was told last, from its place at lock
  Vec2 carried_nm;           ///< that place, from the one of the first of the locks it went on from
  Vec2 travelled_nm;         ///< that place, from the one at the daemon's start
  Vec2 set_nm;               ///< where moves had the lock hold the sample, from its reference
  std::optional<SavedStage> stage;
  std::optional<SavedAxial> z = std::nullopt;  ///< none: z was not held
  /// x and y were not held: what is here of them says nothing, and the number is that of z.
  bool of_z_alone = false;
};

std::string to_text(const SavedLock& lock);
/// @throws StateError
SavedLock read_saved_lock(const std::string& text);

/// The first line of a text names what it is; any change of the text shows in that line.
struct Seal {
  std::string_view name;  ///< "driftd-lock"
  std::string_view what;  ///< "a saved lock"
};
inline constexpr Seal kLockSeal{"driftd-lock", "a saved lock"};
/// Of z alone: a driftd that knows locks of x and y only is not to take it for one.
inline constexpr Seal kAxialSeal{"driftd-axial-lock", "a saved lock of z"};
/// The text of a JSON body, behind the line that guards it.
std::string sealed(std::string_view body, const Seal& seal = kLockSeal);
/// The body of a text as it was sealed. @throws StateError
std::string unsealed(const std::string& text, const Seal& seal);

/// A lock, and a time, as the object that a body holds.
nlohmann::json to_json(const SavedLock& lock);
nlohmann::json to_json(const SavedTime& time);
/// @throws StateError, nlohmann::json::exception
SavedTime saved_time_of(const nlohmann::json& body);
/// @throws StateError, nlohmann::json::exception
SavedLock saved_lock_of(const nlohmann::json& body, bool of_z_alone = false);

/// How many markers that z is measured by have the reference of z that they were saved with.
std::ptrdiff_t same_zeros(const MarkersReport& now, const std::vector<SavedMarker>& before);

/// The time between the two, s; nothing where the clocks do not tell.
std::optional<double> seconds_between(const SavedTime& before, const SavedTime& now);
/// "3.2 s", "12 min", "5.4 h"
std::string duration_text(double s);

}  // namespace driftd::daemon
