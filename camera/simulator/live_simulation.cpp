// SPDX-License-Identifier: MIT
#include "camera/simulator/live_simulation.hpp"

#include <utility>

#include "camera/simulator/clock.hpp"

namespace driftd::simulator {

LiveSimulation::LiveSimulation(const Scenario& scenario, TruthSink sink)
    : simulation_(scenario), sink_(std::move(sink)), start_ns_(simulator::now_ns()) {}

MadeFrame LiveSimulation::make(const FramePlan& plan, std::span<std::byte> image) {
  TruthRecord record;
  MadeFrame made;
  {
    const std::lock_guard lock(mutex_);
    record.camera_away = simulation_.camera_away();
    std::uint16_t* levels = nullptr;
    if (!image.empty()) {
      levels_.resize(plan.sensor.pixels());
      levels = levels_.data();
    }
    record.truth = simulation_.expose(plan.start_ns - start_ns_, plan.sensor, levels);
    if (!image.empty()) made = {simulation_.next_frame_fate(), simulation_.packet_loss()};
  }
  if (!image.empty()) {
    pack_levels(levels_, plan.sensor.format, simulation_.scenario().camera.bit_depth, image.data());
  }
  record.plan = plan;
  record.middle_ns = record.truth.middle_ns + start_ns_;
  record.sent = !image.empty() && made.fate == FrameFate::Send;
  if (sink_) sink_(record);
  return made;
}

bool LiveSimulation::camera_away() {
  const std::lock_guard lock(mutex_);
  return simulation_.camera_away();
}

void LiveSimulation::command_stage(Vec2 stage_nm) {
  const std::int64_t arrived_ns = simulator::now_ns() - start_ns_;
  const std::lock_guard lock(mutex_);
  simulation_.command_stage(arrived_ns, stage_nm);
}

Vec2 LiveSimulation::commanded_nm() {
  const std::lock_guard lock(mutex_);
  return simulation_.commanded_nm();
}

bool LiveSimulation::inject(const Fault& fault) {
  const std::lock_guard lock(mutex_);
  simulation_.advance(simulator::now_ns() - start_ns_);
  return simulation_.inject(fault);
}

double LiveSimulation::time_s() {
  return static_cast<double>(simulator::now_ns() - start_ns_) * 1e-9;
}

}  // namespace driftd::simulator
