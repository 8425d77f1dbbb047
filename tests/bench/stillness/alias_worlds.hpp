// SPDX-License-Identifier: MIT
// Worlds whose vibrations a camera cannot see as they are: lines above half its frame rate, which
// it shows as slower ones (aliases). And how much a lock moved the sample at the time scales at
// which a microscope looks. Any thread.
#pragma once

#include <array>
#include <cstdint>

#include "tests/bench/stillness/run.hpp"
#include "tests/bench/stillness/world.hpp"

namespace driftd::stillness {

/// What the sample does besides its lines.
enum class AliasDrift : std::uint8_t {
  None,  ///< nothing
  Ramp,  ///< drifts at up to 5 nm/s, and walks
};

struct AliasKind {
  AliasDrift drift = AliasDrift::None;
  /// A line that the camera does see as it is, of 0.5 to 2 nm, below a fifth of its rate, in each
  /// axis.
  bool slow_line = false;
  bool aliases = true;  ///< lines above half the frame rate
  double rate_hz = 0;   ///< of the camera, in place of the seed's own; 0: that one
};

/// 5 to 100 frames/s, exposed for 1 to 90 % of the period; 4 to 25 markers of 3e3 to 1e5 photons;
/// one to three lines of 0.3 to 2 nm in each axis, above half the frame rate and below 200 Hz or
/// twice the rate. Deterministic.
World make_alias_world(std::uint64_t seed, const AliasKind& kind);

/// Time scales at which truth is averaged, ms.
inline constexpr std::array<int, 3> kAliasScalesMs = {10, 100, 1000};
/// Rms of truth's means over each of them, of both axes together, about their mean.
/// @param straight  about the straight line that fits best: drift is taken away
std::array<double, kAliasScalesMs.size()> means_nm(const Flight& flight, bool straight);

}  // namespace driftd::stillness
