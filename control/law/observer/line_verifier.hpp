// SPDX-License-Identifier: MIT
// Tells the sample's own lines from aliases: vibrations above half the frame rate, which frames
// show as slower ones. At one frame rate nothing tells them apart; when frames come a little later,
// an alias is seen elsewhere. The verifier says when the camera is to be slower, for how long, and
// keeps what was found, of both axes: what shakes the one shakes the other. The tuner's thread owns
// it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "control/law/observer/disturbance_model.hpp"
#include "control/law/observer/model_fit.hpp"

namespace driftd::control {

/// A camera that is to be slower sends its frames so much later each, as a share of their period.
constexpr double kSlowerShare = 0.02;

/// What the lines of a model are that need a verdict and have none, by a record with frames of both
/// rates: the model with their origin, of aliases with the vibration's frequency.
/// @param record   its steps are exact
/// @param rate_hz  frames a second at which the model's frequencies were seen
DisturbanceModel judge_origins(const PlaceRecord& record, const DisturbanceModel& model,
                               double rate_hz);

class LineVerifier {
 public:
  /// Frames of before are past. Verdicts stay; a test ends without any.
  void reset() noexcept;
  /// Every frame, in order.
  void take(std::int64_t taken_ns) noexcept;
  /// Whether the camera is asked for slower frames now, by whatever lock. Before the frames that
  /// come of it. @returns whether it was not before
  bool see_camera(bool asked_slower) noexcept;
  /// Frames are slower, or may be still, and no test is under way: nothing is to be fitted to them.
  bool is_unsettled() const noexcept { return !is_busy() && (asked_slower_ || settles_); }

  /// Whether a model has lines that are worth a test now.
  bool has_question(const DisturbanceModel& model) const;
  void begin() noexcept;
  /// The camera becomes slower for another lock's lines: a test of whatever lines there are, which
  /// says nothing of when to ask again.
  void join() noexcept;
  /// From begin() on, until the test is finished or nothing came of it.
  bool is_busy() const noexcept { return state_ != State::Idle; }
  /// What the camera is to be now.
  bool wants_slower_frames() const noexcept {
    return state_ == State::Asked || state_ == State::Slower;
  }
  /// The frames of both rates are there: learn() each axis, then finish(). Where is_refused() there
  /// is nothing to learn.
  bool is_over() const noexcept { return state_ == State::Over; }
  /// In the last test the camera did not become slower.
  bool is_refused() const noexcept { return refused_; }
  /// The first of the frames that the test goes by.
  std::int64_t record_from_ns() const noexcept { return record_from_ns_; }
  /// Frames a second, before the camera was slower.
  double rate_hz() const noexcept;
  /// @param model  as judge_origins() made it of one whose lines were not judged before
  void learn(const DisturbanceModel& model);
  void finish() noexcept;

  /// Writes to the lines of a model what was found of them.
  void name(DisturbanceModel& model);

 private:
  enum class State : std::uint8_t { Idle, Asked, Slower, Over };
  struct Known {
    double seen_hz = 0;  ///< at the usual rate
    double true_hz = 0;
    LineOrigin origin = LineOrigin::Unknown;
    int tests = 0;  ///< that told nothing
    std::int64_t again_ns = 0;
    std::int64_t met_ns = 0;  ///< in a model; 0: in one of a lock before
  };
  double median_step_s() const;
  static constexpr std::size_t kNone = ~std::size_t{0};
  std::vector<std::size_t> known_of(const DisturbanceModel& model) const;
  double seen_hz(double frequency_hz) const noexcept;
  /// Above half the frame rate: it is in a model as an alias alone.
  bool is_fast(double frequency_hz) const noexcept { return frequency_hz * period_s_ > 0.5; }

  static constexpr std::size_t kSteps = 32;
  std::vector<Known> known_;
  std::array<double, kSteps> steps_s_{};  ///< ring
  std::size_t step_count_ = 0;
  std::size_t slower_frames_ = 0;
  State state_ = State::Idle;
  std::int64_t last_ns_ = 0, begun_ns_ = 0, record_from_ns_ = 0, rests_until_ns_ = 0;
  double period_s_ = 0;  ///< of the usual rate
  double rest_s_ = 0;    ///< after the last test
  bool told_ = false;    ///< the test has, of some line
  bool refused_ = false;
  bool joined_ = false;  ///< in the test of another lock
  bool asked_slower_ = false;
  bool settles_ = false;  ///< it is asked for slower frames no more, until usual_from_ns_
  std::int64_t usual_from_ns_ = 0;
};

}  // namespace driftd::control
