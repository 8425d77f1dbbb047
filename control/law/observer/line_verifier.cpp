// SPDX-License-Identifier: MIT
#include "control/law/observer/line_verifier.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace driftd::control {
namespace {

/// Frames of the slower rate that a test takes, and of the usual one before.
constexpr std::size_t kFramesOfTest = 200;
constexpr double kFramesBefore = 400;
/// A camera that is not slower by then will not be. It takes some frames to be seen.
constexpr double kLongestWaitS = 2, kLongestWaitFrames = 200;
/// From a test to the next: until the usual rate is seen again, and longer where one told nothing.
constexpr std::int64_t kSettlesNs = 500'000'000;  ///< a camera's, until it is as fast as it was
constexpr double kRestFrames = 48, kFirstRestS = 1, kLongRestS = 60;
/// A line that a test did not tell is tested again so much later, each time twice as much.
constexpr std::int64_t kAgainNs = 8'000'000'000;
constexpr int kMostDoublings = 6;
/// A line that was in no model for so long is another one when it comes again.
constexpr std::int64_t kForgottenNs = 60'000'000'000;
/// Of log likelihood, over all other origins; and of an alias over the line's own.
constexpr double kSureOfOwn = 5, kSureOfAlias = 5;
/// Vibrations above are too small to matter; or above twice the frame rate.
constexpr double kFastestHz = 500;
constexpr double kSameShare = 0.02, kSameHz = 0.2;

/// A line has to bear that its frequency is known to a part of the test's length only.
Line widened(Line line, double seconds) {
  const double least_fade = 1 / seconds;
  if (line.fade_per_s >= least_fade) return line;
  line.kick_nm2_per_s *= least_fade / line.fade_per_s;
  line.fade_per_s = least_fade;
  return line;
}

double line_variance_nm2(const Line& line) {
  return line.kick_nm2_per_s / line.fade_per_s;
}

/// What a line may be of: the frequencies that are seen where it is.
std::vector<double> frequencies_seen_at(double seen_hz, double rate_hz) {
  std::vector<double> list;
  const double fastest_hz = std::max(kFastestHz, 2 * rate_hz);
  double turns_hz = rate_hz;
  while (turns_hz - seen_hz <= fastest_hz) {
    list.push_back(turns_hz - seen_hz);
    list.push_back(turns_hz + seen_hz);
    turns_hz += rate_hz;
  }
  return list;
}

}  // namespace

DisturbanceModel judge_origins(const PlaceRecord& record, const DisturbanceModel& model,
                               double rate_hz) {
  struct Question {
    std::size_t line;
    double own_hz, alias_hz;
    double own_gain;  ///< log likelihood of its own frequency over the best alias
  };
  double seconds = 0;
  for (const double step_s : record.step_s) seconds += step_s;
  DisturbanceModel judged = model, tried = model;
  tried.tracks = false;
  std::vector<Question> questions;
  for (std::size_t i = 0; i < model.line_count; ++i) {
    if (model.lines[i].origin != LineOrigin::Unknown || !needs_verdict(model.lines[i], model))
      continue;
    tried.lines[i] = widened(tried.lines[i], seconds);
    questions.push_back({i, model.lines[i].frequency_hz, 0, 0});
  }
  std::ranges::sort(questions, [&](const Question& a, const Question& b) {
    return line_variance_nm2(tried.lines[a.line]) > line_variance_nm2(tried.lines[b.line]);
  });
  // Each beside the best of the others, the largest first: those that follow count on it.
  const std::size_t rounds = questions.size() > 1 ? 2 : 1;
  for (std::size_t round = 0; round < rounds; ++round)
    for (Question& question : questions) {
      double& hz = tried.lines[question.line].frequency_hz;
      const auto likelihood_at = [&](double at_hz) {
        hz = at_hz;
        return judge_model(record, tried).log_likelihood;
      };
      const double own = likelihood_at(question.own_hz);
      double alias = -1e300;
      for (const double other_hz : frequencies_seen_at(question.own_hz, rate_hz)) {
        const double likelihood = likelihood_at(other_hz);
        if (likelihood <= alias) continue;
        alias = likelihood;
        question.alias_hz = other_hz;
      }
      question.own_gain = own - alias;
      hz = question.own_gain > 0 ? question.own_hz : question.alias_hz;
    }
  for (const Question& question : questions) {
    Line& line = judged.lines[question.line];
    if (question.own_gain > kSureOfOwn) {
      line.origin = LineOrigin::Own;
    } else if (question.own_gain < -kSureOfAlias) {
      line.origin = LineOrigin::Alias;
      line.frequency_hz = question.alias_hz;
    }
  }
  return judged;
}

void LineVerifier::reset() noexcept {
  state_ = State::Idle;
  step_count_ = 0;
  last_ns_ = rests_until_ns_ = usual_from_ns_ = 0;
  rest_s_ = 0;
  told_ = false;
  for (Known& line : known_) line.again_ns = line.met_ns = 0;
}

double LineVerifier::median_step_s() const {
  std::array<double, kSteps> sorted = steps_s_;
  std::nth_element(sorted.begin(), sorted.begin() + kSteps / 2, sorted.end());
  return sorted[kSteps / 2];
}

bool LineVerifier::see_camera(bool asked_slower) noexcept {
  if (asked_slower_ && !asked_slower) {
    settles_ = true;
    usual_from_ns_ = 0;
  }
  return !std::exchange(asked_slower_, asked_slower) && asked_slower;
}

double LineVerifier::rate_hz() const noexcept {
  return period_s_ > 0 ? 1 / period_s_ : 0;
}

void LineVerifier::take(std::int64_t taken_ns) noexcept {
  if (last_ns_ > 0)
    steps_s_[step_count_++ % kSteps] = 1e-9 * static_cast<double>(taken_ns - last_ns_);
  last_ns_ = taken_ns;
  if (settles_ && usual_from_ns_ == 0)
    usual_from_ns_ =
        taken_ns + kSettlesNs + static_cast<std::int64_t>(1e9 * kRestFrames * period_s_);
  settles_ = settles_ && taken_ns < usual_from_ns_;
  if (step_count_ < kSteps) return;
  const double step_s = median_step_s();
  if (state_ == State::Idle && !is_unsettled() && taken_ns >= rests_until_ns_) period_s_ = step_s;
  if (!wants_slower_frames()) return;
  const bool slower = step_s > (1 + kSlowerShare / 2) * period_s_;
  slower_frames_ = slower ? slower_frames_ + 1 : 0;
  if (slower) state_ = State::Slower;
  const double waited_s = 1e-9 * static_cast<double>(taken_ns - begun_ns_);
  const bool waited = waited_s > kLongestWaitS + kLongestWaitFrames * period_s_;
  if (slower_frames_ + kSteps / 2 >= kFramesOfTest || (waited && state_ == State::Asked)) {
    refused_ = state_ == State::Asked;
    state_ = State::Over;
  } else if (waited && !slower) {  // it was, and somebody took it back
    finish();
  }
}

double LineVerifier::seen_hz(double frequency_hz) const noexcept {
  if (!(period_s_ > 0)) return frequency_hz;
  const double cycles = frequency_hz * period_s_;
  return std::abs(cycles - std::round(cycles)) / period_s_;
}

/// Of each line of a model the place in known_ of what is known of it, or kNone. The nearest go
/// together first, and nothing is known of two: lines beside each other keep each its own verdict.
std::vector<std::size_t> LineVerifier::known_of(const DisturbanceModel& model) const {
  struct Pair {
    double off_hz;
    std::size_t line, known;
  };
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < model.line_count; ++i) {
    const double hz = model.lines[i].frequency_hz, at_hz = seen_hz(hz);
    for (std::size_t k = 0; k < known_.size(); ++k) {
      const double off_hz =
          std::abs(is_fast(hz) ? known_[k].true_hz - hz : known_[k].seen_hz - at_hz);
      if (off_hz < kSameHz + kSameShare * at_hz) pairs.push_back({off_hz, i, k});
    }
  }
  std::ranges::sort(pairs, {}, &Pair::off_hz);
  std::vector<std::size_t> known(model.line_count, kNone);
  std::vector<bool> is_taken(known_.size());
  for (const Pair& pair : pairs) {
    if (known[pair.line] != kNone || is_taken[pair.known]) continue;
    known[pair.line] = pair.known;
    is_taken[pair.known] = true;
  }
  return known;
}

bool LineVerifier::has_question(const DisturbanceModel& model) const {
  if (is_busy() || is_unsettled() || step_count_ < kSteps || last_ns_ < rests_until_ns_)
    return false;
  const std::vector<std::size_t> known = known_of(model);
  for (std::size_t i = 0; i < model.line_count; ++i) {
    const Line& line = model.lines[i];
    if (line.origin != LineOrigin::Unknown || !needs_verdict(line, model)) continue;
    if (known[i] == kNone || last_ns_ >= known_[known[i]].again_ns) return true;
  }
  return false;
}

void LineVerifier::join() noexcept {
  begin();
  joined_ = true;
}

void LineVerifier::begin() noexcept {
  joined_ = false;
  state_ = State::Asked;
  begun_ns_ = last_ns_;
  slower_frames_ = 0;
  record_from_ns_ = last_ns_ - static_cast<std::int64_t>(1e9 * kFramesBefore * period_s_);
}

void LineVerifier::learn(const DisturbanceModel& model) {
  const std::vector<std::size_t> known = known_of(model);
  for (std::size_t i = 0; i < model.line_count; ++i) {
    const Line& line = model.lines[i];
    const bool is_told = line.origin != LineOrigin::Unknown;
    if (!is_told && !needs_verdict(line, model)) continue;
    Known& now = known[i] == kNone ? known_.emplace_back() : known_[known[i]];
    now.met_ns = last_ns_;
    if (is_told || now.origin == LineOrigin::Unknown) {
      now.seen_hz = seen_hz(line.frequency_hz);
      now.true_hz = line.frequency_hz;
      now.origin = line.origin;
      now.tests = is_told ? 0 : now.tests + 1;
      now.again_ns = last_ns_ + (kAgainNs << std::min(now.tests, kMostDoublings));
    }
    told_ = told_ || is_told;
  }
}

void LineVerifier::finish() noexcept {
  state_ = State::Idle;
  if (told_)
    rest_s_ = 0;
  else if (!joined_)
    rest_s_ = std::clamp(2 * rest_s_, refused_ ? kLongRestS : kFirstRestS, kLongRestS);
  told_ = false;
  const double rests_s = std::max(rest_s_, kRestFrames * period_s_);
  rests_until_ns_ = last_ns_ + static_cast<std::int64_t>(1e9 * rests_s);
}

void LineVerifier::name(DisturbanceModel& model) {
  const std::vector<std::size_t> known = known_of(model);
  for (std::size_t i = 0; i < model.line_count; ++i) {
    Line& line = model.lines[i];
    const bool fast = is_fast(line.frequency_hz);
    if (fast) line.origin = LineOrigin::Alias;
    if (known[i] == kNone) continue;
    Known& from = known_[known[i]];
    from.met_ns = last_ns_;
    if (!fast) line.origin = from.origin;
    const double at_hz = seen_hz(line.frequency_hz);
    if (line.origin == LineOrigin::Alias && !fast) {
      // Where it is seen a little higher it is a little higher or lower.
      const double turns_hz = std::round(from.true_hz * period_s_) / period_s_;
      line.frequency_hz = from.true_hz > turns_hz ? turns_hz + at_hz : turns_hz - at_hz;
    }
    from.true_hz = line.frequency_hz;
    from.seen_hz = at_hz;
  }
  for (Known& line : known_)
    if (line.met_ns == 0) line.met_ns = last_ns_;  // of the lock before
  std::erase_if(known_, [&](const Known& line) { return last_ns_ - line.met_ns > kForgottenNs; });
}

}  // namespace driftd::control
