// SPDX-License-Identifier: MIT
// What `status.pattern` and the record tell of the markers' pattern: each marker's displacement
// against the others, a mean over about a second, and what pattern_change() makes of them. It sees
// what the loop reports, some hundred frames a second, so the loop has nothing to do for it.
// Housekeeping thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "control/drift/pattern_change.hpp"
#include "daemon/loop/loop_values.hpp"
#include "record/rows.hpp"

namespace driftd::daemon {

class PatternWatch {
 public:
  /// A frame's markers; those of a frame that it has seen are passed over.
  void see(const MarkersReport& report, double pixel_size_nm);
  /// As of the frame seen last.
  control::PatternChange change() const;

 private:
  static constexpr double kForgetS = 0.5;  ///< exponentially: as long a memory as a mean of 1 s

  /// Of one number, and of a variance that it has in each frame.
  struct Mean {
    double weight = 0;
    double freshness = 0;  ///< 1 at the last that was added, and forgotten as it is
    double sum = 0, variance_sum = 0;

    void forget(double kept);
    void add(double value, double variance);
    bool is_of_now() const { return freshness > 0.05; }  // three times kForgetS
    double value() const { return sum / weight; }
    double variance() const { return variance_sum / (weight * weight); }
  };
  struct Track {
    std::uint32_t id = 0;
    control::Vec2 reference_px;
    double reference_nm2 = 0;
    Mean x_nm = {}, y_nm = {}, z_nm = {};
    double z_reference_nm = 0, z_reference_nm2 = 0;
  };

  std::uint64_t frame_id_ = 0;
  std::int64_t arrival_ns_ = 0;
  double pixel_size_nm_ = 0;
  std::vector<Track> tracks_;
};

/// The object `pattern` of `status`; null where nothing was measured.
nlohmann::json pattern_json(const control::PatternChange& change);
record::PatternRow pattern_row(const control::PatternChange& change, std::int64_t time_ns);

}  // namespace driftd::daemon
