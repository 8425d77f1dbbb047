// SPDX-License-Identifier: MIT
#include "camera/simulator/simulation.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::simulator {
namespace {

std::int64_t to_ns(double seconds) {
  return std::llround(seconds * 1e9);
}
double to_s(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

void add(Vec2& sum, Vec2 value) {
  sum.x += value.x;
  sum.y += value.y;
}

}  // namespace

Simulation::Simulation(const Scenario& scenario)
    : scenario_(scenario),
      disturbance_x_(scenario.disturbance_x, scenario.seed, 10),
      disturbance_y_(scenario.disturbance_y, scenario.seed, 11),
      stage_(scenario.stage, scenario.seed),
      markers_(scenario, scenario.seed),
      sensor_(scenario.camera, scenario.optics, scenario.seed),
      fate_(scenario.seed, 50) {
  std::stable_sort(scenario_.faults.begin(), scenario_.faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at_s < b.at_s; });
  disturbance_nm_ = {disturbance_x_.step(0), disturbance_y_.step(0)};
}

void Simulation::step() {
  ++tick_;
  const double time_s = to_s(now_ns());
  while (next_fault_ < scenario_.faults.size() && scenario_.faults[next_fault_].at_s <= time_s) {
    inject(scenario_.faults[next_fault_++]);
  }
  stage_.step(now_ns(), now_ns() < stuck_until_ns_);
  disturbance_nm_ = {disturbance_x_.step(time_s), disturbance_y_.step(time_s)};
  markers_.step(time_s);
}

void Simulation::advance(std::int64_t time_ns) {
  while ((tick_ + 1) * kTickNs <= time_ns) step();
}

void Simulation::command_stage(std::int64_t time_ns, Vec2 stage_nm) {
  stage_.command(time_ns, stage_nm);
}

Vec2 Simulation::disturbance_now() const noexcept {
  return {disturbance_nm_.x + steps_nm_.x, disturbance_nm_.y + steps_nm_.y};
}

bool Simulation::inject(const Fault& fault) {
  const std::int64_t until_ns = now_ns() + to_ns(fault.seconds);
  switch (fault.kind) {
    case FaultKind::Vanish:
      away_until_ns_ = until_ns;
      return true;
    case FaultKind::DropFrames:
      drop_ = {until_ns, fault.share};
      return true;
    case FaultKind::CorruptFrames:
      corrupt_ = {until_ns, fault.share};
      return true;
    case FaultKind::LosePackets:
      lose_ = {until_ns, fault.share};
      return true;
    case FaultKind::HideMarkers:
      hidden_until_ns_ = until_ns;
      return true;
    case FaultKind::StageStuck:
      stuck_until_ns_ = until_ns;
      return true;
    case FaultKind::Step:
      add(steps_nm_, {fault.x_nm, fault.y_nm});
      return true;
    case FaultKind::DetachMarker:
      return markers_.detach(fault.index);
    case FaultKind::Intruder:
      return markers_.pass_intruder(fault.index, to_s(now_ns()), fault.seconds);
  }
  return false;
}

Truth Simulation::expose(std::int64_t start_ns, const SensorSettings& settings,
                         std::uint16_t* levels) {
  const std::int64_t exposure_ns = std::llround(settings.exposure_us * 1e3);
  Truth truth;
  truth.middle_ns = start_ns + exposure_ns / 2;
  advance(start_ns);
  double ticks = 0;
  while (true) {
    const Vec2 stage_nm = stage_.position_nm();
    const Vec2 disturbance_nm = disturbance_now();
    add(truth.stage_nm, stage_nm);
    add(truth.disturbance_nm, disturbance_nm);
    add(truth.sample_nm, disturbance_nm);
    add(truth.sample_nm, stage_.image_displacement(stage_nm));
    ++ticks;
    if ((tick_ + 1) * kTickNs >= start_ns + exposure_ns) break;
    step();
  }
  for (Vec2* mean : {&truth.stage_nm, &truth.disturbance_nm, &truth.sample_nm}) {
    mean->x /= ticks;
    mean->y /= ticks;
  }
  truth.commanded_nm = stage_.commanded_nm();
  truth.markers_hidden = now_ns() < hidden_until_ns_;
  truth.stage_stuck = scenario_.stage.stuck || now_ns() < stuck_until_ns_;
  if (levels != nullptr) {
    markers_.spots(truth.sample_nm, truth.markers_hidden, spots_);
    sensor_.image(spots_, settings, levels);
  }
  return truth;
}

FrameFate Simulation::next_frame_fate() {
  if (drop_.active(now_ns()) && fate_.uniform() < drop_.share) return FrameFate::Drop;
  if (corrupt_.active(now_ns()) && fate_.uniform() < corrupt_.share) return FrameFate::Corrupt;
  return FrameFate::Send;
}

double Simulation::packet_loss() const noexcept {
  return lose_.active(now_ns()) ? lose_.share : 0;
}

}  // namespace driftd::simulator
