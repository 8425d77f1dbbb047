// SPDX-License-Identifier: MIT
#include "tests/bench/stillness/move_flight.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "simulator/motion.hpp"
#include "tests/bench/stillness/pilot.hpp"

namespace driftd::stillness {
namespace {

using simulator::kTickNs;

constexpr std::int64_t kClockNs = 1'000'000'000;
constexpr double kLongestReferenceS = 60;
constexpr double kLongestWayS = 60;
constexpr double kOnItsWayS = 0.02;

class MovesRun {
 public:
  MovesRun(const World& world, const MoveScript& script, const std::string& law, std::uint64_t seed)
      : world_(world),
        script_(script),
        simulation_(seeded(world_, seed)),
        pilot_(make_daemon_pilot(world_, simulation_, law)),
        period_(std::llround(1e9 / world.scenario.camera.rate_hz) / kTickNs),
        exposure_(std::llround(1e3 * world.scenario.camera.exposure_us) / kTickNs) {}

  MoveFlight fly() {
    until([&] { return pilot_->engaged(); }, kLongestReferenceS, "it never locked");
    stay(script_.before_s);
    const std::int64_t begun = tick_;
    frames_ = locked_ = 0;
    flight_.reason.clear();
    for (const Vec2 place : script_.places_nm) visit(place);
    flight_.seconds = 1e-9 * static_cast<double>((tick_ - begun) * kTickNs);
    flight_.locked_share =
        static_cast<double>(locked_) / static_cast<double>(std::max(1L, frames_));
    return std::move(flight_);
  }

 private:
  static const simulator::Scenario& seeded(World& world, std::uint64_t seed) {
    world.scenario.seed = seed;
    return world.scenario;
  }

  void visit(Vec2 place) {
    now_ = {};
    now_.place_nm = place;
    control::MovePath path{.id = ++moves_, .places = {}, .count = 1};
    path.places[0] = {.place_nm = place, .speed_nm_per_s = script_.speed_nm_per_s};
    for (int tries = 0; !pilot_->begin_move(path); ++tries) {
      if (tries * 0.1 > kLongestWayS)
        throw std::runtime_error("it took no move any more: " + flight_.reason);
      stay(0.1);
    }
    until([&] { return pilot_->set_point().phase() == control::SetPointPhase::Resting; },
          kLongestWayS, "a move that never ended");
    arrived_ = tick_;
    seen_.clear();
    stay(script_.stay_s);
    judge();
    arrived_ = -1;
  }

  /// In its first moments it is still on its way.
  void judge() {
    const auto long_enough = static_cast<std::size_t>(script_.for_s * 1e9 / kTickNs);
    std::size_t near = 0;
    for (std::size_t i = 0; i < seen_.size() && now_.settled_s < 0; ++i) {
      near = is_within(seen_[i]) ? near + 1 : 0;
      if (near < long_enough) continue;
      now_.settled_s = 1e-9 * static_cast<double>(i + 1 - near) * kTickNs;
    }
    const auto from = std::min(static_cast<std::size_t>(kOnItsWayS * 1e9 / kTickNs), seen_.size());
    Vec2 sum;
    double squares = 0;
    const auto n = static_cast<double>(std::max<std::size_t>(1, seen_.size() - from));
    for (std::size_t i = from; i < seen_.size(); ++i) {
      sum = {sum.x + seen_[i].x, sum.y + seen_[i].y};
      squares += (seen_[i].x * seen_[i].x + seen_[i].y * seen_[i].y) / 2;
    }
    now_.error_nm = {sum.x / n, sum.y / n};
    now_.rms_nm = std::sqrt(squares / n);
    flight_.places.push_back(now_);
  }

  bool is_within(Vec2 error) const {
    return std::abs(error.x) <= script_.settled_nm && std::abs(error.y) <= script_.settled_nm;
  }

  template <typename Condition>
  void until(Condition over, double longest_s, const char* problem) {
    for (double s = 0; !over(); s += 1e-9 * static_cast<double>(period_ * kTickNs)) {
      if (s > longest_s) throw std::runtime_error(problem);
      frame();
    }
  }
  void stay(double seconds) {
    const std::int64_t end = tick_ + std::llround(seconds * 1e9 / kTickNs);
    while (tick_ < end) frame();
  }

  void frame() {
    Vec2 sum;
    for (std::int64_t i = 0; i < period_; ++i, ++tick_) {
      simulation_.advance(tick_ * kTickNs);
      const Vec2 sample = simulation_.sample_nm();
      const Vec2 zero = pilot_->reference_nm();
      if (arrived_ >= 0)
        seen_.push_back({sample.x - zero.x - now_.place_nm.x, sample.y - zero.y - now_.place_nm.y});
      if (i >= exposure_) continue;
      sum = {sum.x + sample.x, sum.y + sample.y};
      if (i + 1 == exposure_) take(sum);
    }
  }

  void take(Vec2 sum) {
    const auto n = static_cast<double>(exposure_);
    Frame frame{.truth = simulation_.expose(simulation_.now_ns(), {.exposure_us = 100}, nullptr)};
    frame.truth.sample_nm = {sum.x / n, sum.y / n};
    const std::int64_t middle_ns =
        (tick_ + 1) * kTickNs - std::llround(500 * world_.scenario.camera.exposure_us);
    const std::int64_t arrives_ns = middle_ns + std::llround(1e3 * world_.belief.latency_us);
    frame.truth.middle_ns = middle_ns;
    frame.number = number_++;
    frame.taken_ns = kClockNs + middle_ns;
    frame.now_ns = kClockNs + arrives_ns;
    if (simulation_.next_frame_fate() != simulator::FrameFate::Send) return;
    const auto wanted = pilot_->fly(frame);
    ++frames_;
    if (pilot_->locked())
      ++locked_;
    else
      flight_.reason = pilot_->reason();
    if (pilot_->in_lock()) {
      if (arrived_ < 0 && pilot_->set_point().phase() == control::SetPointPhase::Moving)
        now_.early = true;
      if (arrived_ >= 0 && now_.in_lock_s < 0)
        now_.in_lock_s = 1e-9 * static_cast<double>((tick_ - arrived_) * kTickNs);
    }
    if (!wanted) return;
    simulation_.command_stage(arrives_ns, *wanted);
    flight_.largest_step_nm = std::max({flight_.largest_step_nm, std::abs(wanted->x - told_nm_.x),
                                        std::abs(wanted->y - told_nm_.y)});
    told_nm_ = *wanted;
  }

  World world_;
  MoveScript script_;
  simulator::Simulation simulation_;
  std::unique_ptr<Pilot> pilot_;
  std::int64_t period_, exposure_;  ///< ticks
  std::int64_t tick_ = 0, number_ = 0, arrived_ = -1;
  std::uint64_t moves_ = 0;
  std::int64_t frames_ = 0, locked_ = 0;
  std::vector<Vec2> seen_;  ///< truth less the place, each tick since the arrival
  Vec2 told_nm_;
  VisitedPlace now_;
  MoveFlight flight_;
};

}  // namespace

MoveFlight fly_moves(const World& world, const MoveScript& script, const std::string& law,
                     std::uint64_t seed) {
  return MovesRun(world, script, law, seed).fly();
}

std::vector<Vec2> tiling(int columns, int rows, double pitch_nm) {
  std::vector<Vec2> places;
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < columns; ++i) {
      const int column = row % 2 == 0 ? i : columns - 1 - i;
      places.push_back(
          {pitch_nm * (column - 0.5 * (columns - 1)), pitch_nm * (row - 0.5 * (rows - 1))});
    }
  }
  return places;
}

}  // namespace driftd::stillness
