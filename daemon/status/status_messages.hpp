// SPDX-License-Identifier: MIT
// The JSON of `status`, `markers` and `event` as docs/reference/protocol.md defines them.
// Housekeeping thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/process/latency_histogram.hpp"
#include "base/process/realtime.hpp"
#include "camera/frame_source.hpp"
#include "control/search/spot_size.hpp"
#include "daemon/loop/loop_values.hpp"

namespace driftd::daemon {

struct StatusInputs {
  std::int64_t time_ns = 0;
  std::int64_t start_ns = 0;  ///< of the daemon
  const LoopReport& loop;
  const MarkersReport& markers;
  const camera::SourceInfo& source;
  const camera::SourceCounters& counters;
  std::string camera_problem = {};  ///< why there is none; "" while there is
  const RealTimeReport& realtime;
  std::string fitter_description;  ///< begins with the back end's name
  std::string fitter_reason;
  std::string estimator;  ///< as fitter.estimator names it
  std::string estimator_reason;
  int roi_px = 0;
  nlohmann::json acquaintance = nullptr;                 ///< acquaintance_json()
  double max_jump_nm = 0;                                ///< lock.max_jump_nm
  std::string at_start_waits = {};                       ///< what lock.at_start waits for
  std::optional<control::SpotSize> size = {};            ///< chosen from the image
  std::uint64_t withheld = 0, expired = 0, refused = 0;  ///< corrections that did not leave
  nlohmann::json stage_driver = nullptr;                 ///< what it tells of itself
  nlohmann::json interrupted = nullptr;                  ///< the lock that was
  nlohmann::json move = nullptr;                         ///< the set-point and its path
  nlohmann::json record = nlohmann::json::object();      ///< what is recorded
  nlohmann::json raw_frames = nlohmann::json::object();  ///< what is kept of them
  std::uint64_t connections_ended = 0;                   ///< for going beyond a bound
  std::uint64_t connections_revoked = 0;                 ///< for a key or group that was taken back
  std::uint64_t peers_refused = 0;                       ///< at the handshake, or beyond a role
  std::uint64_t marker_searches = 0;                     ///< for markers that had left their ROIs
  std::uint64_t markers_found_again = 0;                 ///< how many of these found them
  bool markers_chosen = false;                           ///< by command
  nlohmann::json pattern = nullptr;                      ///< pattern_json()
  nlohmann::json axial = nullptr;                        ///< axial_json()
  // Of the lock of z, as those of x and y above.
  bool axial_held = false;  ///< axial.hold
  double axial_max_jump_nm = 0;
  std::string axial_at_start_waits = {};
  std::string axial_waits = {};  ///< for its turn: Places::axial_waits()
  std::string axial_idle = {};   ///< what else to know of a lock of z that is idle
  nlohmann::json axial_acquaintance = nullptr;
  nlohmann::json axial_driver = nullptr;
  nlohmann::json axial_move = nullptr;
  std::string axial_lock_warning = {};  ///< limit_warning()
  LatencySummary total, cut, fit, control, publish;
};

nlohmann::json status_json(const StatusInputs& in);
nlohmann::json markers_json(const MarkersReport& report, double pixel_size_nm);
/// As in `status` and in the event `camera_note`.
nlohmann::json note_json(const camera::CameraNote& note);
const char* name_of(control::MarkerRole role) noexcept;

}  // namespace driftd::daemon
