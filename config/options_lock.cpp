// SPDX-License-Identifier: MIT
// Rows of the option table: from the drift to the correction.
#include "config/options.hpp"

namespace driftd::config {
namespace {

std::vector<Option> lock_section() {
  return {
      row<&Config::lock, &Lock::at_start>(
          "lock.at_start", false,
          {.text = "Engage the lock by itself as soon as markers are found. `false`: on command."}),
      row<&Config::lock, &Lock::resume>(
          "lock.resume", Resume::Ask,
          {.text = "What becomes of a lock that the daemon's end interrupted (killed, power loss, "
                   "`systemctl restart`), once its markers are found again. `ask`: say how far the "
                   "sample has moved, and wait for `lock --resume` (back), `lock` (new reference) "
                   "or `unlock`; `lock.at_start` waits as well. `always`: go back, where the "
                   "limits and `lock.max_jump_nm` allow it, else ask. `never`: nothing is kept of "
                   "a lock."}),
      row<&Config::lock, &Lock::reference_frames>(
          "lock.reference_frames", 100,
          {.text = "The lock's reference is the mean position over so many good frames. Its error "
                   "is the lock's offset for as long as it lasts. More are taken where the daemon "
                   "has not yet seen the sample for 64 frames without corrections, which it needs "
                   "to notice a stage that does not follow.",
           .min = 1,
           .max = 100'000,
           .reload = Reload::Live}),
      row<&Config::lock, &Lock::reference_timeout_s>(
          "lock.reference_timeout_s", 10,
          {.text = "The lock goes back to idle when the reference is not taken within this time.",
           .unit = "s",
           .min = 0,
           .max = 3600,
           .above_min = true,
           .reload = Reload::Live}),
      row<&Config::lock, &Lock::hold_timeout_s>(
          "lock.hold_timeout_s", 10,
          {.text = "After holding for so long the lock is lost, and only a command brings it back. "
                   "To ride out a camera's reboot, allow for its length.",
           .unit = "s",
           .min = 0,
           .max = 86'400,
           .above_min = true,
           .reload = Reload::Live}),
      row<&Config::lock, &Lock::bad_frames_to_hold>(
          "lock.bad_frames_to_hold", 3,
          {.text = "So many bad frames in a row turn locked into holding.",
           .min = 1,
           .max = 10'000,
           .reload = Reload::Live}),
      row<&Config::lock, &Lock::max_frame_age_ms>(
          "lock.max_frame_age_ms", 50,
          {.text = "An older frame is counted as stale and used for nothing.",
           .unit = "ms",
           .min = 0,
           .max = 10'000,
           .above_min = true,
           .reload = Reload::Live}),
      row<&Config::lock, &Lock::max_jump_nm>(
          "lock.max_jump_nm", 100,
          {.text = "A larger change of the drift from one frame to the next is implausible: the "
                   "frame is bad.",
           .unit = "nm",
           .min = 0,
           .max = 100'000,
           .above_min = true,
           .reload = Reload::Live}),
      row<&Config::lock, &Lock::max_drift_nm_per_s>(
          "lock.max_drift_nm_per_s", 10,
          {.text = "While no drift can be measured (camera away, markers hidden) the sample may "
                   "move so fast: `lock.max_jump_nm` grows by it until the next drift.",
           .unit = "nm/s",
           .min = 0,
           .max = 100'000,
           .reload = Reload::Live}),
  };
}

std::vector<Option> gate_section() {
  return {
      row<&Config::gate, &Gate::tolerance_nm>(
          "gate.tolerance_nm", 1.0,
          {.text = "`in_lock` is true while the residual's rms is within this in each axis, the "
                   "noise of the measurement included. Once true it ends at 1.25 times this, or "
                   "where one frame is 4 times this away.",
           .unit = "nm",
           .min = 0,
           .max = 100'000,
           .above_min = true,
           .reload = Reload::Live}),
      row<&Config::gate, &Gate::z_tolerance_nm>("gate.z_tolerance_nm", 5,
                                                {.text = "The same for z, while z is locked.",
                                                 .unit = "nm",
                                                 .min = 0,
                                                 .max = 100'000,
                                                 .above_min = true,
                                                 .reload = Reload::Live}),
      row<&Config::gate, &Gate::average_s>(
          "gate.average_s", 0.1,
          {.text = "The rms is over about so long (8 frames at least), and the sample has to lie "
                   "still for so long before `in_lock` is true.",
           .unit = "s",
           .min = 0.001,
           .max = 60,
           .reload = Reload::Live}),
  };
}

std::vector<Option> control_section() {
  return {
      row<&Config::control, &Control::law>(
          "control.law", control::ControlLaw::Auto,
          {.text =
               "`observer`: learns how the sample moves (drift, vibrations) and how the stage "
               "answers, and corrects what is about to come. `pi`: a fixed law by `proportional` "
               "and `integral`. `auto`: the observer, and PI for a while where that would have "
               "held the sample stiller; the event `control_law` says so.",
           .reload = Reload::Live}),
      row<&Config::control, &Control::coast_nm>(
          "control.coast_nm", 1.5,
          {.text = "Frames in which too few markers are seen are corrected as the observer expects "
                   "the sample to move, as long as it knows the sample's place so well (a standard "
                   "deviation), for at most 2 s. 0: they are not, and the lock is held after "
                   "lock.bad_frames_to_hold of them.",
           .unit = "nm",
           .min = 0,
           .max = 100,
           .reload = Reload::Live}),
      row<&Config::control, &Control::verify_lines>(
          "control.verify_lines", true,
          {.text = "A camera shows a vibration above half its frame rate as a slower one, which "
                   "must not be followed. `true`: from 44 frames/s on the observer follows a sharp "
                   "vibration once it is verified: while locked, the camera sends its frames 2 % "
                   "later for 200 of them, and what is faster than it looks is seen elsewhere. "
                   "Where the camera has no `camera.frame_rate_hz` of its own (0, or a "
                   "trigger) nothing is verified. `false`: likewise; all are followed.",
           .reload = Reload::Live}),
      row<&Config::control, &Control::proportional>(
          "control.proportional", 0,
          {.text = "PI: share of the predicted error that each frame corrects at once.",
           .min = 0,
           .max = 1,
           .reload = Reload::Live}),
      row<&Config::control, &Control::integral>(
          "control.integral", 0.3,
          {.text =
               "PI: share of the predicted error that each frame adds to the correction for good. "
               "Larger follows faster and passes on more noise. Never 0: a constant drift would "
               "stay.",
           .min = 0,
           .max = 1,
           .above_min = true,
           .reload = Reload::Live}),
      row<&Config::control, &Control::step_limit_nm>(
          "control.step_limit_nm", 20,
          {.text = "Largest change of the correction from one frame to the next, per axis. Good: "
                   "about five standard deviations of the drift estimate, or what the stage may "
                   "do at once.",
           .unit = "nm",
           .min = 0,
           .max = 10'000,
           .above_min = true,
           .reload = Reload::Live}),
      row<&Config::control, &Control::rate_limit_nm_per_s>(
          "control.rate_limit_nm_per_s", 2000,
          {.text = "Fastest change of the correction, per axis. Below about 100 nm/s a lock that "
                   "is held because the stage did not follow may stay held although it follows "
                   "again: the moves that try it are too slow to be seen.",
           .unit = "nm/s",
           .min = 0,
           .max = 1'000'000,
           .above_min = true,
           .reload = Reload::Live}),
      row<&Config::control, &Control::range_limit_nm>(
          "control.range_limit_nm", 5000,
          {.text =
               "Largest correction from the stage's place at lock, per axis. While locked not made "
               "narrower than the stage stands, nor while a move is under way.",
           .unit = "nm",
           .min = 0,
           .max = 1'000'000,
           .above_min = true,
           .reload = Reload::Live}),
      row<&Config::control, &Control::travel_limit_nm>(
          "control.travel_limit_nm", 5000,
          {.text =
               "Largest distance of the stage from its place when the daemon started, per axis: "
               "the corrections of all locks since then, added, and of a lock that was interrupted "
               "before. Where it acts, corrections say `range`.",
           .unit = "nm",
           .min = 0,
           .max = 1'000'000,
           .above_min = true,
           .reload = Reload::Live}),
  };
}

std::vector<Option> stage_section() {
  return {
      row<&Config::stage, &Stage::image_to_stage>(
          "stage.image_to_stage", Matrix2{{{1, 0}, {0, 1}}},
          {.text = "Stage displacement = [[a, b], [c, d]] x image displacement, both in nm, image "
                   "x right and y down. A camera turned by 90 degrees: [[0, -1], [1, 0]]; a mirror "
                   "in the path: a negative determinant. With a wrong sign the lock holds "
                   "(`stage_not_following`).",
           .min = -10,
           .max = 10,
           .reload = Reload::Idle}),
      row<&Config::stage, &Stage::delay_us>(
          "stage.delay_us", 3000,
          {.text = "From sending a correction to the stage starting to move: driver and "
                   "electronics.",
           .unit = "us",
           .min = 0,
           .max = 1'000'000,
           .reload = Reload::Idle}),
      row<&Config::stage, &Stage::time_constant_us>(
          "stage.time_constant_us", 1000,
          {.text = "After that the stage comes 63 % of the way in this time. 0: at once.",
           .unit = "us",
           .min = 0,
           .max = 1'000'000,
           .reload = Reload::Idle}),
      row<&Config::stage, &Stage::resonance_hz>(
          "stage.resonance_hz", 0,
          {.text = "From 0.1 on: after its dead time the stage answers as a mass on a spring does "
                   "(second order), of this natural frequency, and `stage.time_constant_us` is not "
                   "used. For a stage that is slow against the frames, or rings.",
           .unit = "Hz",
           .min = 0,
           .max = 10'000,
           .reload = Reload::Idle}),
      row<&Config::stage, &Stage::damping>(
          "stage.damping", 0.7,
          {.text = "Of that answer: below 1 it overshoots, near 0 it rings.",
           .min = 0.01,
           .max = 100,
           .reload = Reload::Idle}),
      row<&Config::stage, &Stage::acquaint>(
          "stage.acquaint", control::AcquaintWhen::First,
          {.text = "When a lock finds out by itself how the stage answers (matrix, dead time, "
                   "response), by moves of 3 to 5 nm for a second or two that no frame decides. "
                   "`first`: before the first correction, unless an earlier lock has found it out "
                   "for this description; and when it is held because the stage does not follow. "
                   "`held`: only then; `driftctl calibrate --write` sets it. `never`: the lock "
                   "goes by what is described.",
           .reload = Reload::Idle}),
      row<&Config::stage, &Stage::require_driver>(
          "stage.require_driver", false,
          {.text = "`true`: `lock` is refused unless a driver has reported that the stage is ready "
                   "(`driftd-stage` and `driftd.stages` do). `false`: it is warned about.",
           .reload = Reload::Idle}),
  };
}

}  // namespace

std::vector<Option> lock_options() {
  return joined({lock_section(), gate_section(), control_section(), stage_section()});
}

}  // namespace driftd::config
