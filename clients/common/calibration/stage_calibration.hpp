// SPDX-License-Identifier: MIT
// What the daemon found out about the stage (docs/reference/protocol.md, `calibration`), as values,
// and what `driftctl calibrate` makes of it: lines for people and values for the configuration.
// Pure functions; no socket, no file.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace driftd::clients {

using Matrix2 = std::array<std::array<double, 2>, 2>;
using PerAxis2 = std::array<double, 2>;  ///< x, y

/// A lock that would leave more runs away, and how far means nothing.
constexpr double kRunsAwayNm = 100;

/// What is not known is empty; `sd` is one standard deviation.
struct FoundValue {
  std::optional<double> value, sd;
};

/// Measured per axis and modelled, of a step of 1. NaN where there is no value.
struct StepResponse {
  std::vector<double> time_ms, x, y, model;
};

struct MarkerNoise {
  int id = 0;
  double noise_nm = 0;
};

/// One-sided densities at `frequency_hz`.
struct DriftSpectrum {
  std::vector<double> frequency_hz, x_nm2_per_hz, y_nm2_per_hz;
};

/// What the lock uses of a stage, with the residual that it should leave.
struct StageSettings {
  std::optional<Matrix2> image_to_stage;
  std::optional<double> delay_us, time_constant_us, resonance_hz, damping;
  std::optional<double> integral, proportional, residual_nm;
  bool is_second_order() const { return resonance_hz.value_or(0) > 0; }
};

struct StageCalibration {
  std::optional<Matrix2> image_to_stage, image_to_stage_sd;
  std::optional<bool> mirrored;
  std::optional<double> rotation_deg;
  std::optional<PerAxis2> scale;
  FoundValue delay_us, time_constant_us, resonance_hz, damping, bandwidth_hz;
  /// The part of the delay that commands wait for their turn. driftd learns it by itself.
  std::optional<double> waiting_us;
  std::optional<int> order;
  std::optional<double> stage_noise_nm;
  std::optional<PerAxis2> cross_talk;  ///< what y does on a move of x, and the other way round
  std::optional<PerAxis2> hysteresis, noise_nm, fit_residual_nm, drift_nm_per_s, returned_nm;
  DriftSpectrum spectrum;
  std::vector<MarkerNoise> markers;
  std::optional<double> seconds;
  std::optional<long> samples;
  StepResponse response;
  StageSettings present, proposal;
  std::optional<double> configured_pixel_nm, pixel_ratio_sd;
};

/// From the `result` of a reply. Fields that are null or missing are empty.
/// @throws nlohmann::json::exception where a field is something else than it should
StageCalibration read_calibration(const nlohmann::json& result);

/// Two explanations of one matrix: all lengths are wrong by a common factor.
struct PixelSizeQuestion {
  double configured_nm;  ///< the pixel as configured
  double factor;         ///< stage displacement over image displacement
  double factor_sd;
  double pixel_nm;        ///< the pixel, were the stage right
  double stage_moves_by;  ///< nm for each nm that it is told, were the pixel right
};

/// A value where the matrix is, within its uncertainty and 2 %, a turn (mirrored or not) times a
/// factor that differs from 1 by more than 0.5 % and three standard deviations.
std::optional<PixelSizeQuestion> pixel_size_question(const StageCalibration& calibration);

/// Why what the daemon proposes is not to be taken, as the rest of a sentence: nobody knows that it
/// would hold, it would not, or it is clearly worse than what is configured. Empty: it is, or there
/// is nothing.
std::string why_not_proposed(const StageCalibration& calibration);

/// Keys of the configuration with the values proposed, in YAML. With `pixel` the factor goes into
/// optics.pixel_size_nm instead of the matrix. Empty where why_not_proposed() says why.
std::vector<std::pair<std::string, std::string>> proposed_values(
    const StageCalibration& calibration, const std::optional<PixelSizeQuestion>& pixel);

/// What was found, with uncertainties, beside what is configured. At most 80 columns.
std::vector<std::string> findings(const StageCalibration& calibration);
/// What is proposed beside what is configured, and what it changes.
std::vector<std::string> proposal_lines(
    const StageCalibration& calibration,
    const std::vector<std::pair<std::string, std::string>>& values);
/// The two explanations, as sentences.
std::vector<std::string> question_lines(const PixelSizeQuestion& question);

}  // namespace driftd::clients
