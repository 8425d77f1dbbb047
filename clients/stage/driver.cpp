// SPDX-License-Identifier: MIT
#include "clients/stage/driver.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace driftd::stage {
namespace {

constexpr std::int64_t kMillisecond_ns = 1'000'000;
/// No correction for so long: what the daemon says about its lock is about what was carried out.
constexpr std::int64_t kQuiet_ns = kNanosecondsPerSecond / 2;
/// A place at rest that was read before that is read again.
constexpr std::int64_t kLookAgain_ns = kNanosecondsPerSecond / 20;  ///< whether it rests
constexpr std::int64_t kPlaceLasts_ns = 3 * kNanosecondsPerSecond / 10;
/// A refusal is told for so long at first. Ready again, the daemon may send what is refused again.
constexpr std::int64_t kRefusalLasts_ns = kNanosecondsPerSecond;
constexpr std::int64_t kRefusalLastsMost_ns = 30 * kNanosecondsPerSecond;
/// Targets in a row that come too late, or reach one of two controllers only, before it is told: a
/// busy host is late now and then.
constexpr int kHalvesBorne = 5;
/// A stage is asked where it is for at most a sixth of the time, and for its health likewise: moves
/// have the rest.
constexpr int kPausesOfAnswer = 5;
constexpr std::int64_t kTellAgain_ns = 10 * kNanosecondsPerSecond;
constexpr std::array<const char*, kAxes> kAxisWords = {"x", "y"};

/// Whether targets reach the stage. Any other trouble is the controller's to judge: it refuses.
bool takes_targets(Condition condition) {
  return condition != Condition::ServoOff && condition != Condition::NotReferenced &&
         condition != Condition::Disconnected;
}

std::string_view text_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::Expired:
      return "they come too late";
    case Verdict::OldLock:
      return "they are of a lock that is over";
    case Verdict::OldSession:
      return "they are of a driftd that another one has replaced";
    case Verdict::Move:
      break;
  }
  return "";
}

}  // namespace

Driver::Driver(Stage& stage, const Config& config, Board& board, std::function<void()> nudge,
               Clock clock)
    : stage_(stage),
      config_(config),
      board_(board),
      nudge_(std::move(nudge)),
      clock_(clock),
      follower_(config.x, config.y),
      refusal_lasts_ns_(kRefusalLasts_ns) {}

template <typename Call>
auto Driver::call(Call&& call) {
  board_.waits_since_ns.store(clock_());
  struct Done {
    Board& board;
    ~Done() {
      board.waits_since_ns.store(0);
      ++board.beats;
    }
  } const done{board_};
  return call();
}

std::int64_t Driver::turn() {
  ++board_.beats;
  drop_what_is_over();
  if (!connected_ && clock_() >= next_attempt_ns_) connect();
  try {
    if (connected_) settle();
    if (connected_ && clock_() >= std::min(next_position_ns_, rest_look_ns_)) read_position();
    if (connected_ && clock_() >= next_health_ns_) ask_health();
  } catch (const std::exception& error) {
    lost(error.what());
  }
  return connected_ ? std::min({next_position_ns_, rest_look_ns_, next_health_ns_})
                    : next_attempt_ns_;
}

void Driver::drop_what_is_over() {
  const std::int64_t now_ns = clock_();
  const bool lock_is_over = now_ns - next_move_ns_ > kQuiet_ns && board_.lock_is_over.load();
  bool dropped = false;
  if (range_limited_ && lock_is_over) {
    range_limited_ = false;
    board_.update([](DriverState& state) { state.range_text.clear(); });
    dropped = true;
  }
  if (refuses_ && (lock_is_over || now_ns - refused_ns_ > refusal_lasts_ns_)) {
    refuses_ = false;
    refusal_lasts_ns_ =
        lock_is_over ? kRefusalLasts_ns : std::min(2 * refusal_lasts_ns_, kRefusalLastsMost_ns);
    board_.update([](DriverState& state) { state.refuses = false; });
    dropped = true;
  }
  if (dropped) changed();
}

void Driver::connect() {
  resumes_ = resumes_ || connected_;
  try {
    const std::vector<Axis> axes = call([&] { return stage_.connect(); });
    if (axes.size() != kAxes)
      throw StageError(fmt::format("{} axes are there; 2 are needed", axes.size()));
    PerAxis position{};
    read_surely(position, [](const PerAxis&) { return true; });
    if (resumes_)
      follower_.resumed(axes, position);
    else
      follower_.connected(axes, position);
    board_.update([&](DriverState& state) {
      state.description = stage_.description();
      state.axes.clear();
      for (std::size_t i = 0; i < kAxes; ++i) {
        AxisState shown;
        shown.axis = axes[i];
        shown.axis.min_nm = follower_.from_nm(i);
        shown.axis.max_nm = follower_.to_nm(i);
        if (follower_.last_target_nm()) shown.target_nm = (*follower_.last_target_nm())[i];
        state.axes.push_back(std::move(shown));
      }
    });
    condition_ = Condition::Ready;
    refuses_ = unconfirmed_ = false;
    read_position();
    ask_health();
  } catch (const Starting& error) {
    next_attempt_ns_ = clock_();
    tell_away(error.what());
    return;
  } catch (const std::exception& error) {
    lost(error.what());
    return;
  }
  connected_ = true;
  resumes_ = false;
  pause_ns_ = 0;
  told_.clear();
  std::uint64_t failed = 0;
  board_.update([&](DriverState& state) {
    state.connected = state.ever_connected = true;
    state.trouble.clear();
    failed = std::exchange(state.failed_attempts, 0);
    state.refuses = false;
  });
  const Controller& controller = config_.controller;
  spdlog::info("connected to {} ({}){}",
               controller.device.empty() ? controller.command : controller.device,
               stage_.description(),
               failed > 0 ? fmt::format(" after {} attempts that failed", failed) : "");
  changed();
}

void Driver::lost(const std::string& why) {
  stage_.disconnect();
  resumes_ = false;
  const std::int64_t least_ns = config_.connection.reconnect_min_ms * kMillisecond_ns;
  const std::int64_t most_ns = config_.connection.reconnect_max_ms * kMillisecond_ns;
  pause_ns_ = pause_ns_ == 0 ? least_ns : std::min(2 * pause_ns_, most_ns);
  next_attempt_ns_ = clock_() + pause_ns_;
  tell_away(why);
  board_.update([](DriverState& state) { ++state.failed_attempts; });
  if (why != told_) spdlog::warn("no controller: {}; trying again", why);
  told_ = why;
  changed();
}

void Driver::tell_away(const std::string& why) {
  connected_ = false;
  condition_ = Condition::Disconnected;
  board_.update([&](DriverState& state) {
    state.connected = false;
    state.trouble = why;
    for (AxisState& axis : state.axes) axis.position_nm.reset();
    state.total_nm.reset();
  });
}

void Driver::read(PerAxis& position) {
  call([&] { stage_.read(position); });
  if (!(std::abs(position[0]) < kMetre_nm && std::abs(position[1]) < kMetre_nm))  // nor NaN
    throw StageError(fmt::format("the stage is said to be at {}, {} nm", position[0], position[1]));
}

/// One wrong reading is no stage that was moved: one that surprises is read again, up to twice.
/// @return whether it does not surprise, or two in a row agree within a step
template <typename Surprises>
bool Driver::read_surely(PerAxis& position, Surprises&& surprises) {
  read(position);
  for (int again = 0; again < 2 && surprises(position); ++again) {
    const PerAxis before = position;
    read(position);
    if (std::abs(position[0] - before[0]) <= config_.x.step_limit_nm &&
        std::abs(position[1] - before[1]) <= config_.y.step_limit_nm)
      return true;
  }
  return !surprises(position);
}

/// @param for_zero  the place is going to be where steps count from
bool Driver::read_position(bool for_zero) {
  const std::int64_t asked_ns = clock_();
  PerAxis position{};
  const bool base = (for_zero || zero_position_ns_ != 0) && follower_.place_unknown();
  const bool sure = read_surely(
      position, [&](const PerAxis& place) { return base || follower_.surprises(place, clock_()); });
  if (!sure) zero_position_ns_ = 0;
  const std::int64_t now_ns = clock_();
  position_nm_ = position;
  position_ns_ = now_ns;
  follower_.seen(position, now_ns);
  if (now_ns >= rest_look_ns_)
    rest_look_ns_ =
        follower_.wants_rest() ? now_ns + kLookAgain_ns : std::numeric_limits<std::int64_t>::max();
  const std::optional<PerAxis> total = follower_.total_nm(position);
  board_.update([&](DriverState& state) {
    for (std::size_t i = 0; i < kAxes; ++i) state.axes[i].position_nm = position[i];
    state.position_ns = now_ns;
    state.total_nm = total;
  });
  next_position_ns_ = next_question_ns(config_.motion.position_interval_ms, asked_ns);
  if (const auto axis = follower_.take_in_vain())
    refuse(fmt::format("{} stays at {:.1f} nm wherever it is sent", kAxisWords[*axis],
                       position[*axis]));
  return sure;
}

/// When to ask for something again that was asked for then, and has been answered now.
std::int64_t Driver::next_question_ns(int interval_ms, std::int64_t asked_ns) const {
  const std::int64_t now_ns = clock_();
  return now_ns + std::max(interval_ms * kMillisecond_ns, kPausesOfAnswer * (now_ns - asked_ns));
}

void Driver::ask_health() {
  const std::int64_t asked_ns = clock_();
  const Health health = call([&] { return stage_.health(); });
  if (health.condition == Condition::Disconnected) throw StageError(health.text);
  const Condition before = condition_;
  condition_ = health.condition;
  board_.update([&](DriverState& state) { state.health = health; });
  next_health_ns_ = next_question_ns(config_.motion.health_interval_ms, asked_ns);
  if (condition_ == before) return;
  if (condition_ == Condition::Ready)
    spdlog::info("the stage is ready again");
  else
    spdlog::warn("{}", health.text);
  if (!takes_targets(before) && takes_targets(condition_)) {
    // Somebody may have moved it meanwhile, and it may have other sensors than before.
    return connect();
  }
  if (takes_targets(before) && !takes_targets(condition_)) follower_.disobeys();
  changed();
}

void Driver::correction(std::string_view message) {
  const std::optional<Correction> correction = parse_correction(message);
  if (!correction) return ignore("they are not as docs/reference/protocol.md says");
  if (!connected_) return ignore("there is no controller");
  if (board_.muted.load()) return ignore("another driver reports to driftd");
  try {
    carry_out(*correction);
  } catch (const std::exception& error) {
    lost(error.what());
  }
}

void Driver::settle() {
  if (!call([&] { return stage_.prepare(); }))
    take_back();
  else if (std::exchange(unconfirmed_, false))
    recover();
}

void Driver::carry_out(const Correction& correction) {
  settle();
  if (!takes_targets(condition_)) return ignore("the stage would not obey");
  Verdict verdict = follower_.judge(correction, clock_());
  if (verdict == Verdict::Move && wants_place(correction)) {
    if (!read_position(true)) return ignore("the stage's readings differ");  // takes its time
    if (follower_.takes_zero(correction)) zero_position_ns_ = position_ns_;
  }
  const std::int64_t start_ns = clock_();
  if (verdict == Verdict::Move) verdict = follower_.judge(correction, start_ns);
  if (verdict != Verdict::Move) return ignore(text_of(verdict));
  const Target target = follower_.plan(correction, start_ns);
  follower_.sends();
  last_move_ns_ = start_ns;
  zero_position_ns_ = 0;
  rest_look_ns_ = start_ns + Follower::kAtRest_ns + kMillisecond_ns;
  stage_.expires_at(correction.expires_ns);
  next_move_ns_ =
      start_ns + static_cast<std::int64_t>(kNanosecondsPerSecond / config_.motion.max_rate_hz);
  try {
    if (call([&] { return stage_.move_to(target.nm); }))
      take(target, correction, start_ns);
    else {
      follower_.refused(target, start_ns);
      refuse();
    }
  } catch (const TooLate& late) {
    follower_.refused(target, start_ns);
    if (++halves_ < kHalvesBorne) return ignore(text_of(Verdict::Expired));
    refuse(late.what());
  }
}

bool Driver::wants_place(const Correction& correction) const {
  const std::int64_t now_ns = clock_();
  // If a correction asked for a reading, but came too late for it, the reading is for the next
  // correction: where reading takes longer than a correction lives, none would ever move the stage.
  if (follower_.takes_zero(correction)) return now_ns - zero_position_ns_ > kPlaceLasts_ns;
  const bool at_rest = !last_move_ns_ || now_ns - *last_move_ns_ > Follower::kAtRest_ns;
  return at_rest && now_ns - position_ns_ > kPlaceLasts_ns;
}

void Driver::take(const Target& target, const Correction& correction, std::int64_t start_ns) {
  follower_.moved(target, start_ns);
  const std::int64_t now_ns = clock_();
  board_.latency.record(now_ns - correction.sent_ns);
  const std::optional<PerAxis> total = follower_.total_nm(position_nm_);
  board_.update([&](DriverState& state) {
    for (std::size_t i = 0; i < kAxes; ++i) state.axes[i].target_nm = target.nm[i];
    state.session = correction.session;
    state.lock_id = correction.lock_id;
    state.total_nm = total;
    ++state.carried_out;
    state.rate.record(now_ns);
  });
  halves_ = 0;
  unconfirmed_ = true;
  tell_range(target);
}

void Driver::recover() {
  if (follower_.stays_in_vain()) return;
  refusal_lasts_ns_ = kRefusalLasts_ns;
  if (!std::exchange(refuses_, false)) return;
  board_.update([](DriverState& state) { state.refuses = false; });
  spdlog::info("the controller takes targets again");
  told_refusal_.clear();
  changed();
}

void Driver::take_back() {
  follower_.not_taken();
  board_.update([&](DriverState& state) {
    if (std::exchange(unconfirmed_, false)) --state.carried_out;
    for (std::size_t i = 0; i < kAxes; ++i) {
      state.axes[i].target_nm.reset();
      if (follower_.last_target_nm()) state.axes[i].target_nm = (*follower_.last_target_nm())[i];
    }
  });
  refuse();
}

/// @param why empty: the controller is asked
void Driver::refuse(const std::string& why) {
  refused_ns_ = clock_();
  board_.lock_is_over.store(false);
  board_.update([&](DriverState& state) {
    if (!refuses_) state.refusal = {};
    state.refuses = true;
    ++state.refused;
  });
  if (std::exchange(refuses_, true)) return;  // asked for the reason at the first
  if (why.empty()) ask_health();
  board_.update([&](DriverState& state) {
    state.refusal = why.empty() ? state.health : Health{.condition = Condition::Error, .text = why};
  });
  const std::string told = board_.state().refusal.text;
  if (told != told_refusal_ || told.empty())
    spdlog::warn("a target was refused: {}",
                 told.empty() ? "the controller does not say why" : told);
  told_refusal_ = told;
  changed();
}

void Driver::tell_range(const Target& target) {
  std::string text;
  for (std::size_t i = 0; i < kAxes; ++i) {
    if (!target.limited[i].range) continue;
    text += fmt::format("{}{} is at the end of its range, {:.1f} nm on axis {}",
                        text.empty() ? "" : "; ", kAxisWords[i], target.nm[i],
                        i == 0 ? config_.x.axis : config_.y.axis);
  }
  board_.lock_is_over.store(false);
  const bool limited = !text.empty();
  if (limited == range_limited_) return;
  range_limited_ = limited;
  board_.update([&](DriverState& state) { state.range_text = text; });
  if (limited) spdlog::warn("{}", text);
  changed();
}

void Driver::ignore(std::string_view why) {
  std::uint64_t ignored = 0;
  board_.update([&](DriverState& state) { ignored = ++state.ignored; });
  const std::int64_t now_ns = clock_();
  if (ignored > 1 && now_ns - told_ignored_ns_ < kTellAgain_ns) return;
  told_ignored_ns_ = now_ns;
  spdlog::info("corrections are ignored: {} ({} since the start)", why, ignored);
}

void Driver::changed() {
  ++board_.changes;
  nudge_();
}

}  // namespace driftd::stage
