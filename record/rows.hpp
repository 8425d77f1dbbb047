// SPDX-License-Identifier: MIT
// What a record holds: one plain struct for a row of each table, and the columns as the file, its
// readers and docs/use/records.md name them. Times ending in `_ns` are CLOCK_MONOTONIC of the
// daemon's host, but for `camera_time_ns` and `wall_ns`. Values that do not exist are NaN, or 0
// where the text of the column says so. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace driftd::record {

/// Grows when a column or table changes its meaning or goes; further ones may be added within it.
constexpr int kLayoutVersion = 1;

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
constexpr double kNoneF64 = std::numeric_limits<double>::quiet_NaN();

enum class Sent : std::uint8_t {
  NoCorrection,
  Left,     ///< to the stage's driver
  NotLeft,  ///< computed, but withheld, expired or refused
  Unknown,  ///< computed; what became of it was not told in time
};

/// One frame.
struct FrameRow {
  std::uint64_t frame_id = 0;
  std::int64_t camera_time_ns = 0, arrival_ns = 0, taken_ns = 0, wall_ns = 0, sent_ns = 0;
  std::uint32_t reference = 0, lock_id = 0;
  std::uint8_t state = 0;
  bool stale = false, valid = false, witness_valid = false, probe = false, in_lock = false;
  std::uint8_t limited = 0;
  Sent correction = Sent::NoCorrection;
  std::uint16_t markers_used = 0, markers_total = 0, witnesses_used = 0;
  float x_nm = kNone, y_nm = kNone, x_sd_nm = kNone, y_sd_nm = kNone;
  float frame_x_nm = kNone, frame_y_nm = kNone, frame_x_sd_nm = kNone, frame_y_sd_nm = kNone;
  float witness_x_nm = kNone, witness_y_nm = kNone;
  double set_x_nm = kNoneF64, set_y_nm = kNoneF64;
  double total_x_nm = kNoneF64, total_y_nm = kNoneF64;
  float delta_x_nm = kNone, delta_y_nm = kNone;
  bool z_valid = false;
  std::uint16_t z_markers_used = 0;
  float z_nm = kNone, z_sd_nm = kNone, frame_z_nm = kNone, frame_z_sd_nm = kNone;
  float witness_z_nm = kNone;
  // Of the lock of z.
  std::uint32_t z_lock_id = 0;
  std::uint8_t z_state = 0;
  Sent z_correction = Sent::NoCorrection;
  double set_z_nm = kNoneF64, total_z_nm = kNoneF64;
  float delta_z_nm = kNone;
};

/// One marker in one frame.
struct LocalizationRow {
  std::uint64_t frame_id = 0;
  std::uint32_t marker_id = 0;
  std::uint8_t role = 0, health = 0;
  bool fitted = false;
  double x_px = kNoneF64, y_px = kNoneF64;
  float x_sd_px = kNone, y_sd_px = kNone, sigma_px = kNone;
  float amplitude_adu = kNone, background_adu = kNone;
  float residual_x_nm = kNone, residual_y_nm = kNone;
  float sigma_x_px = kNone, sigma_y_px = kNone;
  float z_nm = kNone, z_sd_nm = kNone, residual_z_nm = kNone;
};

/// One report of the stage's driver.
struct StageRow {
  std::int64_t received_ns = 0, time_ns = 0;
  std::uint32_t lock_id = 0;
  std::uint8_t state = 0;
  bool on_target = false;
  std::int64_t error = 0;
  double total_x_nm = kNoneF64, total_y_nm = kNoneF64;
  double position_x_nm = kNoneF64, position_y_nm = kNoneF64;
  double target_x_nm = kNoneF64, target_y_nm = kNoneF64;
  std::uint64_t carried_out = 0, ignored = 0, refused = 0;
  float rate_hz = kNone, latency_p50_us = kNone, latency_p99_us = kNone, latency_max_us = kNone;
  // Of a driver that moves z.
  std::uint32_t z_lock_id = 0;
  double total_z_nm = kNoneF64, position_z_nm = kNoneF64, target_z_nm = kNoneF64;
};

/// Both clocks at once.
struct ClockRow {
  std::int64_t time_ns = 0, wall_ns = 0;
  std::int64_t read_uncertainty_ns = 0, utc_max_error_ns = -1;
};

/// What the camera and the recorder have counted since the daemon's start.
struct CounterRow {
  std::int64_t time_ns = 0;
  std::uint64_t frames = 0, superseded = 0, lost = 0, incomplete = 0, underruns = 0;
  std::uint64_t resent_packets = 0, disconnects = 0, not_recorded = 0;
};

struct Event {
  std::int64_t time_ns = 0, wall_ns = 0;
  std::string level, code, text;
  std::string fields;  ///< what the code adds, a JSON object
};
/// The same for HDF5.
struct EventRow {
  std::int64_t time_ns = 0, wall_ns = 0;
  const char* level = nullptr;
  const char* code = nullptr;
  const char* text = nullptr;
  const char* fields = nullptr;
};

/// How the markers' pattern lies against its reference.
struct PatternRow {
  std::int64_t time_ns = 0;
  std::uint16_t markers_used = 0;
  double rotation_mrad = kNoneF64, rotation_sd_mrad = kNoneF64;
  double scale_ppm = kNoneF64, scale_sd_ppm = kNoneF64;
  double tilt_x_mrad = kNoneF64, tilt_x_sd_mrad = kNoneF64;
  double tilt_y_mrad = kNoneF64, tilt_y_sd_mrad = kNoneF64;
};

enum class Kind : std::uint8_t { Flag, U8, U16, U32, U64, I64, F32, F64, Choice, Text };

struct Column {
  const char* name;
  Kind kind;
  std::size_t offset;
  const char* unit;  ///< "" without one
  const char* text;  ///< what it is
  std::span<const char* const> choices = {};
};

struct TableLayout {
  const char* name;
  const char* text;
  std::size_t row_bytes;
  std::span<const Column> columns;
};

const TableLayout& frames_layout();
const TableLayout& localizations_layout();
const TableLayout& stage_layout();
const TableLayout& clock_layout();
const TableLayout& counters_layout();
const TableLayout& events_layout();
const TableLayout& pattern_layout();
/// All of them, in this order.
std::vector<const TableLayout*> all_layouts();

/// The names that a column of kind Choice has for its values.
const char* choice_name(const TableLayout& layout, const char* column, std::uint8_t value);

}  // namespace driftd::record
