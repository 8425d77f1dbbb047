// SPDX-License-Identifier: MIT
// A simulated GigE Vision camera in the test's process whose frames show when one is put together
// wrongly, and what tests of the Aravis source on it share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>

#include "base/monotonic.hpp"
#include "camera/sources.hpp"
#include "simulator/gige_camera.hpp"
#include "support/default_settings.hpp"

namespace driftd::test {

namespace sim = driftd::simulator;

/// Frames of one byte value each, which changes with the frame: a hole or a mixture shows.
class UniformFrames final : public sim::FrameProducer {
 public:
  sim::MadeFrame make(const sim::FramePlan& plan, std::span<std::byte> image) override {
    if (!image.empty()) std::memset(image.data(), plan.frame_id & 0xFF, image.size());
    const std::uint64_t count = plan.frame_count;
    frame_count = count;
    line1_high = plan.line1_high;
    {
      const std::lock_guard lock(sensor_mutex_);
      sensor_ = plan.sensor;
    }
    if (count < silent_until || (drop_three_in_ten && count % 10 >= 7)) {
      return {.fate = sim::FrameFate::Drop};
    }
    const bool corrupt = corrupt_every != 0 && count % corrupt_every == 0;
    return {.fate = corrupt ? sim::FrameFate::Corrupt : sim::FrameFate::Send,
            .packet_loss = packet_loss};
  }
  bool camera_away() override { return away; }
  std::optional<std::int64_t> clock_error_ns(std::int64_t time_ns) override {
    return -static_cast<std::int64_t>(slow * static_cast<double>(time_ns - started_ns));
  }

  /// What the camera exposed with last.
  sim::SensorSettings sensor() const {
    const std::lock_guard lock(sensor_mutex_);
    return sensor_;
  }

  std::atomic<bool> away{false};
  std::atomic<double> packet_loss{0};
  std::atomic<std::uint64_t> corrupt_every{0};
  std::atomic<bool> drop_three_in_ten{false};
  std::atomic<std::uint64_t> silent_until{0};  ///< a frame_count; nothing is sent before it
  std::atomic<std::uint64_t> frame_count{0};
  std::atomic<double> slow{0};  ///< the camera's clock
  std::atomic<bool> line1_high{false};
  const std::int64_t started_ns = monotonic_ns();

 private:
  mutable std::mutex sensor_mutex_;
  sim::SensorSettings sensor_;
};

/// Not square: a mistaken axis shows.
inline sim::CameraModel camera_model() {
  sim::CameraModel model;
  model.width_px = 320;
  model.height_px = 200;
  return model;
}

struct Simulator {
  explicit Simulator(const std::string& address)
      : Simulator(address, address.substr(address.rfind('.'))) {}
  Simulator(const std::string& address, const std::string& serial,
            const sim::CameraModel& model = camera_model())
      : camera({.address = address, .serial = serial}, model, frames) {}
  Simulator(const std::string& address, const sim::CameraModel& model)
      : Simulator(address, address.substr(address.rfind('.')), model) {}
  UniformFrames frames;
  sim::GigeCamera camera;
};

inline camera::AravisSettings settings_for(const std::string& address) {
  camera::AravisSettings settings = default_aravis_settings();
  settings.format = camera::PixelFormat::Mono8;
  settings.id = address;
  settings.region_x_px = 32;
  settings.region_y_px = 16;
  settings.region_width_px = 128;
  settings.region_height_px = 64;
  settings.exposure_us = 1500;
  settings.frame_rate_hz = 200;
  settings.stall_timeout_ms = 1000;  // a busy machine may keep the simulator off its CPU
  return settings;
}

/// The note of that key; an empty one when there is none.
inline camera::CameraNote note_of(const camera::SourceInfo& info, const std::string& key) {
  for (const camera::CameraNote& note : info.camera_notes) {
    if (note.key == key) return note;
  }
  return {};
}

inline bool is_uniform(const camera::Frame& frame) {
  const std::size_t bytes = camera::image_bytes(frame.format, frame.width_px, frame.height_px);
  for (std::size_t i = 1; i < bytes; ++i) {
    if (frame.pixels[i] != frame.pixels[0]) return false;
  }
  return true;
}

inline bool pop_until(camera::FrameSource& source, camera::PopStatus wanted, camera::Frame& frame) {
  const std::int64_t end_ns = monotonic_ns() + 60 * kNanosecondsPerSecond;
  while (monotonic_ns() < end_ns) {
    if (source.pop(std::chrono::milliseconds(100), frame) == wanted) return true;
  }
  return false;
}

}  // namespace driftd::test
