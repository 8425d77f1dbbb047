// SPDX-License-Identifier: MIT
#include "record/rows.hpp"

#include <array>
#include <cstring>
#include <type_traits>

#include "control/lock/lock_state.hpp"
#include "control/values/types.hpp"

namespace driftd::record {
namespace {

constexpr std::array kRoles = {"tracking", "witness"};
constexpr std::array kCorrections = {"none", "left", "not_left", "unknown"};
constexpr std::array kDriverStates = {"ready", "servo_off",    "not_referenced", "limit",
                                      "error", "disconnected", "stopped"};

template <typename Field>
constexpr Kind kind_of() {
  if constexpr (std::is_same_v<Field, bool>) return Kind::Flag;
  if constexpr (std::is_same_v<Field, std::uint8_t>) return Kind::U8;
  if constexpr (std::is_same_v<Field, std::uint16_t>) return Kind::U16;
  if constexpr (std::is_same_v<Field, std::uint32_t>) return Kind::U32;
  if constexpr (std::is_same_v<Field, std::uint64_t>) return Kind::U64;
  if constexpr (std::is_same_v<Field, std::int64_t>) return Kind::I64;
  if constexpr (std::is_same_v<Field, float>) return Kind::F32;
  if constexpr (std::is_same_v<Field, double>) return Kind::F64;
  if constexpr (std::is_same_v<Field, const char*>) return Kind::Text;
  return Kind::Choice;
}

Column column(Kind kind, const char* name, std::size_t offset, const char* unit, const char* text,
              std::span<const char* const> choices = {}) {
  return {name, choices.empty() ? kind : Kind::Choice, offset, unit, text, choices};
}

/// A column of the row R, called as its field is.
#define COLUMN(field, ...) \
  column(kind_of<decltype(R::field)>(), #field, offsetof(R, field), __VA_ARGS__)

std::span<const char* const> lock_states() {
  using control::LockState;
  static const std::array names = {
      control::name_of(LockState::Idle),       control::name_of(LockState::Referencing),
      control::name_of(LockState::Locked),     control::name_of(LockState::Holding),
      control::name_of(LockState::Lost),       control::name_of(LockState::Fault),
      control::name_of(LockState::Calibrating)};
  return names;
}

std::span<const char* const> healths() {
  using control::MarkerHealth;
  static const std::array names = {
      control::name_of(MarkerHealth::Good),      control::name_of(MarkerHealth::OutsideFrame),
      control::name_of(MarkerHealth::FitFailed), control::name_of(MarkerHealth::Implausible),
      control::name_of(MarkerHealth::Outlier),   control::name_of(MarkerHealth::Unreferenced)};
  return names;
}

}  // namespace

const TableLayout& frames_layout() {
  using R = FrameRow;
  static const std::array columns = {
      COLUMN(frame_id, "",
             "the camera's number of the frame; a gap is a frame that was lost or skipped"),
      COLUMN(camera_time_ns, "ns", "the camera's own clock; 0 without one"),
      COLUMN(arrival_ns, "ns", "when the host had all of it (CLOCK_MONOTONIC)"),
      COLUMN(taken_ns, "ns", "middle of its exposure (CLOCK_MONOTONIC)"),
      COLUMN(wall_ns, "ns",
             "the same instant since 1970-01-01 UTC; how well that is known is in `clock`"),
      COLUMN(sent_ns, "ns",
             "when its correction, or else its position, was handed to ZeroMQ (CLOCK_MONOTONIC); "
             "0: not, or not known"),
      COLUMN(state, "", "of the lock after this frame", lock_states()),
      COLUMN(stale, "", "it came too late to be used: nothing was measured"),
      COLUMN(valid, "", "enough good markers: the drift was measured"),
      COLUMN(reference, "",
             "counts what the drift is relative to: where it changes, so does the drift's zero"),
      COLUMN(x_nm, "nm",
             "the drift, image axes (x right, y down), sample plane, averaged over markers and "
             "drift.average_frames"),
      COLUMN(y_nm, "nm", "the same in y"),
      COLUMN(x_sd_nm, "nm", "standard deviation of x_nm"),
      COLUMN(y_sd_nm, "nm", "standard deviation of y_nm"),
      COLUMN(frame_x_nm, "nm", "the drift of this frame alone"),
      COLUMN(frame_y_nm, "nm", "the same in y"),
      COLUMN(frame_x_sd_nm, "nm", "standard deviation of frame_x_nm"),
      COLUMN(frame_y_sd_nm, "nm", "standard deviation of frame_y_nm"),
      COLUMN(markers_used, "", "in the drift"),
      COLUMN(markers_total, "", "tracking markers"),
      COLUMN(witness_valid, "", "witness markers were measured"),
      COLUMN(witness_x_nm, "nm",
             "the witness markers' mean displacement: the check from outside the loop"),
      COLUMN(witness_y_nm, "nm", "the same in y"),
      COLUMN(witnesses_used, "", "in that mean"),
      COLUMN(lock_id, "", "of the lock; 0: none yet"),
      COLUMN(correction, "", "whether this frame made a correction, and whether that left",
             kCorrections),
      COLUMN(probe, "", "the correction tries how the stage answers; the drift is not followed"),
      COLUMN(in_lock, "",
             "the residual was within gate.tolerance_nm, and of z, where that is locked, within "
             "gate.z_tolerance_nm"),
      COLUMN(
          set_x_nm, "nm",
          "where moves had the sample, image axes, from the reference; less it, the drift is the "
          "lock's residual"),
      COLUMN(set_y_nm, "nm", "the same in y"),
      COLUMN(total_x_nm, "nm",
             "where the stage was told to be, stage axes, from its place at lock"),
      COLUMN(total_y_nm, "nm", "the same in y"),
      COLUMN(delta_x_nm, "nm", "change against the correction before"),
      COLUMN(delta_y_nm, "nm", "the same in y"),
      COLUMN(limited, "", "what held the correction back: 1 step, 2 rate, 4 range, added"),
      COLUMN(z_valid, "", "z was measured; false without axial.method, too"),
      COLUMN(z_markers_used, "", "in z"),
      COLUMN(z_nm, "nm",
             "the sample's z, up, from the reference, averaged as x_nm is; NaN: not measured"),
      COLUMN(z_sd_nm, "nm", "standard deviation of z_nm"),
      COLUMN(frame_z_nm, "nm", "z of this frame alone"),
      COLUMN(frame_z_sd_nm, "nm", "standard deviation of frame_z_nm"),
      COLUMN(witness_z_nm, "nm", "the witness markers' mean z"),
      COLUMN(z_state, "", "of the lock of z after this frame", lock_states()),
      COLUMN(z_lock_id, "", "of the lock of z; 0: none yet"),
      COLUMN(z_correction, "", "as correction, of z", kCorrections),
      COLUMN(set_z_nm, "nm", "where moves had the sample in z, as set_x_nm"),
      COLUMN(total_z_nm, "nm",
             "where the stage of z was told to be, from its place where that lock engaged"),
      COLUMN(delta_z_nm, "nm", "change against the correction of z before"),
  };
  static const TableLayout layout = {"frames", "one row a frame", sizeof(R), columns};
  return layout;
}

const TableLayout& localizations_layout() {
  using R = LocalizationRow;
  static const std::array columns = {
      COLUMN(frame_id, "", "as in `frames`"),
      COLUMN(marker_id, "", "of the marker"),
      COLUMN(role, "", "of the marker", kRoles),
      COLUMN(health, "", "of the marker in this frame", healths()),
      COLUMN(fitted, "", "false: the values are NaN"),
      COLUMN(x_px, "px", "column on the full sensor, the first pixel's centre is 0"),
      COLUMN(y_px, "px", "row, likewise"),
      COLUMN(x_sd_px, "px", "standard deviation of x_px"),
      COLUMN(y_sd_px, "px", "standard deviation of y_px"),
      COLUMN(sigma_px, "px", "of the Gaussian; of two widths their geometric mean"),
      COLUMN(amplitude_adu, "adu", "of the Gaussian"),
      COLUMN(background_adu, "adu", "below it"),
      COLUMN(residual_x_nm, "nm", "its displacement from its reference less the frame's drift"),
      COLUMN(residual_y_nm, "nm", "the same in y"),
      COLUMN(sigma_x_px, "px", "of the Gaussian along x, where z is measured from widths"),
      COLUMN(sigma_y_px, "px", "the same along y"),
      COLUMN(z_nm, "nm", "on the curve of axial.curve: its height is in it"),
      COLUMN(z_sd_nm, "nm", "standard deviation of z_nm"),
      COLUMN(residual_z_nm, "nm", "its z from its reference less the frame's z"),
  };
  static const TableLayout layout = {"localizations", "one row for each marker in each frame",
                                     sizeof(R), columns};
  return layout;
}

const TableLayout& stage_layout() {
  using R = StageRow;
  static const std::array columns = {
      COLUMN(received_ns, "ns", "when the report came (CLOCK_MONOTONIC)"),
      COLUMN(time_ns, "ns", "when the stage was there (CLOCK_MONOTONIC); 0: not said"),
      COLUMN(lock_id, "", "of the last correction carried out"),
      COLUMN(state, "", "of the driver", kDriverStates),
      COLUMN(on_target, "", "by the controller's word"),
      COLUMN(error, "", "the controller's number of an error"),
      COLUMN(total_x_nm, "nm", "place by the stage's sensors, as corrections count"),
      COLUMN(total_y_nm, "nm", "the same in y"),
      COLUMN(position_x_nm, "nm", "place on the controller's own axis of x"),
      COLUMN(position_y_nm, "nm", "the same of y"),
      COLUMN(target_x_nm, "nm", "where it was told to be, on that axis"),
      COLUMN(target_y_nm, "nm", "the same of y"),
      COLUMN(carried_out, "", "corrections, counted"),
      COLUMN(ignored, "", "corrections, counted"),
      COLUMN(refused, "", "corrections, counted"),
      COLUMN(rate_hz, "Hz", "moves in the last second"),
      COLUMN(latency_p50_us, "us", "from a correction's sent_ns until the controller was told"),
      COLUMN(latency_p99_us, "us", "likewise"),
      COLUMN(latency_max_us, "us", "likewise"),
      COLUMN(z_lock_id, "", "of the last correction of z carried out; 0: none, or not said"),
      COLUMN(total_z_nm, "nm", "place of z by the stage's sensors, as corrections of z count"),
      COLUMN(position_z_nm, "nm", "place on the controller's own axis of z"),
      COLUMN(target_z_nm, "nm", "where it was told to be, on that axis"),
  };
  static const TableLayout layout = {"stage", "one row for each report of the stage's driver",
                                     sizeof(R), columns};
  return layout;
}

const TableLayout& clock_layout() {
  using R = ClockRow;
  static const std::array columns = {
      COLUMN(time_ns, "ns", "CLOCK_MONOTONIC"),
      COLUMN(wall_ns, "ns", "the host's clock at that instant, since 1970-01-01 UTC"),
      COLUMN(read_uncertainty_ns, "ns", "at most so far apart were the two readings"),
      COLUMN(utc_max_error_ns, "ns",
             "the kernel's bound on the error of the host's clock against UTC; -1: no time server "
             "keeps it, or the kernel does not tell"),
  };
  static const TableLayout layout = {"clock", "monotonic and wall-clock time, once a second",
                                     sizeof(R), columns};
  return layout;
}

const TableLayout& counters_layout() {
  using R = CounterRow;
  static const std::array columns = {
      COLUMN(time_ns, "ns", "CLOCK_MONOTONIC"),
      COLUMN(frames, "", "complete frames used"),
      COLUMN(superseded, "", "complete frames skipped because a newer one was there"),
      COLUMN(lost, "", "gaps in the camera's numbers"),
      COLUMN(incomplete, "", "frames that did not come whole"),
      COLUMN(underruns, "", "no buffer was free"),
      COLUMN(resent_packets, "", "of a GigE camera"),
      COLUMN(disconnects, "", "of the camera"),
      COLUMN(not_recorded, "", "frames that the recorder had no room for"),
  };
  static const TableLayout layout = {
      "counters", "what was counted since the daemon's start, once a second", sizeof(R), columns};
  return layout;
}

const TableLayout& events_layout() {
  using R = EventRow;
  static const std::array columns = {
      COLUMN(time_ns, "ns", "CLOCK_MONOTONIC"),
      COLUMN(wall_ns, "ns", "since 1970-01-01 UTC"),
      COLUMN(level, "", "info, warning or error"),
      COLUMN(code, "", "as docs/reference/protocol.md lists them"),
      COLUMN(text, "", "for people"),
      COLUMN(fields, "", "what the code adds, a JSON object"),
  };
  static const TableLayout layout = {"events", "what the daemon told", sizeof(R), columns};
  return layout;
}

const TableLayout& pattern_layout() {
  using R = PatternRow;
  static const std::array columns = {
      COLUMN(time_ns, "ns", "CLOCK_MONOTONIC"),
      COLUMN(markers_used, "",
             "markers that rotation and scale are from; 0: they are not measured"),
      COLUMN(rotation_mrad, "mrad",
             "of the markers' pattern about the optical axis against its reference, from x towards "
             "y, mean of about a second"),
      COLUMN(rotation_sd_mrad, "mrad", "standard deviation of rotation_mrad"),
      COLUMN(scale_ppm, "ppm", "how much the pattern has grown against its reference"),
      COLUMN(scale_sd_ppm, "ppm", "standard deviation of scale_ppm"),
      COLUMN(tilt_x_mrad, "mrad", "how z has come to grow along x (nm/um); NaN without z"),
      COLUMN(tilt_x_sd_mrad, "mrad", "standard deviation of tilt_x_mrad"),
      COLUMN(tilt_y_mrad, "mrad", "the same along y"),
      COLUMN(tilt_y_sd_mrad, "mrad", "standard deviation of tilt_y_mrad"),
  };
  static const TableLayout layout = {
      "pattern", "how the markers' pattern is turned, grown and tilted, once a second", sizeof(R),
      columns};
  return layout;
}

std::vector<const TableLayout*> all_layouts() {
  return {&frames_layout(),   &localizations_layout(), &stage_layout(),  &clock_layout(),
          &counters_layout(), &events_layout(),        &pattern_layout()};
}

const char* choice_name(const TableLayout& layout, const char* column, std::uint8_t value) {
  for (const Column& c : layout.columns) {
    if (std::strcmp(c.name, column) == 0) return value < c.choices.size() ? c.choices[value] : "?";
  }
  return "?";
}

}  // namespace driftd::record
