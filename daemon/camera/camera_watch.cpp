// SPDX-License-Identifier: MIT
#include "daemon/camera/camera_watch.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "daemon/setup/compose.hpp"
#include "daemon/status/status_messages.hpp"

namespace driftd::daemon {
namespace {

struct Telling {
  EventLog::Level level;
  const char* code;
};

Telling telling_of(camera::SourceEvent::Kind kind) {
  using Kind = camera::SourceEvent::Kind;
  switch (kind) {
    case Kind::Connected:
      return {EventLog::Level::Info, "camera_connected"};
    case Kind::Disconnected:
    case Kind::ReconnectFailed:
      return {EventLog::Level::Warning, "camera_disconnected"};
    case Kind::Note:
      break;
  }
  return {EventLog::Level::Info, "camera_note"};
}

}  // namespace

void CameraWatch::look() {
  info_ = source_.info();
}

void CameraWatch::turn() {
  for (const camera::SourceEvent& event : source_.take_events()) {
    const auto [level, code] = telling_of(event.kind);
    events_.raise(level, code, event.text);
    if (level == EventLog::Level::Warning) problem_ = event.text;
    if (event.kind != camera::SourceEvent::Kind::Connected) continue;
    problem_.clear();
    look();
    tell_notes();
    const std::string problem = image_too_small(config_, info_);
    if (!problem.empty()) events_.raise(EventLog::Level::Warning, "camera_note", problem);
    loop_.change_settings(std::make_unique<LoopSettings>(loop_settings(config_, info_)));
  }
}

/// Warnings first: of many events a second the log leaves the last ones out.
void CameraWatch::tell_notes() {
  using Severity = camera::CameraNote::Severity;
  std::set<std::string> texts;
  for (const Severity severity : {Severity::Warning, Severity::Info}) {
    for (const camera::CameraNote& note : info_.camera_notes) {
      if (note.severity != severity) continue;
      texts.insert(note.text);
      if (told_.contains(note.text)) continue;
      const bool warning = severity == Severity::Warning;
      events_.raise(warning ? EventLog::Level::Warning : EventLog::Level::Info, "camera_note",
                    note.text, note_json(note));
    }
  }
  told_ = std::move(texts);
}

std::int64_t CameraWatch::frame_limit_ns(const LoopReport& loop) const noexcept {
  constexpr double kPeriods = 1.25;  // the next frame is due within one
  constexpr double kMarginNs = 0.4e9;
  double rate_hz = loop.frame_rate_hz;
  if (!(rate_hz > 0)) rate_hz = info_.frame_rate_hz;
  if (!(rate_hz > 0)) rate_hz = config_.camera.frame_rate_hz;
  if (!(rate_hz > 0)) return kLeastFrameLimitNs;
  return std::max<std::int64_t>(kLeastFrameLimitNs,
                                std::llround(kPeriods * 1e9 / rate_hz + kMarginNs));
}

}  // namespace driftd::daemon
