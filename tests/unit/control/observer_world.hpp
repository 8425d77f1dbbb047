// SPDX-License-Identifier: MIT
// Samples that move as a DisturbanceModel says, and a stage that holds them, for the observer's
// tests. Deterministic for a seed.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

#include "control/law/observer/disturbance_model.hpp"
#include "control/law/observer/observer.hpp"
#include "control/stage/stage_model.hpp"

namespace driftd::control::test {

constexpr double kPeriodS = 0.002;

/// The states of DisturbanceFilter, drawn at random as the model has it.
class RandomMotion {
 public:
  RandomMotion(const DisturbanceModel& model, unsigned seed) : model_(model), random_(seed) {
    for (std::size_t i = 0; i < model.line_count; ++i) {
      const Line& line = model.lines[i];
      const double sd = std::sqrt(line.kick_nm2_per_s / (2 * line.fade_per_s));
      lines_[i] = {sd * normal(), sd * normal()};
    }
  }
  double normal() { return normal_(random_); }
  /// One frame later. @returns the place
  double advance() {
    const double walk_sd = std::sqrt(model_.walk_nm2_per_s * kPeriodS);
    walk_nm_ += velocity_ * kPeriodS + walk_sd * normal();
    velocity_ += std::sqrt(kVelocityShare) * walk_sd * normal();
    double place = walk_nm_;
    for (std::size_t i = 0; i < model_.line_count; ++i) {
      Line& line = model_.lines[i];
      line.frequency_hz *= 1 + drift_per_s * kPeriodS;
      auto& [c, s] = lines_[i];
      const double angle = 2 * std::numbers::pi * line.frequency_hz * kPeriodS;
      const double left = std::exp(-line.fade_per_s * kPeriodS);
      const double sd = std::sqrt(line.kick_nm2_per_s * kPeriodS);
      const double turned = left * (c * std::cos(angle) - s * std::sin(angle));
      s = left * (s * std::cos(angle) + c * std::sin(angle)) + sd * normal();
      c = turned + sd * normal();
      place += c;
    }
    return place;
  }
  double measured(double place) { return place + std::sqrt(model_.noise_nm2) * normal(); }

  double drift_per_s = 0;  ///< by which share the lines' frequencies grow

 private:
  DisturbanceModel model_;
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  double walk_nm_ = 0, velocity_ = 0;
  std::array<std::array<double, 2>, kMaxLines> lines_{};
};

/// A walk of 1 nm/sqrt(s), noise of 0.3 nm and a line of about 1 nm at 30 Hz.
inline DisturbanceModel shaken() {
  DisturbanceModel model{.walk_nm2_per_s = 1, .noise_nm2 = 0.09};
  model.lines[0] = {.frequency_hz = 30, .fade_per_s = 0.1, .kick_nm2_per_s = 0.1};
  model.line_count = 1;
  return model;
}

inline ObserverSettings observer_settings() {
  return {.period_s = kPeriodS,
          .stage = {.image_to_stage = {}, .delay_us = 2500, .time_constant_us = 1500}};
}

/// A stage of second order by small steps of its differential equation.
struct SteppedStage {
  double place, speed, hz, damping;
  void go(double command, double seconds) {
    constexpr double kStepS = 1e-6;
    const double omega = 2 * std::numbers::pi * hz;
    for (double t = 0; t < seconds - kStepS / 2; t += kStepS) {
      speed += kStepS * (omega * omega * (command - place) - 2 * damping * omega * speed);
      place += kStepS * speed;
    }
  }
};

/// A lock by the observer, both axes alike.
class ObservedLock {
 public:
  ObservedLock(const DisturbanceModel& sample, StageError stage, unsigned seed,
               const ObserverSettings& settings = observer_settings())
      : sample_x_(sample, seed),
        sample_y_(sample, seed + 1000),
        error_(stage),
        noise_nm2_(sample.noise_nm2),
        observer_(settings),
        stage_(later(settings.stage, stage.late_s)) {}

  /// One frame. @returns what the stage was told
  Vec2 fly() {
    ++frame_;
    const std::int64_t taken_ns = 2'000'000 * frame_, now_ns = taken_ns + 1'500'000;
    const Vec2 stage = stage_.at(taken_ns);
    left_nm_ = {sample_x_.advance() + kicked_nm_ + error_.gain * stage.x,
                sample_y_.advance() + error_.gain * stage.y};
    const Vec2 told =
        observer_.see({.moved_nm = {sample_x_.measured(left_nm_.x), sample_y_.measured(left_nm_.y)},
                       .variance_nm2 = {noise_nm2_, noise_nm2_},
                       .taken_ns = taken_ns,
                       .now_ns = now_ns,
                       .fit_noise_nm2 = {fit_share * noise_nm2_, fit_share * noise_nm2_}});
    if (leaves) {
      sent_nm_ = told;
      sent_ns_ = now_ns;
      stage_.command(told, now_ns);
    }
    observer_.told(told, now_ns);
    return told;
  }
  /// A command far away that does not leave.
  void withhold(double by_nm) {
    const std::int64_t now_ns = 2'000'000 * frame_ + 1'900'000;
    sent_nm_ = stage_.told_nm();
    sent_ns_ = now_ns - 400'000;  // as of fly()
    observer_.told({sent_nm_.x + by_nm, sent_nm_.y}, now_ns);
  }
  /// What was told since was not, either.
  void take_back() {
    stage_.take_back(sent_nm_, sent_ns_);
    observer_.take_back(sent_nm_, sent_ns_);
  }
  /// A frame that is missing.
  void coast() {
    ++frame_;
    const std::int64_t now_ns = 2'000'000 * frame_ + 1'500'000;
    sample_x_.advance();
    sample_y_.advance();
    const Vec2 told = observer_.coast(now_ns);
    observer_.told(told, now_ns);
    stage_.command(told, now_ns);
  }
  /// The sample is elsewhere in x from now on.
  void kick(double by_nm) { kicked_nm_ += by_nm; }
  void drift_lines(double share_per_s) {
    sample_x_.drift_per_s = sample_y_.drift_per_s = share_per_s;
  }
  Vec2 left_nm() const { return left_nm_; }
  Observer& observer() { return observer_; }
  const StageModel& stage() const { return stage_; }

  bool leaves = true;    ///< what fly() tells the observer reaches the stage
  double fit_share = 1;  ///< of the noise is the fits'; the rest is the stage's

 private:
  static StageModelSettings later(StageModelSettings stage, double late_s) {
    stage.delay_us += 1e6 * late_s;
    return stage;
  }

  RandomMotion sample_x_, sample_y_;
  StageError error_;
  double noise_nm2_;
  Observer observer_;
  StageModel stage_;
  std::int64_t frame_ = 0;
  Vec2 left_nm_;
  double kicked_nm_ = 0;
  Vec2 sent_nm_;
  std::int64_t sent_ns_ = 0;
};

}  // namespace driftd::control::test
