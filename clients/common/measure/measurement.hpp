// SPDX-License-Identifier: MIT
// What `driftctl measure` tells of some seconds of positions and markers: drift, spectrum, Allan
// deviation, and each marker's scatter beside what its fits promise. Pure functions of what was
// received; no socket.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "clients/common/measure/spectrum.hpp"

namespace driftd::clients {

/// Allan deviation of the place, averaged over `averaged_s`: sqrt(<(m(k+1) - m(k))^2> / 2).
struct AllanPoint {
  double averaged_s, deviation_nm;
};

struct AxisReport {
  double drift_nm_per_min = 0;     ///< slope of the line through the places
  double drift_sd_nm_per_min = 0;  ///< from the slopes of eight parts
  double about_line_nm = 0;        ///< rms of what the line leaves
  double frame_noise_nm = 0;       ///< white noise of a frame: the spectrum's upper half
  double promised_noise_nm = 0;    ///< median of the frames' own standard deviations
  std::vector<AllanPoint> allan;
  std::vector<VibrationLine> lines;  ///< the strongest first
  Spectrum spectrum;                 ///< of what the line leaves
};

/// A marker along z, where that is measured; as in MarkerReport.
struct MarkerAxial {
  double fit_sd_nm = 0, scatter_nm = 0, expected_nm = 0, wander_nm = 0;
};

struct MarkerReport {
  int id = 0;
  bool witness = false;
  double good_share = 0;                ///< of the messages in which its health was `good`
  std::array<double, 2> fit_sd_nm{};    ///< x, y: median of what its fits promise
  std::array<double, 2> scatter_nm{};   ///< x, y: from one message to the next, against the others
  std::array<double, 2> expected_nm{};  ///< x, y: of scatter_nm, were the promise kept
  std::array<double, 2> wander_nm{};    ///< x, y: what is left of its rms beside the scatter
  std::string remark;                   ///< why it hurts; empty: it does not
  std::optional<MarkerAxial> z;
};

struct MeasurementReport {
  std::string state;    ///< of the lock
  std::string z_state;  ///< of that of z; empty where the daemon tells none
  double seconds = 0, rate_hz = 0;
  std::uint64_t frames = 0;  ///< with a position
  double missing_share = 0;  ///< of the frames in that time
  std::array<AxisReport, 2> axes;
  /// Standard deviation of a frame's mean that the good tracking markers' fits allow.
  std::array<double, 2> markers_allow_nm{};
  std::vector<MarkerReport> markers;
  /// Where at least half of the frames with a position have a z.
  std::optional<AxisReport> z;
  double z_missing_share = 0;  ///< of the frames with a position; 1: z is not measured
  double markers_allow_z_nm = 0;
};

/// Gathers `position`, `markers` and `event` messages of one daemon in one state of the lock.
class Measurement {
 public:
  void add_position(const nlohmann::json& position);
  void add_markers(const nlohmann::json& markers);
  void add_event(const nlohmann::json& event);
  /// Why this is no measurement: the daemon restarted, the state or the markers changed, frames
  /// began anew. Empty: it is one.
  const std::string& problem() const noexcept { return problem_; }
  /// @throws std::runtime_error where fewer than 64 frames have a position, or fewer than half
  MeasurementReport report() const;

 private:
  struct Place {
    std::uint64_t frame_id;
    std::int64_t arrival_ns, camera_ns;  ///< camera_ns: 0 without a clock
    std::array<double, 2> nm, sd_nm;
    double z_nm, z_sd_nm;  ///< not a number: not measured
  };
  struct MarkerTrack {
    int id = 0;
    bool witness = false;
    std::array<std::vector<double>, 3> residual_nm, sd_nm;  ///< x, y, z
  };
  std::vector<std::uint64_t> steps() const;
  /// The camera's times are there and grow.
  bool has_clock() const;
  double seconds() const;
  void add_z(MeasurementReport& report, const std::vector<std::uint64_t>& steps) const;
  void add_scatter(MeasurementReport& report) const;
  void add_scatter_z(MeasurementReport& report) const;

  std::string session_, state_, z_state_, problem_;
  std::vector<Place> places_;
  std::vector<MarkerTrack> markers_;
  std::uint64_t marker_messages_ = 0;
};

/// One axis of places at equal intervals.
/// @pre places_nm.size() >= 64, rate_hz > 0
AxisReport analyse_axis(const std::vector<double>& places_nm, double rate_hz);

nlohmann::json to_json(const MeasurementReport& report);
/// At most 80 columns.
std::vector<std::string> to_lines(const MeasurementReport& report);

}  // namespace driftd::clients
