// SPDX-License-Identifier: MIT
#include "record/rows.hpp"

#include <array>
#include <cstring>

#include "control/lock_state.hpp"
#include "control/types.hpp"

namespace driftd::record {
namespace {

constexpr std::array kRoles = {"tracking", "witness"};
constexpr std::array kCorrections = {"none", "left", "not_left", "unknown"};
constexpr std::array kDriverStates = {"ready", "servo_off",    "not_referenced", "limit",
                                      "error", "disconnected", "stopped"};

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
      Column{"frame_id", Kind::U64, offsetof(R, frame_id), "",
             "the camera's number of the frame; a gap is a frame that was lost or skipped"},
      Column{"camera_time_ns", Kind::I64, offsetof(R, camera_time_ns), "ns",
             "the camera's own clock; 0 without one"},
      Column{"arrival_ns", Kind::I64, offsetof(R, arrival_ns), "ns",
             "when the host had all of it (CLOCK_MONOTONIC)"},
      Column{"taken_ns", Kind::I64, offsetof(R, taken_ns), "ns",
             "middle of its exposure (CLOCK_MONOTONIC)"},
      Column{"wall_ns", Kind::I64, offsetof(R, wall_ns), "ns",
             "the same instant since 1970-01-01 UTC; how well that is known is in `clock`"},
      Column{"sent_ns", Kind::I64, offsetof(R, sent_ns), "ns",
             "when its correction, or else its position, was handed to ZeroMQ (CLOCK_MONOTONIC); "
             "0: not, or not known"},
      Column{"state", Kind::Choice, offsetof(R, state), "", "of the lock after this frame",
             lock_states()},
      Column{"stale", Kind::Flag, offsetof(R, stale), "",
             "it came too late to be used: nothing was measured"},
      Column{"valid", Kind::Flag, offsetof(R, valid), "",
             "enough good markers: the drift was measured"},
      Column{"reference", Kind::U32, offsetof(R, reference), "",
             "counts what the drift is relative to: where it changes, so does the drift's zero"},
      Column{"x_nm", Kind::F32, offsetof(R, x_nm), "nm",
             "the drift, image axes (x right, y down), sample plane, averaged over markers and "
             "drift.average_frames"},
      Column{"y_nm", Kind::F32, offsetof(R, y_nm), "nm", "the same in y"},
      Column{"x_sd_nm", Kind::F32, offsetof(R, x_sd_nm), "nm", "standard deviation of x_nm"},
      Column{"y_sd_nm", Kind::F32, offsetof(R, y_sd_nm), "nm", "standard deviation of y_nm"},
      Column{"frame_x_nm", Kind::F32, offsetof(R, frame_x_nm), "nm",
             "the drift of this frame alone"},
      Column{"frame_y_nm", Kind::F32, offsetof(R, frame_y_nm), "nm", "the same in y"},
      Column{"frame_x_sd_nm", Kind::F32, offsetof(R, frame_x_sd_nm), "nm",
             "standard deviation of frame_x_nm"},
      Column{"frame_y_sd_nm", Kind::F32, offsetof(R, frame_y_sd_nm), "nm",
             "standard deviation of frame_y_nm"},
      Column{"markers_used", Kind::U16, offsetof(R, markers_used), "", "in the drift"},
      Column{"markers_total", Kind::U16, offsetof(R, markers_total), "", "tracking markers"},
      Column{"witness_valid", Kind::Flag, offsetof(R, witness_valid), "",
             "witness markers were measured"},
      Column{"witness_x_nm", Kind::F32, offsetof(R, witness_x_nm), "nm",
             "the witness markers' mean displacement: the check from outside the loop"},
      Column{"witness_y_nm", Kind::F32, offsetof(R, witness_y_nm), "nm", "the same in y"},
      Column{"witnesses_used", Kind::U16, offsetof(R, witnesses_used), "", "in that mean"},
      Column{"lock_id", Kind::U32, offsetof(R, lock_id), "", "of the lock; 0: none yet"},
      Column{"correction", Kind::Choice, offsetof(R, correction), "",
             "whether this frame made a correction, and whether that left", kCorrections},
      Column{"probe", Kind::Flag, offsetof(R, probe), "",
             "the correction tries how the stage answers; the drift is not followed"},
      Column{"total_x_nm", Kind::F64, offsetof(R, total_x_nm), "nm",
             "where the stage was told to be, stage axes, from its place at lock"},
      Column{"total_y_nm", Kind::F64, offsetof(R, total_y_nm), "nm", "the same in y"},
      Column{"delta_x_nm", Kind::F32, offsetof(R, delta_x_nm), "nm",
             "change against the correction before"},
      Column{"delta_y_nm", Kind::F32, offsetof(R, delta_y_nm), "nm", "the same in y"},
      Column{"limited", Kind::U8, offsetof(R, limited), "",
             "what held the correction back: 1 step, 2 rate, 4 range, added"},
  };
  static const TableLayout layout = {"frames", "one row a frame", sizeof(R), columns};
  return layout;
}

const TableLayout& localizations_layout() {
  using R = LocalizationRow;
  static const std::array columns = {
      Column{"frame_id", Kind::U64, offsetof(R, frame_id), "", "as in `frames`"},
      Column{"marker_id", Kind::U32, offsetof(R, marker_id), "", "of the marker"},
      Column{"role", Kind::Choice, offsetof(R, role), "", "of the marker", kRoles},
      Column{"health", Kind::Choice, offsetof(R, health), "", "of the marker in this frame",
             healths()},
      Column{"fitted", Kind::Flag, offsetof(R, fitted), "", "false: the values are NaN"},
      Column{"x_px", Kind::F64, offsetof(R, x_px), "px",
             "column on the full sensor, the first pixel's centre is 0"},
      Column{"y_px", Kind::F64, offsetof(R, y_px), "px", "row, likewise"},
      Column{"x_sd_px", Kind::F32, offsetof(R, x_sd_px), "px", "standard deviation of x_px"},
      Column{"y_sd_px", Kind::F32, offsetof(R, y_sd_px), "px", "standard deviation of y_px"},
      Column{"sigma_px", Kind::F32, offsetof(R, sigma_px), "px", "of the Gaussian, in x"},
      Column{"amplitude_adu", Kind::F32, offsetof(R, amplitude_adu), "adu", "of the Gaussian"},
      Column{"background_adu", Kind::F32, offsetof(R, background_adu), "adu", "below it"},
      Column{"residual_x_nm", Kind::F32, offsetof(R, residual_x_nm), "nm",
             "its displacement from its reference less the frame's drift"},
      Column{"residual_y_nm", Kind::F32, offsetof(R, residual_y_nm), "nm", "the same in y"},
  };
  static const TableLayout layout = {"localizations", "one row for each marker in each frame",
                                     sizeof(R), columns};
  return layout;
}

const TableLayout& stage_layout() {
  using R = StageRow;
  static const std::array columns = {
      Column{"received_ns", Kind::I64, offsetof(R, received_ns), "ns",
             "when the report came (CLOCK_MONOTONIC)"},
      Column{"time_ns", Kind::I64, offsetof(R, time_ns), "ns",
             "when the stage was there (CLOCK_MONOTONIC); 0: not said"},
      Column{"lock_id", Kind::U32, offsetof(R, lock_id), "", "of the last correction carried out"},
      Column{"state", Kind::Choice, offsetof(R, state), "", "of the driver", kDriverStates},
      Column{"on_target", Kind::Flag, offsetof(R, on_target), "", "by the controller's word"},
      Column{"error", Kind::I64, offsetof(R, error), "", "the controller's number of an error"},
      Column{"total_x_nm", Kind::F64, offsetof(R, total_x_nm), "nm",
             "place by the stage's sensors, as corrections count"},
      Column{"total_y_nm", Kind::F64, offsetof(R, total_y_nm), "nm", "the same in y"},
      Column{"position_x_nm", Kind::F64, offsetof(R, position_x_nm), "nm",
             "place on the controller's own axis of x"},
      Column{"position_y_nm", Kind::F64, offsetof(R, position_y_nm), "nm", "the same of y"},
      Column{"target_x_nm", Kind::F64, offsetof(R, target_x_nm), "nm",
             "where it was told to be, on that axis"},
      Column{"target_y_nm", Kind::F64, offsetof(R, target_y_nm), "nm", "the same of y"},
      Column{"carried_out", Kind::U64, offsetof(R, carried_out), "", "corrections, counted"},
      Column{"ignored", Kind::U64, offsetof(R, ignored), "", "corrections, counted"},
      Column{"refused", Kind::U64, offsetof(R, refused), "", "corrections, counted"},
      Column{"rate_hz", Kind::F32, offsetof(R, rate_hz), "Hz", "moves in the last second"},
      Column{"latency_p50_us", Kind::F32, offsetof(R, latency_p50_us), "us",
             "from a correction's sent_ns until the controller was told"},
      Column{"latency_p99_us", Kind::F32, offsetof(R, latency_p99_us), "us", "likewise"},
      Column{"latency_max_us", Kind::F32, offsetof(R, latency_max_us), "us", "likewise"},
  };
  static const TableLayout layout = {"stage", "one row for each report of the stage's driver",
                                     sizeof(R), columns};
  return layout;
}

const TableLayout& clock_layout() {
  using R = ClockRow;
  static const std::array columns = {
      Column{"time_ns", Kind::I64, offsetof(R, time_ns), "ns", "CLOCK_MONOTONIC"},
      Column{"wall_ns", Kind::I64, offsetof(R, wall_ns), "ns",
             "the host's clock at that instant, since 1970-01-01 UTC"},
      Column{"read_uncertainty_ns", Kind::I64, offsetof(R, read_uncertainty_ns), "ns",
             "at most so far apart were the two readings"},
      Column{"utc_max_error_ns", Kind::I64, offsetof(R, utc_max_error_ns), "ns",
             "the kernel's bound on the error of the host's clock against UTC; -1: no time server "
             "keeps it, or the kernel does not tell"},
  };
  static const TableLayout layout = {"clock", "monotonic and wall-clock time, once a second",
                                     sizeof(R), columns};
  return layout;
}

const TableLayout& counters_layout() {
  using R = CounterRow;
  static const std::array columns = {
      Column{"time_ns", Kind::I64, offsetof(R, time_ns), "ns", "CLOCK_MONOTONIC"},
      Column{"frames", Kind::U64, offsetof(R, frames), "", "complete frames used"},
      Column{"superseded", Kind::U64, offsetof(R, superseded), "",
             "complete frames skipped because a newer one was there"},
      Column{"lost", Kind::U64, offsetof(R, lost), "", "gaps in the camera's numbers"},
      Column{"incomplete", Kind::U64, offsetof(R, incomplete), "",
             "frames that did not come whole"},
      Column{"underruns", Kind::U64, offsetof(R, underruns), "", "no buffer was free"},
      Column{"resent_packets", Kind::U64, offsetof(R, resent_packets), "", "of a GigE camera"},
      Column{"disconnects", Kind::U64, offsetof(R, disconnects), "", "of the camera"},
      Column{"not_recorded", Kind::U64, offsetof(R, not_recorded), "",
             "frames that the recorder had no room for"},
  };
  static const TableLayout layout = {
      "counters", "what was counted since the daemon's start, once a second", sizeof(R), columns};
  return layout;
}

const TableLayout& events_layout() {
  using R = EventRow;
  static const std::array columns = {
      Column{"time_ns", Kind::I64, offsetof(R, time_ns), "ns", "CLOCK_MONOTONIC"},
      Column{"wall_ns", Kind::I64, offsetof(R, wall_ns), "ns", "since 1970-01-01 UTC"},
      Column{"level", Kind::Text, offsetof(R, level), "", "info, warning or error"},
      Column{"code", Kind::Text, offsetof(R, code), "", "as docs/protocol.md lists them"},
      Column{"text", Kind::Text, offsetof(R, text), "", "for people"},
      Column{"fields", Kind::Text, offsetof(R, fields), "", "what the code adds, a JSON object"},
  };
  static const TableLayout layout = {"events", "what the daemon told", sizeof(R), columns};
  return layout;
}

std::vector<const TableLayout*> all_layouts() {
  return {&frames_layout(), &localizations_layout(), &stage_layout(),
          &clock_layout(),  &counters_layout(),      &events_layout()};
}

const char* choice_name(const TableLayout& layout, const char* column, std::uint8_t value) {
  for (const Column& c : layout.columns) {
    if (std::strcmp(c.name, column) == 0) return value < c.choices.size() ? c.choices[value] : "?";
  }
  return "?";
}

}  // namespace driftd::record
