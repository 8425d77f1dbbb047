// SPDX-License-Identifier: MIT
// Snapshots: a copy of the newest frame with its ROIs for everybody who waits for one. One frame
// answers all. Housekeeping thread; nothing here waits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/camera/camera_watch.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/wire/answer.hpp"

namespace driftd::daemon {

class Snapshots {
 public:
  /// @param roi_px  of the ROIs now
  Snapshots(std::function<int()> roi_px, CameraWatch& camera, LoopControl& loop)
      : roi_px_(std::move(roi_px)), camera_(camera), loop_(loop) {}

  /// Answered when a frame has come, or when none has for CameraWatch::frame_limit_ns().
  /// @throws CommandRefused at once: the camera is away, or too many snapshots wait or are unread
  void request(Answer answer, std::int64_t now_ns);
  void turn(std::int64_t now_ns);
  /// Answers all that wait.
  void refuse_pending(const CommandRefused& refused);
  bool pending() const noexcept { return !waiting_.empty(); }

 private:
  using Pixels = std::vector<std::uint8_t>;
  struct Waiting {
    std::int64_t until_ns;
    Answer answer;
  };

  void answer_all(const FrameImage& image);
  nlohmann::json rois(const camera::Frame& frame) const;
  std::size_t unread_bytes();

  std::function<int()> roi_px_;
  CameraWatch& camera_;
  LoopControl& loop_;
  std::vector<Waiting> waiting_;
  std::vector<std::weak_ptr<const Pixels>> unread_;  ///< those whose memory ZeroMQ still holds
};

}  // namespace driftd::daemon
