// SPDX-License-Identifier: MIT
// The lock in virtual time with a stage that may stop following: a second-order stage with dead
// time behind a true response matrix that faults change, a disturbed sample, the controller, the
// stage monitor and its probe, and between them a supervisor reduced to what concerns the stage.
// The axes have unequal disturbances and noise. Deterministic for a seed.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <optional>
#include <random>
#include <vector>

#include "bench/stillness/observed_flight.hpp"
#include "control/law/controller.hpp"
#include "control/stage/stage_monitor.hpp"
#include "control/stage/stage_probe.hpp"
#include "support/default_settings.hpp"

namespace driftd::control::test {

struct Line {
  double amplitude_nm = 0, frequency_hz = 0;
};

/// The sample's own motion and the measurement's noise, in stage axes. y has `y_share` of x's.
struct World {
  std::vector<Line> lines;
  double drift_x_nm_per_s = 5, drift_y_nm_per_s = -2;
  double walk_nm_per_sqrt_s = 1;
  double noise_nm = 0.4;
  double stage_noise_nm = 0.2;
  double y_share = 0.7;
  double knock_nm = 0, knock_every_s = 1e9;
  double lines_begin_s = -1e9;
};

/// From begin_s until end_s the stage moves from where it is by `response` times what its command
/// moves; then it is where its command is.
struct StageFault {
  ImageToStage response{0, 0, 0, 0};
  double begin_s = 1e9, end_s = 1e9;
};

struct StageSetup {
  World world;
  StageFault fault;
  /// What the controller believes; the truth is below.
  ControllerSettings model = driftd::test::default_controller_settings();
  double frame_rate_hz = 500;
  double latency_s = 1.5e-3;  ///< middle of the exposure to the correction sent
  double stage_hz = 150, stage_damping = 0.7, stage_delay_s = 3e-3;
  /// Every so often the computer stands still for so long: what is sent then arrives at its end.
  double stall_s = 0, stall_every_s = 1e9;
  double seconds = 10;
  double idle_s = 0.2;  ///< frames before the lock: the reference's
  bool guarded = true;  ///< false: alarms are counted and nothing is held
  /// Instead of PI the observer commands the stage: with this, and learns no more, or learning.
  bool observed = false;
  stillness::Learnt learnt;
};

struct StageOutcome {
  int alarms = 0, resumes = 0;
  double first_alarm_s = -1, first_resume_s = -1;
  StageLooks first_looks = StageLooks::Following, last_looks = StageLooks::Following;
  double residual_at_alarm_nm = 0;
  double largest_doubt = 0;
  double largest_trust_held = 0;  ///< while held and the fault lasted
  double residual_rms_nm = 0;     ///< per axis, over the whole lock
  /// Largest true displacement of an axis from fault to end, and beyond what the sample's own
  /// motion since the fault began explains.
  double worst_nm = 0, beyond_drift_nm = 0;
  double residual_10_nm_s = -1;  ///< when an axis' true residual first exceeded 10 nm in the fault
  bool locked_at_end = true;
  std::array<long, 64> doubt_tail{};  ///< blocks whose doubt reached i
  stillness::Learnt learnt;           ///< by an observer
};

inline World nominal_world() {
  return {.lines = {{1.0, 1.3}, {0.5, 2.7}, {0.4, 13.0}, {0.2, 27.0}, {0.3, 50.0}}};
}
inline World vibration_world() {
  return {.lines = {{2.0, 2.1}, {1.0, 17.3}, {1.0, 29.7}, {0.6, 50.0}}};
}
inline World quiet_world() {
  return {.lines = {},
          .drift_x_nm_per_s = 0.5,
          .drift_y_nm_per_s = -0.2,
          .walk_nm_per_sqrt_s = 0.3,
          .noise_nm = 0.15,
          .stage_noise_nm = 0.05};
}
inline World noisy_world() {
  World world = nominal_world();
  world.noise_nm = 1;
  return world;
}

inline ImageToStage turned(double degrees, double gain = 1) {
  const double angle = degrees * std::numbers::pi / 180;
  return {gain * std::cos(angle), -gain * std::sin(angle), gain * std::sin(angle),
          gain * std::cos(angle)};
}

class StageSimulation {
 public:
  StageSimulation(const StageSetup& setup, unsigned seed)
      : setup_(setup), random_(seed), controller_(setup.model) {
    std::uniform_real_distribution<double> phase(0, 2 * std::numbers::pi);
    for (std::size_t i = 0; i < setup.world.lines.size(); ++i)
      phases_.push_back({phase(random_), phase(random_)});
    if (!setup.observed) return;
    const ControllerSettings& model = setup.model;
    const double period_s = 1 / setup.frame_rate_hz;
    flight_.emplace(
        model, ObserverSettings{.period_s = period_s,
                                .stage = {.image_to_stage = {},
                                          .delay_us = model.stage_delay_us,
                                          .time_constant_us = model.stage_time_constant_us,
                                          .resonance_hz = model.stage_resonance_hz,
                                          .damping = model.stage_damping},
                                .change_limit_nm = std::min(model.step_limit_nm,
                                                            model.rate_limit_nm_per_s * period_s)});
    if (setup.learnt[0] || setup.learnt[1]) flight_->freeze(setup.learnt);
  }

  StageOutcome run() {
    const auto frames = static_cast<long>(setup_.seconds * setup_.frame_rate_hz);
    const auto idle = static_cast<long>(setup_.idle_s * setup_.frame_rate_hz);
    for (long i = 0; i < frames; ++i) {
      const double t_s = static_cast<double>(i) / setup_.frame_rate_hz;
      if (i == idle) {
        reference_ = fault_own_ = own_;
        controller_.reset();
        monitor_.restart();
      }
      frame(t_s, i >= idle);
    }
    outcome_.locked_at_end = !held_;
    if (flight_) outcome_.learnt = flight_->learnt();
    const double locked = 2 * static_cast<double>(frames - idle);
    outcome_.residual_rms_nm = std::sqrt(sum2_ / locked);
    return outcome_;
  }

 private:
  /// One axis of the stage's servo, in steps of kStepS: x'' = w^2 (u - x) - 2 d w x'.
  struct Servo {
    double place = 0, speed = 0;
    void advance(double command, const StageSetup& s) {
      const double w = 2 * std::numbers::pi * s.stage_hz;
      speed += kStepS * (w * w * (command - place) - 2 * s.stage_damping * w * speed);
      place += kStepS * speed;
    }
  };
  struct Sent {
    double effect_s;
    Vec2 total_nm;
  };
  static constexpr double kStepS = 0.5e-3;

  double normal() { return normal_(random_); }

  void move_sample(double t_s, double interval_s) {
    const World& w = setup_.world;
    const double walk = w.walk_nm_per_sqrt_s * std::sqrt(interval_s);
    // The drift turns round every ten minutes, so that the stage's range lasts for ever: within
    // 20 s, as what warms up and cools down does.
    const double turns = 20 * std::sin(2 * std::numbers::pi * (t_s + 30) / 1200);
    const double onwards = std::clamp(turns, -1.0, 1.0) * interval_s;
    walk_.x += walk * normal() + w.drift_x_nm_per_s * onwards;
    walk_.y += walk * w.y_share * normal() + w.drift_y_nm_per_s * onwards;
    if (std::fmod(t_s, w.knock_every_s) < interval_s && t_s > 1) {
      walk_.x += std::fmod(t_s, 2 * w.knock_every_s) < w.knock_every_s ? w.knock_nm : -w.knock_nm;
      walk_.y +=
          std::fmod(t_s, 3 * w.knock_every_s) < w.knock_every_s ? w.knock_nm : -0.5 * w.knock_nm;
    }
    own_ = walk_;
    if (t_s < w.lines_begin_s) return;
    for (std::size_t i = 0; i < w.lines.size(); ++i) {
      const double angle = 2 * std::numbers::pi * w.lines[i].frequency_hz * t_s;
      own_.x += w.lines[i].amplitude_nm * std::sin(angle + phases_[i].x);
      own_.y += w.y_share * w.lines[i].amplitude_nm * std::sin(angle + phases_[i].y);
    }
  }

  void move_stage(double t_s) {
    while (stage_s_ + kStepS <= t_s + 1e-9) {
      stage_s_ += kStepS;
      while (sent_first_ < sent_.size() && sent_[sent_first_].effect_s <= stage_s_)
        command_ = sent_[sent_first_++].total_nm;
      servo_x_.advance(command_.x, setup_);
      servo_y_.advance(command_.y, setup_);
    }
    if (sent_first_ > 1000) {
      sent_.erase(sent_.begin(), sent_.begin() + static_cast<std::ptrdiff_t>(sent_first_));
      sent_first_ = 0;
    }
    const Vec2 servo{servo_x_.place, servo_y_.place};
    const bool faulty = t_s >= setup_.fault.begin_s && t_s < setup_.fault.end_s;
    if (faulty && !faulty_) {
      fault_servo_ = servo;
      fault_stage_ = stage_;
      fault_own_ = own_;
      begun_ = true;
    }
    faulty_ = faulty;
    stage_ = servo;
    if (!faulty) return;
    const Vec2 moved =
        setup_.fault.response.apply({servo.x - fault_servo_.x, servo.y - fault_servo_.y});
    stage_ = {fault_stage_.x + moved.x, fault_stage_.y + moved.y};
  }

  void frame(double t_s, bool locked) {
    const double noise = setup_.world.noise_nm, y_share = setup_.world.y_share;
    move_sample(t_s, 1 / setup_.frame_rate_hz);
    move_stage(t_s);
    const double jitter = setup_.world.stage_noise_nm;
    const Vec2 left{own_.x - reference_.x + stage_.x + jitter * normal(),
                    own_.y - reference_.y + stage_.y + jitter * normal()};
    const Vec2 measured{left.x + noise * normal(), left.y + noise * y_share * normal()};
    if (locked) judge_truth(t_s, left);
    const auto taken_ns = static_cast<std::int64_t>(1e9 * t_s);
    const auto now_ns = taken_ns + static_cast<std::int64_t>(1e9 * setup_.latency_s);
    // The matrix is the model's: the truth is the fault's response.
    const Vec2 image = setup_.model.image_to_stage.invert(measured);
    const bool sees = flight_ && locked && !(held_ && setup_.guarded);
    if (sees) wanted_ = flight_->see(drift_of(image), taken_ns, now_ns);
    const StageVerdict verdict =
        monitor_.update({.moved_nm = setup_.model.image_to_stage.apply(image),
                         .covariance_nm2 = {noise * noise, 0, noise * noise * y_share * y_share},
                         .modelled_nm = controller().stage_at(taken_ns),
                         .taken_ns = taken_ns,
                         .expectation = sees ? flight_->expectation() : std::nullopt});
    if (locked) supervise(verdict, t_s, left, image, taken_ns, now_ns);
  }

  void supervise(const StageVerdict& verdict, double t_s, Vec2 left, Vec2 image,
                 std::int64_t taken_ns, std::int64_t now_ns) {
    outcome_.largest_doubt = std::max(outcome_.largest_doubt, held_ ? 0 : verdict.doubt);
    if (!held_ && verdict.doubt != last_doubt_) {
      for (std::size_t i = 0; i < outcome_.doubt_tail.size(); ++i)
        if (verdict.doubt >= static_cast<double>(i)) outcome_.doubt_tail[i]++;
      last_doubt_ = verdict.doubt;
    }
    if (!held_ && !verdict.follows) {
      held_ = true;
      probe_.begin(verdict.anchor_nm);
      outcome_.alarms++;
      if (outcome_.alarms == 1) {
        outcome_.first_alarm_s = t_s;
        outcome_.first_looks = verdict.looks;
        outcome_.residual_at_alarm_nm = std::max(std::abs(left.x), std::abs(left.y));
      }
    } else if (held_ && verdict.follows) {
      held_ = false;
      if (outcome_.resumes++ == 0) outcome_.first_resume_s = t_s;
    }
    if (held_) {
      outcome_.last_looks = verdict.looks;
      if (faulty_)
        outcome_.largest_trust_held = std::max(outcome_.largest_trust_held, verdict.trust);
    }
    const Vec2 total =
        flight_ ? observed_total(now_ns)
                : controller_
                      .update(held_ && setup_.guarded ? drift_to_command(taken_ns, now_ns) : image,
                              taken_ns, now_ns)
                      .total_nm;
    sent_.push_back({arrives_s(1e-9 * static_cast<double>(now_ns)) + setup_.stage_delay_s, total});
  }

  double arrives_s(double sent_s) const {
    const double since_s = std::fmod(sent_s, setup_.stall_every_s);
    return std::max(sent_s, sent_s - since_s + setup_.stall_s);
  }

  const Controller& controller() const { return flight_ ? flight_->controller() : controller_; }

  DriftEstimate drift_of(Vec2 image) const {
    const double noise2 = setup_.world.noise_nm * setup_.world.noise_nm;
    const double y_share2 = setup_.world.y_share * setup_.world.y_share;
    DriftEstimate drift;
    drift.frame_drift_nm = setup_.model.image_to_stage.apply(image);
    drift.frame_covariance_nm2 = {noise2, 0, noise2 * y_share2};
    drift.markers_used = kSureMarkers;
    return drift;
  }

  /// What the stage is told by the observer, or by the probe while that waits.
  Vec2 observed_total(std::int64_t now_ns) {
    if (!held_ || !setup_.guarded) return flight_->go_on(wanted_, now_ns);
    const Controller& c = flight_->controller();
    return flight_->go_to(
        probe_.wanted_nm(c.total_nm(), c.stage_at(now_ns), monitor_.sd_nm(), now_ns), now_ns);
  }

  /// The drift for which the controller commands what the probe wants, within its limits: with no
  /// proportional part it adds `integral` times the error to its total.
  Vec2 drift_to_command(std::int64_t taken_ns, std::int64_t now_ns) {
    const Vec2 total = controller_.total_nm();
    const Vec2 wanted =
        probe_.wanted_nm(total, controller_.stage_at(now_ns), monitor_.sd_nm(), now_ns);
    const Vec2 at = controller_.stage_at(taken_ns);
    const double k = setup_.model.integral;
    return setup_.model.image_to_stage.invert(
        {at.x - total.x - (wanted.x - total.x) / k, at.y - total.y - (wanted.y - total.y) / k});
  }

  void judge_truth(double t_s, Vec2 left) {
    sum2_ += left.x * left.x + left.y * left.y;
    if (!begun_) return;
    drifted_.x = std::max(drifted_.x, std::abs(own_.x - fault_own_.x));
    drifted_.y = std::max(drifted_.y, std::abs(own_.y - fault_own_.y));
    const double x = std::abs(left.x), y = std::abs(left.y);
    outcome_.worst_nm = std::max({outcome_.worst_nm, x, y});
    outcome_.beyond_drift_nm = std::max({outcome_.beyond_drift_nm, x - drifted_.x, y - drifted_.y});
    if (faulty_ && outcome_.residual_10_nm_s < 0 && std::max(x, y) > 10)
      outcome_.residual_10_nm_s = t_s;
  }

  StageSetup setup_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  Controller controller_;
  std::optional<stillness::ObservedFlight> flight_;
  Vec2 wanted_;  ///< by the observer, of this frame
  StageMonitor monitor_;
  StageProbe probe_;
  StageOutcome outcome_;
  std::vector<Vec2> phases_;
  Vec2 walk_, own_, reference_, stage_;
  Servo servo_x_, servo_y_;
  double stage_s_ = 0;
  std::vector<Sent> sent_;
  std::size_t sent_first_ = 0;
  Vec2 command_;
  bool faulty_ = false, begun_ = false, held_ = false;
  Vec2 fault_servo_, fault_stage_, fault_own_, drifted_;
  double sum2_ = 0, last_doubt_ = 0;
};

inline StageOutcome simulate(const StageSetup& setup, unsigned seed = 1) {
  return StageSimulation(setup, seed).run();
}

}  // namespace driftd::control::test
