// SPDX-License-Identifier: MIT
// From the record of a calibration run to what the stage is: matrix, dead time, response,
// hysteresis and noise, each with its standard deviation, what the configuration should say, and
// the residual that a lock would then have; or why the record does not tell.
// docs/internals/identification.md has the method and its figures. Pure; any thread; some seconds
// for 10,000 frames.
#pragma once

#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "control/identification/gain_course.hpp"
#include "control/identification/stage_record.hpp"
#include "control/law/controller.hpp"

namespace driftd::control {

struct IdentificationSettings {
  const std::atomic<bool>* cancelled =
      nullptr;                 ///< set by another thread: the result is not wanted
  ControllerSettings present;  ///< as configured: what it would leave is told beside the proposal
  /// Standard deviation of each element of the image's own gain, seen by moved: fits err by where a
  /// spot lies on its pixels. No number of frames lessens it.
  double image_gain_sd = 0;
};

/// A stage and gains for the configuration. `residual_nm`: per axis rms, predicted; not finite or
/// very large where the loop would not hold.
struct StageProposal {
  ImageToStage image_to_stage;
  double delay_us = 0;
  double time_constant_us = 0;
  double resonance_hz = 0, damping = 1;  ///< of second order instead, above 0
  double integral = 0, proportional = 0;
  double residual_nm = 0;
};

/// Power spectral density of the drift, one-sided, without what the stage moved.
struct DriftSpectrum {
  std::vector<double> frequency_hz, x_nm2_per_hz, y_nm2_per_hz;
};

/// Response to a unit step: measured of each axis, and of the fitted shape.
struct StepResponse {
  std::vector<double> time_ms, x, y, x_sd, y_sd, model;
};

/// Image axes or stage axes as said; sd: one standard deviation.
struct StageCalibration {
  /// For small motions, as a lock makes them: where there is hysteresis, larger ones go farther.
  ImageToStage image_to_stage;
  ImageToStage image_to_stage_sd;
  bool mirrored = false;
  double rotation_deg = 0;    ///< from the image's x axis to the stage's x axis, x towards y
  Vec2 scale, scale_sd;       ///< nm in the image per nm of each stage axis
  double pixel_ratio = 1;     ///< the pixel size should be so many times the configured one, if
  double pixel_ratio_sd = 0;  ///< the stage's nm are right
  Vec2 cross_talk, cross_talk_sd;  ///< x: share of x's motion that goes along y; y: the other way

  int order = 1;
  double delay_us = 0, delay_sd_us = 0;
  std::optional<double> time_constant_us, time_constant_sd_us;               ///< first order
  std::optional<double> resonance_hz, resonance_sd_hz, damping, damping_sd;  ///< second order
  double bandwidth_hz = 0, bandwidth_sd_hz = 0;                              ///< -3 dB
  Vec2 hysteresis, hysteresis_sd;  ///< stage axes: share of a motion over the excursion that lags
  std::optional<double> stage_noise_nm;  ///< of the image while it moves and while it rests;
                                         ///< unknown where the estimator's noise is not

  Vec2 noise_nm;         ///< measurement noise of the drift per frame, image axes
  Vec2 fit_residual_nm;  ///< rms of what motion and noise model leave of a frame, image axes
  Vec2 drift_nm_per_s;   ///< image axes; a walk besides makes it another each time
  DriftSpectrum spectrum;
  StepResponse response;
  Vec2 returned_nm;  ///< the sample's place at the end, the drift's slope taken off, image axes
  double seconds = 0;
  int samples = 0, outliers = 0, missing = 0;
  double age_us = 0;  ///< median, from the middle of an exposure to the command after it

  StageProposal present, proposal;
};

struct StageIdentification {
  StageRefusal refusal = StageRefusal::None;
  std::string text;         ///< the refusal's sentence; empty when there is none
  StageCalibration result;  ///< without a refusal
  bool refused() const noexcept { return refusal != StageRefusal::None; }
};

StageIdentification identify_stage(const StageRecord& record,
                                   const IdentificationSettings& settings);

}  // namespace driftd::control
