// SPDX-License-Identifier: MIT
// The controller of the bound, flown in the simulated world: what the equations promise is what
// comes out.
#include <cmath>
#include <numbers>

#include "simulator/motion.hpp"
#include "simulator/random.hpp"
#include "tests/bench/stillness/pilot.hpp"

namespace driftd::stillness {
namespace {

using simulator::kTickS;

class BestAxis {
 public:
  BestAxis(const World& world, bool y_axis, double noise_nm)
      : model_(physics_of(world, y_axis, noise_nm)),
        penalty_(find_bound(model_, change_limit_nm(world)).penalty),
        law_(best_law(model_, penalty_)),
        lines_(answers_to_lines(model_, penalty_)),
        unknown_(model_.lifted().states, 1),
        by_lines_(model_.lifted().states, 1) {}

  /// Every frame, none missing. @param place_nm  as measured
  double fly(std::int64_t frame, double place_nm) {
    const LiftedAxis& l = model_.lifted();
    const double seen_nm = place_nm - lines_seen_nm(frame) - by_lines_(l.mean, 0);
    unknown_ = unknown_ + (seen_nm - unknown_(l.mean, 0)) * law_.filter;
    const double unknown_nm = -(law_.gains * unknown_)(0, 0);
    const double lines_nm = line_command_nm(frame);
    unknown_ = l.from_state * unknown_ + unknown_nm * l.from_command;
    by_lines_ = l.from_state * by_lines_ + lines_nm * l.from_command;
    return unknown_nm + lines_nm;
  }

 private:
  double lines_seen_nm(std::int64_t frame) const {
    const FrameTicks& t = model_.ticks();
    double sum = 0;
    for (const simulator::Sine& sine : model_.physics().disturbance.sines)
      for (std::size_t i = 0; i < t.exposure; ++i)
        sum += simulator::value_of(sine, time_s(frame) + kTickS * static_cast<double>(i));
    return sum / static_cast<double>(t.exposure);
  }
  /// The command for the frame from whose first ticks on it is obeyed.
  double line_command_nm(std::int64_t frame) const {
    const FrameTicks& t = model_.ticks();
    const double at_s = time_s(frame + static_cast<std::int64_t>(t.effect / t.period));
    double sum = 0;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const simulator::Sine& sine = model_.physics().disturbance.sines[i];
      const double angle = lines_[i].omega * at_s + sine.phase_deg * std::numbers::pi / 180;
      sum += sine.amplitude_nm *
             (lines_[i].command_re * std::sin(angle) + lines_[i].command_im * std::cos(angle));
    }
    return sum;
  }
  double time_s(std::int64_t frame) const {
    return kTickS * static_cast<double>(frame * static_cast<std::int64_t>(model_.ticks().period));
  }

  AxisModel model_;
  double penalty_;
  BestLaw law_;
  std::vector<LineAnswer> lines_;
  Matrix unknown_, by_lines_;  ///< states, of what is estimated and of what the lines' command does
};

class BestPilot final : public Pilot {
 public:
  BestPilot(const World& world, double noise_nm)
      : noise_nm_(noise_nm),
        x_(world, false, noise_nm),
        y_(world, true, noise_nm),
        random_(world.scenario.seed, 210) {}
  std::optional<Vec2> fly(const Frame& frame) override {
    const Vec2 place = frame.truth.sample_nm;
    const double x = place.x + noise_nm_ * random_.normal();
    const double y = place.y + noise_nm_ * random_.normal();
    return Vec2{x_.fly(frame.number, x), y_.fly(frame.number, y)};
  }
  bool engaged() const override { return true; }
  bool locked() const override { return true; }

 private:
  double noise_nm_;
  BestAxis x_, y_;
  simulator::Random random_;
};

}  // namespace

std::unique_ptr<Pilot> make_best_pilot(const World& world, double noise_nm) {
  return std::make_unique<BestPilot>(world, noise_nm);
}

}  // namespace driftd::stillness
