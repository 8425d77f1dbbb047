// SPDX-License-Identifier: MIT
// The simulator's ZeroMQ side: the stage that listens to the daemon's corrections, the truth for
// whoever wants to judge the lock, and faults by command. docs: simulator/README.md.
#pragma once

#include <cstdint>
#include <string>

#include "simulator/live_simulation.hpp"

namespace driftd::simulator {

/// Turns the daemon's correction messages into stage commands. A correction's `total_*` counts from
/// the stage's place at lock: with a new session or lock_id the newest commanded place becomes the
/// zero. Used by one thread.
class CorrectionReader {
 public:
  enum class Outcome : std::uint8_t {
    Move,
    Expired,   ///< too late: its `expires_ns` (CLOCK_MONOTONIC, optional) is past
    Rejected,  ///< no correction with finite numbers
  };
  /// @param message  "correction {json}"
  /// @param now_ns  CLOCK_MONOTONIC
  /// @param commanded_nm  where the stage was last sent
  /// @param target_nm  for Move, set to the absolute position to go to; else nothing changes
  Outcome read(const std::string& message, std::int64_t now_ns, Vec2 commanded_nm, Vec2& target_nm);
  /// The same of "axial {json}", which has a lock of its own.
  Outcome read_axial(const std::string& message, std::int64_t now_ns, double commanded_z_nm,
                     double& target_z_nm);

 private:
  struct Lock {
    std::string session;
    std::int64_t lock_id = -1;
    Vec2 zero_nm;
  };
  Lock lateral_, axial_;  ///< axial: z is x
};

/// "truth {json}": one line for the PUB socket.
std::string truth_message(const TruthRecord& record, std::uint64_t seq);

/// What the `status` command tells besides the simulation's own state.
struct CameraState {
  std::uint64_t frames_sent = 0;
  std::uint64_t frames_late = 0;
  std::uint64_t resent_packets = 0;
  bool controlled = false;
};

/// What came on the stage's wire.
struct CorrectionCounts {
  std::uint64_t obeyed = 0;
  std::uint64_t expired = 0;  ///< came too late and were ignored
  std::uint64_t axial_obeyed = 0, axial_expired = 0;
  std::uint64_t moves = 0;  ///< of --stage-input
};

/// Carries out one command ({"command": "vanish", "seconds": 2}) and returns the reply as JSON.
std::string answer_command(const std::string& request, LiveSimulation& simulation,
                           const CameraState& camera, const CorrectionCounts& corrections);

}  // namespace driftd::simulator
