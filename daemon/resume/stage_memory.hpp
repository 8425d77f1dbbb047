// SPDX-License-Identifier: MIT
// Keeps on disk what locks found out of the stage, for the next daemon. It holds for one camera,
// one description of the stage (`stage.*`) and, where a driver tells of itself, that controller;
// what a lock doubts is removed. A file belongs to one daemon at a time. Housekeeping thread;
// nothing here waits but recall(), before there is a loop.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/state_file.hpp"
#include "config/config.hpp"
#include "control/lock/supervisor.hpp"
#include "daemon/camera/camera_watch.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/resume/state_writer.hpp"
#include "daemon/stage/stage_channel.hpp"

namespace driftd::daemon {

/// What was found, and what it is true for.
struct SavedStageKnowledge {
  /// Name and value of what has to be the same: the camera, what the configuration says, ...
  std::map<std::string, std::string> meaning;
  std::string controller;  ///< ... and the stage's controller, as its driver tells; empty: none did
  control::StageKnowledge knowledge;
};
std::string to_text(const SavedStageKnowledge& saved);
/// @throws StateError
SavedStageKnowledge read_stage_knowledge(const std::string& text);

class StageMemory {
 public:
  /// @param config  the one in force; `stage.acquaint: never` keeps nothing
  StageMemory(const config::Config& config, CameraWatch& camera, LoopControl& loop,
              const StageChannel& stage, EventLog& events);

  /// What the last daemon left.
  void recall();
  /// Hands it to the loop as soon as camera and controller are there, and keeps what is new.
  void turn();

 private:
  std::map<std::string, std::string> meaning() const;
  std::string controller() const;
  void hand_over();
  void keep();
  void forget_other_controllers();

  const config::Config& config_;
  CameraWatch& camera_;
  LoopControl& loop_;
  const StageChannel& stage_;
  EventLog& events_;
  std::optional<StateOwner> owner_;    ///< outlives the writer
  std::optional<StateWriter> writer_;  ///< none: nothing is kept
  std::optional<SavedStageKnowledge> recalled_;
  std::string found_on_;    ///< the controller while what is known now is
  std::string told_other_;  ///< the one that people were told of
  std::uint32_t seen_ = 0;  ///< LoopReport::stage_findings
};

}  // namespace driftd::daemon
