// SPDX-License-Identifier: MIT
// The daemon's estimator, supervisor and servo, called as the tracking loop calls them.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "control/drift_estimator.hpp"
#include "control/supervisor.hpp"
#include "support/default_settings.hpp"
#include "tests/bench/stillness/observed_markers.hpp"
#include "tests/bench/stillness/pilot.hpp"

namespace driftd::stillness {
namespace {

control::SupervisorSettings supervisor_settings(const World& world) {
  control::SupervisorSettings s = driftd::test::default_supervisor_settings();
  const Belief& b = world.belief;
  s.controller.proportional = b.proportional;
  s.controller.integral = b.integral;
  s.controller.step_limit_nm = b.step_limit_nm;
  s.controller.rate_limit_nm_per_s = b.rate_limit_nm_per_s;
  s.controller.stage_delay_us = b.stage_delay_us;
  s.controller.stage_time_constant_us = b.stage_time_constant_us;
  return s;
}

control::EstimatorSettings estimator_settings(const World& world) {
  control::EstimatorSettings s = driftd::test::default_estimator_settings();
  s.pixel_size_nm = world.scenario.optics.pixel_size_nm;
  s.average_frames = world.belief.average_frames;
  s.min_markers = world.belief.min_markers;
  return s;
}

std::int64_t period_ns(const World& world) {
  return std::llround(1e9 / world.scenario.camera.rate_hz);
}

constexpr const char* kAlone = "-alone";  ///< after a law's name

class DaemonPilot final : public Pilot {
 public:
  /// @param alone  once it is locked, the controller goes on by itself: nothing holds the lock
  DaemonPilot(const World& world, simulator::Simulation& simulation, bool alone)
      : world_(world),
        alone_(alone),
        simulation_(simulation),
        estimator_(estimator_settings(world)),
        supervisor_(supervisor_settings(world), control::FramePeriod(period_ns(world))),
        controller_(supervisor_settings(world).controller) {}

  std::optional<Vec2> fly(const Frame& frame) override {
    supervisor_.arrived(frame.taken_ns);
    if (!markers_) {
      look_for_markers(frame.truth);
      estimator_.set_markers(markers_->markers());
      supervisor_.command(control::LockEvent::CommandLock, frame.now_ns);
      begin_reference();
    }
    const bool referencing = estimator_.referencing();
    const control::DriftEstimate& drift = estimator_.update(markers_->observe(frame.truth));
    const bool complete = referencing && !estimator_.referencing();
    if (drift.valid && !complete) markers_->follow(estimator_, drift.frame_drift_nm);
    if (referencing && drift.valid) remember_reference(frame.truth.sample_nm, complete);
    if (alone_ && engaged_) return fly_alone(frame, drift);
    const control::Decision decision = supervisor_.decide({.now_ns = frame.now_ns,
                                                           .taken_ns = frame.taken_ns,
                                                           .new_reference = complete,
                                                           .drift = &drift});
    supervisor_.prepare();
    if (decision.restart_average) estimator_.restart_average();
    if (complete && supervisor_.lock().state == control::LockState::Referencing) begin_reference();
    engaged_ = engaged_ || supervisor_.lock().state == control::LockState::Locked;
    publish(frame, drift);
    if (!decision.has_correction) return std::nullopt;
    return decision.correction.total_nm;
  }
  bool engaged() const override { return engaged_; }
  bool locked() const override {
    return (alone_ && engaged_) || supervisor_.lock().state == control::LockState::Locked;
  }
  std::string reason() const override { return control::name_of(supervisor_.lock().reason); }
  std::optional<PublishedDrift> published() const override { return published_; }

 private:
  std::optional<Vec2> fly_alone(const Frame& frame, const control::DriftEstimate& drift) {
    publish(frame, drift);
    if (!drift.valid) return std::nullopt;
    controller_.observe(frame.taken_ns);
    return controller_.update(drift.drift_nm, frame.taken_ns, frame.now_ns, drift.frames_averaged)
        .total_nm;
  }
  void look_for_markers(const simulator::Truth& truth) {
    const double share = world_.belief.witness_share;
    if (world_.fitted)
      markers_ = std::make_unique<FittedMarkers>(simulation_, truth, share);
    else
      markers_ = std::make_unique<ObservedMarkers>(simulation_, truth, share);
  }
  void begin_reference() {
    estimator_.begin_reference(supervisor_.reference_frames());
    reference_sum_nm_ = {};
    reference_frames_ = 0;
  }
  /// The true place that the reference stands for.
  void remember_reference(Vec2 sample_nm, bool complete) {
    reference_sum_nm_ = {reference_sum_nm_.x + sample_nm.x, reference_sum_nm_.y + sample_nm.y};
    ++reference_frames_;
    if (complete)
      reference_nm_ = {reference_sum_nm_.x / reference_frames_,
                       reference_sum_nm_.y / reference_frames_};
  }
  void publish(const Frame& frame, const control::DriftEstimate& drift) {
    published_.reset();
    if (!engaged_ || !drift.valid || world_.belief.average_frames > 1) return;
    const Vec2 true_nm = {frame.truth.sample_nm.x - reference_nm_.x,
                          frame.truth.sample_nm.y - reference_nm_.y};
    published_ = {
        .error_nm = {drift.drift_nm.x - true_nm.x, drift.drift_nm.y - true_nm.y},
        .sd_nm = {std::sqrt(drift.covariance_nm2.xx), std::sqrt(drift.covariance_nm2.yy)}};
  }

  const World& world_;
  bool alone_;
  simulator::Simulation& simulation_;
  std::unique_ptr<ObservedMarkers> markers_;
  control::DriftEstimator estimator_;
  control::Supervisor supervisor_;
  control::Controller controller_;  ///< of a law that flies alone
  bool engaged_ = false;
  Vec2 reference_sum_nm_, reference_nm_;
  int reference_frames_ = 0;
  std::optional<PublishedDrift> published_;
};

}  // namespace

std::vector<std::string> law_names() {
  return {"pi", std::string("pi") + kAlone, kBestLaw};
}

std::unique_ptr<Pilot> make_daemon_pilot(const World& world, simulator::Simulation& simulation,
                                         const std::string& law) {
  const std::vector<std::string> known = law_names();
  if (std::find(known.begin(), known.end(), law) == known.end())
    throw std::invalid_argument("no control law is called '" + law +
                                "'; there are: pi, pi-alone, best");
  return std::make_unique<DaemonPilot>(world, simulation, law.ends_with(kAlone));
}

}  // namespace driftd::stillness
