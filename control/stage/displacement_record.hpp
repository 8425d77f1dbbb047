// SPDX-License-Identifier: MIT
// How far the sample was seen to move, and the modelled stage to go, over the last 64 ms to second;
// and how far samples move by themselves in such times. The stage monitor's view of what is slow:
// a command that runs away smoothly leaves small innovations from frame to frame. Owned by the
// monitor, called in the tracking loop; no allocation, no clock, noexcept. Stage axes, nm.
// Method and figures: docs/internals/stage-monitor.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "control/values/types.hpp"

namespace driftd::control {

/// From one block of frames to a later one.
struct Displacement {
  Vec2 moved_nm;             ///< the sample's, as measured
  Vec2 modelled_nm;          ///< the modelled stage's
  Vec2 variance_nm2;         ///< of how far a sample moves by itself meanwhile, and is seen to
  Vec2 from_nm;              ///< where the modelled stage was at its beginning
  std::int64_t first_block;  ///< number of the block that it begins with
};

/// Where the sample was seen, and where the model says that the stage was.
struct Places {
  Vec2 moved_nm, modelled_nm;
  Vec2 measured_nm2;  ///< variance of moved_nm as measured, each axis
  std::int64_t taken_ns = 0;
};

class DisplacementRecord {
 public:
  static constexpr std::size_t kLags = 5;  ///< 4, 8, 16, 32 and 64 blocks
  /// What may still be seen to be a run is learnt when it would have been, blocks: the longest lag.
  static constexpr int kLearntLater = 64;

  /// The next place is not compared with those before. How far samples move stays known.
  void restart() noexcept;
  /// Nor does that.
  void forget() noexcept;
  /// Of one good frame. @returns whether a block of frames is complete: 16 ms, or one frame
  bool add(const Places& frame) noexcept;
  /// That ends with the last complete block; none where the record is shorter.
  /// @param lag  which, below kLags
  /// @param ago  or with one so many blocks before, at most kLearntLater
  std::optional<Displacement> over(std::size_t lag, int ago = 0) const noexcept;
  /// The stage followed: what it does not account for was the sample's own.
  void learn(std::size_t lag, const Displacement& displacement) noexcept;
  std::int64_t last_block() const noexcept { return blocks_ - 1; }

 private:
  struct Block {
    Places mean;         ///< taken: its first frame
    double fast_nm = 0;  ///< how far the modelled stage went in the shortest lag before
  };
  struct Known {
    Vec2 mean_nm2;  ///< mean square of what samples moved by themselves
    int count = 0;
  };
  static constexpr std::size_t kRing = 2 * kLearntLater + 1;

  const Block& block(std::int64_t number) const noexcept;
  Vec2 known_nm2(std::size_t lag) const noexcept;
  double went_nm(Vec2 modelled_nm, std::int64_t before) const noexcept;
  Displacement between(std::int64_t first, const Places& to, std::size_t lag,
                       double fast_nm) const noexcept;

  std::array<Block, kRing> ring_{};
  std::array<Known, kLags> known_{};
  std::int64_t blocks_ = 0;       ///< complete ones, ever
  std::int64_t first_block_ = 0;  ///< the record begins with it
  Places sum_;                    ///< of the block that is not complete
  int frames_ = 0;                ///< in it
  bool has_last_ = false;
  Places last_;  ///< the last frame
};

}  // namespace driftd::control
