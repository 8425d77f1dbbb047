// SPDX-License-Identifier: MIT
// What a flight amounts to: how still the sample was, at which frequencies and over which times,
// what it cost the stage, and how soon it was that still. Any thread.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "base/welch.hpp"
#include "tests/bench/stillness/run.hpp"

namespace driftd::stillness {

struct AllanPoint {
  double tau_s = 0;
  double deviation_nm = 0;
};

/// Not a number, and empty, of a flight of which nothing is judged: the lock never engaged.
struct AxisMeasures {
  double rms_nm = std::numeric_limits<double>::quiet_NaN();
  double p50_nm = rms_nm, p95_nm = rms_nm, p99_nm = rms_nm, max_nm = rms_nm;  ///< of its size
  WelchSpectrum spectrum;         ///< nm^2/Hz; of a second's segments
  std::vector<AllanPoint> allan;  ///< of the residual's means over tau
};

struct Measures {
  std::array<AxisMeasures, 2> axes;
  double rms_nm = 0;     ///< of both axes
  double change_nm = 0;  ///< rms change of command per frame
  /// After so long since the lock the rms over two seconds stays below 1.3 times the bound; below
  /// 0: never.
  double learnt_after_s = -1;
  /// How long it takes, at most, after a time that the world leaves out begins, until both axes
  /// stay within 1.5 nm for the rest of it; below 0: not by its end; 0: the world leaves nothing
  /// out.
  double settled_s = 0;
};

Measures measure(const Flight& flight, std::array<double, 2> bound_nm);
std::vector<AllanPoint> allan_deviation(const std::vector<float>& values, double rate_hz);

}  // namespace driftd::stillness
