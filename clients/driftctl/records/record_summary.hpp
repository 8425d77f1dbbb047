// SPDX-License-Identifier: MIT
// What `driftctl report` tells of a record: counted and measured here, drawn by record_report.
// Pure but for the reading of the record; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "clients/common/measure/measurement.hpp"
#include "clients/common/measure/spectrum.hpp"
#include "clients/driftctl/records/record_files.hpp"

namespace driftd::clients {

/// A time without a lock that was wanted, or a recorded time in any state.
struct Span {
  double begin_s = 0, end_s = 0;  ///< since the first frame
  std::string state, reason;
};

struct MarkerHealth {
  std::uint32_t id = 0;
  bool witness = false;
  std::uint64_t frames = 0;
  std::map<std::string, std::uint64_t> health;  ///< frames in each
  double sd_nm = 0;                             ///< mean of what its fits promise, x and y
  double residual_nm = 0;                       ///< rms of x and y, while good
  double sigma_px = 0, amplitude_adu = 0;       ///< means
  std::uint64_t z_frames = 0;                   ///< with a z; 0: the following are nothing
  double z_sd_nm = 0, residual_z_nm = 0;        ///< as sd_nm and residual_nm
};

/// How the markers' pattern lay, a value each second; NaN: not measured.
struct PatternCurves {
  std::vector<double> time_s, rotation_mrad, scale_ppm, tilt_x_mrad, tilt_y_mrad;
  record::PatternRow last;  ///< the newest with a rotation; time_ns 0: none
};

/// What a record tells of the lock of z; of an old record, or of one without, nothing.
struct AxialLockSummary {
  bool engaged = false;                   ///< at any time
  std::map<std::string, double> state_s;  ///< as of x and y
  std::vector<Span> spans;
  std::vector<double> total_nm;  ///< of the stage of z, a value for each of time_s
  std::uint64_t corrections = 0, not_left = 0;
};

struct RecordSummary {
  double seconds = 0, rate_hz = 0;
  std::uint64_t frames = 0, valid = 0, stale = 0, in_lock = 0;
  std::uint64_t missing = 0;  ///< numbers of frames that never came
  std::int64_t begin_wall_ns = 0;
  std::vector<double> time_s, x_nm, y_nm, witness_x_nm, witness_y_nm, total_x_nm, total_y_nm;
  std::vector<double> z_nm, witness_z_nm;
  std::uint64_t z_frames = 0;  ///< with a z; 0: nothing is told of it
  /// About the reference, of frames with a z: while z was locked or, where it never was, x and y.
  double locked_z_rms_nm = 0;
  AxialLockSummary z_lock;
  std::map<std::string, double> state_s;  ///< seconds in each state
  std::vector<Span> spans;                ///< of the lock's states, in their order
  std::uint64_t locked_frames = 0;
  std::array<double, 2> locked_rms_nm{};  ///< about the reference
  std::array<double, 2> witness_rms_nm{};
  /// Length of the longest time in lock without a hole, which `axes` and `spectra` describe.
  double analysed_s = 0;
  std::array<AxisReport, 2> axes;
  std::array<Spectrum, 2> spectra;
  /// The same of z, where each frame of that time has one.
  std::optional<AxisReport> z_axis;
  Spectrum z_spectrum;
  std::vector<double> latency_us;  ///< sorted
  std::uint64_t corrections = 0, not_left = 0, limited = 0;
  std::vector<MarkerHealth> markers;
  std::vector<record::Event> events;
  std::vector<record::CounterRow> counters;  ///< the first and the last
  PatternCurves pattern;
};

RecordSummary summarise(const RecordFiles& record);
/// NaN without values.
/// @param sorted  ascending
double percentile(const std::vector<double>& sorted, double share);

}  // namespace driftd::clients
