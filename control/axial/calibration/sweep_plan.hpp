// SPDX-License-Identifier: MIT
// The places that a calibration of z takes the sample to, one after another: up through the range
// and down through it, and every few steps to its start, which tells how it drifts meanwhile; then
// two steps that the new curve is to read, and the start. Every place but those of the way down is
// reached from the lowest place of the sweep without turning, those of the way down from the
// highest: what the stage has of hysteresis then lies in the difference between up and down alone,
// however long a way it takes to build up. Immutable; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace driftd::control {

struct SweepSettings {
  double range_nm = 500;      ///< of the sample, to either side of its start
  double step_nm = 25;        ///< from place to place
  double check_nm = 50;       ///< of the steps at the end, to either side
  int frames_per_place = 20;  ///< measured once it has settled; at the start three times as many
  double settle_s = 0.03;     ///< from the last move on
};

enum class SweepPart : std::uint8_t {
  Approach,  ///< not measured: the next one is reached from there
  Start,     ///< where the sample was
  Up,
  Down,
  Check,
};

struct SweepPlace {
  double z_nm = 0;  ///< of the sample, from its start
  SweepPart part = SweepPart::Approach;
  std::size_t step = 0;  ///< of Up and Down: counted from the lowest
  int frames = 0;        ///< that are measured there
  bool is_measured() const noexcept { return part != SweepPart::Approach; }
};

class SweepPlan {
 public:
  static constexpr double kLeastRangeNm = 50, kMostRangeNm = 2000;
  /// So far to either side of where the sample is a curve of widths has to be read.
  static constexpr double kBesideAstigmaticNm = 200, kBesideDefocusNm = 100;
  static constexpr double kLeastStepNm = 1, kMostStepNm = 200;
  static constexpr std::size_t kFewestSteps = 7, kMostSteps = 401;

  /// How far beyond a range it begins, to come from there.
  static double approach_nm(double step_nm) noexcept;
  /// @param settings  a range of at least three steps
  explicit SweepPlan(const SweepSettings& settings);

  const SweepSettings& settings() const noexcept { return settings_; }
  const std::vector<SweepPlace>& places() const noexcept { return places_; }
  /// Places on the way up.
  std::size_t steps() const noexcept { return steps_; }
  /// How far it takes the sample from its start, to either side.
  double farthest_nm() const noexcept { return farthest_nm_; }
  /// How long it takes at this rate of frames, where the stage can be moved so fast.
  double seconds(double frames_hz, double nm_per_s) const noexcept;

 private:
  SweepSettings settings_;
  std::vector<SweepPlace> places_;
  std::size_t steps_ = 0;
  double farthest_nm_ = 0;
};

}  // namespace driftd::control
