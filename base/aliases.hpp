// SPDX-License-Identifier: MIT
// Vibrations that frames show as slower ones (aliases): of f, whatever is nearest among
// |f - n rate|. Pure; any thread.
#pragma once

#include <cmath>
#include <vector>

namespace driftd {

/// Faster vibrations are taken to be too small to matter. A frame rate of twice this shows every
/// other one as it is.
constexpr double kFastestVibrationHz = 200;

/// Frames come too seldom to show every vibration as it is.
constexpr bool has_aliases(double rate_hz) noexcept {
  return rate_hz > 0 && rate_hz < 2 * kFastestVibrationHz;
}

/// The frequency at which one is seen: at most half the frame rate.
inline double seen_hz(double frequency_hz, double rate_hz) noexcept {
  if (!(rate_hz > 0)) return frequency_hz;
  const double cycles = frequency_hz / rate_hz;
  return rate_hz * std::abs(cycles - std::round(cycles));
}

/// The others that are seen there, lowest first, up to the fastest vibration.
/// @param most  how many at most
inline std::vector<double> look_alikes_hz(double frequency_hz, double rate_hz, std::size_t most) {
  std::vector<double> list;
  if (!has_aliases(rate_hz)) return list;
  const double seen = seen_hz(frequency_hz, rate_hz);
  double turns_hz = rate_hz;
  while (turns_hz - seen <= kFastestVibrationHz && list.size() < most) {
    for (const double hz : {turns_hz - seen, turns_hz + seen})
      if (hz <= kFastestVibrationHz && list.size() < most &&
          (list.empty() || hz > list.back() + 1e-9 * rate_hz))
        list.push_back(hz);
    turns_hz += rate_hz;
  }
  return list;
}

/// Another one below the fastest is seen at the same frequency.
inline bool may_be_alias(double frequency_hz, double rate_hz) noexcept {
  return has_aliases(rate_hz) && rate_hz - seen_hz(frequency_hz, rate_hz) <= kFastestVibrationHz;
}

}  // namespace driftd
