// SPDX-License-Identifier: MIT
// What housekeeping's parts are tested against: the loop's end of the ports and a camera, both
// played by the test on its own thread, and a list of the events.
#pragma once

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "camera/frame_source.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/loop/tracking_loop.hpp"
#include "daemon/wire/answer.hpp"

namespace driftd::daemon::test {

/// Takes commands and reports when told to.
struct PlayedLoop {
  LoopPorts ports;
  LoopReport report = with_a_frame();
  std::vector<LoopCommand> taken;

  /// Takes all commands as the loop does, and reports.
  void turn() {
    LoopCommand command;
    while (ports.commands.pop(command)) {
      obey(command);
      report.commands_taken++;
      taken.push_back(std::move(command));
    }
    tell();
  }
  void tell() {
    report.frame_ns = std::max(report.frame_ns, report.tracked_ns);
    ports.report.writing() = report;
    ports.report.publish();
  }
  void tell_state(control::LockState state,
                  control::LockReason reason = control::LockReason::None) {
    report.lock.state = state;
    report.lock.reason = reason;
    tell();
  }
  /// Fills the queue for commands.
  void stop_taking() {
    while (ports.commands.push(LoopCommand{})) {
    }
  }
  /// The loop of a camera that sends a frame of these markers.
  void tell_markers(std::uint64_t frame_id, std::span<const control::Marker> markers) {
    MarkersReport& out = ports.markers.writing();
    out.frame_id = frame_id;
    out.commands_taken = report.commands_taken;
    out.count = markers.size();
    for (std::size_t i = 0; i < markers.size(); ++i) {
      out.entries[i] = {};
      out.entries[i].marker = markers[i];
      out.entries[i].reference = {{markers[i].x_px, markers[i].y_px}, 1.3, 800};
      constexpr int kHalfPx = 6;  // of a ROI of 13 px
      out.entries[i].roi = {static_cast<int>(std::lround(markers[i].x_px)) - kHalfPx,
                            static_cast<int>(std::lround(markers[i].y_px)) - kHalfPx};
    }
    ports.markers.publish();
  }

 private:
  static LoopReport with_a_frame() {
    LoopReport report;
    report.frame_ns = 1;
    return report;
  }
  void obey(const LoopCommand& command) {
    using Kind = LoopCommand::Kind;
    LockReport& of = report.of(command.group);
    control::LockState& state = of.lock.state;
    if (command.kind == Kind::Lock) {
      of.lock_id = command.lock_id;
      of.resumed = command.resumption.has_value();
      if (state != control::LockState::Fault) state = control::LockState::Referencing;
    } else if (command.kind == Kind::Calibrate) {
      of.lock_id = command.lock_id;
      if (state == control::LockState::Idle) state = control::LockState::Calibrating;
    } else if (command.kind == Kind::Unlock) {
      if (state != control::LockState::Fault) state = control::LockState::Idle;
    } else if (command.kind == Kind::Reset) {
      if (state == control::LockState::Lost || state == control::LockState::Fault)
        state = control::LockState::Idle;
    }
  }
};

class PlayedCamera : public camera::FrameSource {
 public:
  camera::SourceInfo described;
  bool connected = true;
  std::vector<camera::SourceEvent> events;

  std::vector<camera::ExposureOrder> exposures;  ///< ordered; the test deals with them

  void start() override {}
  void stop() noexcept override {}
  std::uint64_t order_exposure(const camera::ExposureOrder& order) override {
    exposures.push_back(order);
    return exposures.size();
  }
  camera::PopStatus pop(std::chrono::microseconds, camera::Frame&) noexcept override {
    return camera::PopStatus::Timeout;
  }
  camera::SourceCounters counters() const noexcept override {
    camera::SourceCounters counters;
    counters.connected = connected;
    return counters;
  }
  camera::SourceInfo info() const override { return described; }
  std::vector<camera::SourceEvent> take_events() override { return std::exchange(events, {}); }
};

/// Events as they would be published.
struct Told {
  std::vector<nlohmann::json> events;
  EventLog log{[this](const TextMessage& message) {
    events.push_back(nlohmann::json::parse("{" + message.fields + "}"));
    return true;
  }};

  std::vector<std::string> codes() const {
    std::vector<std::string> codes;
    for (const auto& event : events) codes.push_back(event["code"]);
    return codes;
  }
};

/// Who asked for something.
struct Asker {
  std::optional<Outcome> outcome;
  int answers = 0;

  Answer answer() {
    return [this](const Outcome& told) {
      outcome = told;
      ++answers;
    };
  }
  bool answered() const { return outcome.has_value(); }
  /// The refusal's code; empty: there is none, or no answer.
  std::string code() const {
    const auto* refused = outcome ? std::get_if<CommandRefused>(&*outcome) : nullptr;
    return refused != nullptr ? name_of(refused->code) : "";
  }
  std::string text() const {
    const auto* refused = outcome ? std::get_if<CommandRefused>(&*outcome) : nullptr;
    return refused != nullptr ? refused->text : "";
  }
  /// What was replied; empty: a refusal.
  Reply reply() const {
    const auto* reply = outcome ? std::get_if<Reply>(&*outcome) : nullptr;
    return reply != nullptr ? *reply : Reply{};
  }
};

/// The code with which a request is refused at once; empty: it is not.
template <typename Request>
std::string refused_at_once(Request request) {
  try {
    request();
  } catch (const CommandRefused& refused) {
    return name_of(refused.code);
  }
  return "";
}

}  // namespace driftd::daemon::test
