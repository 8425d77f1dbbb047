// SPDX-License-Identifier: MIT
#include "simulator/live_simulation.hpp"

#include <utility>

#include "base/monotonic.hpp"
#include "simulator/device_clock.hpp"

namespace driftd::simulator {

LiveSimulation::LiveSimulation(const Scenario& scenario, TruthSink sink)
    : simulation_(scenario), sink_(std::move(sink)), start_ns_(monotonic_ns()) {}

MadeFrame LiveSimulation::make(const FramePlan& plan, std::span<std::byte> image) {
  const CameraModel& camera = simulation_.scenario().camera;
  const SensorSettings part = part_of_sensor(plan.sensor, camera.width_px, camera.height_px);
  TruthRecord record;
  MadeFrame made;
  {
    const std::lock_guard lock(mutex_);
    record.camera_away = simulation_.camera_away();
    std::uint16_t* levels = nullptr;
    if (!image.empty()) {
      levels_.resize(part.pixels());
      levels = levels_.data();
    }
    record.truth = simulation_.expose(plan.start_ns - start_ns_, part, levels);
    if (!image.empty()) {
      made = {simulation_.next_frame_fate(), simulation_.packet_loss(),
              simulation_.take_frame_time_error_ns(), simulation_.next_delivery_delay_ns()};
      if (plan.camera_time_ns == 0) made.time_error_ns = 0;  // no clock, no error
    }
  }
  if (!image.empty()) {
    image_.resize(plan.sensor.pixels());
    read_out(levels_, plan.sensor, camera.bit_depth, image_);
    pack_levels(image_, plan.sensor.format, camera.bit_depth, image.data(),
                plan.sensor.left_aligned);
  }
  record.plan = plan;
  record.plan.camera_time_ns =
      whole_ticks_ns(plan.camera_time_ns + made.time_error_ns, camera.dialect.tick_hz);
  record.middle_ns = record.truth.middle_ns + start_ns_;
  record.sent = !image.empty() && made.fate == FrameFate::Send;
  if (sink_) sink_(record);
  return made;
}

void LiveSimulation::prepare(const SensorSettings& settings) {
  const CameraModel& camera = simulation_.scenario().camera;
  const std::lock_guard lock(mutex_);
  simulation_.prepare(part_of_sensor(settings, camera.width_px, camera.height_px));
}

bool LiveSimulation::camera_away() {
  const std::lock_guard lock(mutex_);
  return simulation_.camera_away();
}

std::optional<std::int64_t> LiveSimulation::clock_error_ns(std::int64_t time_ns) {
  const std::lock_guard lock(mutex_);
  return simulation_.clock_error_ns(time_ns - start_ns_);
}

void LiveSimulation::command_stage(Vec2 stage_nm) {
  const std::int64_t arrived_ns = monotonic_ns() - start_ns_;
  const std::lock_guard lock(mutex_);
  simulation_.command_stage(arrived_ns, stage_nm);
}

void LiveSimulation::command_focus(double z_nm) {
  const std::int64_t arrived_ns = monotonic_ns() - start_ns_;
  const std::lock_guard lock(mutex_);
  simulation_.command_focus(arrived_ns, z_nm);
}

bool LiveSimulation::has_focus_stage() {
  const std::lock_guard lock(mutex_);
  return simulation_.has_focus_stage();
}

Vec2 LiveSimulation::commanded_nm() {
  const std::lock_guard lock(mutex_);
  return simulation_.commanded_nm();
}

double LiveSimulation::commanded_z_nm() {
  const std::lock_guard lock(mutex_);
  return simulation_.commanded_z_nm();
}

StageReadback LiveSimulation::stage_place() {
  const std::lock_guard lock(mutex_);
  const std::int64_t now_ns = monotonic_ns() - start_ns_;
  return {simulation_.stage_nm_at(now_ns), simulation_.commanded_nm(),
          simulation_.stage_z_nm_at(now_ns), simulation_.commanded_z_nm()};
}

bool LiveSimulation::inject(const Fault& fault) {
  const std::lock_guard lock(mutex_);
  simulation_.advance(monotonic_ns() - start_ns_);
  return simulation_.inject(fault);
}

double LiveSimulation::time_s() {
  return static_cast<double>(monotonic_ns() - start_ns_) * 1e-9;
}

}  // namespace driftd::simulator
