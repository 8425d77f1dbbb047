// SPDX-License-Identifier: MIT
#include "camera/aravis/clock_watch.hpp"

#include "base/monotonic.hpp"

namespace driftd::camera::aravis {
namespace {

constexpr std::int64_t kIntervalNs = kNanosecondsPerSecond / 4;

}  // namespace

ClockRate ClockWatch::update(ArvCamera* camera, std::int64_t now_ns, bool wanted, bool there) {
  if (!wanted) {
    readings_.clear();
  } else if (there && now_ns >= next_ns_) {
    next_ns_ = now_ns + kIntervalNs;
    try {
      if (!looked_) find_latch(camera);
      looked_ = true;
    } catch (const CameraError&) {  // it did not answer
      return readings_.rate();
    }
    if (command_ != nullptr && !read(camera)) {
      command_ = nullptr;
      readings_.clear();
    }
  }
  return readings_.rate();
}

/// GigE Vision 1 counts ticks, as its frames do; the names of SFNC 2, as of USB3 Vision, count ns.
void ClockWatch::find_latch(ArvCamera* camera) {
  ArvDevice* device = arv_camera_get_device(camera);
  if (has(camera, "GevTimestampControlLatch") && ARV_IS_GV_DEVICE(device)) {
    Failure failure;
    const guint64 ticks_per_s =
        arv_gv_device_get_timestamp_tick_frequency(ARV_GV_DEVICE(device), failure.out());
    if (failure || ticks_per_s == 0) return;
    tick_ns_ = 1e9 / static_cast<double>(ticks_per_s);
    command_ = "GevTimestampControlLatch";
    value_ = "GevTimestampValue";
  } else if (has(camera, "TimestampLatch")) {
    command_ = "TimestampLatch";
    value_ = "TimestampLatchValue";
  }
}

/// @returns false when the camera refused
bool ClockWatch::read(ArvCamera* camera) {
  Failure refused;
  ClockReading reading{.asked_ns = monotonic_ns()};
  arv_camera_execute_command(camera, command_, refused.out());
  reading.answered_ns = monotonic_ns();
  if (refused) return false;
  reading.camera_ns =
      static_cast<double>(arv_camera_get_integer(camera, value_, refused.out())) * tick_ns_;
  if (refused) return false;
  readings_.add(reading);
  return true;
}

}  // namespace driftd::camera::aravis
