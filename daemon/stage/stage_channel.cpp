// SPDX-License-Identifier: MIT
#include "daemon/stage/stage_channel.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/in_words.hpp"
#include "daemon/wire/number_or_null.hpp"

namespace driftd::daemon {
namespace {

using nlohmann::json;
using Level = EventLog::Level;

constexpr const char* kEvent = "stage_driver";
/// The stage's own sensor and the model of it may disagree by so much, and by so many of its steps.
constexpr double kOffNm = 10;
constexpr double kOffSteps = 3;
constexpr std::int64_t kOffForNs = 2'000'000'000;
/// A driver that carries out less than this share of the corrections is too slow for them.
constexpr double kKeepsUp = 0.9;
/// Weight of one turn of housekeeping (10 ms or less) in the mean: it follows within some five
/// seconds.
constexpr double kShareOfATurn = 0.002;

template <typename T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json axis_json(const StageAxis& axis) {
  return {{"axis", axis.axis},
          {"name", axis.name},
          {"min_nm", axis.min_nm},
          {"max_nm", axis.max_nm},
          {"resolution_nm", axis.resolution_nm},
          {"closed_loop", axis.closed_loop},
          {"position_nm", or_null(axis.position_nm)},
          {"target_nm", or_null(axis.target_nm)}};
}

/// "pi_gcs2 (PI E-727)"
std::string described(const StageReport& report) {
  return report.description.empty() ? report.driver
                                    : report.driver + " (" + report.description + ")";
}

bool is_trouble(DriverState state) {
  return state != DriverState::Ready && state != DriverState::Stopped;
}

std::string state_text(const StageReport& report) {
  const std::string words = in_words(name_of(report.state));
  return report.text.empty() ? words : words + ": " + report.text;
}

}  // namespace

void SentLately::see(std::uint64_t sent, std::int64_t now_ns) noexcept {
  constexpr std::int64_t kMarkNs = 100'000'000, kLongestNs = 1'500'000'000;
  if (sent < marks_[0].sent) marks_ = {};
  if (marks_[0].at_ns == 0 || now_ns - marks_[0].at_ns >= kMarkNs) {
    std::shift_right(marks_.begin(), marks_.end(), 1);
    marks_[0] = {now_ns, sent};
  }
  const Mark& first = marks_.back();
  const std::int64_t for_ns = now_ns - first.at_ns;
  const bool watched = first.at_ns != 0 && for_ns < kLongestNs;
  hz_ = watched ? 1e9 * static_cast<double>(sent - first.sent) / static_cast<double>(for_ns) : 0;
}

bool StageChannel::is_locked() const noexcept {
  return lock_now().lock.state == control::LockState::Locked;
}

/// Once, where one report tells both channels the same.
void StageChannel::raise(Level level, const std::string& text, const json& fields) {
  const bool told = group_ == AxisGroup::Axial && report_ && report_->is_of(AxisGroup::Lateral);
  if (!told) events_.raise(level, kEvent, text, fields);
}

/// "the stage's driver", "the driver of z"
const char* StageChannel::who() const noexcept {
  return group_ == AxisGroup::Axial ? "the driver of the stage of z" : "the stage's driver";
}

/// Where it says that it is, against the zero of a lock of this daemon.
std::optional<StageReadback> StageChannel::place() const {
  if (!report_) return std::nullopt;
  const StageReport& r = *report_;
  if (group_ == AxisGroup::Axial) {
    if (!r.total_z_nm || r.z_session != session_) return std::nullopt;
    return StageReadback{r.time_ns, r.z_lock_id, {*r.total_z_nm, 0}};
  }
  if (!r.total_nm || r.session != session_) return std::nullopt;
  return StageReadback{r.time_ns, r.lock_id, *r.total_nm};
}

/// Ready now, and not for long.
bool StageChannel::was_in_trouble() const noexcept {
  return report_->state == DriverState::Ready && trouble_ns_ != 0 &&
         received_ns_ - trouble_ns_ < kBelievedNs;
}

control::StageSays StageChannel::says() const noexcept {
  using control::StageSays;
  if (!report_) return StageSays::Nothing;
  if (silent_ || report_->state == DriverState::Stopped) return StageSays::Silent;
  if (report_->state == DriverState::Ready) return StageSays::Ready;
  return report_->state == DriverState::Limit ? StageSays::Limit : StageSays::Error;
}

void StageChannel::tell_loop() {
  using control::StageSays;
  const StageSays before = ports_.stage_says.load(std::memory_order_relaxed);
  const bool troubled = before == StageSays::Error || before == StageSays::Limit;
  const bool engaged = lock_now().holds();
  const bool waits = troubled && engaged && says() == StageSays::Ready && was_in_trouble();
  if (!waits) ports_.stage_says.store(says(), std::memory_order_relaxed);
  ports_.stage_place.writing() = place().value_or(StageReadback{});
  ports_.stage_place.publish();
}

Reply take_stage_report(const json& request, StageChannel& xy, StageChannel* z,
                        std::int64_t now_ns) {
  const StageReport report = read_stage_report(request);
  const bool of_z = z != nullptr && report.is_of(AxisGroup::Axial);
  const bool of_xy = report.is_of(AxisGroup::Lateral) || !of_z;
  if (of_xy) xy.check(report);
  if (of_z) z->check(report);
  Reply reply;
  if (of_z) reply = z->take(report, now_ns);
  return of_xy ? xy.take(report, now_ns) : reply;
}

void StageChannel::check(const StageReport& report) const {
  const bool another = report_ && report_->instance != report.instance;
  if (another && !silent_ && report_->state != DriverState::Stopped) {
    throw CommandRefused{
        Refusal::Busy, fmt::format("another driver reports for the stage{}: {}; only one may "
                                   "move it",
                                   group_ == AxisGroup::Axial ? " of z" : "", described(*report_))};
  }
}

Reply StageChannel::take(const json& request, std::int64_t now_ns) {
  return take(read_stage_report(request), now_ns);
}

Reply StageChannel::take(StageReport report, std::int64_t now_ns) {
  check(report);
  const bool another = report_ && report_->instance != report.instance;
  const bool is_new = another || !report_;
  const bool was_silent = std::exchange(silent_, false);
  if (is_new) {
    moved_hz_ = asked_hz_ = 0;
    trouble_ns_ = 0;
    told_slow_ = told_late_ = told_off_ = false;
  }
  report_ = std::move(report);
  received_ns_ = now_ns;
  if (is_trouble(report_->state)) trouble_ns_ = now_ns;
  tell_loop();
  if (listener_) listener_(*report_, now_ns);
  if (was_silent && !another) {
    raise(Level::Info, fmt::format("{} reports again: {}", who(), state_text(*report_)),
          {{"driver", report_->driver}, {"state", name_of(report_->state)}});
  }
  tell_driver(is_new);
  return {.fields = {{"session", session_}, {"state", control::name_of(lock_now().lock.state)}}};
}

void StageChannel::tell_driver(bool is_new) {
  const StageReport& now = *report_;
  std::string says = state_text(now);
  if (!is_new && (says == told_ || was_in_trouble())) return;
  raise(is_trouble(now.state) ? Level::Warning : Level::Info,
        (is_new ? fmt::format("a driver reports for the stage{}: {}, ",
                              group_ == AxisGroup::Axial ? " of z" : "", described(now))
                : fmt::format("{} says ", who())) +
            says,
        {{"driver", now.driver},
         {"description", now.description},
         {"state", name_of(now.state)},
         {"error", now.error}});
  told_ = std::move(says);
}

void StageChannel::turn(std::int64_t now_ns) {
  ports_.driver_hz.store(known_to_take_hz(), std::memory_order_relaxed);
  sent_lately_.see(lock_now().corrections, now_ns);
  if (!report_) return;
  const bool stopped = report_->state == DriverState::Stopped;
  if (stopped && lock_now().is_idle()) {
    report_.reset();  // it has said good-bye, and nothing depends on it
    tell_loop();
    return;
  }
  if (!silent_ && !stopped && now_ns - received_ns_ > kSilentNs) {
    silent_ = true;
    tell_loop();
    raise(Level::Warning,
          fmt::format("{} {} has told nothing for {} ms", who(), described(*report_),
                      kSilentNs / 1'000'000),
          {{"driver", report_->driver}, {"state", "silent"}});
  }
  compare(now_ns);
}

/// What it carries out of what it is sent: frames that bring no correction say nothing of it.
void StageChannel::see_rate() {
  const StageReport& report = *report_;
  const double frames_hz = loop_.report().frame_rate_hz, sent_hz = sent_lately_.hz();
  if (!(report.rate_hz > 0) || !(frames_hz > 0) || !(sent_hz > 0)) return;
  const double weight = moved_hz_ > 0 ? kShareOfATurn * std::min(1.0, sent_hz / frames_hz) : 1;
  moved_hz_ += weight * (report.rate_hz - moved_hz_);
  asked_hz_ += weight * (sent_hz - asked_hz_);
  if (!is_seen_slow() || std::exchange(told_slow_, true)) return;
  raise(Level::Warning,
        fmt::format("the stage takes {:.0f} of {:.0f} corrections a second: it is told "
                    "the newest only",
                    moved_hz_, asked_hz_),
        {{"driver", report.driver}, {"rate_hz", report.rate_hz}});
}

bool StageChannel::is_seen_slow() const noexcept {
  return moved_hz_ > 0 && moved_hz_ < kKeepsUp * asked_hz_;
}

/// What the driver says against what the configuration believes; told once a driver.
void StageChannel::compare(std::int64_t now_ns) {
  const LockReport& lock = lock_now();
  if (!is_locked() || silent_) {
    off_since_ns_ = 0;
    return;
  }
  const StageReport& report = *report_;
  const bool axial = group_ == AxisGroup::Axial;
  const double delay_us = axial ? config_.axial_stage.delay_us : config_.stage.delay_us;
  const bool long_locked = now_ns - lock.lock.since_ns > kOffForNs;
  if (long_locked) see_rate();
  if (long_locked && report.latency.p50_us && *report.latency.p50_us > delay_us &&
      !std::exchange(told_late_, true)) {
    raise(Level::Warning,
          fmt::format("the driver alone needs {:.0f} us from a correction to the controller, and "
                      "{}stage.delay_us is {:.0f} us: {}",
                      *report.latency.p50_us, axial ? "axial." : "", delay_us,
                      axial ? "raise it" : "calibrate"),
          {{"driver", report.driver}, {"latency_p50_us", *report.latency.p50_us}});
  }
  double step_nm = 0;
  for (const StageAxis& axis : report.axes)
    if ((axis.axis == "z") == axial) step_nm = std::max(step_nm, axis.resolution_nm);
  const bool off = lock.stage_off_nm > kOffNm + kOffSteps * step_nm;  // false for NaN
  if (!off)
    off_since_ns_ = 0;
  else if (off_since_ns_ == 0)
    off_since_ns_ = now_ns;
  if (off && now_ns - off_since_ns_ > kOffForNs && !std::exchange(told_off_, true)) {
    events_.raise(Level::Warning, kEvent,
                  fmt::format("the stage{} says that it is {:.1f} nm (rms) from where it was told "
                              "to be: sign, scale or another program?",
                              axial ? " of z" : "", lock.stage_off_nm),
                  {{"driver", report.driver}, {"off_nm", lock.stage_off_nm}});
  }
}

std::string StageChannel::problem() const {
  if (!report_)
    return group_ == AxisGroup::Axial ? "no driver has reported for the stage of z"
                                      : "no driver has reported for the stage";
  const std::string named = fmt::format("{} {}", who(), described(*report_));
  if (silent_) return named + " has gone silent";
  if (report_->state == DriverState::Ready) return {};
  return named + " says " + state_text(*report_);
}

void StageChannel::forget_silent() {
  if (!report_ || says() != control::StageSays::Silent) return;
  report_.reset();
  silent_ = false;
  tell_loop();
}

double StageChannel::takes_hz() const {
  const double frames_hz = loop_.report().frame_rate_hz;
  if (!report_ || !(frames_hz > 0)) return 0;
  double hz = report_->max_rate_hz;
  if (is_seen_slow()) hz = hz > 0 ? std::min(hz, moved_hz_) : moved_hz_;
  return hz < kKeepsUp * frames_hz ? hz : 0;
}

double StageChannel::known_to_take_hz() const {
  const double hz = takes_hz();
  const bool known = report_ && (report_->max_rate_hz > 0 || moved_hz_ > 0);
  return hz > 0 || !known ? hz : loop_.report().frame_rate_hz;
}

double StageChannel::waiting_us() const {
  const double hz = takes_hz();
  return hz > 0 ? 0.5e6 / hz : 0;
}

DriverTiming StageChannel::timing() const {
  if (!report_) return {};
  return {.waiting_us = waiting_us(),
          .usual_us = report_->latency.p50_us.value_or(0),
          .longest_us = report_->latency.max_us.value_or(0),
          .ignored = report_->ignored};
}

std::optional<AxialTravel> StageChannel::axial_travel() const {
  if (!report_ || silent_) return std::nullopt;
  for (const StageAxis& axis : report_->axes) {
    if (axis.axis != "z" || !axis.position_nm) continue;
    return AxialTravel{.min_nm = axis.min_nm,
                       .max_nm = axis.max_nm,
                       .resolution_nm = axis.resolution_nm,
                       .position_nm = *axis.position_nm};
  }
  return std::nullopt;
}

json StageChannel::status(std::int64_t now_ns) const {
  if (!report_) return nullptr;
  const StageReport& r = *report_;
  json axes = json::array();
  for (const StageAxis& axis : r.axes) axes.push_back(axis_json(axis));
  const bool axial = group_ == AxisGroup::Axial;
  const bool of_this = (axial ? r.z_session : r.session) == session_;
  json now = {{"driver", r.driver},
              {"description", r.description},
              {"state", silent_ ? "silent" : name_of(r.state)},
              {"text", r.text},
              {"error", r.error},
              {"on_target", or_null(r.on_target)},
              {"age_ms", static_cast<double>(now_ns - received_ns_) * 1e-6},
              {"axes", axes},
              {"lock_id", of_this ? json(axial ? r.z_lock_id : r.lock_id) : json(nullptr)},
              {"off_nm", number_or_null(lock_now().stage_off_nm)},
              {"carried_out", r.carried_out},
              {"ignored", r.ignored},
              {"refused", r.refused},
              {"rate_hz", r.rate_hz},
              {"max_rate_hz", number_or_null(r.max_rate_hz, r.max_rate_hz > 0)},
              {"latency_us",
               {{"n", r.latency.n},
                {"p50", or_null(r.latency.p50_us)},
                {"p99", or_null(r.latency.p99_us)},
                {"max", or_null(r.latency.max_us)}}}};
  const std::optional<StageReadback> at = place();
  const Vec2 total_nm = at ? at->total_nm : Vec2{};
  if (axial) {
    now["total_z_nm"] = number_or_null(total_nm.x, at.has_value());
  } else {
    now["total_x_nm"] = number_or_null(total_nm.x, at.has_value());
    now["total_y_nm"] = number_or_null(total_nm.y, at.has_value());
  }
  return now;
}

}  // namespace driftd::daemon
