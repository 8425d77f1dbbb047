// SPDX-License-Identifier: MIT
#include "control/identification/stage_identification.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/median.hpp"
#include "control/identification/record_fit.hpp"
#include "control/identification/speed_bound.hpp"
#include "control/identification/stage_description.hpp"
#include "control/values/number_text.hpp"

namespace driftd::control {
namespace {

constexpr double kStretchS = 1.0, kShortStretchS = 0.25;
/// What gains may leave of the motion in a stretch.
constexpr double kUnexplainedStretch = 0.3;
/// A jump of the image that no stage makes: in steps of the command, in standard deviations.
constexpr double kFarSteps = 30, kFarSd = 30;
constexpr std::size_t kFirstOrder = 12;  ///< of the noise model from the quiet part alone
/// A jump that the fit does not explain.
constexpr double kJumpSteps = 4, kJumpSd = 15, kLeastJumpNm = 8;
/// What may stay unexplained of the motion, against the noise's own and at all.
constexpr double kUnexplained = 0.12, kBeyondNoise = 1.5;
/// Three quiet seconds say so well what drift and vibration do later.
constexpr double kQuietVaries = 3;
/// What a further unknown must gain in chi square.
constexpr double kEvidence = 20;
/// Half widths of the plays that hysteresis is looked for with, in shares of the excursion.
constexpr std::array<double, 3> kPlays = {0.1, 0.3, 0.7};

/// What one refusal or one fit is made of.
struct Run {
  PreparedRecord prepared;
  ResponseFit fit;
  std::vector<ResponseShape> as_likely;  ///< what other valleys of the sum of squares hold
  StageVerdictText verdict;
  FitData& data() noexcept { return prepared.data; }
};

/// Mean square of what is white, by its median: a few frames that are far out do not count.
double mean_square(const std::vector<double>& white, const std::vector<SlotUse>& use,
                   std::size_t begin, std::size_t end) {
  constexpr double kMedianOfSquare = 0.4549;  // of a normal deviate
  std::vector<double> squares;
  for (std::size_t k = begin; k < end; ++k) {
    if (use[k] == SlotUse::Counts) squares.push_back(white[k] * white[k]);
  }
  return median(std::move(squares)) / kMedianOfSquare;
}

/// Mean square of what is left when the mean over a second about each value is taken off.
double swift_square(const FitData& data, const std::vector<double>& values, std::size_t begin,
                    std::size_t end) {
  const auto half = static_cast<std::size_t>(0.5 / data.slots.period_s) + 1;
  std::vector<double> sum(values.size() + 1), count(values.size() + 1);
  for (std::size_t k = 0; k < values.size(); ++k) {
    const bool present = data.slots.use[k] != SlotUse::Missing;
    sum[k + 1] = sum[k] + (present ? values[k] : 0);
    count[k + 1] = count[k] + (present ? 1 : 0);
  }
  double square = 0;
  const double all = count[end] - count[begin];
  for (std::size_t k = begin; k < end; ++k) {
    if (data.slots.use[k] == SlotUse::Missing) continue;
    const std::size_t from = k > begin + half ? k - half : begin;
    const std::size_t to = std::min(k + half + 1, end);
    const double rest = values[k] - (sum[to] - sum[from]) / (count[to] - count[from]);
    square += rest * rest;
  }
  return all > 0 ? square / all : 0;
}

struct Unexplained {
  double share = 0;         ///< of the motion
  double slow_share = 0;    ///< the same in nm, down to 1 Hz: slow motion hides in white noise
  double beyond_noise = 1;  ///< mean square while the stage moves, against the quiet part's
};
/// Judges by the noise model of the quiet part, which the stage's faults have not spoilt.
Unexplained judge_rest(const FitData& data, const ResponseFit& fit) {
  const auto left = unexplained(data, fit, false);
  double quiet = 0, moving = 0, signal = 0;
  double quiet_nm2 = 0, moving_nm2 = 0, signal_nm2 = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    std::vector<double> motion = data.moved_nm[i];
    for (std::size_t k = 0; k < motion.size(); ++k) motion[k] -= left[i][k];
    const auto white = data.noise[i].apply(left[i], data.slots.use);
    const auto white_motion = data.noise[i].apply(motion, data.slots.use);
    quiet += mean_square(white, data.slots.use, 0, data.begin);
    moving += mean_square(white, data.slots.use, data.begin, data.end);
    signal += mean_square(white_motion, data.slots.use, data.begin, data.end);
    quiet_nm2 += swift_square(data, left[i], 0, data.begin);
    moving_nm2 += swift_square(data, left[i], data.begin, data.end);
    signal_nm2 += swift_square(data, motion, data.begin, data.end);
  }
  return {.share = signal > 0 ? std::sqrt(std::max(0.0, moving - quiet) / signal) : 1,
          .slow_share =
              signal_nm2 > 0
                  ? std::sqrt(std::max(0.0, moving_nm2 - kQuietVaries * quiet_nm2) / signal_nm2)
                  : 1,
          .beyond_noise = quiet > 0 ? moving / quiet : 1};
}

bool may_be_slow(StageRefusal refusal) {
  return refusal == StageRefusal::Reversed || refusal == StageRefusal::Swapped ||
         refusal == StageRefusal::Stuck || refusal == StageRefusal::GainChanged ||
         refusal == StageRefusal::NotLinear;
}

StageVerdictText refuse_not_linear(double share) {
  return {StageRefusal::NotLinear,
          "The stage moves, but not as it is told: " + number(100 * std::min(1.0, share), 0) +
              " % of its motion follows from no matrix, dead time and response. Check whether its "
              "servo is on, whether it sticks or oscillates, and that nothing else drives it."};
}

/// Judges by the gains of long stretches or, where they do not explain the motion, of short ones.
StageVerdictText judge_stretches(const FitData& data, ResponseShape& shape) {
  shape = search_shape(data, kStretchS);
  const GainCourse course = course_of(data, shape, kStretchS);
  StageVerdictText verdict = judge_course(course);
  const bool moves = verdict.refusal != StageRefusal::StageDead &&
                     verdict.refusal != StageRefusal::AxisDead &&
                     verdict.refusal != StageRefusal::Unresolved;
  if (!moves || course.unexplained() < kUnexplainedStretch) return verdict;
  shape = search_shape(data, kShortStretchS);
  const GainCourse short_course = course_of(data, shape, kShortStretchS);
  if (short_course.unexplained() < kUnexplainedStretch) return judge_course(short_course);
  return refuse_not_linear(short_course.unexplained());
}

/// Whether the stage was told to move before a jump, and the image did not: then it caught up.
bool stood_still_before(const FitData& data, double at_s) {
  constexpr double kBeforeS = 0.4;
  const auto range = [](const auto& values, const auto& uses) {
    double low = 0, high = 0;
    bool any = false;
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (!uses(k)) continue;
      low = any ? std::min(low, values[k]) : values[k];
      high = any ? std::max(high, values[k]) : values[k];
      any = true;
    }
    return high - low;
  };
  const auto told = [&](std::size_t c, double begin_s) {
    return range(data.staircase.channels[c], [&](std::size_t m) {
      return data.staircase.sent_s[m] >= begin_s && data.staircase.sent_s[m] < at_s;
    });
  };
  const auto seen = [&](std::size_t i, double begin_s) {
    return range(data.moved_nm[i], [&](std::size_t k) {
      return data.slots.use[k] != SlotUse::Missing && data.time_of(k) >= begin_s &&
             data.time_of(k) < at_s - data.slots.period_s;
    });
  };
  const auto both = [](double a, double b) { return std::hypot(a, b); };
  const double from_s = at_s - kBeforeS;
  const double all = both(seen(0, data.begin_s), seen(1, data.begin_s)) /
                     both(told(0, data.begin_s), told(1, data.begin_s));
  const double lately =
      both(seen(0, from_s), seen(1, from_s)) / both(told(0, from_s), told(1, from_s));
  return lately < 0.3 * all;
}

StageVerdictText judge_jump(const FitData& data, const Jump& jump) {
  if (!stood_still_before(data, jump.at_s)) return refuse_jump(jump);
  return {StageRefusal::Stuck,
          "The stage stood still for a while and caught up at about " + number(jump.at_s, 1) +
              " s. Check that corrections reach the driver all the time, and the controller's "
              "errors."};
}

/// Where to start, and whether the stage answered alike all the time.
bool begin(Run& run) {
  FitData& data = run.data();
  const double sd = std::max(run.prepared.difference_sd_nm.x, run.prepared.difference_sd_nm.y);
  const Jump jump = find_jump(data, data.moved_nm,
                              std::max(kFarSteps * run.prepared.largest_step_nm, kFarSd * sd));
  if (jump.found) {
    run.verdict = judge_jump(data, jump);
    return false;
  }
  const std::size_t order = std::min(kFirstOrder, data.begin / 10);
  mark_history(data.slots, order);
  fit_noise(data, data.moved_nm, order, 0, data.begin);
  ResponseShape shape;
  run.verdict = judge_stretches(data, shape);
  run.fit = fit_gains(data, shape);
  if (may_be_slow(run.verdict.refusal)) {
    const StageVerdictText slow = judge_speed(data, run.fit.shape);
    if (slow.refusal != StageRefusal::None) run.verdict = slow;
  }
  return run.verdict.refusal == StageRefusal::None;
}

/// A first fit with the quiet part's noise: whether it explains the motion.
bool fit_first(Run& run) {
  FitData& data = run.data();
  run.fit = fit_response(data, fit_from_several(data, run.fit.shape).front().shape, kFitRounds);
  if (!run.fit.converged) {
    run.verdict = {StageRefusal::NotLinear, "The stage's motion fits no response."};
    return false;
  }
  const auto left = unexplained(data, run.fit, false);
  const double gain = std::max({std::abs(run.fit.linear[0][0]), std::abs(run.fit.linear[0][1]),
                                std::abs(run.fit.linear[1][0]), std::abs(run.fit.linear[1][1])});
  const double sd = std::max(data.noise[0].sd(), data.noise[1].sd());
  const Jump jump = find_jump(
      data, left,
      std::max({kLeastJumpNm, kJumpSteps * run.prepared.largest_step_nm * gain, kJumpSd * sd}));
  if (jump.found) {
    run.verdict = judge_jump(data, jump);
    return false;
  }
  return true;
}

bool judge_fit(Run& run) {
  const Unexplained rest = judge_rest(run.data(), run.fit);
  const bool swift = rest.share > kUnexplained && rest.beyond_noise > kBeyondNoise;
  if (!swift && rest.slow_share < kUnexplained) return true;
  run.verdict = judge_speed(run.data(), run.fit.shape);
  if (run.verdict.refusal == StageRefusal::None)
    run.verdict = refuse_not_linear(std::max(rest.share, rest.slow_share));
  return false;
}

/// Whether the plays lag behind, as hysteresis does. Commands that came late can make them lead:
/// then they would take from the matrix what is not theirs.
bool lags(const ResponseFit& fit) {
  constexpr double kLead = 0.003;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const Vec2 small{fit.linear[0][axis], fit.linear[1][axis]};
    double lagging = 0;
    for (std::size_t n = 0; n < kPlays.size(); ++n) {
      const std::size_t channel = 2 + axis * kPlays.size() + n;
      lagging += fit.linear[0][channel] * small.x + fit.linear[1][channel] * small.y;
    }
    if (lagging < -kLead * (small.x * small.x + small.y * small.y)) return false;
  }
  return true;
}

/// Adds plays of the commands to the staircase where they explain much more.
void look_for_hysteresis(Run& run) {
  FitData with = run.data();
  for (std::size_t axis = 0; axis < 2; ++axis) {
    for (const double share : kPlays)
      with.staircase.channels.push_back(
          play(with.staircase.channels[axis], share * run.prepared.excursion_nm));
  }
  const ResponseFit gains = fit_gains(with, run.fit.shape);
  const double unknowns = 4 * kPlays.size();
  if (!gains.converged || gains.chi_square > run.fit.chi_square - unknowns - kEvidence) return;
  ResponseFit fit = fit_response(with, run.fit.shape, kFitRounds);
  if (!fit.converged || !lags(fit)) return;
  run.data() = std::move(with);
  run.fit = std::move(fit);
}

}  // namespace

StageIdentification identify_stage(const StageRecord& record,
                                   const IdentificationSettings& settings) {
  StageIdentification identification;
  Run run;
  run.prepared = prepare(record);
  run.verdict = run.prepared.verdict;
  const auto cancelled = [&] {
    return settings.cancelled != nullptr && settings.cancelled->load();
  };
  const auto goes_on = [&] { return run.verdict.refusal == StageRefusal::None && !cancelled(); };
  if (goes_on() && begin(run) && goes_on() && fit_first(run) && goes_on() && judge_fit(run)) {
    if (!cancelled()) {
      SettledFit settled = settle(run.prepared, std::move(run.fit));
      run.fit = std::move(settled.fit);
      run.as_likely = std::move(settled.as_likely);
    }
    if (!cancelled()) run.fit = with_simplest_order(run.data(), std::move(run.fit));
    if (!cancelled()) look_for_hysteresis(run);
    if (cancelled())
      run.verdict = {StageRefusal::Cancelled, "The evaluation was broken off."};
    else if (run.fit.converged)
      identification.result = describe(run.prepared, run.fit, run.as_likely, settings);
    else
      run.verdict = {StageRefusal::NotLinear, "The stage's motion fits no response."};
  }
  identification.refusal = run.verdict.refusal;
  identification.text = run.verdict.text;
  return identification;
}

}  // namespace driftd::control
