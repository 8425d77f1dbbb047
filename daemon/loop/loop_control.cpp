// SPDX-License-Identifier: MIT
#include "daemon/loop/loop_control.hpp"

namespace driftd::daemon {

std::optional<std::uint64_t> LoopControl::send(LoopCommand command) {
  send_settings();  // an order is obeyed with what was set before it
  if (settings_) return std::nullopt;
  if (!ports_.commands.push(std::move(command))) return std::nullopt;
  return ++sent_;
}

void LoopControl::change_settings(std::unique_ptr<LoopSettings> settings) {
  settings_ = std::move(settings);
  send_settings();
}

void LoopControl::send_settings() {
  if (!settings_ || ports_.commands.full()) return;
  LoopCommand command{.kind = LoopCommand::Kind::Settings};
  command.settings = std::move(settings_);
  if (ports_.commands.push(std::move(command))) ++sent_;
}

void LoopControl::refresh() {
  std::unique_ptr<MarkerSet> set;
  while (ports_.retired_sets.pop(set)) set.reset();
  std::unique_ptr<LoopSettings> settings;
  while (ports_.retired_settings.pop(settings)) settings.reset();
  std::unique_ptr<control::MovePath> move;
  while (ports_.retired_moves.pop(move)) move.reset();
  send_settings();
  ports_.report.refresh();
  ports_.markers.refresh();
}

void LoopControl::let_recording_go_on() noexcept {
  ports_.markers_settled.store(true, std::memory_order_release);
}

}  // namespace driftd::daemon
