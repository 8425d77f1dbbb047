// SPDX-License-Identifier: MIT
// Watches the camera's connection: tells what the source tells, gives the loop settings composed
// anew when a camera has come back, maybe with another exposure than before, and knows how long a
// frame may be waited for. Housekeeping thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "camera/frame_source.hpp"
#include "config/config.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/status/cure.hpp"
#include "daemon/wire/answer.hpp"

namespace driftd::daemon {

class CameraWatch {
 public:
  /// @param config  the one in force
  CameraWatch(const config::Config& config, camera::FrameSource& source, LoopControl& loop,
              EventLog& events)
      : config_(config), source_(source), loop_(loop), events_(events) {}

  /// Takes over what the source says of itself now.
  void look();
  /// Tells the source's events, and of each connection the notes that the one before did not have.
  void turn();

  /// As of the last look() or connection.
  const camera::SourceInfo& info() const noexcept { return info_; }
  std::size_t frame_pixels() const noexcept {
    return static_cast<std::size_t>(info_.width_px) * static_cast<std::size_t>(info_.height_px);
  }
  /// Why there is none, as told last; "" while one is connected.
  const std::string& problem() const noexcept { return problem_; }
  bool connected() const noexcept { return source_.counters().connected; }
  /// What who wants a frame is told while the camera is away.
  static CommandRefused away() {
    return {Refusal::NoFrame, "no frame: the camera is away, and looked for"};
  }
  /// What who needs frames to come is told while none do.
  static CommandRefused no_frames() {
    return {Refusal::NoFrame, std::string("no camera gives frames: ") + kSeeCamera};
  }
  /// How long to wait for the next frame before giving up on it: a good period of what the camera
  /// was measured or set to send, and at least kLeastFrameLimitNs.
  std::int64_t frame_limit_ns(const LoopReport& loop) const noexcept;

  static constexpr std::int64_t kLeastFrameLimitNs = 1'000'000'000;

 private:
  void tell_notes();

  const config::Config& config_;
  camera::FrameSource& source_;
  LoopControl& loop_;
  EventLog& events_;
  camera::SourceInfo info_;
  std::string problem_;
  std::set<std::string> told_;  ///< texts of the notes of the connection before
};

}  // namespace driftd::daemon
