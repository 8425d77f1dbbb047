// SPDX-License-Identifier: MIT
#include "control/identification/gain_course.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "control/identification/dense_solver.hpp"
#include "control/number_text.hpp"

namespace driftd::control {
namespace {

constexpr std::array<const char*, 2> kAxis = {"x", "y"};
/// Fewer equations in a stretch say nothing.
constexpr std::size_t kFewestFrames = 20;
/// A stage that moves by less than this share of what it is told counts as dead.
constexpr double kDeadGain = 0.03;
/// By how much the gain of a stretch may differ: hysteresis and noise aside, not at all.
constexpr double kAlike = 0.12;
constexpr double kSure = 6;  // standard deviations

double length(Vec2 v) {
  return std::hypot(v.x, v.y);
}
double distance(Vec2 a, Vec2 b) {
  return std::hypot(a.x - b.x, a.y - b.y);
}
Vec2 minus(Vec2 v) {
  return {-v.x, -v.y};
}

bool is_significant(const StretchGain& stretch, std::size_t axis) {
  return length(stretch.gain[axis]) > kSure * stretch.sd[axis];
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// The gain to which most stretches are near, among those in which the axis moved at all.
Vec2 typical_gain(const GainCourse& course, std::size_t axis) {
  double largest = 0;
  for (const StretchGain& s : course.stretches) {
    if (is_significant(s, axis)) largest = std::max(largest, length(s.gain[axis]));
  }
  Vec2 best;
  double smallest = std::numeric_limits<double>::infinity();
  for (const StretchGain& s : course.stretches) {
    if (!is_significant(s, axis) || length(s.gain[axis]) < 0.3 * largest) continue;
    std::vector<double> far;
    for (const StretchGain& other : course.stretches)
      far.push_back(std::min(distance(s.gain[axis], other.gain[axis]), 0.5 * largest));
    double sum = 0;
    for (const double d : far) sum += d;
    if (sum < smallest) {
      smallest = sum;
      best = s.gain[axis];
    }
  }
  return best;
}

StageVerdictText judge_dead(const GainCourse& course, const std::array<Vec2, 2>& typical) {
  std::array<double, 2> sd{};
  std::array<bool, 2> dead{}, lost{};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    std::vector<double> sds;
    for (const StretchGain& s : course.stretches) sds.push_back(s.sd[axis]);
    sd[axis] = median(sds) / std::sqrt(static_cast<double>(std::max<std::size_t>(1, sds.size())));
    const bool moved = length(typical[axis]) >= kDeadGain;
    dead[axis] = !moved && kSure * sd[axis] < 0.3;
    lost[axis] = !moved && !dead[axis];
  }
  const auto seen = [&](std::size_t axis) {
    return 100 * std::max(length(typical[axis]), 3 * sd[axis]);
  };
  if (lost[0] || lost[1]) {
    return {StageRefusal::Unresolved,
            "The drift is too noisy to see the stage move: check focus, exposure and the number of "
            "markers, or allow a larger excursion."};
  }
  if (dead[0] && dead[1]) {
    return {StageRefusal::StageDead,
            "The stage does not move: of 100 nm commanded, the image shows less than " +
                number(std::max(seen(0), seen(1)), 1) +
                " nm. Check its power and servo, that the driver receives corrections, and that it "
                "drives this stage."};
  }
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (!dead[axis]) continue;
    const std::string name = kAxis[axis];
    return {StageRefusal::AxisDead,
            "The stage's " + name +
                " axis does not move: of 100 nm commanded, the image shows less "
                "than " +
                number(seen(axis), 1) + " nm, while " + kAxis[1 - axis] + " moves it by " +
                number(100 * length(typical[1 - axis]), 0) +
                " nm. Check the axis' servo and cable, and which axis of the controller the driver "
                "calls " +
                name + "."};
  }
  return {};
}

StageVerdictText judge_parallel(const std::array<Vec2, 2>& typical) {
  const double sine = std::abs(typical[0].x * typical[1].y - typical[0].y * typical[1].x) /
                      (length(typical[0]) * length(typical[1]));
  if (sine > 0.2) return {};
  return {StageRefusal::Parallel,
          "Both axes of the stage move the image along the same line (" +
              number(std::asin(sine) * 180 / std::numbers::pi, 0) +
              " degrees apart). Check that the driver's two axes are two axes of the controller."};
}

enum class Look : std::uint8_t { Alike, Stuck, Reversed, Swapped, Changed };

/// What a stretch looks like against the typical gains.
Look look_at(const StretchGain& s, const std::array<Vec2, 2>& typical, std::size_t axis) {
  const Vec2 gain = s.gain[axis];
  const double size = length(typical[axis]);
  if (distance(gain, typical[axis]) < kAlike * size + kSure * s.sd[axis]) return Look::Alike;
  const Vec2 other = typical[1 - axis];
  const double turned = std::min(distance(gain, other), distance(gain, minus(other)));
  // The other axis' gain, not by chance: this axis' own direction is left.
  if (turned < 0.35 * length(other) + kSure * s.sd[axis] &&
      turned < 0.5 * std::min(distance(gain, typical[axis]), distance(gain, minus(typical[axis]))))
    return Look::Swapped;
  if (distance(gain, minus(typical[axis])) < 0.5 * size) return Look::Reversed;
  if (length(gain) < 0.5 * size) return Look::Stuck;
  return Look::Changed;
}

struct Departure {
  int stretches = 0;
  double first_s = 0, last_s = 0;
  Vec2 gain;
  int returns = 0;  ///< how often it was as usual again afterwards
};

StageVerdictText say(Look look, const Departure& d, const std::string& axes, Vec2 typical,
                     bool both) {
  const std::string at = " at about " + number(d.first_s, 1) + " s";
  switch (look) {
    case Look::Swapped:
      return {StageRefusal::Swapped,
              "The stage's axes changed places or directions" + at +
                  ": what moved x before moved y then. Check that nothing else drives the stage or "
                  "assigns its axes anew."};
    case Look::Reversed:
      return {StageRefusal::Reversed,
              "The stage's " + axes + " changed direction" + at +
                  (d.returns > 0 ? ", and again later" : "") +
                  ". Check the signs that the driver and the controller give the axes, and that "
                  "nothing else drives the stage."};
    case Look::Stuck:
      return {StageRefusal::Stuck,
              "The stage's " + axes + " stood still for part of the time, first" + at +
                  ". Check that corrections reach the driver all the time, the controller's "
                  "errors, and whether the stage is at a limit of its range."};
    default:
      return {StageRefusal::GainChanged,
              "The stage's " + axes + (both ? " answer" : " answers") + " otherwise from about " +
                  number(d.first_s, 1) + " s on: " + number(length(d.gain), 2) +
                  " nm in the image for each nm commanded, " + number(length(typical), 2) +
                  " at other times. Check its servo, its load and its range."};
  }
}

}  // namespace

const char* name_of(StageRefusal refusal) noexcept {
  switch (refusal) {
    case StageRefusal::None:
      return "none";
    case StageRefusal::TooFewFrames:
      return "too_few_frames";
    case StageRefusal::TooLittleMotion:
      return "too_little_motion";
    case StageRefusal::StageDead:
      return "stage_dead";
    case StageRefusal::AxisDead:
      return "axis_dead";
    case StageRefusal::Unresolved:
      return "unresolved";
    case StageRefusal::Reversed:
      return "reversed";
    case StageRefusal::Swapped:
      return "swapped";
    case StageRefusal::Stuck:
      return "stuck";
    case StageRefusal::GainChanged:
      return "gain_changed";
    case StageRefusal::Parallel:
      return "parallel";
    case StageRefusal::Slow:
      return "slow";
    case StageRefusal::NotLinear:
      return "not_linear";
    case StageRefusal::Jumped:
      return "jumped";
  }
  return "none";
}

GainCourse course_of(const FitData& data, const ResponseShape& shape, double stretch_s) {
  const auto response = respond_in_slots(data, shape);
  std::array<std::array<std::vector<double>, 3>, 2> white;  // [image axis][x, y, moved]
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t c = 0; c < 2; ++c)
      white[i][c] = data.noise[i].apply(response[c], data.slots.use);
    white[i][2] = data.noise[i].apply(data.moved_nm[i], data.slots.use);
  }
  GainCourse course;
  const auto count = std::max<std::size_t>(
      1, static_cast<std::size_t>(std::round((data.end_s - data.begin_s) / stretch_s)));
  for (std::size_t n = 0; n < count; ++n) {
    const std::size_t begin = data.begin + (data.end - data.begin) * n / count;
    const std::size_t end = data.begin + (data.end - data.begin) * (n + 1) / count;
    const auto rows = static_cast<std::size_t>(
        std::count(data.slots.use.begin() + static_cast<long>(begin),
                   data.slots.use.begin() + static_cast<long>(end), SlotUse::Counts));
    if (rows < kFewestFrames) continue;
    StretchGain stretch;
    const double second = data.slots.period_s;
    stretch.begin_s = data.begin_s + second * static_cast<double>(begin - data.begin);
    stretch.end_s = data.begin_s + second * static_cast<double>(end - data.begin);
    for (std::size_t i = 0; i < 2; ++i) {
      NormalEquations equations(2);
      const std::array<const std::vector<double>*, 2> columns = {&white[i][0], &white[i][1]};
      equations.add_columns(columns, white[i][2], begin, end);
      std::vector<double> gain, inverse;
      if (!equations.solve(0, gain) || !equations.invert(inverse)) continue;
      const double left = equations.remaining(gain);
      course.chi_square += left;
      const double inflation = std::max(1.0, left / static_cast<double>(rows - 2));
      for (std::size_t axis = 0; axis < 2; ++axis) {
        (i == 0 ? stretch.gain[axis].x : stretch.gain[axis].y) = gain[axis];
        // An axis that was not moved in this stretch has no gain.
        const double variance = inverse[axis * 3] > 0 ? inverse[axis * 3] : 1e6;
        stretch.sd[axis] = std::max(stretch.sd[axis], std::sqrt(variance * inflation));
      }
    }
    course.stretches.push_back(stretch);
  }
  return course;
}

ResponseShape search_shape(const FitData& data, double stretch_s) {
  ResponseShape best;
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](double delay_s, double frequency_hz) {
    const ResponseShape shape{
        .order = 2, .delay_s = delay_s, .frequency_hz = frequency_hz, .damping = 0.7};
    const double left = course_of(data, shape, stretch_s).chi_square;
    if (left < least) {
      least = left;
      best = shape;
    }
  };
  for (const double frequency_hz : {6.0, 15.0, 40.0, 120.0, 400.0}) {
    for (double delay_s = 0; delay_s < 0.05; delay_s += 0.004) consider(delay_s, frequency_hz);
  }
  double by_s = 0.002;
  double factor = 1.6;
  for (int round = 0; round < 3; ++round) {
    const ResponseShape around = best;
    consider(around.delay_s + by_s, around.frequency_hz);
    consider(std::max(0.0, around.delay_s - by_s), around.frequency_hz);
    consider(around.delay_s, around.frequency_hz * factor);
    consider(around.delay_s, around.frequency_hz / factor);
    consider(around.delay_s + by_s, around.frequency_hz * factor);
    consider(std::max(0.0, around.delay_s - by_s), around.frequency_hz / factor);
    by_s /= 2;
    factor = std::sqrt(factor);
  }
  return best;
}

StageVerdictText judge_course(const GainCourse& course) {
  if (course.stretches.empty())
    return {StageRefusal::TooFewFrames, "Hardly any frame had a drift while the stage moved."};
  const std::array<Vec2, 2> typical = {typical_gain(course, 0), typical_gain(course, 1)};
  StageVerdictText verdict = judge_dead(course, typical);
  if (verdict.refusal != StageRefusal::None) return verdict;

  // Swapped comes before reversed and reversed before stuck: a stretch within which the stage
  // changed shows a mixture, and a mixture looks like less.
  for (const Look wanted : {Look::Swapped, Look::Reversed, Look::Stuck, Look::Changed}) {
    std::array<Departure, 2> found;
    for (std::size_t axis = 0; axis < 2; ++axis) {
      bool away = false;
      for (const StretchGain& s : course.stretches) {
        const Look look = look_at(s, typical, axis);
        if (look == wanted) {
          if (found[axis].stretches++ == 0) {
            found[axis].first_s = s.begin_s;
            found[axis].gain = s.gain[axis];
          }
          found[axis].last_s = s.end_s;
          away = true;
        } else if (look == Look::Alike && away) {
          ++found[axis].returns;
          away = false;
        }
      }
    }
    const bool x = found[0].stretches > 0, y = found[1].stretches > 0;
    if (!x && !y) continue;
    const std::size_t first = x && (!y || found[0].first_s <= found[1].first_s) ? 0 : 1;
    const std::string axes = x && y ? "axes" : std::string(kAxis[first]) + " axis";
    return say(wanted, found[first], axes, typical[first], x && y);
  }
  return judge_parallel(typical);
}

}  // namespace driftd::control
