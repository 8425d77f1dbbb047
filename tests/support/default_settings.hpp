// SPDX-License-Identifier: MIT
// The settings that users get: those of the option table, as the daemon translates them. A test
// that means other numbers sets them. Locks go by the description of their stage, though: a test
// that means another start of a lock asks for it.
#pragma once

#include "config/config.hpp"
#include "control/values/acquaint_when.hpp"
#include "daemon/setup/compose.hpp"

namespace driftd::test {

inline daemon::LoopSettings default_loop_settings() {
  daemon::LoopSettings settings = daemon::loop_settings(config::default_config(), {});
  settings.supervisor.acquaintance.when = control::AcquaintWhen::Never;
  return settings;
}

inline control::SupervisorSettings default_supervisor_settings() {
  return default_loop_settings().supervisor;
}

inline control::LockSettings default_lock_settings() {
  return default_loop_settings().supervisor.lock;
}

inline control::ControllerSettings default_controller_settings() {
  return default_loop_settings().supervisor.controller;
}

inline control::EstimatorSettings default_estimator_settings() {
  return daemon::estimator_settings(config::default_config());
}

inline control::DetectionSettings default_detection_settings() {
  const config::Config config = config::default_config();
  return daemon::detection_settings(config, daemon::configured_format(config));
}

inline control::ConstellationSettings default_constellation_settings() {
  return daemon::constellation_settings(config::default_config());
}

inline camera::AravisSettings default_aravis_settings() {
  return daemon::aravis_settings(config::default_config().camera, {});
}

inline camera::ReplaySettings default_replay_settings() {
  return daemon::replay_settings(config::default_config().replay);
}

}  // namespace driftd::test
