// SPDX-License-Identifier: MIT
#include "control/identification/loop_forecast.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace driftd::control {
namespace {

constexpr double kSettlingS = 1;
/// Gains this much worse than the best count as good.
constexpr double kHardlyWorse = 1.02;
/// The chosen gains also hold a stage that moves so much farther than identified.
constexpr double kReserve = 1.25;
constexpr std::size_t kMostFrames = 8000;

/// The stage between frames of equal distance: a command takes effect `lead` frames and then `rest`
/// seconds after the frame that it was made from began.
class SteppedStage {
 public:
  explicit SteppedStage(const LoopWorld& world) : exposure_s_(std::max(world.exposure_s, 1e-6)) {
    const double effect_s =
        std::max(0.0, 0.5 * world.exposure_s + world.age_s + world.shape.delay_s);
    lead_ = static_cast<std::size_t>(effect_s / world.period_s);
    const double rest_s = effect_s - static_cast<double>(lead_) * world.period_s;
    told_before_end_ = rest_s < exposure_s_;
    const double first_s = std::min(rest_s, exposure_s_);
    const double second_s = std::max(rest_s, exposure_s_);
    first_ = transition(world.shape, first_s);
    second_ = transition(world.shape, second_s - first_s);
    third_ = transition(world.shape, world.period_s - second_s);
    first_s_ = first_s;
    second_s_ = second_s - first_s;
  }

  /// The mean place over the exposure of frame `k`.
  Vec2 expose(std::size_t k) noexcept {
    const Vec2 command = command_at(k);
    return {expose(x_, command.x), expose(y_, command.y)};
  }
  /// What is left of the frame's period, after told().
  void finish(std::size_t k) noexcept {
    const Vec2 command = command_at(k);
    finish(x_, command.x);
    finish(y_, command.y);
  }
  /// What was commanded from the frame that was exposed last.
  void told(Vec2 total_nm) { commands_.push_back(total_nm); }

 private:
  /// What takes effect within the period of frame `k`.
  Vec2 command_at(std::size_t k) const noexcept {
    if (k < lead_ || commands_.empty()) return {};
    return commands_[std::min(k - lead_, commands_.size() - 1)];
  }
  double expose(ResponseState& axis, double command) const noexcept {
    double area = first_s_ * axis.command + first_.area_z * axis.z + first_.area_v * axis.v;
    axis.pass(first_);
    if (told_before_end_) {
      axis.told(command);
      area += second_s_ * axis.command + second_.area_z * axis.z + second_.area_v * axis.v;
      axis.pass(second_);
    }
    return area / exposure_s_;
  }
  void finish(ResponseState& axis, double command) const noexcept {
    if (!told_before_end_) {
      axis.pass(second_);
      axis.told(command);
    }
    axis.pass(third_);
  }

  double exposure_s_, first_s_ = 0, second_s_ = 0;
  std::size_t lead_ = 0;
  bool told_before_end_ = false;
  Transition first_, second_, third_;
  ResponseState x_, y_;
  std::vector<Vec2> commands_;
};

double lag_s(const ResponseShape& shape) {
  if (shape.order == 1) return shape.time_constant_s;
  return shape.damping / (std::numbers::pi * shape.frequency_hz);
}

}  // namespace

double forecast_residual_nm(const LoopWorld& world, const ControllerSettings& settings) {
  SteppedStage stage(world);
  Controller controller(settings);
  controller.reset();
  const std::size_t frames = std::min(kMostFrames, world.drift_nm[0].size());
  const auto settling = static_cast<std::size_t>(kSettlingS / world.period_s);
  double sum_x = 0, sum_y = 0;
  std::size_t count = 0;
  constexpr std::int64_t kStartNs = 1'000'000'000;
  for (std::size_t k = 0; k < frames; ++k) {
    const double taken_s = static_cast<double>(k) * world.period_s;
    const Vec2 place = stage.expose(k);
    const Vec2 seen{world.drift_nm[0][k] - world.drift_nm[0][0] + world.gain[0].x * place.x +
                        world.gain[1].x * place.y,
                    world.drift_nm[1][k] - world.drift_nm[1][0] + world.gain[0].y * place.x +
                        world.gain[1].y * place.y};
    const std::int64_t taken_ns = kStartNs + std::llround(1e9 * taken_s);
    const std::int64_t now_ns = taken_ns + std::llround(1e9 * world.age_s);
    stage.told(controller.update(seen, taken_ns, now_ns).total_nm);
    stage.finish(k);
    if (k < settling) continue;
    sum_x += seen.x * seen.x;
    sum_y += seen.y * seen.y;
    ++count;
  }
  if (count == 0) return std::numeric_limits<double>::quiet_NaN();
  const auto n = static_cast<double>(count);
  const auto left = [](double mean_square, double noise) {
    // The noise is an estimate, too: of a residual far below it nothing is known.
    return std::max(mean_square - noise * noise, 0.01 * noise * noise);
  };
  return std::sqrt(0.5 * (left(sum_x / n, world.noise_nm.x) + left(sum_y / n, world.noise_nm.y)));
}

ReducedResponse reduce(const ResponseShape& shape) {
  const double delay_s = std::max(0.0, shape.delay_s);
  if (shape.order == 1) return {delay_s, shape.time_constant_s, 0};
  const double whole_s = delay_s + lag_s(shape);
  const double end_s = delay_s + 6 * lag_s(shape) + 1 / shape.frequency_hz;
  ReducedResponse best{whole_s, 0, 0};
  double least = std::numeric_limits<double>::infinity();
  constexpr int kTries = 60, kPoints = 400;
  for (int i = 0; i <= kTries; ++i) {
    const double tau_s = std::min(lag_s(shape), whole_s) * i / kTries;
    const ResponseShape tried{.order = 1, .delay_s = whole_s - tau_s, .time_constant_s = tau_s};
    double sum = 0;
    for (int k = 0; k < kPoints; ++k) {
      const double t = end_s * k / kPoints;
      const double difference = shape.step(t) - tried.step(t);
      sum += difference * difference;
    }
    if (sum >= least) continue;
    least = sum;
    best = {tried.delay_s, tau_s, sum * end_s / kPoints};
  }
  return best;
}

ControllerSettings choose_gains(const LoopWorld& world, ControllerSettings settings) {
  struct Tried {
    double integral, proportional, residual;
  };
  const ControllerSettings as_given = settings;
  std::vector<Tried> tried;
  double least = std::numeric_limits<double>::infinity();
  LoopWorld farther = world;
  for (Vec2& gain : farther.gain) gain = {kReserve * gain.x, kReserve * gain.y};
  for (const double integral : {0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75}) {
    for (const double proportional : {0.0, 0.15, 0.3}) {
      settings.integral = integral;
      settings.proportional = proportional;
      const double residual = std::max(forecast_residual_nm(world, settings),
                                       forecast_residual_nm(farther, settings) / 1.1);
      tried.push_back({integral, proportional, residual});
      if (residual < least) least = residual;
    }
  }
  settings = as_given;  // where the loop runs away with all of them
  double smallest = std::numeric_limits<double>::infinity();
  for (const Tried& t : tried) {
    if (!(t.residual <= kHardlyWorse * least) || t.integral + t.proportional >= smallest) continue;
    smallest = t.integral + t.proportional;
    settings.integral = t.integral;
    settings.proportional = t.proportional;
  }
  return settings;
}

}  // namespace driftd::control
