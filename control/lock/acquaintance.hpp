// SPDX-License-Identifier: MIT
// A lock gets to know its stage before it corrects: small moves about where the stage stands, that
// no frame decides, and what they show. After a quiet moment each axis goes to and fro by 3 to 5 nm
// for a second or so, comes to rest, and what was recorded is fitted by another thread
// (AcquaintanceDesk). Before that, glimpses at what is there already find a stage that is dead,
// reversed or turned. Owned by the supervisor, called in the tracking loop; no allocation;
// noexcept. docs/internals/acquaintance.md has reasons and figures.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "control/identification/stage_acquaintance.hpp"
#include "control/stage/stage_monitor.hpp"
#include "control/values/acquaint_when.hpp"
#include "control/values/types.hpp"

namespace driftd::control {

struct AcquaintanceSettings {
  AcquaintWhen when = AcquaintWhen::Never;
  std::int64_t exposure_ns = 0;
};

enum class AcquaintanceAsk : std::uint8_t { Nothing, Glimpse, Find };

/// Loop -> desk, with each frame. A value without heap.
struct AcquaintanceFrame {
  std::uint32_t run = 0;  ///< another one: another record
  bool measured = false;  ///< `sample` is one
  StageFrame sample;
  bool moved = false;  ///< `move` is one
  StageMove move;
  std::int64_t left_ns = 0;  ///< the move before left only then; 0: when it was said to
  AcquaintanceAsk ask = AcquaintanceAsk::Nothing;
  StageModelSettings described{.image_to_stage = {}, .delay_us = 0, .time_constant_us = 0};
  std::int64_t exposure_ns = 0;
  std::size_t axes = 2;  ///< of the lock
};

/// Desk -> loop.
struct AcquaintanceAnswer {
  std::uint32_t run = 0;
  AcquaintanceAsk ask = AcquaintanceAsk::Nothing;
  StageFinding finding;
};

/// The other thread's end: keeps the record, and answers. Allocates, and takes its time.
class AcquaintanceDesk {
 public:
  std::optional<AcquaintanceAnswer> take(const AcquaintanceFrame& frame);

 private:
  std::uint32_t run_ = 0;
  StageRecord record_;
};

enum class AcquaintanceEnd : std::uint8_t {
  None,    ///< it is under way, or there was none
  Found,   ///< finding() is to be adopted
  Fault,   ///< the stage does not do what it is told: looks()
  GaveUp,  ///< the frames did not tell
};

class Acquaintance {
 public:
  /// Slower cameras tell too little in a bearable time.
  static constexpr double kLongestPeriodS = 1.0 / 44;

  struct Start {
    Vec2 centre_nm;  ///< stage axes, where it stands
    double sd_nm;    ///< of what cannot be predicted of the sample's motion, a frame
    double period_s;
    double largest_step_nm;  ///< that limits allow a frame
    Vec2 low_nm, high_nm;    ///< between which they allow the stage to be
    StageModelSettings described;
    std::int64_t now_ns;
    std::size_t axes = 2;  ///< of the lock: of one, x goes to and fro alone
  };
  /// @returns false, and nothing begins, where the camera is too slow or the limits leave no room
  bool begin(const Start& start) noexcept;
  void stop() noexcept { end(AcquaintanceEnd::None); }
  /// What was told lately never left: the record says what is not so.
  void begin_anew(std::int64_t now_ns) noexcept;
  bool is_under_way() const noexcept { return phase_ != Phase::None; }
  /// The stage rests: what moves is the sample.
  bool is_at_rest() const noexcept { return phase_ == Phase::Quiet || phase_ == Phase::Waiting; }

  /// Where the stage is to be told to go with this frame, which is a good one.
  /// @param moved_nm  the sample's place, stage axes as described
  Vec2 wanted_nm(Vec2 moved_nm, std::int64_t now_ns) noexcept;
  /// The last move left only then, later than was said.
  void left_at(std::int64_t sent_ns) noexcept { left_ns_ = sent_ns; }
  /// What became of the frame, whether it was a good one or not; after that frame() is to be passed
  /// on to the desk. @param told  where the stage was told to be; nothing: no command left
  void saw(const std::optional<StageFrame>& sample, const std::optional<StageMove>& told,
           std::int64_t exposure_ns, std::int64_t now_ns) noexcept;
  const AcquaintanceFrame& frame() const noexcept { return frame_; }
  /// @param usual_nm  as Start::sd_nm, now
  void hear(const AcquaintanceAnswer& answer, double usual_nm, std::int64_t now_ns) noexcept;
  /// Of the last one that was under way: once, then None.
  AcquaintanceEnd take_end() noexcept;

  const StageFinding& finding() const noexcept { return finding_; }
  StageLooks looks() const noexcept { return looks_; }
  Vec2 centre_nm() const noexcept { return centre_nm_; }
  std::int64_t begun_ns() const noexcept { return first_ns_; }

 private:
  enum class Phase : std::uint8_t { None, Quiet, Moving, Resting, Waiting };

  /// One axis: at +1 or -1, each for a random number of frames.
  struct Telegraph {
    std::uint64_t state = 1;
    double place_nm = 0;
    double side = 1;
    int frames_left = 0;
    double next(double reach_nm, double step_nm, double longest_frames) noexcept;
  };

  void begin_record(std::int64_t now_ns) noexcept;
  void move_on(std::int64_t now_ns) noexcept;
  bool is_late(std::int64_t now_ns) const noexcept;
  void keep_within_range() noexcept;
  void follow(Vec2 moved_nm, std::int64_t now_ns) noexcept;
  void judge_glimpse(const StageFinding& finding) noexcept;
  void judge_finding(const StageFinding& finding, double usual_nm, std::int64_t now_ns) noexcept;
  void end(AcquaintanceEnd end) noexcept;

  Phase phase_ = Phase::None;
  AcquaintanceEnd end_ = AcquaintanceEnd::None;
  Start start_{};
  std::uint32_t run_ = 0;
  std::int64_t first_ns_ = 0;  ///< when it began, however often anew
  std::int64_t phase_ns_ = 0;  ///< when the phase did
  std::int64_t last_ns_ = 0;   ///< of wanted_nm()
  int frames_ = 0;             ///< good ones in this phase
  int moving_frames_ = 0;      ///< good ones of the record in which the stage moved
  int next_glimpse_ = 0;       ///< in moving_frames_
  bool asked_ = false;         ///< and not answered yet
  int rounds_ = 0, anew_ = 0;
  bool follows_ = false;  ///< inverse_ is good enough to follow the drift by
  std::array<double, 4> inverse_{1, 0, 0, 1};
  Vec2 centre_nm_, origin_nm_, told_nm_;
  double reach_nm_ = 0, step_nm_ = 0;
  Telegraph x_, y_;
  std::int64_t left_ns_ = 0;
  AcquaintanceFrame frame_;
  StageFinding finding_;
  StageLooks looks_ = StageLooks::Following;
};

}  // namespace driftd::control
