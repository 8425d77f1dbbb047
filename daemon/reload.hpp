// SPDX-License-Identifier: MIT
// Takes over a changed configuration file while the daemon runs, and with it the keys and groups
// that it names: whole or not at all. Housekeeping thread.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "config/config.hpp"
#include "daemon/camera/camera_watch.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/wire/answer.hpp"
#include "daemon/wire/wire_context.hpp"

namespace driftd::daemon {

class Reload {
 public:
  /// @param config  the one in force; changed in place
  /// @param orders_pending  an order to the lock is under way
  Reload(config::Config& config, std::filesystem::path file, WireContext& wire,
         const CameraWatch& camera, LoopControl& loop, EventLog& events,
         std::function<bool()> orders_pending)
      : config_(config),
        file_(std::move(file)),
        wire_(wire),
        camera_(camera),
        loop_(loop),
        events_(events),
        orders_pending_(std::move(orders_pending)) {}

  /// @returns `text`: the files that are in force now; refused: why those before still are
  Outcome run();
  /// `differs`: the keys that the files have otherwise by now than what is in force.
  Reply compare() const;
  /// What driftd would start with by now. @throws CommandRefused where it would not
  config::Config check_start() const;

 private:
  std::optional<std::string> obstacle_once_ended(const std::string& endpoint) const;
  void tell_access(const AccessBook::Change& change);

  config::Config& config_;
  std::filesystem::path file_;
  WireContext& wire_;
  const CameraWatch& camera_;
  LoopControl& loop_;
  EventLog& events_;
  std::function<bool()> orders_pending_;
};

}  // namespace driftd::daemon
