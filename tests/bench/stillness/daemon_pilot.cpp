// SPDX-License-Identifier: MIT
// The daemon's estimator, supervisor and servo, called as the tracking loop calls them.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "control/drift/drift_estimator.hpp"
#include "control/drift/marker_trust.hpp"
#include "control/lock/acquisition_gate.hpp"
#include "control/lock/supervisor.hpp"
#include "support/default_settings.hpp"
#include "support/virtual_tuner.hpp"
#include "tests/bench/stillness/observed_flight.hpp"
#include "tests/bench/stillness/observed_markers.hpp"
#include "tests/bench/stillness/pilot.hpp"

namespace driftd::stillness {

control::SupervisorSettings daemon_settings(const World& world, control::ControlLaw law) {
  control::SupervisorSettings s = driftd::test::default_supervisor_settings();
  const Belief& b = world.belief;
  s.controller.proportional = b.proportional;
  s.controller.integral = b.integral;
  s.controller.step_limit_nm = b.step_limit_nm;
  s.controller.rate_limit_nm_per_s = b.rate_limit_nm_per_s;
  s.controller.range_limit_nm = s.controller.travel_limit_nm = b.range_limit_nm;
  s.controller.stage_delay_us = b.stage_delay_us;
  s.controller.stage_time_constant_us = b.stage_time_constant_us;
  s.controller.stage_resonance_hz = b.stage_resonance_hz;
  s.controller.stage_damping = b.stage_damping;
  s.controller.law = law;
  s.controller.verifies_lines = world.camera_obeys;
  const bool acquaint = world.acquaint && law != control::ControlLaw::Pi;
  s.acquaintance = {.when = acquaint ? control::AcquaintWhen::First : control::AcquaintWhen::Never,
                    .exposure_ns = std::llround(1e3 * world.scenario.camera.exposure_us)};
  return s;
}

std::int64_t period_ns(const World& world) {
  return std::llround(1e9 / world.scenario.camera.rate_hz);
}

namespace {

control::EstimatorSettings estimator_settings(const World& world) {
  control::EstimatorSettings s = driftd::test::default_estimator_settings();
  s.pixel_size_nm = world.scenario.optics.pixel_size_nm;
  s.average_frames = world.belief.average_frames;
  s.min_markers = world.belief.min_markers;
  return s;
}

constexpr const char* kAlone = "-alone";  ///< after a law's name
constexpr const char* kObserver = "observer";

control::ControlLaw law_of(const std::string& name) {
  if (name == "auto") return control::ControlLaw::Auto;
  return name == kObserver ? control::ControlLaw::Observer : control::ControlLaw::Pi;
}

control::ObserverSettings observer_settings(const World& world) {
  const Belief& b = world.belief;
  const double period_s = 1 / world.scenario.camera.rate_hz;
  return {.period_s = period_s,
          .stage = {.image_to_stage = {},
                    .delay_us = b.stage_delay_us,
                    .time_constant_us = b.stage_time_constant_us,
                    .resonance_hz = b.stage_resonance_hz,
                    .damping = b.stage_damping},
          .change_limit_nm = std::min(b.step_limit_nm, b.rate_limit_nm_per_s * period_s)};
}

class DaemonPilot final : public Pilot {
 public:
  /// @param alone  once it is locked, the controller goes on by itself: nothing holds the lock
  /// @param observed  by the observer instead of PI, alone
  /// @param rests  alone, and the stage stays where it is
  /// @param frozen  what it flies with, and learns no more; null: it learns
  DaemonPilot(const World& world, simulator::Simulation& simulation, control::ControlLaw law,
              bool alone, bool observed, bool rests, const Learnt* frozen)
      : world_(world),
        alone_(alone),
        rests_(rests),
        simulation_(simulation),
        estimator_(estimator_settings(world)),
        supervisor_(daemon_settings(world, law), control::FramePeriod(period_ns(world))),
        gate_(driftd::test::default_loop_settings().gate),
        controller_(daemon_settings(world, control::ControlLaw::Pi).controller) {
    if (observed)
      observed_.emplace(daemon_settings(world, law).controller, observer_settings(world));
    if (observed && frozen) observed_->freeze(*frozen);
  }

  std::optional<Vec2> fly(const Frame& frame) override {
    supervisor_.arrived(frame.taken_ns);
    if (!markers_) {
      look_for_markers(frame.truth);
      estimator_.set_markers(markers_->markers());
      trust_.emplace(markers_->markers());
      supervisor_.command(control::LockEvent::CommandLock, frame.now_ns);
      begin_reference();
    }
    const bool referencing = estimator_.referencing();
    const control::DriftEstimate& drift = estimator_.update(markers_->observe(frame.truth));
    const bool complete = referencing && !estimator_.referencing();
    if (drift.valid && !complete) markers_->follow(estimator_, drift.frame_drift_nm);
    if (referencing && drift.valid) remember_reference(frame.truth.sample_nm, complete);
    remember(frame, drift);
    if (alone_ && engaged_) return fly_alone(frame, drift);
    tuner_.give(supervisor_, frame.now_ns);
    const control::Decision decision = supervisor_.decide({.now_ns = frame.now_ns,
                                                           .taken_ns = frame.taken_ns,
                                                           .new_reference = complete,
                                                           .drift = &drift});
    supervisor_.prepare();
    tuner_.take(supervisor_, frame.now_ns);
    if (decision.restart_average) estimator_.restart_average();
    if (complete && supervisor_.lock().state == control::LockState::Referencing) begin_reference();
    engaged_ = engaged_ || supervisor_.lock().state == control::LockState::Locked;
    see_residual(frame, drift);
    publish(frame, drift);
    if (!decision.has_correction) return std::nullopt;
    return decision.correction.total_nm;
  }
  bool engaged() const override { return engaged_; }
  bool locked() const override {
    return (alone_ && engaged_) || supervisor_.lock().state == control::LockState::Locked;
  }
  bool acts() const override { return locked() && !supervisor_.is_acquainting(); }
  std::string reason() const override { return control::name_of(supervisor_.lock().reason); }
  std::string looks() const override { return control::name_of(supervisor_.stage_looks()); }
  std::string stage_found() const override {
    const auto found = supervisor_.stage_knowledge();
    if (!found) return control::name_of(supervisor_.acquaintance());
    const control::StageModelSettings& s = found->stage;
    const control::ImageToStage& m = s.image_to_stage;
    std::array<char, 160> text{};
    std::snprintf(text.data(), text.size(),
                  "%.2f ms, %.1f Hz, %.2f (or %.2f ms), matrix %.3f %.3f %.3f %.3f",
                  1e-3 * s.delay_us, s.resonance_hz, s.damping, 1e-3 * s.time_constant_us, m.a, m.b,
                  m.c, m.d);
    return text.data();
  }
  std::optional<PublishedDrift> published() const override { return published_; }
  std::optional<double> foretold_nm2() const override {
    return observed_ ? observed_->foretold_nm2() : std::nullopt;
  }
  std::array<control::StageError, control::kAxes> stage_errors() const override {
    const control::Observer& observer = supervisor_.controller().law().observer();
    return {observer.stage_error(0), observer.stage_error(1)};
  }
  Learnt learnt() const override { return observed_ ? observed_->learnt() : Learnt{}; }
  bool wants_slower_frames() const override { return tuner_.wants_slower_frames(); }
  bool begin_move(const control::MovePath& path) override { return supervisor_.begin_move(path); }
  control::SetPoint set_point() const override { return supervisor_.set_point(); }
  bool in_lock() const override { return gate_.state().in_lock; }
  Vec2 reference_nm() const override { return reference_nm_; }

 private:
  /// The markers, from the next frame on.
  void remember(const Frame& frame, const control::DriftEstimate& drift) {
    const double interval_s = 1e-9 * static_cast<double>(frame.taken_ns - remembered_ns_);
    remembered_ns_ = frame.taken_ns;
    if (!world_.remembering) return;
    trust_->after_frame(
        estimator_, drift, markers_->observations(),
        {.interval_s = interval_s, .locked = locked(), .period_s = world_.belief.rotate_witness_s});
  }
  std::optional<Vec2> fly_alone(const Frame& frame, const control::DriftEstimate& drift) {
    publish(frame, drift);
    if (!drift.valid || rests_) return std::nullopt;
    if (observed_) return observed_->fly(drift, frame.taken_ns, frame.now_ns);
    controller_.remember_stage(frame.taken_ns);
    return controller_.update(drift.drift_nm, frame.taken_ns, frame.now_ns, drift.frames_averaged)
        .total_nm;
  }
  void see_residual(const Frame& frame, const control::DriftEstimate& drift) {
    if (supervisor_.lock().state != control::LockState::Locked)
      gate_.not_locked(frame.now_ns);
    else if (supervisor_.is_acquainting())
      gate_.getting_acquainted(frame.now_ns);
    else if (supervisor_.moving())
      gate_.moving(frame.now_ns);
    else if (drift.valid)
      gate_.measured({drift.frame_drift_nm.x - supervisor_.moved_nm().x,
                      drift.frame_drift_nm.y - supervisor_.moved_nm().y},
                     frame.now_ns);
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
  bool rests_;
  simulator::Simulation& simulation_;
  std::unique_ptr<ObservedMarkers> markers_;
  control::DriftEstimator estimator_;
  std::optional<control::MarkerTrust> trust_;
  std::int64_t remembered_ns_ = 0;
  control::Supervisor supervisor_;
  control::AcquisitionGate gate_;
  control::Controller controller_;  ///< of a law that flies alone
  std::optional<ObservedFlight> observed_;
  driftd::test::VirtualTuner tuner_;
  bool engaged_ = false;
  Vec2 reference_sum_nm_, reference_nm_;
  int reference_frames_ = 0;
  std::optional<PublishedDrift> published_;
};

}  // namespace

std::vector<std::string> law_names() {
  return {"pi",      std::string("pi") + kAlone,      "auto",
          kObserver, kObserver + std::string(kAlone), kBestLaw,
          kNoLaw};
}

std::unique_ptr<Pilot> make_daemon_pilot(const World& world, simulator::Simulation& simulation,
                                         const std::string& law, const Learnt* frozen) {
  const std::vector<std::string> known = law_names();
  if (std::find(known.begin(), known.end(), law) == known.end()) {
    std::string names;
    for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
    throw std::invalid_argument("no control law is called '" + law + "'; there are: " + names);
  }
  const bool rests = law == kNoLaw;
  return std::make_unique<DaemonPilot>(world, simulation, law_of(law),
                                       rests || law.ends_with(kAlone), law.starts_with(kObserver),
                                       rests, frozen);
}

}  // namespace driftd::stillness
