// SPDX-License-Identifier: MIT
#include "simulator/simulation.hpp"

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
      disturbance_z_(scenario.disturbance_z, scenario.seed, 12),
      stage_(scenario.stage, scenario.seed),
      markers_(scenario, scenario.seed),
      reflection_(scenario.reflection, scenario.seed),
      illumination_(scenario.illumination, scenario.seed),
      sensor_(scenario.camera, scenario.optics, scenario.seed, scenario.background),
      clock_(scenario.camera, scenario.seed),
      fate_(scenario.seed, 50),
      delivery_(scenario.seed, 91) {
  std::stable_sort(scenario_.faults.begin(), scenario_.faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at_s < b.at_s; });
  disturbance_nm_ = {disturbance_x_.step(0), disturbance_y_.step(0)};
  disturbance_z_nm_ = disturbance_z_.step(0);
  if (scenario.focus_stage) focus_stage_.emplace(scenario.focus_stage->actuator, scenario.seed, 22);
}

void Simulation::step() {
  ++tick_;
  const double time_s = to_s(now_ns());
  while (next_fault_ < scenario_.faults.size() && scenario_.faults[next_fault_].at_s <= time_s) {
    inject(scenario_.faults[next_fault_++]);
  }
  stage_.step(now_ns(), now_ns() < stuck_until_ns_);
  if (focus_stage_) focus_stage_->step(now_ns(), now_ns() < focus_stuck_until_ns_);
  disturbance_nm_ = {disturbance_x_.step(time_s), disturbance_y_.step(time_s)};
  disturbance_z_nm_ = disturbance_z_.step(time_s);
  markers_.step(time_s);
  reflection_.step();
  illumination_.step(time_s);
  clock_.advance(time_s);
}

void Simulation::advance(std::int64_t time_ns) {
  while ((tick_ + 1) * kTickNs <= time_ns) step();
}

void Simulation::command_stage(std::int64_t time_ns, Vec2 stage_nm) {
  stage_.command(time_ns, stage_nm);
}

void Simulation::command_focus(std::int64_t time_ns, double z_nm) {
  if (focus_stage_) focus_stage_->command(time_ns, {z_nm, 0});
}

Vec2 Simulation::stage_place(const Stage& now, std::int64_t time_ns,
                             std::int64_t stuck_until_ns) const {
  Stage stage = now;  // with its generators: it goes where the stage itself will go
  for (std::int64_t next_ns = now_ns() + kTickNs; next_ns <= time_ns; next_ns += kTickNs) {
    stage.step(next_ns, next_ns < stuck_until_ns);
  }
  return stage.position_nm();
}

Vec2 Simulation::stage_nm_at(std::int64_t time_ns) const {
  return stage_place(stage_, time_ns, stuck_until_ns_);
}

double Simulation::stage_z_nm_at(std::int64_t time_ns) const {
  return focus_stage_ ? stage_place(*focus_stage_, time_ns, focus_stuck_until_ns_).x : 0;
}

Vec2 Simulation::disturbance_now() const noexcept {
  return {disturbance_nm_.x + steps_nm_.x, disturbance_nm_.y + steps_nm_.y};
}

/// How the stages move the image.
Vec2 Simulation::by_stages_nm() const noexcept {
  const Vec2 by_stage_nm = stage_.image_displacement(stage_.position_nm());
  if (!focus_stage_) return by_stage_nm;
  const double z_um = focus_stage_->position_nm().x / 1000;
  return {by_stage_nm.x + scenario_.focus_stage->tilt_x_nm_per_um * z_um,
          by_stage_nm.y + scenario_.focus_stage->tilt_y_nm_per_um * z_um};
}

/// How far the focus stage, where it is there, moves the sample along z.
double Simulation::by_focus_nm(double stage_z_nm) const noexcept {
  return focus_stage_ ? scenario_.focus_stage->coupling * stage_z_nm : 0;
}

double Simulation::sample_z_nm() const noexcept {
  const double stage_z_nm = focus_stage_ ? focus_stage_->position_nm().x : 0;
  return disturbance_z_nm_ + step_z_nm_ + by_focus_nm(stage_z_nm);
}

Vec2 Simulation::sample_nm() const noexcept {
  const Vec2 disturbance_nm = disturbance_now();
  const Vec2 by_stage_nm = by_stages_nm();
  return {disturbance_nm.x + by_stage_nm.x, disturbance_nm.y + by_stage_nm.y};
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
    case FaultKind::StageDead:
    case FaultKind::StageReversed:
    case FaultKind::StageGain:
    case FaultKind::StageTurned:
      if (fault.axes == FaultAxes::Lateral) {
        return inject_into_stage(fault, stage_, stuck_until_ns_);
      }
      return focus_stage_ && inject_into_stage(fault, *focus_stage_, focus_stuck_until_ns_);
    case FaultKind::ClockStep:
    case FaultKind::ClockJump:
    case FaultKind::ClockRate:
    case FaultKind::ClockAbsent:
      return inject_into_clock(fault, until_ns);
    case FaultKind::Step:
      add(steps_nm_, {fault.x_nm, fault.y_nm});
      step_z_nm_ += fault.z_nm;
      return true;
    case FaultKind::DetachMarker:
      return markers_.detach(fault.index);
    case FaultKind::WalkMarker:
      return markers_.walk(fault.index, {fault.x_nm, fault.y_nm}, fault.z_nm, fault.seconds);
    case FaultKind::Intruder:
      return markers_.pass_intruder(fault.index, to_s(now_ns()), fault.seconds);
    case FaultKind::Light:
      markers_.light(fault.factor);
      return true;
    case FaultKind::Background:
      background_ = fault.factor;
      return true;
    case FaultKind::HideReflection:
      reflection_hidden_until_ns_ = until_ns;
      return true;
  }
  return false;
}

bool Simulation::inject_into_stage(const Fault& fault, Stage& stage, std::int64_t& stuck_until_ns) {
  switch (fault.kind) {
    case FaultKind::StageStuck:
      stuck_until_ns = now_ns() + to_ns(fault.seconds);
      return true;
    case FaultKind::StageDead:
      stage.die();
      return true;
    case FaultKind::StageReversed:
      stage.answer_wrongly(-1, 0);
      return true;
    case FaultKind::StageGain:
      stage.answer_wrongly(fault.factor, 0);
      return true;
    case FaultKind::StageTurned:
      stage.answer_wrongly(1, fault.degrees);
      return true;
    default:
      return false;
  }
}

bool Simulation::inject_into_clock(const Fault& fault, std::int64_t until_ns) {
  switch (fault.kind) {
    case FaultKind::ClockStep:
      clock_.step(to_ns(fault.shift_s));
      return true;
    case FaultKind::ClockJump:
      clock_.jump(to_ns(fault.shift_s));
      return true;
    case FaultKind::ClockRate:
      clock_.set_rate(now_ns(), fault.factor);
      return true;
    case FaultKind::ClockAbsent:
      no_clock_until_ns_ = until_ns;
      return true;
    default:
      return false;
  }
}

std::optional<std::int64_t> Simulation::clock_error_ns(std::int64_t time_ns) const noexcept {
  if (scenario_.camera.clock_absent || now_ns() < no_clock_until_ns_) return std::nullopt;
  return clock_.error_ns(time_ns);
}

/// What the instants of an exposure add up to.
class Simulation::ExposureSum {
 public:
  void add(Vec2 sample_nm, double brightness) noexcept {
    if (ticks_ == 0) first_nm_ = sample_nm;
    const Vec2 way = {sample_nm.x - first_nm_.x, sample_nm.y - first_nm_.y};
    simulator::add(way_nm_, way);
    xx_ += way.x * way.x;
    xy_ += way.x * way.y;
    yy_ += way.y * way.y;
    brightness_ += brightness;
    ++ticks_;
  }
  double ticks() const noexcept { return ticks_; }
  double brightness() const noexcept { return brightness_ / ticks_; }
  MotionPoints motion(double pixel_size_nm) const noexcept {
    const Vec2 mean = {way_nm_.x / ticks_, way_nm_.y / ticks_};
    const double scale = 1 / (pixel_size_nm * pixel_size_nm);
    return motion_points(scale * (xx_ / ticks_ - mean.x * mean.x),
                         scale * (xy_ / ticks_ - mean.x * mean.y),
                         scale * (yy_ / ticks_ - mean.y * mean.y));
  }

 private:
  Vec2 first_nm_, way_nm_;
  double xx_ = 0, xy_ = 0, yy_ = 0, brightness_ = 0, ticks_ = 0;
};

Truth Simulation::expose(std::int64_t start_ns, const SensorSettings& settings,
                         std::uint16_t* levels) {
  const std::int64_t exposure_ns = std::llround(settings.exposure_us * 1e3);
  Truth truth;
  truth.middle_ns = start_ns + exposure_ns / 2;
  advance(start_ns);
  ExposureSum sum;
  while (true) {
    const Vec2 stage_nm = stage_.position_nm();
    const Vec2 disturbance_nm = disturbance_now();
    const Vec2 by_stage_nm = by_stages_nm();
    add(truth.stage_nm, stage_nm);
    add(truth.disturbance_nm, disturbance_nm);
    add(truth.sample_nm, disturbance_nm);
    add(truth.sample_nm, by_stage_nm);
    sum.add({disturbance_nm.x + by_stage_nm.x, disturbance_nm.y + by_stage_nm.y},
            illumination_.brightness());
    if (focus_stage_) truth.stage_z_nm += focus_stage_->position_nm().x;
    truth.disturbance_z_nm += disturbance_z_nm_ + step_z_nm_;
    if ((tick_ + 1) * kTickNs >= start_ns + exposure_ns) break;
    step();
  }
  for (Vec2* mean : {&truth.stage_nm, &truth.disturbance_nm, &truth.sample_nm}) {
    mean->x /= sum.ticks();
    mean->y /= sum.ticks();
  }
  truth.stage_z_nm /= sum.ticks();
  truth.disturbance_z_nm /= sum.ticks();
  truth.sample_z_nm = truth.disturbance_z_nm + by_focus_nm(truth.stage_z_nm);
  truth.commanded_nm = stage_.commanded_nm();
  truth.commanded_z_nm = commanded_z_nm();
  truth.reflection_hidden = now_ns() < reflection_hidden_until_ns_;
  truth.background = background_;
  truth.markers_hidden = now_ns() < hidden_until_ns_;
  truth.stage_stuck = scenario_.stage.stuck || stage_.dead() || now_ns() < stuck_until_ns_;
  truth.stage_z_stuck = focus_stage_ && (scenario_.focus_stage->actuator.stuck ||
                                         focus_stage_->dead() || now_ns() < focus_stuck_until_ns_);
  if (levels != nullptr) draw(truth, sum, settings, levels);
  return truth;
}

void Simulation::light_of(const Truth& truth, std::vector<Spot>& spots) const {
  markers_.spots({truth.sample_nm, truth.sample_z_nm, truth.markers_hidden}, spots);
  if (truth.reflection_hidden) return;
  if (const auto reflected = reflection_.at(truth.sample_z_nm)) spots.push_back(*reflected);
}

void Simulation::draw(const Truth& truth, const ExposureSum& sum, const SensorSettings& settings,
                      std::uint16_t* levels) {
  const double pixel_size_nm = scenario_.optics.pixel_size_nm;
  const Vec2 speed = scenario_.background.speed_nm_per_s;
  const double time_s = to_s(truth.middle_ns);
  ExposureConditions conditions;
  conditions.brightness = sum.brightness();
  conditions.background_px = {(truth.sample_nm.x + speed.x * time_s) / pixel_size_nm,
                              (truth.sample_nm.y + speed.y * time_s) / pixel_size_nm};
  if (scenario_.optics.motion_blur) conditions.motion = sum.motion(pixel_size_nm);
  conditions.background = truth.background;
  light_of(truth, spots_);
  sensor_.image(spots_, settings, levels, conditions);
}

void Simulation::image_of(const Truth& truth, const SensorSettings& part, std::uint16_t* levels) {
  ExposureSum still;
  still.add(truth.sample_nm, illumination_.brightness());
  draw(truth, still, part, levels);
}

std::int64_t Simulation::next_delivery_delay_ns() noexcept {
  const double mean_us = scenario_.camera.delivery_jitter_us;
  return mean_us > 0 ? std::llround(delivery_.exponential(mean_us * 1e3)) : 0;
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
