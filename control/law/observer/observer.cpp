// SPDX-License-Identifier: MIT
#include "control/law/observer/observer.hpp"

#include <algorithm>
#include <cmath>

#include "control/values/arithmetic.hpp"

namespace driftd::control {
namespace {

/// The first model: the noise's variance over that which the fits state, and the walk's over the
/// noise's, per frame, or per kFirstWalkPeriodS where frames come more seldom.
constexpr double kFirstNoise = 1.5, kFirstWalk = 0.02, kFirstWalkPeriodS = 0.002,
                 kLeastNoiseNm2 = 1e-6;
/// The share of the stage's motion that counts again a frame later: the stage rings where its model
/// does not.
constexpr double kStageRings = 0.7;
/// Frames that an offered filter catches up with in one.
constexpr int kCatchUp = 8;

Axes axes_of(Vec2 v) noexcept {
  return {v.x, v.y};
}
std::int64_t nanoseconds(double seconds) noexcept {
  return static_cast<std::int64_t>(1e9 * seconds);
}
/// Small differences do not count: the filter goes by the frames' own times, and the frame rate of
/// a busy computer may come and go by a tenth.
bool differs(double a, double b) noexcept {
  constexpr double kSameShare = 0.15;
  return std::abs(a - b) > kSameShare * a;
}

}  // namespace

PreviewSettings preview_of(const ObserverSettings& s) noexcept {
  return {.period_s = s.period_s, .response = response_of(s.stage), .penalty = s.penalty};
}

DisturbanceModel first_model(double variance_nm2, double period_s) noexcept {
  DisturbanceModel model{.noise_nm2 = std::max(kFirstNoise * variance_nm2, kLeastNoiseNm2)};
  // The sample does not move less where a camera looks more seldom.
  model.walk_nm2_per_s = kFirstWalk * model.noise_nm2 / std::min(period_s, kFirstWalkPeriodS);
  return model;
}

Vec2 stage_nm(const ObserverFrame& frame, const StageModel& stage, StageError error) noexcept {
  const Vec2 place = stage.at(frame.taken_ns - nanoseconds(error.late_s));
  return {error.gain * place.x, error.gain * place.y};
}

double target_nm(const ObserverFrame& frame, std::size_t axis, const StageModel& stage,
                 StageError error) noexcept {
  return axes_of(stage_nm(frame, stage, error))[axis] - frame.moved_nm[axis];
}

StageEchoes first_echoes(Vec2 place_nm) noexcept {
  StageEchoes echoes{};
  echoes[0][0].first = place_nm.x;
  echoes[1][0].first = place_nm.y;
  return echoes;
}

ObserverPlan make_plan(const ObserverSettings& settings) {
  const PreviewSettings preview = preview_of(settings);
  return {.settings = settings,
          .first_gains = GainScheduler(preview).schedule(StagePreview(preview), {})};
}

bool needs_other_plan(const ObserverSettings& has, const ObserverSettings& wants) noexcept {
  return !is_same_stage(has.stage, wants.stage) || !is_same_rate(has, wants) ||
         differs(has.change_limit_nm, wants.change_limit_nm) ||
         has.verifies_lines != wants.verifies_lines;
}

bool keeps_learnt(const ObserverSettings& has, const ObserverSettings& wants) noexcept {
  return is_same_stage(has.stage, wants.stage) && is_same_rate(has, wants);
}

/// Keeps the rate that was learnt with: compared with the one before, a rate that creeps would
/// never count as another.
ObserverSettings next_wish(const ObserverSettings& has, const ObserverSettings& wants) noexcept {
  ObserverSettings next = wants;
  if (keeps_learnt(has, wants)) next.period_s = has.period_s;
  return next;
}

/// Lines are followed or not by the rate that was planned for.
bool is_same_rate(const ObserverSettings& has, const ObserverSettings& wants) noexcept {
  constexpr double kClearly = 0.05;
  const double wanted = wants.period_s * kLeastRateForLinesHz;
  const bool slow = has.period_s * kLeastRateForLinesHz > 1;
  const bool other_side = slow ? wanted < 1 - kClearly : wanted > 1 + kClearly;
  return !differs(has.period_s, wants.period_s) && !other_side;
}

Innovation see_frame(DisturbanceFilter& filter, const ObserverFrame& frame, std::size_t axis,
                     double target_nm, double seconds, double usual_variance_nm2) noexcept {
  filter.predict(seconds);
  filter.shake(frame.shaken_nm2);
  // A place farther off than the stage moved lately is no error of the stage's model.
  const double sure_nm = frame.sure ? frame.stage_moved_nm[axis] : DisturbanceFilter::kNeverSure;
  return filter.update(target_nm, frame.variance_nm2[axis] - usual_variance_nm2 + frame.shaken_nm2,
                       sure_nm);
}

Observer::Observer(const ObserverSettings& settings) : stage_(settings.stage), seen_(kRemembered) {
  adopt(make_plan(settings));
}

void Observer::adopt(const ObserverPlan& plan) noexcept {
  settings_ = plan.settings;
  first_gains_ = plan.first_gains;
  stage_.change_settings(settings_.stage);
  axes_ = {};
  forget_frames();
}

void Observer::forget_frames() noexcept {
  for (auto& offered : offered_) offered.reset();
  count_ = 0;
  frame_ = {};
  ++epoch_;
}

void Observer::reset() noexcept {
  stage_.reset();
  for (Axis& axis : axes_) axis.taken_ns = 0;
  forget_frames();
  total_nm_ = {};
  stage_nm_ = {};
  told_ns_ = unsent_after_ns_ = unsent_until_ns_ = 0;
}

void Observer::take_back(Vec2 total_nm, std::int64_t sent_ns) noexcept {
  if (!is_finite(total_nm)) return;
  stage_.take_back(total_nm, sent_ns);
  total_nm_ = total_nm;
  unsent_after_ns_ = stage_.told_ns();
  unsent_until_ns_ = told_ns_;
  told_ns_ = stage_.told_ns();
}

void Observer::shift(Vec2 by_nm) noexcept {
  stage_.shift(by_nm);
  total_nm_ = {total_nm_.x + by_nm.x, total_nm_.y + by_nm.y};
}

void Observer::told(Vec2 total_nm, std::int64_t now_ns) noexcept {
  if (!is_finite(total_nm)) return;
  total_nm_ = total_nm;
  told_ns_ = now_ns;
  stage_.command(total_nm, now_ns);
}

void Observer::left_at(std::int64_t sent_ns) noexcept {
  stage_.left_at(sent_ns);
  // After take_back() somebody may know this command with the time before.
  if (sent_ns > told_ns_ && unsent_after_ns_ == told_ns_) unsent_after_ns_ = told_ns_ - 1;
  told_ns_ = std::max(told_ns_, sent_ns);
}

Observer::Axis Observer::axis_of(const Tuning& t) noexcept {
  return {.filter = t.filter,
          .echoes = t.echoes,
          .echoed_nm = {},
          .gains = t.gains,
          .stage = t.stage,
          .usual_variance_nm2 = t.usual_variance_nm2,
          .taken_ns = t.taken_ns,
          .tuned = true};
}

void Observer::offer(const Tuning& tuning) noexcept {
  if (tuning.axis < settings_.axes && count_ > 0 && tuning.epoch == epoch_)
    offered_[tuning.axis] = axis_of(tuning);
}

/// The first frame of a lock.
void Observer::begin(std::size_t i) noexcept {
  Axis& axis = axes_[i];
  DisturbanceModel model = axis.filter.model();
  if (!axis.tuned) {
    model = first_model(frame_.variance_nm2[i], settings_.period_s);
    axis.gains = first_gains_;
    axis.usual_variance_nm2 = frame_.variance_nm2[i];
  }
  axis.filter.start(model, target_nm(frame_, i, stage_, axis.stage), 0);
  axis.echoes = first_echoes(stage_nm(frame_, stage_, axis.stage));
  axis.taken_ns = frame_.taken_ns;
}

Innovation Observer::follow(Axis& axis, const ObserverFrame& frame, std::size_t i) const noexcept {
  const Vec2 place_nm = stage_nm(frame, stage_, axis.stage);
  const Innovation seen =
      see_frame(axis.filter, frame, i, axes_of(place_nm)[i] - frame.moved_nm[i],
                seconds_between(axis.taken_ns, frame.taken_ns), axis.usual_variance_nm2);
  axis.taken_ns = frame.taken_ns;
  axis.echoed_nm = {axis.filter.echo(axis.echoes[0], place_nm.x),
                    axis.filter.echo(axis.echoes[1], place_nm.y)};
  return seen;
}

bool Observer::is_tuned() const noexcept {
  return axes_[0].tuned && (settings_.axes == 1 || axes_[1].tuned);
}

/// An axis that is not there is as expected.
std::optional<Expectation> Observer::expectation() const noexcept {
  if (!is_tuned() || count_ == 0) return std::nullopt;
  const auto& [x, y] = frame_.innovations;
  // The filters follow where the stage would have to be: the sample's own motion, reversed.
  return Expectation{.innovation_nm = {-x.nm, -y.nm},
                     .variance_nm2 = {x.nm2, y.nm2},
                     .of_stage_x_nm = axes_[0].echoed_nm,
                     .of_stage_y_nm = axes_[1].echoed_nm};
}

AxisMotion Observer::motion(std::size_t index) const noexcept {
  const Axis& axis = axes_[index];
  AxisMotion motion{.model = axis.filter.model(),
                    .stage = axis.stage,
                    .sd_nm = std::sqrt(axis.filter.variance_nm2()),
                    .surprise = axis.filter.surprise(),
                    .tuned = axis.tuned,
                    .frames = count_,
                    .period_s = settings_.period_s};
  for (std::size_t i = 0; i < motion.model.line_count; ++i) {
    const DisturbanceFilter::Pair& pair = axis.filter.state()[i + 1];
    motion.amplitudes_nm[i] = std::hypot(pair.first, pair.second);
  }
  return motion;
}

Vec2 Observer::unfollowed_nm() const noexcept {
  Axes sum{};
  for (std::size_t a = 0; a < settings_.axes; ++a) {
    const DisturbanceFilter& filter = axes_[a].filter;
    for (std::size_t i = 0; i < filter.model().line_count; ++i)
      if (!filter.model().lines[i].followed) sum[a] += filter.state()[i + 1].first;
  }
  return {sum[0], sum[1]};
}

/// An offered filter sees the frames that came while it was found.
void Observer::catch_up(std::size_t i) noexcept {
  if (!offered_[i]) return;
  Axis& axis = *offered_[i];
  const std::uint64_t remembered = std::min<std::uint64_t>(count_, kRemembered);
  std::uint64_t low = count_ - remembered, high = count_;
  if (seen_[low % kRemembered].taken_ns > axis.taken_ns) {
    offered_[i].reset();
    return;
  }
  while (low < high) {  // the first frame that it has not seen
    const std::uint64_t middle = (low + high) / 2;
    if (seen_[middle % kRemembered].taken_ns <= axis.taken_ns)
      low = middle + 1;
    else
      high = middle;
  }
  for (int n = 0; n < kCatchUp && low < count_; ++n, ++low)
    follow(axis, seen_[low % kRemembered], i);
  if (low < count_) return;
  axes_[i] = axis;
  offered_[i].reset();
  ++tunings_;
}

Observer::WantedPlace Observer::wanted_on(std::size_t i, double lead_s,
                                          const StageMotion& stage) const noexcept {
  const Axis& axis = axes_[i];
  StageAhead ahead{.place_nm = axes_of(stage.place_nm)[i],
                   .speed_nm_per_s = axes_of(stage.speed_nm_per_s)[i],
                   .told_nm = axes_of(total_nm_)[i],
                   .course = axis.filter.ahead(lead_s + axis.stage.late_s),
                   .pairs = 1 + axis.filter.model().line_count};
  for (std::size_t p = 0; p < ahead.pairs; ++p) {
    ahead.course[p].first /= axis.stage.gain;
    ahead.course[p].second /= axis.stage.gain;
  }
  const std::size_t set = axis.gains.set_for(ahead, settings_.change_limit_nm);
  return {axis.gains.sets[set].gains.command_nm(ahead), set > 0};
}

/// The command at `now_ns`, when the filters have seen what was at `taken_ns`.
Observer::Wanted Observer::wanted(std::int64_t taken_ns, std::int64_t now_ns) const noexcept {
  const double delay_s = 1e-6 * settings_.stage.delay_us;
  // The settings' dead time and nothing else: where the stage is when it obeys.
  const StageMotion then = stage_.motion_at(now_ns + nanoseconds(delay_s));
  const double lead_s = seconds_between(taken_ns, now_ns) + delay_s;
  const WantedPlace x = wanted_on(0, lead_s, then);
  const WantedPlace y =
      settings_.axes == 1 ? WantedPlace{total_nm_.y, false} : wanted_on(1, lead_s, then);
  const Vec2 place{x.nm, y.nm};
  return {is_finite(place) ? place : total_nm_, {x.calmed, y.calmed}};
}

Vec2 Observer::coast(std::int64_t now_ns) const noexcept {
  if (count_ == 0 || now_ns < frame_.taken_ns) return total_nm_;
  return wanted(frame_.taken_ns, now_ns).place_nm;
}

double Observer::coasting_sd_nm(std::int64_t time_ns) const noexcept {
  double variance_nm2 = 0;
  for (std::size_t i = 0; i < settings_.axes; ++i) {
    DisturbanceFilter filter = axes_[i].filter;
    filter.predict(seconds_between(axes_[i].taken_ns, time_ns));
    variance_nm2 = std::max(variance_nm2, filter.variance_nm2());
  }
  return std::sqrt(variance_nm2);
}

Vec2 Observer::see(const Sight& sight) noexcept {
  const bool later = count_ == 0 || sight.taken_ns > frame_.taken_ns;
  if (!is_finite(sight.moved_nm) || !is_finite(sight.variance_nm2) || !later ||
      sight.now_ns < sight.taken_ns)
    return total_nm_;
  const Vec2 stage_nm = stage_.at(sight.taken_ns);
  const Axes before = count_ == 0 ? Axes{} : frame_.stage_moved_nm;
  const Axes moved = {std::abs(stage_nm.x - stage_nm_.x), std::abs(stage_nm.y - stage_nm_.y)};
  stage_nm_ = stage_nm;
  frame_ = {.epoch = epoch_,
            .taken_ns = sight.taken_ns,
            .moved_nm = axes_of(sight.moved_nm),
            .variance_nm2 = axes_of(sight.variance_nm2),
            .fit_noise_nm2 = axes_of(sight.fit_noise_nm2),
            .shaken_nm2 = sight.shaken_nm2,
            .sure = sight.sure,
            .stage_moved_nm = {std::max(moved[0], kStageRings * before[0]),
                               std::max(moved[1], kStageRings * before[1])},
            .told_nm = total_nm_,
            .told_stage = stage_.told_motion(),
            .told_ns = told_ns_,
            .unsent_after_ns = unsent_after_ns_,
            .unsent_until_ns = unsent_until_ns_};
  for (std::size_t i = 0; i < settings_.axes; ++i) {
    if (count_ == 0) begin(i);
    frame_.innovations[i] = follow(axes_[i], frame_, i);
  }
  seen_[count_ % kRemembered] = frame_;
  ++count_;
  for (std::size_t i = 0; i < settings_.axes; ++i) catch_up(i);
  const Wanted wanted_now = wanted(sight.taken_ns, sight.now_ns);
  frame_.calmed = wanted_now.calmed;
  return wanted_now.place_nm;
}

}  // namespace driftd::control
