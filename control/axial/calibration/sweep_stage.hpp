// SPDX-License-Identifier: MIT
// What a sweep says of the stage, however z was read at its places: sideways motion, up against
// down, drift, and the steps at the end. Kept apart from how z is read. Pure; any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "control/axial/calibration/sweep_analysis.hpp"

namespace driftd::control {

[[noreturn]] void fail_sweep(CalibrationFault fault, const std::string& text);

/// z at a place of a sweep.
struct PlaceReading {
  double z_nm = 0, sd_nm = 0;
};
using PlaceReadings = std::vector<std::optional<PlaceReading>>;
/// A value of each place that has one.
using PlaceValue = std::function<std::optional<double>(std::size_t)>;

constexpr double kMedianSd = 1.25;       ///< of the median of many, over that of their mean
constexpr double kLeastPlaceSdNm = 0.3;  ///< what the sample does by itself meanwhile

/// Values that follow a line in z and one in time, and differ between up and down.
struct PlaceLine {
  double value = 0, per_nm = 0, per_s = 0, down_less_up = 0;
  double per_nm_sd = 0, rms = 0;
};

/// Half a hysteresis of this sign is in a place: all but those on the way down are reached from
/// below.
double direction_of(const SweepPlace& place) noexcept;

/// All outlive it. The checks throw CalibrationError.
class SweepStage {
 public:
  SweepStage(const SweepRecord& record, const SweepContext& context, SweepFindings& findings)
      : record_(record), context_(context), findings_(findings), places_(record.plan().places()) {}

  /// Mean time of the frames of a place, since the sweep began.
  double seconds(std::size_t place) const;
  std::vector<std::size_t> places_of(SweepPart part) const;
  /// The place of each step.
  std::vector<std::size_t> steps_of(SweepPart part) const;
  /// Least squares of value(place) over the places that have one.
  std::optional<PlaceLine> line_of(const PlaceValue& value) const;

  /// How much a value changes with the stage over the sweep, and how uncertain that is: by least
  /// squares on the place and its square, beside the time up to its third power.
  struct Change {
    double change = 0, sd = 0;
  };
  std::optional<Change> parabola_of(const PlaceValue& value) const;

  /// All places were measured.
  void check_recorded() const;
  /// No jump in x and y.
  void check_lateral() const;
  /// x and y against z. Coma shifts spots alike on either side of the focus, and there by nothing.
  /// @param at_nm       where the slope is told, from the start
  /// @param unknown_nm  how far that may be from the focus
  void find_tilt(double at_nm, double unknown_nm) const;
  /// Of each place against the first visit of the start: linear between its visits.
  /// @throws CalibrationError where it was not read
  std::vector<double> drift_of(const PlaceReadings& read) const;
  /// Up against down, and the drift.
  void judge(const PlaceReadings& read) const;
  /// The steps at the end, as they were read, after judge().
  void check_steps(const PlaceReadings& read) const;
  /// @param moved_nm  on its way, while it was measured
  void check_settling(double moved_nm, double sd_nm) const;
  /// What the lock would see.
  void check_noise() const;

 private:
  /// Where the sample was in x or y at a place.
  PlaceValue lateral_of(double Vec2::*axis) const;
  [[noreturn]] void fail_unsettled() const;
  bool still_moved() const;
  /// A height on both ways: what was read down less up.
  struct Apart {
    std::size_t up = 0, down = 0;  ///< places
    double nm = 0, sd_nm = 0;
  };
  void check_alike(const std::vector<Apart>& all) const;
  void check_starts(const PlaceReadings& read) const;

  const SweepRecord& record_;
  const SweepContext& context_;
  SweepFindings& findings_;
  const std::vector<SweepPlace>& places_;
};

/// Of a reflected spot: its slope and angle. @throws CalibrationError
void measure_spot(const SweepRecord& record, const SweepStage& stage, SweepFindings& findings);

}  // namespace driftd::control
