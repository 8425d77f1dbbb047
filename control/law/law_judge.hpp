// SPDX-License-Identifier: MIT
// Whether a lock would be stiller if PI held it. PI is flown beside the law that acts, on the same
// sample and a modelled stage of its own. A frame and the place of the acting law's modelled stage
// tell where the stage should have been, and that tells what PI would have left. Owned by the
// choice of laws. Tracking loop; no allocation after construction; noexcept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "control/law/pi_law.hpp"
#include "control/stage/stage_model.hpp"
#include "control/values/types.hpp"

namespace driftd::control {

struct JudgeSettings {
  StageModelSettings stage{};
  PiSettings pi{};
  double step_limit_nm = 0;  ///< the lock's, which PI keeps, too
  double rate_limit_nm_per_s = 0;
  std::size_t axes = 2;  ///< of the lock: of one, y is not judged
};

class LawJudge {
 public:
  explicit LawJudge(const JudgeSettings& settings);
  /// PI begins anew.
  void change_settings(const JudgeSettings& settings) noexcept;
  /// Nothing is known; PI begins with the next frame, where the stage is then.
  void restart() noexcept;
  /// Nothing was commanded, or it did not leave: PI begins likewise. Blocks that are closed stay.
  void pause() noexcept;
  /// The command of `told_ns` left only at `sent_ns`. Where PI had one beside it, that would have
  /// left no sooner.
  void left_at(std::int64_t told_ns, std::int64_t sent_ns) noexcept;
  /// Between frames; of a slow camera blocks are longer, and gaps.
  void set_period(double period_s) noexcept { period_s_ = period_s; }

  /// @param moved_nm  the drift that the frame shows, in the stage's axes
  /// @param stage_nm  where the modelled stage was when it was taken
  void see(Vec2 moved_nm, Vec2 stage_nm, std::int64_t taken_ns, std::int64_t now_ns) noexcept;

  /// As of the last block that was closed: in the last kBlocks of them PI would have
  /// left less, by more than a twentieth of the mean square and by more than chance (four standard
  /// errors of the blocks' means).
  bool pi_is_better() const noexcept { return pi_is_better_; }
  /// Root mean squares over that time, of an axis, noise of the measurement included; 0: none yet.
  double left_nm() const noexcept { return left_nm_; }
  double pi_left_nm() const noexcept { return pi_left_nm_; }

  static constexpr std::size_t kBlocks = 20;
  /// And so many frames, whichever is later.
  static constexpr double kBlockS = 0.5, kBlockFrames = 8;

 private:
  struct Block {
    double left_nm2 = 0, pi_left_nm2 = 0;  ///< sums, then means
    double frames = 0;
  };
  void close_block() noexcept;
  void judge() noexcept;

  double mean_square(Vec2 left_nm) const noexcept;
  void command(Vec2 target_nm, double interval_s) noexcept;

  JudgeSettings settings_;
  PiLaw pi_;
  StageModel stage_;  ///< as PI would have commanded it, from origin_nm_
  double period_s_ = 0;
  bool begun_ = false;
  Vec2 origin_nm_, told_nm_;
  std::int64_t told_ns_ = 0, block_since_ns_ = 0;
  Block open_;
  std::array<Block, kBlocks> blocks_{};  ///< ring
  std::size_t closed_ = 0;               ///< since restart()
  bool pi_is_better_ = false;
  double left_nm_ = 0, pi_left_nm_ = 0;
};

}  // namespace driftd::control
