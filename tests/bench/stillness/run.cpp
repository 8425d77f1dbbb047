// SPDX-License-Identifier: MIT
#include "tests/bench/stillness/run.hpp"

#include <algorithm>
#include <cmath>

#include "control/law/observer/line_verifier.hpp"
#include "simulator/motion.hpp"
#include "simulator/random.hpp"
#include "tests/bench/stillness/observed_markers.hpp"
#include "tests/bench/stillness/pilot.hpp"

namespace driftd::stillness {
namespace {

using simulator::kTickNs;

constexpr std::int64_t kClockNs = 1'000'000'000;  ///< the daemon's clock at the scenario's start
constexpr int kMillisecondTicks = static_cast<int>(1'000'000 / kTickNs);
/// From when a camera is asked for another frame rate until its frames have it.
constexpr std::int64_t kCameraLateTicks = 1000;
constexpr double kMostSlower = 0.05;
/// A lock that never engages ends here.
constexpr double kLongestReferenceS = 60;
/// From then on a law is expected to act.
constexpr double kActsFromS = 5;

/// The world with the seed's own phases, and without a ramp for a controller that is told of it.
World varied(World world, std::uint64_t seed, bool no_ramp) {
  world.scenario.seed = seed;
  simulator::Random random(seed, 220);
  for (simulator::AxisDisturbance* axis :
       {&world.scenario.disturbance_x, &world.scenario.disturbance_y}) {
    if (no_ramp) axis->linear_nm_per_s = 0;
    for (simulator::Sine& sine : axis->sines) sine.phase_deg = 360 * random.uniform();
  }
  return world;
}

double noise_of(const World& world) {
  if (world.axial) return world.axial->noise_nm;
  simulator::Simulation simulation(world.scenario);
  const simulator::Truth truth = simulation.expose(0, {.exposure_us = 100}, nullptr);
  return ObservedMarkers(simulation, truth, world.belief.witness_share).best_noise_nm();
}

class Run {
 public:
  /// @param strain  null: the stage is the world's, and the law learns
  Run(const World& world, const std::string& law, std::uint64_t seed, const Strain* strain)
      : world_(varied(world, seed, law == kBestLaw)),
        strain_(strain ? *strain : Strain{}),
        simulation_(world_.scenario),
        ticks_(frame_ticks(physics_of(world_, false, 1))),
        random_(seed, 230) {
    flight_.noise_nm = noise_of(world_);
    pilot_ = law == kBestLaw ? make_best_pilot(world_, flight_.noise_nm)
             : world_.axial
                 ? make_axial_pilot(world_, law)
                 : make_daemon_pilot(world_, simulation_, law, strain ? &strain_.learnt : nullptr);
    flight_.rate_hz = world_.scenario.camera.rate_hz * kInstants;
  }

  Flight fly() {
    const double frame_s = 1e-9 * static_cast<double>(kTickNs) * static_cast<double>(ticks_.period);
    const auto wanted = static_cast<std::int64_t>(world_.judgement.seconds / frame_s);
    const auto patience = static_cast<std::int64_t>(kLongestReferenceS / frame_s);
    for (std::int64_t k = 0; engaged_frames_ < wanted && k < wanted + patience; ++k) frame(k);
    finish();
    return std::move(flight_);
  }

 private:
  /// What is judged, for both axes: of z that alone.
  Vec2 judged_of(Vec2 v) const { return world_.axial ? Vec2{v.x, v.x} : v; }

  void frame(std::int64_t number) {
    Vec2 sum;
    const std::size_t ticks = ticks_.period + slower_ticks();
    for (std::size_t i = 0; i < ticks; ++i) {
      const std::int64_t tick = start_tick_ + static_cast<std::int64_t>(i);
      simulation_.advance(tick * kTickNs);
      const Vec2 sample = simulation_.sample_nm();
      if (engaged_) judge(i, tick, judged_of(sample));
      if (engaged_ && is_learnt(tick * kTickNs)) keep_mean(judged_of(sample));
      if (i >= ticks_.exposure) continue;
      sum = {sum.x + sample.x, sum.y + sample.y};
      if (i + 1 == ticks_.exposure) take(number, sum);
    }
    start_tick_ += static_cast<std::int64_t>(ticks);
  }

  /// By which the camera's frames are later, since it was asked for it: a whole number of ticks. So
  /// 2 % are 4 at 400 and 5 at 500 frames/s, and above it does not obey.
  std::size_t slower_ticks() {
    const bool asked = pilot_->wants_slower_frames();
    if (asked != asked_slower_) asked_tick_ = start_tick_;
    asked_slower_ = asked;
    const bool obeys = start_tick_ - asked_tick_ >= kCameraLateTicks;
    if (obeys) is_slower_ = asked;
    const double share = control::kSlowerShare * static_cast<double>(ticks_.period);
    const long ticks = std::max(1L, std::lround(share));
    const bool can = static_cast<double>(ticks) <= kMostSlower * static_cast<double>(ticks_.period);
    return is_slower_ && can ? static_cast<std::size_t>(ticks) : 0;
  }

  void keep_mean(Vec2 sample_nm) {
    millisecond_nm_ = {millisecond_nm_.x + sample_nm.x, millisecond_nm_.y + sample_nm.y};
    if (++millisecond_ticks_ < kMillisecondTicks) return;
    flight_.millisecond_nm[0].push_back(static_cast<float>(millisecond_nm_.x / kMillisecondTicks));
    flight_.millisecond_nm[1].push_back(static_cast<float>(millisecond_nm_.y / kMillisecondTicks));
    millisecond_nm_ = {};
    millisecond_ticks_ = 0;
  }

  void judge(std::size_t tick_of_frame, std::int64_t tick, Vec2 sample_nm) {
    const bool is_instant =
        std::any_of(ticks_.judged.begin(), ticks_.judged.end(),
                    [&](std::size_t at) { return at % ticks_.period == tick_of_frame; });
    if (!is_instant) return;
    const double time_s = 1e-9 * static_cast<double>(tick * kTickNs);
    const Judgement& j = world_.judgement;
    bool left_out = false;
    for (const double at_s : j.left_out_at_s)
      if (time_s >= at_s && time_s < at_s + j.left_out_s) left_out = true;
    flight_.residual_nm[0].push_back(static_cast<float>(sample_nm.x));
    flight_.residual_nm[1].push_back(static_cast<float>(sample_nm.y));
    flight_.left_out.push_back(left_out);
    flight_.judged.push_back(!left_out && time_s - flight_.engaged_s >= j.learn_s);
  }

  void take(std::int64_t number, Vec2 sum) {
    const auto n = static_cast<double>(ticks_.exposure);
    Frame frame{.truth = simulation_.expose(simulation_.now_ns(), {.exposure_us = 100}, nullptr)};
    frame.truth.sample_nm = {sum.x / n, sum.y / n};
    const std::int64_t start_ns = start_tick_ * kTickNs;
    frame.number = number;
    frame.truth.middle_ns = start_ns + std::llround(500 * world_.scenario.camera.exposure_us);
    const Belief& b = world_.belief;
    double latency_us = b.latency_us;
    if (b.latency_jitter_us > 0) latency_us += random_.exponential(b.latency_jitter_us);
    const std::int64_t arrives_ns = std::max<std::int64_t>(
        last_ns_ + 1, frame.truth.middle_ns + std::llround(1e3 * latency_us));
    frame.taken_ns = kClockNs + frame.truth.middle_ns;
    frame.now_ns = kClockNs + arrives_ns;
    const bool dropped = simulation_.next_frame_fate() != simulator::FrameFate::Send;
    const bool missing = random_.uniform() < world_.judgement.missing_share;
    if (dropped || (missing && engaged_)) {
      if (engaged_) ++engaged_frames_;
      return;
    }
    last_ns_ = arrives_ns;
    const auto wanted = pilot_->fly(frame);
    if (wanted && number >= driver_busy_until_) {
      obey(*wanted, arrives_ns);
      driver_busy_until_ = number + world_.driver_frames;
    }
    account(frame);
  }

  void obey(Vec2 wanted_nm, std::int64_t arrives_ns) {
    const double since_s = 1e-9 * static_cast<double>(arrives_ns) - flight_.engaged_s;
    if (!engaged_ || since_s < strain_.from_s) {
      unstrained_nm_ = wanted_nm;
      simulation_.command_stage(arrives_ns, wanted_nm);
    } else {
      const auto strained = [&](double wanted, double from) {
        return from + strain_.gain * (wanted - from);
      };
      simulation_.command_stage(
          arrives_ns + std::llround(1e6 * strain_.late_ms),
          {strained(wanted_nm.x, unstrained_nm_.x), strained(wanted_nm.y, unstrained_nm_.y)});
    }
    const Vec2 change = judged_of({wanted_nm.x - told_nm_.x, wanted_nm.y - told_nm_.y});
    told_nm_ = wanted_nm;
    if (is_learnt(arrives_ns)) change_sum_nm2_ += 0.5 * (change.x * change.x + change.y * change.y);
  }

  bool is_learnt(std::int64_t time_ns) const {
    return engaged_ &&
           1e-9 * static_cast<double>(time_ns) - flight_.engaged_s >= world_.judgement.learn_s;
  }

  void account(const Frame& frame) {
    if (!engaged_ && pilot_->engaged()) {
      engaged_ = true;
      flight_.engaged_s = 1e-9 * static_cast<double>(frame.truth.middle_ns);
      start_ = frame.truth;
    }
    if (1e-9 * static_cast<double>(frame.truth.middle_ns) >= kActsFromS) {
      ++frames_to_act_;
      if (pilot_->acts()) ++acting_frames_;
    }
    if (!engaged_) return;
    ++engaged_frames_;
    see_drive(frame.truth);
    if (!is_learnt(frame.truth.middle_ns)) return;
    ++learnt_frames_;
    if (pilot_->locked())
      ++locked_frames_;
    else
      ++flight_.frames_held[pilot_->reason()];
    if (const auto foretold_nm2 = pilot_->foretold_nm2()) {
      foretold_sum_nm2_ += *foretold_nm2;
      ++foretold_;
    }
    if (const auto p = pilot_->published()) {
      const double x = p->error_nm.x / p->sd_nm.x, y = p->error_nm.y / p->sd_nm.y;
      normalised_sum_ += 0.5 * (x * x + y * y);
      ++published_;
    }
  }

  /// How far the stage has driven the sample.
  void see_drive(const simulator::Truth& truth) {
    const double now_s = 1e-9 * static_cast<double>(truth.middle_ns);
    if (flight_.acts_s < 0 && pilot_->acts()) flight_.acts_s = now_s;
    if (world_.fault && flight_.acts_s >= 0 && now_s >= flight_.acts_s + world_.fault->at_s) {
      simulation_.inject(*world_.fault);
      world_.fault.reset();
    }
    const auto beyond = [](double now, double start, double own_now, double own_start) {
      return std::abs(now - start) - std::abs(own_now - own_start);
    };
    flight_.driven_nm = std::max({flight_.driven_nm,
                                  beyond(truth.sample_nm.x, start_.sample_nm.x,
                                         truth.disturbance_nm.x, start_.disturbance_nm.x),
                                  beyond(truth.sample_nm.y, start_.sample_nm.y,
                                         truth.disturbance_nm.y, start_.disturbance_nm.y)});
    const bool held = !pilot_->locked() && pilot_->reason() == "stage_not_following";
    if (held && !held_) {
      ++flight_.alarms;
      flight_.alarm_looks += " " + pilot_->looks() + " at " + std::to_string(now_s);
    }
    held_ = held;
    if (!held || flight_.alarm_s >= 0) return;
    flight_.alarm_s = now_s - flight_.engaged_s;
    flight_.driven_at_alarm_nm = flight_.driven_nm;
  }

  void finish() {
    flight_.acting_share = static_cast<double>(acting_frames_) /
                           static_cast<double>(std::max<std::int64_t>(1, frames_to_act_));
    const double frames = static_cast<double>(std::max<std::int64_t>(1, learnt_frames_));
    flight_.change_nm2 = change_sum_nm2_ / frames;
    flight_.locked_share = static_cast<double>(locked_frames_) / frames;
    flight_.normalised2 =
        normalised_sum_ / static_cast<double>(std::max<std::int64_t>(1, published_));
    flight_.foretold_nm2 =
        foretold_sum_nm2_ / static_cast<double>(std::max<std::int64_t>(1, foretold_));
    flight_.learnt = pilot_->learnt();
    flight_.stage_found = pilot_->stage_found();
    flight_.stage_errors = pilot_->stage_errors();
    // The lock holds the sample where its reference was, wherever that is.
    for (auto& axis : flight_.residual_nm) {
      double sum = 0, count = 0;
      for (std::size_t i = 0; i < axis.size(); ++i) {
        if (!flight_.judged[i]) continue;
        sum += static_cast<double>(axis[i]);
        ++count;
      }
      const auto mean = static_cast<float>(count > 0 ? sum / count : 0);
      for (float& value : axis) value -= mean;
    }
  }

  World world_;
  Strain strain_;
  simulator::Simulation simulation_;
  FrameTicks ticks_;
  simulator::Random random_;
  std::unique_ptr<Pilot> pilot_;
  Flight flight_;
  bool engaged_ = false, held_ = false;
  std::int64_t start_tick_ = 0;  ///< of the frame
  std::int64_t asked_tick_ = 0;  ///< when the camera was last asked for another frame rate
  bool asked_slower_ = false, is_slower_ = false;
  Vec2 millisecond_nm_;        ///< sum of the millisecond that is not over
  int millisecond_ticks_ = 0;  ///< in it
  Vec2 told_nm_, unstrained_nm_;
  std::int64_t last_ns_ = 0;
  std::int64_t driver_busy_until_ = 0;  ///< the frame whose correction it takes again
  std::int64_t engaged_frames_ = 0, learnt_frames_ = 0, locked_frames_ = 0, published_ = 0;
  std::int64_t foretold_ = 0, frames_to_act_ = 0, acting_frames_ = 0;
  simulator::Truth start_;  ///< when the lock engaged
  double change_sum_nm2_ = 0, normalised_sum_ = 0, foretold_sum_nm2_ = 0;
};

}  // namespace

Flight fly(const World& world, const std::string& law, std::uint64_t seed) {
  return Run(world, law, seed, nullptr).fly();
}

Flight fly_strained(const World& world, const std::string& law, std::uint64_t seed,
                    const Strain& strain) {
  return Run(world, law, seed, &strain).fly();
}

}  // namespace driftd::stillness
