// SPDX-License-Identifier: MIT
// The stage monitor's rules while the observer's innovations are the evidence ("While the observer
// holds the lock" in docs/internals/stage-monitor.md), on a sample and a stage that rest: what is
// doubted is the expectation alone. Stages that were reversed, or stand still, explain part of it.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "control/stage/stage_monitor.hpp"
#include "unit/control/still_sample.hpp"

namespace driftd::control {
namespace {

using test::Still;
using test::surprise;

/// Expectations that err by `model` deviations, which a reversed stage would have by `reversed` and
/// one that stands still by the mean of both, frame after frame, along one axis.
struct Observed {
  Observed(double model, double reversed, bool along_x, std::int64_t period_ns)
      : model_(model), reversed_(reversed) {
    still.period_ns = period_ns;
    still.rest();  // the time goes on
    (along_x ? is_.innovation_nm.x : is_.innovation_nm.y) = model * kSdNm;
    (along_x ? is_.of_stage_x_nm.x : is_.of_stage_y_nm.y) = (reversed - model) / 2 * kSdNm;
    is_.variance_nm2 = {kSdNm * kSdNm, kSdNm * kSdNm};
  }
  /// What a frame adds to the doubt.
  double frame() {
    const double before = doubt;
    still.time_ns += still.period_ns;
    ObservedFrame sample = still.sample_now();
    sample.expectation = is_;
    still.verdict = still.monitor.update(sample);
    doubt = still.verdict.doubt;
    // Mean squares over 32 frames, over what is usual; all are usual at first.
    share_ *= 31.0 / 32;
    return doubt - before;
  }
  /// The mean square that is left, after so many frames: of what errs by so much each time.
  double left(double deviations) const { return 1 + (deviations * deviations - 1) * (1 - share_); }
  double evidence() const {
    const double sd = std::sqrt(std::max(1.0, left(reversed_)));  // no stage leaves less
    return surprise(model_ / sd) - surprise(reversed_ / sd);
  }
  double for_standstill() const {
    const double sd = std::sqrt(std::max(1.0, left(reversed_)));
    return surprise(model_ / sd) - surprise((model_ + reversed_) / 2 / sd);
  }

  Still still;
  double doubt = 0;

 private:
  static constexpr double kSdNm = 0.7;
  double model_, reversed_, share_ = 1;
  Expectation is_;
};

constexpr std::int64_t kSlowNs = 100'000'000;  ///< from frame to frame: nothing is excused as late

TEST_CASE("by the observer's innovations each frame takes 0.03 off the doubt") {
  for (const bool along_x : {true, false}) {
    Observed observed(1, 0, along_x, kSlowNs);
    for (int i = 0; i < 30; ++i)
      REQUIRE(observed.frame() == Approx(observed.evidence() - 0.03).epsilon(1e-9));
    CHECK(observed.still.verdict.looks == StageLooks::Following);
    CHECK(observed.doubt > 10);
  }
}

TEST_CASE("and 0.3 of what the stage in question leaves beyond what is expected") {
  for (const bool along_x : {true, false}) {
    Observed observed(2, 1.2, along_x, kSlowNs);
    for (int i = 0; i < 100; ++i) {
      const double added = observed.frame();
      const double beyond = observed.left(1.2) - 1;
      REQUIRE(added == Approx(observed.evidence() - 0.03 - 0.3 * beyond).epsilon(1e-9));
    }
    CHECK(observed.left(1.2) > 1.4);
  }
}

TEST_CASE("but 0.03 alone of one that leaves less than a quarter of what the model does") {
  for (const bool along_x : {true, false}) {
    Observed observed(3.5, 1.4, along_x, kSlowNs);
    int of_most = 0;
    for (int i = 0; i < 50; ++i) {
      const double added = observed.frame();
      // Both axes count together; the other one's innovations are 0.
      const double other = observed.left(0);
      const bool most = 4 * (observed.left(1.4) + other) < observed.left(3.5) + other;
      const double beyond = most ? 0 : observed.left(1.4) - 1;
      REQUIRE(added == Approx(observed.evidence() - 0.03 - 0.3 * beyond).epsilon(1e-9));
      of_most += most;
    }
    CHECK(of_most > 10);
    CHECK(of_most < 40);
  }
}

TEST_CASE("what a standstill explains is excused for 60 ms from when it counts 3, and no longer") {
  for (const bool along_x : {true, false}) {
    Observed observed(1, 0, along_x, 10'000'000);
    double standstill = 0;
    int late = 0, excused = 0;
    for (int i = 0; i < 40; ++i) {
      const double added = observed.frame();
      standstill += observed.for_standstill();
      late = standstill < 3 ? 0 : late + 1;  // frames since it was last less
      const bool is_late = late > 0 && late < 6;
      const double of_standstill = is_late ? observed.for_standstill() : 0;
      REQUIRE(added == Approx(observed.evidence() - of_standstill - 0.03).epsilon(1e-9));
      excused += is_late;
    }
    CHECK(excused == 5);
  }
}

}  // namespace
}  // namespace driftd::control
