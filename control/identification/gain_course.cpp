// SPDX-License-Identifier: MIT
#include "control/identification/gain_course.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/dense_solver.hpp"
#include "base/median.hpp"
#include "control/values/number_text.hpp"

namespace driftd::control {
namespace {

constexpr std::array<const char*, 2> kAxis = {"x", "y"};
/// Fewer equations in a stretch say nothing; stretches of slow cameras are longer for that.
constexpr std::size_t kFewestFrames = 20;
constexpr double kFramesOfAStretch = 40;
/// A stage that moves by less than this share of what it is told counts as dead.
constexpr double kDeadGain = 0.03;
/// How much the gain of a stretch may differ: hysteresis and noise aside, it does not at all.
constexpr double kAlike = 0.12;
/// The noise may be so much more than in the quiet part, by its mean square.
constexpr double kNoiseGrows = 1.5;
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

/// How far an axis moved the image in all stretches but the few in which it moved most.
struct Moved {
  double gain = 0;  ///< nm per nm commanded, any direction
  double sds = 0;   ///< the same in standard deviations
};
Moved moved_of(const GainCourse& course, std::size_t axis) {
  std::vector<double> gains, sds;
  for (const StretchGain& s : course.stretches) {
    gains.push_back(length(s.gain[axis]));
    sds.push_back(length(s.gain[axis]) / s.sd[axis]);
  }
  const auto at = static_cast<long>(gains.size() * 3 / 4);
  std::ranges::nth_element(gains, gains.begin() + at);
  std::ranges::nth_element(sds, sds.begin() + at);
  return {gains[static_cast<std::size_t>(at)], sds[static_cast<std::size_t>(at)]};
}

/// The gain to which most stretches are near, among those in which the axis moved at all.
Vec2 typical_gain(const GainCourse& course, std::size_t axis) {
  const double largest = moved_of(course, axis).gain;
  Vec2 best;
  double smallest = std::numeric_limits<double>::infinity();
  for (const StretchGain& s : course.stretches) {
    if (length(s.gain[axis]) < 0.3 * largest) continue;
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
  std::array<double, 2> seen{};  // nm of 100 nm
  std::array<bool, 2> dead{}, lost{};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const Moved moved = moved_of(course, axis);
    std::vector<double> sds;
    for (const StretchGain& s : course.stretches) sds.push_back(s.sd[axis]);
    const bool moves = moved.gain >= kDeadGain && moved.sds > kSure;
    // A stage that moved by a third would have been seen.
    dead[axis] = !moves && kSure * median(sds) < 0.33;
    lost[axis] = !moves && !dead[axis];
    seen[axis] = 100 * moved.gain;
  }
  if (lost[0] || lost[1]) {
    return {StageRefusal::Unresolved,
            "The drift is too noisy to see the stage move: check focus, exposure and the number of "
            "markers, or allow a larger excursion."};
  }
  if (dead[0] && dead[1]) {
    return {StageRefusal::StageDead,
            "The stage does not move: of 100 nm commanded, the image shows less than " +
                number(std::max(seen[0], seen[1]), 1) +
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
                number(seen[axis], 1) + " nm, while " + kAxis[1 - axis] + " moves it by " +
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

/// What a stretch looks like.
enum class Look : std::uint8_t { Alike, Stuck, Reversed, Swapped, Changed };

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

/// When an axis went over from its typical gain to another look, or back.
struct Departure {
  bool found = false;
  double begins_s = 0;   ///< the first stretch of that look
  double changes_s = 0;  ///< the first change
  int changes = 0;
  Vec2 gain;
};

Departure departure_of(const GainCourse& course, const std::array<Vec2, 2>& typical,
                       std::size_t axis, Look wanted) {
  Departure d;
  Look state = Look::Alike;
  bool known = false;
  double since_s = 0;  // end of the last stretch that was as the state says
  for (const StretchGain& s : course.stretches) {
    const Look look = look_at(s, typical, axis);
    if (look != wanted && look != Look::Alike) continue;  // a mixture
    if (look == wanted && !d.found) {
      d.found = true;
      d.begins_s = s.begin_s;
      d.gain = s.gain[axis];
    }
    if (known && look != state && d.changes++ == 0) d.changes_s = since_s;
    if (!known) d.changes_s = s.begin_s;
    state = look;
    known = true;
    since_s = s.end_s;
  }
  return d;
}

StageVerdictText say(Look look, const Departure& d, const std::string& axes, Vec2 typical,
                     bool both) {
  const std::string at =
      " at about " + number(look == Look::Stuck ? d.begins_s : d.changes_s, 1) + " s";
  switch (look) {
    case Look::Swapped:
      return {StageRefusal::Swapped,
              "The stage's axes changed places or directions" + at +
                  ": what moved x before moved y then. Check that nothing else drives the stage or "
                  "assigns its axes anew."};
    case Look::Reversed:
      return {StageRefusal::Reversed,
              "The stage's " + axes + " changed direction" + at +
                  (d.changes > 1 ? ", and again later" : "") +
                  ". Check the signs that the driver and the controller give the axes, and that "
                  "nothing else drives the stage."};
    case Look::Stuck:
      return {StageRefusal::Stuck,
              "The stage's " + axes + " stood still for part of the time, first" + at +
                  ". Check that corrections reach the driver all the time, the controller's "
                  "errors, and whether the stage is at a limit of its range."};
    default:
      return {StageRefusal::GainChanged,
              "The stage's " + axes + " changed " + (both ? "their" : "its") + " gain" + at + ": " +
                  number(length(d.gain), 2) +
                  " nm in the image for each nm commanded for part of the time, " +
                  number(length(typical), 2) +
                  " otherwise. Check its servo, its load and its range."};
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
    case StageRefusal::Cancelled:
      return "cancelled";
  }
  return "none";
}

double GainCourse::unexplained() const {
  std::vector<double> shares;
  for (const StretchGain& s : stretches) shares.push_back(s.unexplained);
  return median(shares);
}

GainCourse course_of(const FitData& data, const ResponseShape& shape, double shortest_s) {
  const double stretch_s = std::max(shortest_s, kFramesOfAStretch * data.slots.period_s);
  const auto response = respond_in_slots(data, shape);
  std::array<std::array<std::vector<double>, 4>, 2> white;  // [image axis][x, y, place, moved]
  const std::vector<double> one(data.slots.use.size(), 1);
  for (std::size_t i = 0; i < data.axes; ++i) {
    for (std::size_t c = 0; c < data.axes; ++c)
      white[i][c] = data.noise[i].apply(response[c], data.slots.use);
    white[i][2] = data.noise[i].apply(one, data.slots.use);
    white[i][3] = data.noise[i].apply(data.moved_nm[i], data.slots.use);
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
    double beyond_noise = 0, signal = 0;
    const double second = data.slots.period_s;
    stretch.begin_s = data.begin_s + second * static_cast<double>(begin - data.begin);
    stretch.end_s = data.begin_s + second * static_cast<double>(end - data.begin);
    const std::size_t unknowns = data.axes + 1;
    for (std::size_t i = 0; i < data.axes; ++i) {
      NormalEquations equations(unknowns);
      std::vector<const std::vector<double>*> columns;
      for (std::size_t c = 0; c < data.axes; ++c) columns.push_back(&white[i][c]);
      columns.push_back(&white[i][2]);
      equations.add_columns(columns, white[i][3], begin, end);
      std::vector<double> gain, inverse;
      if (!equations.solve(0, gain) || !equations.invert(inverse)) continue;
      const double left = equations.remaining(gain);
      course.chi_square += left;
      beyond_noise += left - kNoiseGrows * static_cast<double>(rows);
      signal += equations.sum_of_squares() - left;
      const double inflation = std::max(1.0, left / static_cast<double>(rows - unknowns));
      for (std::size_t axis = 0; axis < data.axes; ++axis) {
        (i == 0 ? stretch.gain[axis].x : stretch.gain[axis].y) = gain[axis];
        // An axis that was not moved in this stretch has no gain.
        const double inverse_of = inverse[axis * (unknowns + 1)];
        const double variance = inverse_of > 0 ? inverse_of : 1e6;
        stretch.sd[axis] = std::max(stretch.sd[axis], std::sqrt(variance * inflation));
      }
    }
    stretch.unexplained = std::sqrt(std::max(0.0, beyond_noise) / std::max(signal, 1e-9));
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
    for (int n = 0; n < 13; ++n) consider(0.004 * n, frequency_hz);
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
    const std::array<Departure, 2> found = {departure_of(course, typical, 0, wanted),
                                            departure_of(course, typical, 1, wanted)};
    const bool x = found[0].found, y = found[1].found;
    if (!x && !y) continue;
    const std::size_t first = x && (!y || found[0].changes_s <= found[1].changes_s) ? 0 : 1;
    const std::string axes = x && y ? "axes" : std::string(kAxis[first]) + " axis";
    return say(wanted, found[first], axes, typical[first], x && y);
  }
  return judge_parallel(typical);
}

}  // namespace driftd::control
