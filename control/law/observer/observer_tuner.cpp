// SPDX-License-Identifier: MIT
#include "control/law/observer/observer_tuner.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace driftd::control {
namespace {

/// Fits that the stage's noise is a mean of.
constexpr int kStageNoises = 32;
/// For how long frames are kept. Where fewer than kLongestFrames come in that time, all times here
/// are stretched: each was chosen for the number of frames in it, too.
constexpr double kLongestS = 8, kLongestFrames = 256;
constexpr std::size_t kMostFrames = 4096;
constexpr double kFirstS = 0.5, kEarlyS = 1, kEarlyUntilS = 4, kUsualS = 2;
/// A new model has to be so much more likely on what really happened.
constexpr double kMargin = 8, kLeastMargin = 1, kLongMargin = 12;
constexpr double kSurprised = 1.7, kFirstWaitS = 0.15;
constexpr double kMostRatio = 25;
constexpr double kMostSurprise = 9;  ///< what a frame counts at most: a knock is no trend
constexpr double kJudgedS = 2;
constexpr double kAgainS = 2;    ///< from one surprise to the next
constexpr double kSettledS = 3;  ///< from a surprise until the stage is fitted again
/// Ages of a lock between which a surprise rather shows a stage that is described wrong: then the
/// stage is fitted, lest its ringing is learnt as lines of the sample's.
constexpr double kStageFromS = 1, kYoungUntilS = 6;
constexpr int kStageSteps = 2;        ///< of a fit of the stage
constexpr double kStageMargin = 4;    ///< gain in log likelihood that a young lock's needs
constexpr double kNoticeFrames = 32;  ///< until a surprise is noticed
/// Changes of command, rms over kChangeS, as shares of what the limits allow: above the one the
/// penalty grows, below the other it may fall.
constexpr double kChangeS = 2, kMostShare = 1.0 / 3, kLeastShare = 1.0 / 4;
constexpr double kPenaltyStep = 1.5, kMostPenalty = 10;
/// Shares of the frames of that time that had calmer gains: likewise. After a knock they are few.
constexpr double kMostCalmed = 1.0 / 2, kFewCalmed = 1.0 / 8;
/// The share of the settings' penalty that a slow stage gets at least.
constexpr double kLeastPenalty = 0.1;
constexpr double kLateFrames = 64;
/// Each so many refits the model is looked for from nothing, too.
constexpr int kAnew = 3;
constexpr std::int64_t kMostMissing = 1000;
/// What a move has wrong is noise to a fit, and adds up for some frames.
constexpr double kMoveNoise = 16;
constexpr double kStepS = 2e-5;      ///< times between frames are told so finely
constexpr double kFineStepS = 1e-6;  ///< where vibrations are fast
/// Limits of the stage's gain, and of its dead time beyond the settings'.
constexpr double kLeastGain = 0.6, kMostGain = 1.6, kMostLateS = 0.01;

StagePreview preview_with(const ObserverSettings& settings, double penalty) {
  PreviewSettings preview = preview_of(settings);
  preview.penalty = penalty;
  return StagePreview(preview);
}

double least_penalty(const ObserverSettings& settings) {
  const double share = share_of_a_frame(preview_of(settings));
  return settings.penalty * std::clamp(share / kFastShare, kLeastPenalty, 1.0);
}

}  // namespace

ObserverTuner::ObserverTuner(const ObserverSettings& settings)
    : settings_(settings),
      scheduler_(preview_of(settings)),
      axes_{Axis(StagePreview(preview_of(settings))), Axis(StagePreview(preview_of(settings)))},
      stage_(settings.stage),
      stretch_(std::max(1.0, settings.period_s * kLongestFrames / kLongestS)) {
  reset();
}

void ObserverTuner::reset() {
  frames_.clear();
  first_ns_ = 0;
  told_ns_ = 0;
  late_s_ = 0;
  stage_.reset();
  verifier_.reset();
  for (Axis& axis : axes_) {
    axis.next_s = stretch_ * kFirstS;
    axis.wait_s = stretch_ * kEarlyS;
    axis.surprise = 1;
    axis.surprised_s = -1;
    axis.calmed_s = -stretch_ * kAgainS;
    axis.since_s = 0;
    axis.tuned_s = 0;
    axis.calm_until_s = 0;
  }
}

/// The filter of the model in use sees a frame as the observer's own does.
void ObserverTuner::follow(std::size_t index, const ObserverFrame& frame, double seconds) {
  Axis& axis = axes_[index];
  const double place_nm = target_nm(frame, index, stage_, axis.stage);
  if (!axis.has_model) axis.variance_nm2 = frame.variance_nm2[index];
  if (seconds > 0) {
    see_frame(axis.filter, frame, index, place_nm, seconds, axis.variance_nm2);
    return;
  }
  const DisturbanceModel first = first_model(frame.variance_nm2[index], settings_.period_s);
  axis.filter.start(axis.has_model ? present_model(axis) : first, place_nm, 0);
}

double ObserverTuner::time_s(const ObserverFrame& frame) const {
  return 1e-9 * static_cast<double>(frame.taken_ns - first_ns_);
}

double ObserverTuner::age_s() const {
  return frames_.empty() ? 0 : time_s(frames_.back());
}

void ObserverTuner::take(const ObserverFrame& frame) {
  if (frame.taken_ns == 0) return;
  if (frame.epoch != epoch_) reset();
  epoch_ = frame.epoch;
  if (!frames_.empty() && frame.taken_ns <= frames_.back().taken_ns) return;
  if (frames_.empty()) first_ns_ = frame.taken_ns;
  const std::int64_t before_ns = frames_.empty() ? frame.taken_ns : frames_.back().taken_ns;
  frames_.push_back(frame);
  if (told_ns_ > frame.unsent_after_ns && told_ns_ <= frame.unsent_until_ns) {
    stage_.take_back(frame.told_stage.place_nm, frame.unsent_after_ns);
    told_ns_ = stage_.told_ns();
  }
  if (frame.told_ns > told_ns_) {
    stage_.command(frame.told_nm, frame.told_ns, frame.told_stage);
    const double late_s = 1e-9 * static_cast<double>(frame.told_ns - before_ns);
    late_s_ += (late_s - late_s_) / std::min(static_cast<double>(frames_.size()), kLateFrames);
  }
  for (std::size_t i = 0; i < settings_.axes; ++i)
    follow(i, frame, 1e-9 * static_cast<double>(frame.taken_ns - before_ns));
  told_ns_ = frame.told_ns;
  if (verifies()) verifier_.take(frame.taken_ns);
  const auto kept_ns = static_cast<std::int64_t>(1e9 * stretch_ * kLongestS);
  while (frames_.size() > kMostFrames || frame.taken_ns - frames_.front().taken_ns > kept_ns)
    frames_.pop_front();
  for (std::size_t i = 0; i < settings_.axes; ++i) {
    Axis& axis = axes_[i];
    const Innovation& seen = frame.innovations[i];
    axis.surprise += (std::min(seen.nm * seen.nm / seen.nm2, kMostSurprise) - axis.surprise) / 64;
    if (axis.surprise > kSurprised && axis.surprised_s < 0) {
      // Soon after the last surprise, the sample has not changed its ways again. It is the model
      // that does not hold, as one with fixed lines where they drift: it needs a longer record.
      axis.again = age_s() - axis.calmed_s < stretch_ * kAgainS;
      axis.surprised_s =
          axis.again ? axis.since_s : std::max(0.0, age_s() - kNoticeFrames * settings_.period_s);
      axis.wait_s = stretch_ * kFirstWaitS;
      axis.next_s = age_s() + axis.wait_s;
    }
    if (axis.surprised_s < 0 || axis.surprise > 0.5 * (1 + kSurprised)) continue;
    if (!axis.again && axis.since_s >= axis.surprised_s)
      axis.since_s = std::max(axis.surprised_s, age_s() - kNoticeFrames * settings_.period_s);
    axis.surprised_s = -1;
    axis.calmed_s = age_s();
  }
}

bool ObserverTuner::verifies() const noexcept {
  return settings_.verifies_lines && settings_.period_s * kLeastRateForLinesHz <= 1;
}

void ObserverTuner::set_verifies_lines(bool verifies) noexcept {
  settings_.verifies_lines = verifies;
  verifier_.reset();
}

bool ObserverTuner::is_due(std::size_t axis) const {
  if (verifier_.is_busy()) return axis < settings_.axes && verifier_.is_over() && !judged_[axis];
  if (verifies() && verifier_.is_unsettled()) return false;
  return axis < settings_.axes && frames_.size() >= kLeastFrames && age_s() >= axes_[axis].next_s;
}

void ObserverTuner::schedule(Axis& axis) {
  const double usual_s = age_s() < stretch_ * kEarlyUntilS ? kEarlyS : kUsualS;
  axis.wait_s = std::min(2 * axis.wait_s, stretch_ * usual_s);
  axis.next_s = age_s() + axis.wait_s;
}

double ObserverTuner::usual_variance_nm2(std::size_t axis) const {
  double sum = 0;
  for (const ObserverFrame& frame : frames_) sum += frame.variance_nm2[axis];
  return sum / static_cast<double>(frames_.size());
}

/// A fit of 8 s knows the noise to some 2 %. Where markers are few or dim, the stage's noise is a
/// small part of it, but it stays the same, in the next lock, too. Until a whole record is there,
/// that of a shorter fit has to do.
void ObserverTuner::learn_stage_noise(std::size_t index, double noise_nm2) {
  Axis& axis = axes_[index];
  double fits_nm2 = 0;
  for (const ObserverFrame& frame : frames_) fits_nm2 += frame.fit_noise_nm2[index];
  fits_nm2 /= static_cast<double>(frames_.size());
  const bool whole = age_s() >= stretch_ * kLongestS;
  if (!whole && axis.has_stage_noise) return;
  axis.stage_noises =
      whole && axis.has_stage_noise ? std::min(axis.stage_noises + 1, kStageNoises) : 1;
  axis.has_stage_noise = whole;
  axis.stage_noise_nm2 += (noise_nm2 - fits_nm2 - axis.stage_noise_nm2) / axis.stage_noises;
}

PlaceRecord ObserverTuner::record_of(std::size_t axis, StageError stage) const {
  const auto is_alias = [](const Line& line) { return line.origin == LineOrigin::Alias; };
  const DisturbanceModel& model = axes_[axis].model;
  const bool fine =
      std::any_of(model.lines.begin(), model.lines.begin() + model.line_count, is_alias);
  return record_of(axis, stage, {.from_ns = 0, .finest_s = fine ? kFineStepS : kStepS});
}

PlaceRecord ObserverTuner::record_of(std::size_t axis, StageError stage, RecordPart part) const {
  PlaceRecord record;
  record.period_s = settings_.period_s;
  const double usual_nm2 = usual_variance_nm2(axis);
  std::int64_t before_ns = frames_.front().taken_ns;
  for (const ObserverFrame& frame : frames_) {
    if (frame.taken_ns < part.from_ns) {
      before_ns = frame.taken_ns;
      continue;
    }
    double step_s = 1e-9 * static_cast<double>(frame.taken_ns - before_ns);
    const double frames = step_s / settings_.period_s;
    for (std::int64_t missing = std::llround(std::min(frames, double{kMostMissing})); missing > 1;
         --missing) {
      record.place_nm.push_back(std::numeric_limits<double>::quiet_NaN());
      record.more_noise_nm2.push_back(0);
      record.step_s.push_back(settings_.period_s);
      step_s -= settings_.period_s;
    }
    before_ns = frame.taken_ns;
    // Rounding makes all steps of a free-running camera alike, which spares the filter much
    // arithmetic.
    record.step_s.push_back(std::round(step_s / part.finest_s) * part.finest_s);
    record.place_nm.push_back(target_nm(frame, axis, stage_, stage));
    record.more_noise_nm2.push_back(frame.variance_nm2[axis] - usual_nm2 +
                                    kMoveNoise * frame.shaken_nm2);
  }
  // The mean of the times as the frames came: its error is the lines' in frequency.
  if (record.place_nm.size() > 1)
    record.period_s = (time_s(frames_.back()) - time_s(frames_.front())) /
                      static_cast<double>(record.place_nm.size() - 1);
  return record;
}

/// The model in use, with the frequencies that it has tracked.
DisturbanceModel ObserverTuner::present_model(const Axis& axis) {
  return axis.model.tracks ? axis.filter.model() : axis.model;
}

/// How the frames show the stage to differ, under the model in use.
StageError ObserverTuner::fitted_stage(std::size_t index, StageError now, std::size_t judged_from,
                                       StageEvidence evidence) const {
  const Axis& axis = axes_[index];
  if (!axis.has_model) return now;
  constexpr double kByGain = 0.01, kByS = 2e-5;
  PlaceRecord record = record_of(index, now);
  record.judged_from = judged_from;
  const StageDoubt gain{.place_nm = record_of(index, {now.gain + kByGain, now.late_s}).place_nm,
                        .by = kByGain,
                        .sd = 0.3,
                        .most = 0.15};
  const StageDoubt late{.place_nm = record_of(index, {now.gain, now.late_s + kByS}).place_nm,
                        .by = kByS,
                        .sd = 3e-4,
                        .most = 5e-4};
  const DisturbanceModel model = at_beginning(record, present_model(axis));
  const std::vector<double> found = fit_stage(record, model, {gain, late}, evidence);
  return {
      .gain = std::clamp(now.gain + found[0], kLeastGain, kMostGain),
      .late_s = std::clamp(now.late_s + found[1], -1e-6 * settings_.stage.delay_us, kMostLateS)};
}

/// A model's filter over all frames, and by how much it would have been more likely than the one in
/// use was, on the frames from `from_s` on.
ObserverTuner::Trial ObserverTuner::tried(std::size_t index, const DisturbanceModel& model,
                                          StageError stage, double from_s, double tuned_s) const {
  const double usual_nm2 = usual_variance_nm2(index);
  Trial trial;
  trial.stage = stage;
  trial.filter.start(model, target_nm(frames_.front(), index, stage_, stage), 0);
  trial.echoes = first_echoes(stage_nm(frames_.front(), stage_, stage));
  std::int64_t before_ns = frames_.front().taken_ns;
  for (const ObserverFrame& frame : frames_) {
    const Innovation now =
        see_frame(trial.filter, frame, index, target_nm(frame, index, stage_, stage),
                  1e-9 * static_cast<double>(frame.taken_ns - before_ns), usual_nm2);
    before_ns = frame.taken_ns;
    const Vec2 place_nm = stage_nm(frame, stage_, stage);
    trial.filter.echo(trial.echoes[0], place_nm.x);
    trial.filter.echo(trial.echoes[1], place_nm.y);
    const Innovation& then = frame.innovations[index];
    const double advantage =
        0.5 * (std::log(then.nm2 / now.nm2) + std::min(then.nm * then.nm / then.nm2, kMostRatio) -
               std::min(now.nm * now.nm / now.nm2, kMostRatio));
    if (time_s(frame) >= from_s) trial.advantage += advantage;
    if (time_s(frame) >= std::min(from_s, tuned_s)) trial.long_advantage += advantage;
  }
  return trial;
}

/// Whether a trial is better by more than chance: lately, or both lately and over all the time that
/// the model in use had.
bool ObserverTuner::is_better(const Trial& trial) {
  return trial.advantage > kMargin ||
         (trial.advantage > kLeastMargin && trial.long_advantage > kLongMargin);
}

/// The penalty that keeps changes of command within what the limits allow. The stage then goes by
/// its own gains, and not by calmer ones, whose changes are small.
double ObserverTuner::adapted_penalty(std::size_t index) const {
  const Axis& axis = axes_[index];
  double sum_nm2 = 0, count = 0, calmed = 0;
  Vec2 before = frames_.front().told_nm;
  for (const ObserverFrame& frame : frames_) {
    const double change_nm = index == 0 ? frame.told_nm.x - before.x : frame.told_nm.y - before.y;
    before = frame.told_nm;
    if (time_s(frame) < age_s() - stretch_ * kChangeS) continue;
    sum_nm2 += change_nm * change_nm;
    calmed += frame.calmed[index] ? 1 : 0;
    ++count;
  }
  const double share = std::sqrt(sum_nm2 / std::max(count, 1.0)) / settings_.change_limit_nm;
  double penalty = axis.preview.settings().penalty;
  if (share > kMostShare || calmed > kMostCalmed * count)
    penalty = std::min(kPenaltyStep * penalty, kMostPenalty);
  else if (share < kLeastShare && calmed < kFewCalmed * count)
    penalty = std::max(penalty / kPenaltyStep, least_penalty(settings_));
  return penalty;
}

/// Which lines of a new model the stage is to follow.
void ObserverTuner::decide_lines(std::size_t index, DisturbanceModel& model) {
  const DisturbanceModel& before = axes_[index].model;
  verifier_.name(model);
  if (!verifies() || verifier_.is_refused())
    return decide_followed(model, before, settings_.period_s);
  decide_verified(model, before, settings_.period_s);
}

/// Begins a test, if the model in use has lines that are worth it.
void ObserverTuner::ask_for_verdicts(std::size_t index) {
  if (!verifies() || !verifier_.has_question(axes_[index].model)) return;
  ask_of_models();
  verifier_.begin();
}

void ObserverTuner::ask_of_models() {
  for (std::size_t i = 0; i < settings_.axes; ++i) asked_[i] = present_model(axes_[i]);
  judged_ = {};
}

void ObserverTuner::see_camera(bool asked_slower) {
  if (!verifier_.see_camera(asked_slower) || !verifies() || verifier_.is_busy() ||
      !(verifier_.rate_hz() > 0))
    return;
  ask_of_models();
  verifier_.join();
}

/// The frames of a test are there.
std::optional<Tuning> ObserverTuner::take_verdicts(std::size_t index) {
  Axis& axis = axes_[index];
  if (!verifier_.is_refused()) {
    const PlaceRecord record = record_of(
        index, axis.stage, {.from_ns = verifier_.record_from_ns(), .finest_s = kFineStepS});
    verifier_.learn(judge_origins(record, asked_[index], verifier_.rate_hz()));
    // An alias that went elsewhere with the rate is no surprise.
    axis.surprise = 1;
    axis.surprised_s = -1;
  }
  judged_[index] = true;
  DisturbanceModel model = asked_[index];
  decide_lines(index, model);
  if (judged_[0] && (judged_[1] || settings_.axes == 1)) verifier_.finish();
  bool changes = false;
  for (std::size_t i = 0; i < model.line_count; ++i) {
    const Line &now = model.lines[i], &before = asked_[index].lines[i];
    changes = changes || now.origin != before.origin || now.followed != before.followed;
  }
  if (!axis.has_model || !changes) return std::nullopt;
  const Trial trial = tried(index, model, axis.stage, age_s(), age_s());
  axis.model = trial.filter.model();
  axis.tuned_s = age_s();
  return tuning_of(index, trial);
}

Tuning ObserverTuner::tuning_of(std::size_t index, const Trial& trial) {
  Axis& axis = axes_[index];
  Tuning tuning;
  tuning.axis = index;
  tuning.epoch = epoch_;
  tuning.taken_ns = frames_.back().taken_ns;
  tuning.filter = trial.filter;
  tuning.echoes = trial.echoes;
  tuning.gains = scheduler_.schedule(axis.preview, axis.model);
  tuning.stage = axis.stage;
  tuning.usual_variance_nm2 = usual_variance_nm2(index);
  axis.filter = trial.filter;
  axis.variance_nm2 = tuning.usual_variance_nm2;
  return tuning;
}

std::optional<Tuning> ObserverTuner::tune(std::size_t index) {
  if (verifier_.is_over()) return take_verdicts(index);
  Axis& axis = axes_[index];
  const bool surprised = axis.surprised_s >= 0;
  const double from_s = surprised ? axis.surprised_s : axis.since_s;
  std::size_t judged_from = 0;
  PlaceRecord record = record_of(index, axis.stage);
  const double record_s = record.period_s * static_cast<double>(record.place_nm.size());
  if (from_s > age_s() - record_s)
    judged_from = static_cast<std::size_t>((from_s - (age_s() - record_s)) / record.period_s);
  const bool settled = !surprised && age_s() - axis.since_s > stretch_ * kSettledS;
  const bool young = age_s() > stretch_ * kStageFromS && age_s() < stretch_ * kYoungUntilS;
  StageError stage = axis.stage;
  const StageEvidence evidence =
      young || axis.model.tracks ? StageEvidence::BesideLines : StageEvidence::Whole;
  // What is not followed leaves innovations that are no evidence of the stage.
  const bool clear = follows_all(axis.model);
  for (int i = 0; i < kStageSteps && (settled || young) && clear; ++i)
    stage = fitted_stage(index, stage, young ? 0 : judged_from, evidence);
  record = record_of(index, stage);
  record.judged_from = judged_from;
  const DisturbanceModel nothing = first_model(usual_variance_nm2(index), settings_.period_s);
  const DisturbanceModel start = axis.has_model ? present_model(axis) : nothing;
  FittedModel best = fit_model(record, start);
  if (young && stage != axis.stage) {
    // Lines that are not known yet pull at the fitted stage. Its rival is the stage as it was, with
    // the lines fitted, too.
    PlaceRecord unchanged = record_of(index, axis.stage);
    unchanged.judged_from = judged_from;
    const FittedModel with_it = fit_model(unchanged, start);
    if (best.log_likelihood < with_it.log_likelihood + kStageMargin) {
      best = with_it;
      stage = axis.stage;
      record = std::move(unchanged);
    }
  }
  if (axis.has_model && !surprised && axis.refits % kAnew == 0) {
    const FittedModel anew = fit_model(record, nothing);
    if (anew.log_likelihood > best.log_likelihood) best = anew;
  }
  if (!surprised || axis.stage_noises == 0) learn_stage_noise(index, best.model.noise_nm2);
  ++axis.refits;
  schedule(axis);
  const double penalty = adapted_penalty(index);
  const bool other_penalty = penalty != axis.preview.settings().penalty;
  DisturbanceModel found = scaled(best.start, best.model.noise_nm2 / best.start.noise_nm2);
  decide_lines(index, found);
  const double judged_s = std::max(from_s, age_s() - std::min(stretch_ * kJudgedS, 0.5 * age_s()));
  Trial trial = tried(index, found, stage, judged_s, axis.tuned_s);
  if (!surprised && axis.calm_until_s > age_s()) {  // what it was before may be what it is again
    Trial calm = tried(index, axis.calm, axis.stage, judged_s, axis.tuned_s);
    if (is_better(calm) && calm.advantage > trial.advantage - kMargin) {
      axis.calm_until_s = 0;
      trial = calm;
    }
  }
  if (is_better(trial)) {
    if (surprised && axis.since_s < axis.surprised_s) {
      axis.since_s = axis.surprised_s;
      axis.calm = axis.model;
      axis.calm_until_s = axis.has_model && !axis.model.tracks ? age_s() + stretch_ * kLongestS : 0;
    }
    axis.model = trial.filter.model();  // tracked lines may have changed places
    axis.has_model = true;
    axis.stage = trial.stage;
    axis.tuned_s = age_s();
  } else if (other_penalty && axis.has_model && !axis.model.tracks) {
    trial = tried(index, axis.model, axis.stage, age_s(), age_s());
  } else {
    ask_for_verdicts(index);
    return std::nullopt;
  }
  if (other_penalty) axis.preview = preview_with(settings_, penalty);
  const Tuning tuning = tuning_of(index, trial);
  ask_for_verdicts(index);
  return tuning;
}

std::optional<ResidualForecast> ObserverTuner::forecast(std::size_t index) const {
  if (index >= settings_.axes || frames_.size() < kLeastFrames) return std::nullopt;
  const Axis& axis = axes_[index];
  double more_nm2 = 0, count = 0;
  for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
    if (time_s(*frame) < age_s() - stretch_ * kJudgedS) break;
    const Innovation& seen = frame->innovations[index];
    more_nm2 += std::min(seen.nm * seen.nm, kMostSurprise * seen.nm2) - seen.nm2;
    ++count;
  }
  ResidualForecast forecast =
      forecast_residual(axis.filter, axis.preview,
                        {.lead_s = late_s_ + 1e-6 * settings_.stage.delay_us + axis.stage.late_s,
                         .stage_noise_nm2 = axis.stage_noise_nm2,
                         .more_innovation_nm2 = more_nm2 / count});
  if (!axis.has_stage_noise)
    forecast.stage_known_in_s = std::max(settings_.period_s, stretch_ * kLongestS - age_s());
  return forecast;
}

void wish_of_tuner(std::optional<ObserverTuner>& tuner, const ObserverSettings& wish) {
  if (!(wish.period_s > 0))
    tuner.reset();
  else if (tuner && keeps_learnt(tuner->settings(), wish)) {
    tuner->set_change_limit(wish.change_limit_nm);
    if (tuner->settings().verifies_lines != wish.verifies_lines)
      tuner->set_verifies_lines(wish.verifies_lines);
  } else
    tuner.emplace(wish);
}

}  // namespace driftd::control
