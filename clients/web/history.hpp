// SPDX-License-Identifier: MIT
// The last day of drift, residual and correction as the least and the largest value of each ten
// seconds: bounded memory, and what stood out for one frame is still there. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace driftd::web {

/// x and y; NaN: not known.
using Pair = std::array<double, 2>;
inline constexpr Pair kUnknown = {std::numeric_limits<double>::quiet_NaN(),
                                  std::numeric_limits<double>::quiet_NaN()};

/// What is kept of one frame.
struct Sample {
  std::uint64_t frame_id = 0;
  double t_s = 0;
  bool in_lock = false;
  std::string state;
  Pair frame_nm = kUnknown;  ///< the drift of this frame alone
  Pair drift_nm = kUnknown, residual_nm = kUnknown, correction_nm = kUnknown, witness_nm = kUnknown,
       set_nm = kUnknown;
  double z_nm = kUnknown[0];             ///< from the reference
  double correction_z_nm = kUnknown[0];  ///< of the stage of z
};

class History {
 public:
  static constexpr double kStepS = 10;
  static constexpr std::int64_t kBins = 8640;  ///< a day

  void add(const Sample& sample);
  /// All bins that are over, as the message `history` has them; and in parts of a quarter of an
  /// hour.
  nlohmann::json whole() const;
  std::vector<nlohmann::json> parts() const;
  /// Those that are over since this was asked last; nothing where none is. The whole, where the
  /// clock went back.
  std::optional<nlohmann::json> news();

 private:
  static constexpr std::size_t kCurves = 3, kCurvesOfZ = 2;
  struct Bin {
    std::array<Pair, kCurves> least, most;
    std::array<double, kCurvesOfZ> least_z, most_z;
    std::uint32_t frames = 0, in_lock = 0;
  };
  static Bin empty_bin();
  std::int64_t next() const { return first_ + static_cast<std::int64_t>(bins_.size()); }
  nlohmann::json from(std::int64_t bin, std::int64_t count = kBins) const;

  std::deque<Bin> bins_;    ///< the last one is not over
  std::int64_t first_ = 0;  ///< number of the first: its time by kStepS
  std::int64_t told_until_ = 0;
  bool anew_ = false;
};

}  // namespace driftd::web
