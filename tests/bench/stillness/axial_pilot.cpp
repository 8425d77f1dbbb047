// SPDX-License-Identifier: MIT
// The daemon's supervisor of one axis, called as the tracking loop calls that of z. What a frame
// shows of z is the truth with the world's noise; the lock sees it as it sees any z, by as_drift().
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "control/axial/axial_drift.hpp"
#include "control/lock/acquisition_gate.hpp"
#include "control/lock/supervisor.hpp"
#include "simulator/random.hpp"
#include "support/default_settings.hpp"
#include "support/virtual_tuner.hpp"
#include "tests/bench/stillness/pilot.hpp"

namespace driftd::stillness {
namespace {

control::SupervisorSettings settings_of(const World& world, control::ControlLaw law) {
  control::SupervisorSettings s = daemon_settings(world, law);
  s.axes = 1;
  s.max_jump_nm = world.axial->max_jump_nm;
  s.max_drift_nm_per_s = world.axial->max_drift_nm_per_s;
  return s;
}

class AxialPilot final : public Pilot {
 public:
  AxialPilot(const World& world, control::ControlLaw law)
      : world_(world),
        random_(world.scenario.seed, 240),
        supervisor_(settings_of(world, law), control::FramePeriod(period_ns(world))),
        gate_(driftd::test::default_loop_settings().gate) {}

  std::optional<Vec2> fly(const Frame& frame) override {
    supervisor_.arrived(frame.taken_ns);
    if (!begun_) {
      begun_ = true;
      supervisor_.command(control::LockEvent::CommandLock, frame.now_ns);
      begin_reference();
    }
    const bool complete = measure(frame.truth.sample_nm.x);
    const control::DriftEstimate drift = control::as_drift(estimate_);
    tuner_.give(supervisor_, frame.now_ns);
    const control::Decision decision = supervisor_.decide({.now_ns = frame.now_ns,
                                                           .taken_ns = frame.taken_ns,
                                                           .new_reference = complete,
                                                           .drift = &drift});
    supervisor_.prepare();
    tuner_.take(supervisor_, frame.now_ns);
    if (complete && supervisor_.lock().state == control::LockState::Referencing) begin_reference();
    engaged_ = engaged_ || locked();
    see_residual(frame, drift);
    if (!decision.has_correction) return std::nullopt;
    const Vec2 total_nm = decision.correction.total_nm;
    if (total_nm.y != 0 || !control::keeps(decision.limits, told_nm_, total_nm))
      throw std::logic_error("a correction of one axis that must not leave");
    return told_nm_ = total_nm;
  }
  bool engaged() const override { return engaged_; }
  bool locked() const override { return supervisor_.lock().state == control::LockState::Locked; }
  bool acts() const override { return locked() && !supervisor_.is_acquainting(); }
  std::string reason() const override { return control::name_of(supervisor_.lock().reason); }
  std::string looks() const override { return control::name_of(supervisor_.stage_looks()); }
  std::string stage_found() const override {
    const auto found = supervisor_.stage_knowledge();
    return found ? std::to_string(found->stage.image_to_stage.a) : std::string();
  }
  std::array<control::StageError, control::kAxes> stage_errors() const override {
    const control::Observer& observer = supervisor_.controller().law().observer();
    return {observer.stage_error(0), observer.stage_error(1)};
  }
  bool begin_move(const control::MovePath& path) override { return supervisor_.begin_move(path); }
  control::SetPoint set_point() const override { return supervisor_.set_point(); }
  bool in_lock() const override { return gate_.state().in_lock; }
  Vec2 reference_nm() const override { return {reference_nm_, 0}; }

 private:
  void begin_reference() {
    reference_left_ = reference_frames_ = supervisor_.reference_frames();
    reference_nm_ = seen_sum_nm_ = 0;
  }
  /// @returns whether this frame completes a reference
  bool measure(double z_nm) {
    const double noise_nm2 = world_.axial->noise_nm * world_.axial->noise_nm;
    const double seen_nm = z_nm + world_.axial->noise_nm * random_.normal();
    bool complete = false;
    if (reference_left_ > 0) {
      seen_sum_nm_ += seen_nm;
      complete = --reference_left_ == 0;
      if (complete) reference_nm_ = seen_sum_nm_ / reference_frames_;
    }
    const double told_nm2 = world_.axial->told_share * world_.axial->told_share * noise_nm2;
    const double reference_nm2 = told_nm2 / std::max(1, reference_frames_);
    estimate_ = {.valid = true,
                 .reason = control::AxialReason::Measured,
                 .z_nm = seen_nm - reference_nm_,
                 .variance_nm2 = told_nm2 + reference_nm2,
                 .frame_z_nm = seen_nm - reference_nm_,
                 .frame_variance_nm2 = told_nm2 + reference_nm2,
                 .frame_noise_nm2 = told_nm2,
                 .frame_fit_noise_nm2 = told_nm2,
                 .markers_used = world_.axial->markers,
                 .markers_total = world_.axial->markers,
                 .in_range = world_.axial->markers,
                 .frames_averaged = 1};
    return complete;
  }
  void see_residual(const Frame& frame, const control::DriftEstimate& drift) {
    if (!acts())
      gate_.not_locked(frame.now_ns);
    else if (supervisor_.moving())
      gate_.moving(frame.now_ns);
    else
      gate_.measured({drift.frame_drift_nm.x - supervisor_.moved_nm().x, 0}, frame.now_ns);
  }

  const World& world_;
  simulator::Random random_;
  control::Supervisor supervisor_;
  control::AcquisitionGate gate_;
  driftd::test::VirtualTuner tuner_;
  control::AxialEstimate estimate_;
  bool begun_ = false, engaged_ = false;
  int reference_left_ = 0, reference_frames_ = 0;
  double reference_nm_ = 0, seen_sum_nm_ = 0;
  Vec2 told_nm_;
};

}  // namespace

std::unique_ptr<Pilot> make_axial_pilot(const World& world, const std::string& law) {
  for (const auto& [name, is] : {std::pair{"auto", control::ControlLaw::Auto},
                                 {"observer", control::ControlLaw::Observer},
                                 {"pi", control::ControlLaw::Pi}})
    if (law == name) return std::make_unique<AxialPilot>(world, is);
  throw std::invalid_argument("no control law of one axis is called '" + law +
                              "'; there are: auto, observer, pi, best");
}

}  // namespace driftd::stillness
