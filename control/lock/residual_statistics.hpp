// SPDX-License-Identifier: MIT
// How still the lock holds the sample, by two measures beside one another. The one in the loop is
// the drift that the lock corrects; the one out of the loop comes from the witnesses, which the
// lock does not use. What the loop follows by mistake (noise, a marker that moves) is small in the
// first and shows in the second. Tracking loop, once a frame is on its way; no allocation;
// noexcept; a dozen flops for each frame and measure, a few hundred at most.
//
// Allan deviation of the place: s^2(tau) = <(m[k+1] - m[k])^2> / 2 over adjacent, not overlapping
// means m over tau (Allan 1966, Proc. IEEE 54:221; IEEE Std 1139 with the place for the relative
// frequency). tau is 1, 2, 4 .. frame times. Each mean is that of two means over half of its tau.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "control/values/types.hpp"

namespace driftd::control {

/// Averages over 1, 2, 4 .. frames: up to 262 s at 500 frames/s.
constexpr std::size_t kAllanOctaves = 18;

struct AllanOctave {
  std::uint32_t differences = 0;  ///< so many, counted to kRememberedDifferences
  Vec2 variance_nm2;
};

class OctaveAllan {
 public:
  /// Each octave forgets exponentially, over so many differences.
  static constexpr std::uint32_t kRememberedDifferences = 1024;

  void add(Vec2 place_nm) noexcept;
  /// The next place does not follow the one before.
  void interrupt() noexcept;
  void restart() noexcept { *this = {}; }
  const std::array<AllanOctave, kAllanOctaves>& octaves() const noexcept { return octaves_; }

 private:
  struct Pending {
    bool has_half = false, has_mean = false;
    Vec2 half_nm;  ///< first of the two that make a mean of the octave above
    Vec2 mean_nm;  ///< the one before
  };
  std::array<AllanOctave, kAllanOctaves> octaves_{};
  std::array<Pending, kAllanOctaves> pending_{};
};

/// One of the two measures.
struct StillnessMeasure {
  std::uint64_t frames = 0;  ///< since the reference; 0: the rest is meaningless
  Vec2 rms_nm;               ///< of the last ResidualStatistics::kSeconds, about the reference
  Vec2 mean_nm;              ///< of the last ResidualStatistics::kMeanSeconds
  Vec2 noise_nm;             ///< of a frame, as the fits promise; rms
  std::array<AllanOctave, kAllanOctaves> allan{};
};

struct ResidualState {
  StillnessMeasure in_loop, out_of_loop;
};

class ResidualStatistics {
 public:
  static constexpr double kSeconds = 5, kMeanSeconds = 60;
  /// Frames that are missing are passed over; more than so many interrupt the Allan deviation.
  static constexpr double kMissedFrames = 5;

  /// A frame with a valid drift while locked.
  /// @param interval_s  since the frame before; @param period_s  between two frames; 0: not known
  /// @param moved_nm  where moves by intention have the sample: no residual
  void measured(const DriftEstimate& drift, Vec2 moved_nm, double interval_s,
                double period_s) noexcept;
  /// At any time, any number of times.
  void not_locked() noexcept;
  void new_reference() noexcept;
  ResidualState state() const noexcept;

 private:
  struct Measure {
    OctaveAllan allan;
    std::uint64_t frames = 0;
    Vec2 square_nm2, mean_nm, noise_nm2;

    void add(Vec2 place_nm, Vec2 noise, double interval_s) noexcept;
    StillnessMeasure told() const noexcept;
  };
  Measure in_loop_, out_of_loop_;
};

}  // namespace driftd::control
