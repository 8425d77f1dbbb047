// SPDX-License-Identifier: MIT
#include "clients/common/measure/recommendations.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "base/counted.hpp"
#include "clients/common/measure/spectrum.hpp"
#include "control/law/observer/disturbance_model.hpp"

namespace driftd::clients {
namespace {

/// A part of the noise that is worth words: this share of its square.
constexpr double kWorthShare = 0.2;
/// Amplitude of a vibration, and what is missed of a drift, that are worth words.
constexpr double kWorthNm = 0.1;
/// Uncertainties that are told so much too large or too small.
constexpr double kFarFromTold = 1.5;
/// Of a frame's time; less leaves room.
constexpr double kShortExposure = 0.4;
constexpr double kManyMissing = 0.01;
/// With fewer a marker that moves by itself cannot be told from the sample.
constexpr std::size_t kFewestMarkers = 3;

double both(double x, double y) {
  return std::sqrt(0.5 * (x * x + y * y));
}

class Words {
 public:
  Words(const MeasurementReport& report, const std::optional<config::Config>& config,
        std::vector<Advice>& list)
      : r_(report), config_(config), list_(list) {}

  void say() {
    if (r_.state == "locked")
      add("locked",
          "this is what the lock leaves, as it sees it itself: unlock, and measure again, "
          "to see what the sample does by itself");
    frames();
    light();
    uncertainties();
    markers();
    drift();
    for (std::size_t axis = 0; axis < 2; ++axis)
      for (const VibrationLine& line : r_.axes.at(axis).lines) vibration(axis, line);
    averaging();
  }

 private:
  void add(const char* code, std::string text, const char* axis = "") {
    list_.push_back({code, axis, std::move(text)});
  }

  void frames() {
    if (r_.missing_share > kManyMissing)
      add("missing",
          fmt::format("{:.1f} % of the frames have no position: too few markers are seen "
                      "in them, or the computer is late (`driftctl doctor`)",
                      100 * r_.missing_share));
  }

  void light() {
    const double noise = noise_nm(), allowed = both(r_.markers_allow_nm[0], r_.markers_allow_nm[1]);
    if (!(noise > 0 && allowed > 0)) return;
    const double share = std::min(1.0, allowed * allowed / (noise * noise));
    const double left = noise * std::sqrt(1 - share);
    if (share <= kWorthShare) {
      add("markers", fmt::format("more light would not help: without the markers' noise {:.2f} of "
                                 "{:.2f} nm would be left in a frame",
                                 left, noise));
      return;
    }
    std::string text = fmt::format(
        "brighter markers, or more of them, would help: without their noise {:.2f} of {:.2f} nm "
        "would be left in a frame; twice the light, or twice the markers, leaves {:.2f} nm",
        left, noise, noise * std::sqrt(1 - share / 2));
    if (config_ && config_->camera.exposure_us > 0 && r_.rate_hz > 0 &&
        config_->camera.exposure_us * 1e-6 * r_.rate_hz < kShortExposure)
      text += fmt::format(
          ". camera.exposure_us takes {:.0f} % of a frame's time: it may be longer, "
          "as long as no pixel is saturated",
          config_->camera.exposure_us * 1e-4 * r_.rate_hz);
    add("markers", std::move(text));
  }

  void uncertainties() {
    const double told = both(r_.axes[0].promised_noise_nm, r_.axes[1].promised_noise_nm);
    const double ratio = told / noise_nm();
    if (ratio > kFarFromTold || ratio < 1 / kFarFromTold)
      add("uncertainty", fmt::format("the frames say that they are uncertain by {:.2f} nm, and "
                                     "scatter by {:.2f}: the camera's gain and offset may be wrong "
                                     "(`driftctl calibrate camera`)",
                                     told, noise_nm()));
  }

  void markers() {
    std::size_t tracking = 0, witnesses = 0;
    for (const MarkerReport& marker : r_.markers) {
      ++(marker.witness ? witnesses : tracking);
      if (!marker.remark.empty())
        add("marker", fmt::format("marker {}: {}: leave it out (markers.mode: list), or clean the "
                                  "sample",
                                  marker.id, marker.remark));
    }
    if (tracking > 0 && tracking < kFewestMarkers)
      add("few_markers",
          fmt::format("{} only: one that moves by itself is not told from the sample "
                      "with fewer than {}",
                      counted(tracking, "marker"), kFewestMarkers));
    if (tracking >= kFewestMarkers && witnesses == 0)
      add("no_witness",
          "no marker is a witness (markers.witness_fraction, markers.min_for_witness): then only "
          "those that are "
          "locked to say how well the lock holds");
  }

  /// From a frame until the stage has answered it by two thirds.
  double answer_s() const {
    const config::Stage& stage = config_->stage;
    const double response_us = stage.resonance_hz > 0
                                   ? 1e6 / (2 * std::numbers::pi * stage.resonance_hz)
                                   : stage.time_constant_us;
    return (stage.delay_us + response_us) * 1e-6 + 1 / r_.rate_hz;
  }
  double bandwidth_hz() const {
    const config::Stage& stage = config_->stage;
    if (stage.resonance_hz > 0) return stage.resonance_hz;
    return stage.time_constant_us > 0 ? 1e6 / (2 * std::numbers::pi * stage.time_constant_us)
                                      : INFINITY;
  }

  void drift() {
    const double nm_per_s =
        std::hypot(r_.axes[0].drift_nm_per_min, r_.axes[1].drift_nm_per_min) / 60;
    if (r_.state == "locked" || !config_ || !(r_.rate_hz > 0)) return;
    const double missed_nm = nm_per_s * answer_s();
    const std::string text = fmt::format(
        "the sample drifts by {:.3g} nm/min, {:.2f} nm until the "
        "stage has answered a frame ({:.1f} ms)",
        60 * nm_per_s, missed_nm, 1e3 * answer_s());
    if (missed_nm > kWorthNm)
      add("drift", text +
                       ": a higher frame rate and a stage that answers sooner would help, and to "
                       "let it settle");
    else
      add("drift", text + ": a lock holds that");
  }

  void vibration(std::size_t axis, const VibrationLine& line) {
    if (line.amplitude_nm < kWorthNm) return;
    const std::string others = look_alikes_text(line.frequency_hz, r_.rate_hz);
    std::string text = fmt::format("a line of {:.1f} nm at {:.1f} Hz{}: ", line.amplitude_nm,
                                   line.frequency_hz, others);
    if (r_.rate_hz < control::kLeastRateForLinesHz)
      text += fmt::format(
          "the lock does not follow it: below {:.0f} frames/s most are faster than "
          "they look. Measure at another camera.frame_rate_hz, where it is seen "
          "elsewhere if it is one of the others",
          control::kLeastRateForLinesHz);
    else if (config_ && line.frequency_hz > bandwidth_hz())
      text += fmt::format("too fast for the stage, which follows up to {:.0f} Hz: stop what shakes",
                          bandwidth_hz());
    else if (config_ && config_->control.law == control::ControlLaw::Pi)
      text += "control.law: observer, or auto, learns to foresee it, and PI does not";
    else
      text += "the observer learns to foresee it; to stop what shakes is better still";
    add("line", std::move(text), axis == 0 ? "x" : "y");
  }

  /// The least Allan deviation: where averaging ends to help.
  void averaging() {
    const std::vector<AllanPoint>&x = r_.axes[0].allan, &y = r_.axes[1].allan;
    if (x.empty() || x.size() != y.size() || r_.state == "locked") return;
    std::size_t best = 0;
    const auto at = [&](std::size_t i) { return both(x[i].deviation_nm, y[i].deviation_nm); };
    for (std::size_t i = 1; i < x.size(); ++i)
      if (at(i) < at(best)) best = i;
    if (best == 0)
      add("averaging",
          fmt::format("from one frame to the next the sample moves more than a frame's "
                      "noise ({:.2f} nm): a higher frame rate would help",
                      noise_nm()));
    else
      add("averaging",
          fmt::format("averaging helps up to {:.3g} s, where the place is known to {:.2f} "
                      "nm; over longer times the sample's own motion is larger",
                      x[best].averaged_s, at(best)));
  }

  double noise_nm() const { return both(r_.axes[0].frame_noise_nm, r_.axes[1].frame_noise_nm); }

  const MeasurementReport& r_;
  const std::optional<config::Config>& config_;
  std::vector<Advice>& list_;
};

}  // namespace

std::vector<Advice> recommendations(const MeasurementReport& report,
                                    const std::optional<config::Config>& config) {
  std::vector<Advice> list;
  Words(report, config, list).say();
  if (list.empty()) list.push_back({"nothing", "", "nothing stands out: lock"});
  return list;
}

}  // namespace driftd::clients
