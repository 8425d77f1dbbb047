// SPDX-License-Identifier: MIT
// The camera's exposure and gain: what they are, what the camera allows, and orders to change them
// while nothing is locked. An order is over when frames show it and the loop was given the markers
// anew; nothing is locked until then. Housekeeping thread; nothing here waits.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "config/config.hpp"
#include "daemon/camera/camera_watch.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/markers/marker_keeper.hpp"
#include "daemon/wire/answer.hpp"

namespace driftd::daemon {

class Exposure {
 public:
  /// @param config  the one in force
  /// @param orders_pending  an order to the lock is under way
  Exposure(const config::Config& config, camera::FrameSource& source, CameraWatch& camera,
           LoopControl& loop, MarkerKeeper& markers, EventLog& events,
           std::function<bool()> orders_pending)
      : config_(config),
        source_(source),
        camera_(camera),
        loop_(loop),
        markers_(markers),
        events_(events),
        orders_pending_(std::move(orders_pending)) {}

  /// Orders what is given. @throws CommandRefused at once: not possible now, or not with this
  /// camera
  void order(const camera::ExposureOrder& order, Answer answer, std::int64_t now_ns);
  void turn(std::int64_t now_ns);
  /// Answers the order that waits.
  void refuse_pending(const CommandRefused& refused) { end(refused); }
  bool pending() const noexcept { return under_way_.has_value(); }
  /// What an order set and another configuration would set otherwise, for people; "": nothing.
  std::string lost_with(const config::Config& after) const;
  /// The object `exposure` of a reply: what there is, and what the camera allows.
  nlohmann::json now() const;

 private:
  enum class Stage : std::uint8_t { Ordered, Taken, Markers };
  struct UnderWay {
    Stage stage = Stage::Ordered;
    std::uint64_t number = 0;  ///< the source's
    Answer answer;
    std::int64_t until_ns = 0;
    std::int64_t frames_from_ns = 0;  ///< a frame that comes later was exposed so
    bool gain_changed = false;
    std::string problem;  ///< what the camera did otherwise
  };

  void check(const camera::ExposureOrder& order) const;
  void despair();
  void take(std::int64_t now_ns);
  void renew_markers(std::int64_t now_ns);
  void tell_not_renewed(const CommandRefused& why);
  void finish();
  void end(const Outcome& outcome);
  std::string noise_warning() const;

  const config::Config& config_;
  camera::FrameSource& source_;
  CameraWatch& camera_;
  LoopControl& loop_;
  MarkerKeeper& markers_;
  EventLog& events_;
  std::function<bool()> orders_pending_;
  std::optional<UnderWay> under_way_;
  bool was_ordered_ = false;  ///< the camera has dealt with an order, in whatever way
};

}  // namespace driftd::daemon
