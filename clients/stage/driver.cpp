// SPDX-License-Identifier: MIT
#include "clients/stage/driver.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "clients/stage/interface/faults.hpp"

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
/// Targets in a row that come too late, or reach some of the controllers only, before it is told: a
/// busy host is late now and then.
constexpr int kHalvesBorne = 5;
/// A stage is asked where it is for at most a sixth of the time, and for its health likewise: moves
/// have the rest.
constexpr int kPausesOfAnswer = 5;
constexpr std::int64_t kTellAgain_ns = 10 * kNanosecondsPerSecond;
/// Groups that were moved within that time follow the same frames.
constexpr std::int64_t kFollows_ns = kNanosecondsPerSecond / 20;

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

std::vector<Group> groups_of(Axes axes) {
  switch (axes) {
    case Axes::Xy:
      return {Group::Lateral};
    case Axes::Z:
      return {Group::Axial};
    case Axes::Xyz:
      break;
  }
  return {Group::Lateral, Group::Axial};
}

Driver::Driver(Stage& stage, const Config& config, std::span<Board* const> boards,
               std::function<void()> nudge, Clock clock)
    : stage_(stage), config_(config), nudge_(std::move(nudge)), clock_(clock) {
  for (const Group group : groups_of(config.motion.axes)) {
    std::vector<AxisSettings> settings;
    for (const char letter : letters_of(group)) settings.push_back(settings_of(config, letter));
    groups_.push_back({.group = group,
                       .letters = letters_of(group),
                       .first = axes(),
                       .board = *boards[groups_.size()],
                       .follower = Follower(group, settings),
                       .refusal_lasts_ns = kRefusalLasts_ns});
  }
}

std::size_t Driver::axes() const {
  return groups_.empty() ? 0 : groups_.back().first + groups_.back().letters.size();
}

PerAxis Driver::part_of(const PerStage& position, const Followed& one) const {
  PerAxis part{};
  for (std::size_t i = 0; i < one.letters.size(); ++i) part[i] = position[one.first + i];
  return part;
}

template <typename Change>
void Driver::update_all(Change&& change) {
  for (Followed& one : groups_) one.board.update(change);
}

template <typename Call>
auto Driver::call(Call&& call) {
  for (Followed& one : groups_) one.board.waits_since_ns.store(clock_());
  struct Done {
    std::vector<Followed>& groups;
    ~Done() {
      for (Followed& one : groups) {
        one.board.waits_since_ns.store(0);
        ++one.board.beats;
      }
    }
  } const done{groups_};
  return call();
}

std::int64_t Driver::turn() {
  for (Followed& one : groups_) {
    ++one.board.beats;
    drop_what_is_over(one);
  }
  if (!connected_ && clock_() >= next_attempt_ns_) connect();
  try {
    if (connected_) settle();
    if (connected_ && clock_() >= next_look_ns()) read_position();
    if (connected_ && clock_() >= next_health_ns_) ask_health();
  } catch (const std::exception& error) {
    lost(error.what());
  }
  return connected_ ? std::min(next_look_ns(), next_health_ns_) : next_attempt_ns_;
}

/// When the stage's place is asked for next.
std::int64_t Driver::next_look_ns() const {
  std::int64_t next_ns = next_position_ns_;
  for (const Followed& one : groups_) next_ns = std::min(next_ns, one.rest_look_ns);
  return next_ns;
}

bool Driver::follows_several() const {
  const std::int64_t now_ns = clock_();
  return groups_.size() > 1 && std::ranges::all_of(groups_, [&](const Followed& one) {
           return one.last_move_ns && now_ns - *one.last_move_ns < kFollows_ns;
         });
}

void Driver::drop_what_is_over(Followed& one) {
  const std::int64_t now_ns = clock_();
  const bool lock_is_over = now_ns - one.next_move_ns > kQuiet_ns && one.board.lock_is_over.load();
  bool dropped = false;
  if (one.range_limited && lock_is_over) {
    one.range_limited = false;
    one.board.update([](DriverState& state) { state.range_text.clear(); });
    dropped = true;
  }
  if (one.refuses && (lock_is_over || now_ns - one.refused_ns > one.refusal_lasts_ns)) {
    one.refuses = false;
    one.refusal_lasts_ns =
        lock_is_over ? kRefusalLasts_ns : std::min(2 * one.refusal_lasts_ns, kRefusalLastsMost_ns);
    one.board.update([](DriverState& state) { state.refuses = false; });
    dropped = true;
  }
  if (one.suspected && now_ns - one.refused_ns > kRefusalLasts_ns) one.suspected = false;
  if (dropped) changed(one);
}

void Driver::connect() {
  resumes_ = resumes_ || connected_;
  try {
    const std::vector<Axis> found = call([&] { return stage_.connect(); });
    if (found.size() != axes())
      throw StageError(fmt::format("{} axes are there; {} are needed", found.size(), axes()));
    PerStage position{};
    read_surely(position, [](const Followed&, const PerAxis&) { return true; });
    for (Followed& one : groups_) {
      const std::span<const Axis> own(&found[one.first], one.letters.size());
      if (resumes_)
        one.follower.resumed(own, part_of(position, one));
      else
        one.follower.connected(own, part_of(position, one));
      one.board.update([&](DriverState& state) {
        state.description = stage_.description();
        state.axes.clear();
        for (std::size_t i = 0; i < own.size(); ++i) {
          AxisState shown{
              .letter = one.letters[i], .axis = own[i], .position_nm = {}, .target_nm = {}};
          shown.axis.min_nm = one.follower.from_nm(i);
          shown.axis.max_nm = one.follower.to_nm(i);
          if (one.follower.last_target_nm()) shown.target_nm = (*one.follower.last_target_nm())[i];
          state.axes.push_back(std::move(shown));
        }
      });
      one.refuses = one.suspected = one.unconfirmed = false;
      one.condition = Condition::Ready;
      one.axes.assign(own.begin(), own.end());
    }
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
  update_all([&](DriverState& state) {
    state.connected = state.ever_connected = true;
    state.trouble.clear();
    failed = std::exchange(state.failed_attempts, 0);
    state.refuses = false;
  });
  const Controller& controller = controller_of(config_, letters_of(config_.motion.axes));
  spdlog::info("connected to {} ({}){}",
               controller.device.empty() ? controller.command : controller.device,
               stage_.description(),
               failed > 0 ? fmt::format(" after {} attempts that failed", failed) : "");
  all_changed();
}

void Driver::lost(const std::string& why) {
  stage_.disconnect();
  resumes_ = false;
  const std::int64_t least_ns = config_.connection.reconnect_min_ms * kMillisecond_ns;
  const std::int64_t most_ns = config_.connection.reconnect_max_ms * kMillisecond_ns;
  pause_ns_ = pause_ns_ == 0 ? least_ns : std::min(2 * pause_ns_, most_ns);
  next_attempt_ns_ = clock_() + pause_ns_;
  tell_away(why);
  update_all([](DriverState& state) { ++state.failed_attempts; });
  if (why != told_) spdlog::warn("no controller: {}; trying again", why);
  told_ = why;
  all_changed();
}

void Driver::tell_away(const std::string& why) {
  connected_ = false;
  for (Followed& one : groups_) one.condition = Condition::Disconnected;
  update_all([&](DriverState& state) {
    state.connected = false;
    state.trouble = why;
    for (AxisState& axis : state.axes) axis.position_nm.reset();
    state.total_nm.reset();
  });
}

void Driver::read(PerStage& position) {
  const std::span<double> places(position.data(), axes());
  call([&] { stage_.read(places); });
  if (std::ranges::all_of(places, [](double nm) { return std::abs(nm) < kMetre_nm; })) return;
  std::string text;  // NaN, too
  for (const double nm : places) text += fmt::format("{}{}", text.empty() ? "" : ", ", nm);
  throw StageError(fmt::format("the stage is said to be at {} nm", text));
}

/// One wrong reading is no stage that was moved: one that surprises is read again, up to twice.
/// @return of each group whether it does not surprise, or two in a row agree within a step
template <typename Surprises>
Driver::PerGroup Driver::read_surely(PerStage& position, Surprises&& surprises) {
  PerGroup sure{};
  read(position);
  for (std::size_t g = 0; g < groups_.size(); ++g)
    sure[g] = !surprises(groups_[g], part_of(position, groups_[g]));
  const auto all_sure = [&] {
    return std::ranges::all_of(std::span(sure.data(), groups_.size()), std::identity{});
  };
  for (int again = 0; again < 2 && !all_sure(); ++again) {
    PerStage next{};
    read(next);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (sure[g]) continue;  // what it said is kept
      const Followed& one = groups_[g];
      bool agree = true;
      for (std::size_t i = 0; i < one.letters.size(); ++i) {
        double& place = position[one.first + i];
        const double step_nm = settings_of(config_, one.letters[i]).step_limit_nm;
        agree = agree && std::abs(next[one.first + i] - place) <= step_nm;
        place = next[one.first + i];
      }
      sure[g] = agree || !surprises(one, part_of(position, one));
    }
  }
  return sure;
}

/// @param for_zero  the place is going to be where the group's steps count from
Driver::PerGroup Driver::read_position(PerGroup for_zero) {
  const std::int64_t asked_ns = clock_();
  PerStage position{};
  PerGroup base{};
  for (std::size_t g = 0; g < groups_.size(); ++g)
    base[g] =
        (for_zero[g] || groups_[g].zero_position_ns != 0) && groups_[g].follower.place_unknown();
  const PerGroup sure = read_surely(position, [&](const Followed& one, const PerAxis& place) {
    return base[static_cast<std::size_t>(&one - groups_.data())] ||
           one.follower.surprises(place, clock_());
  });
  const std::int64_t now_ns = clock_();
  position_nm_ = position;
  position_ns_ = now_ns;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Followed& one = groups_[g];
    const PerAxis place = part_of(position, one);
    if (!sure[g]) one.zero_position_ns = 0;
    one.follower.seen(place, now_ns);
    if (now_ns >= one.rest_look_ns)
      one.rest_look_ns = one.follower.wants_rest() ? now_ns + kLookAgain_ns
                                                   : std::numeric_limits<std::int64_t>::max();
    const std::optional<PerAxis> total = one.follower.total_nm(place);
    one.board.update([&](DriverState& state) {
      for (std::size_t i = 0; i < one.letters.size(); ++i) state.axes[i].position_nm = place[i];
      state.position_ns = now_ns;
      state.total_nm = total;
    });
  }
  next_position_ns_ = next_question_ns(config_.motion.position_interval_ms, asked_ns);
  for (Followed& one : groups_) {
    if (const auto axis = one.follower.take_in_vain())
      refuse(std::array{&one}, fmt::format("{} stays at {:.1f} nm wherever it is sent",
                                           one.letters[*axis], position[one.first + *axis]));
  }
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
  // After a refusal the controller speaks of that.
  const Condition common = health.of_axes.empty() ? health.condition : health.common.condition;
  const bool of_refusal = takes_targets(common) && common != Condition::Ready &&
                          std::ranges::any_of(groups_, [](const Followed& one) {
                            return one.refuses || one.suspected;
                          });
  std::vector<Followed*> changes, recovered;
  for (Followed& one : groups_) {
    const Condition before =
        std::exchange(one.condition, health_part(health, one.first, one.letters.size()).condition);
    one.board.update([&](DriverState& state) {
      state.health = health_part(health, one.first, one.letters.size(), !of_refusal || one.refuses);
    });
    if (one.condition == before) continue;
    changes.push_back(&one);
    if (!takes_targets(before) && takes_targets(one.condition)) recovered.push_back(&one);
    // Read when it was connected, perhaps while the servo was off.
    if (before == Condition::ServoOff && takes_targets(one.condition)) one.closes_loop();
    if (takes_targets(before) && !takes_targets(one.condition)) one.follower.disobeys();
  }
  next_health_ns_ = next_question_ns(config_.motion.health_interval_ms, asked_ns);
  if (changes.empty()) return;
  if (health.condition == Condition::Ready)
    spdlog::info("the stage is ready again");
  else
    spdlog::warn("{}", health.text);
  // Somebody may have moved it meanwhile, and it may have other sensors than before.
  if (recovered.size() == groups_.size()) return connect();
  for (Followed* const one : recovered) resume(*one);
  for (Followed* const one : changes) changed(*one);
}

/// It obeys again, beside others that did all the time, and goes on from where it is now.
void Driver::resume(Followed& one) {
  PerStage position{};
  read_surely(position, [&](const Followed& other, const PerAxis&) { return &other == &one; });
  one.follower.resumed(one.axes, part_of(position, one));
  one.refuses = one.suspected = one.unconfirmed = false;
  one.board.update([](DriverState& state) { state.refuses = false; });
}

void Driver::corrections(std::span<const std::string> messages) {
  std::vector<Order> orders;
  for (const std::string& message : messages) {
    const auto addressee = std::ranges::find_if(
        groups_, [&](const Followed& one) { return message.starts_with(topic_of(one.group)); });
    Followed& one = addressee == groups_.end() ? groups_.front() : *addressee;
    std::optional<Correction> correction = parse_correction(message, one.group);
    if (!correction)
      ignore(one, "they are not as docs/reference/protocol.md says");
    else if (!connected_)
      ignore(one, "there is no controller");
    else if (one.board.muted.load())
      ignore(one, "another driver reports to driftd");
    else
      orders.push_back({.one = &one, .correction = *std::move(correction)});
  }
  // A controller may refuse all targets of a move for one of them.
  const bool apart = std::ranges::any_of(groups_, &Followed::apart);
  try {
    if (!apart && carry_out(orders)) return;
    for (Order& order : orders) carry_out({std::move(order)});
  } catch (const std::exception& error) {
    lost(error.what());
  }
}

void Driver::settle() {
  if (!call([&] { return stage_.prepare(); })) return take_back();
  for (Followed& one : groups_) {
    if (!std::exchange(one.unconfirmed, false)) continue;
    one.apart = false;
    recover(one);
  }
}

/// @return false: it refused a move of several groups, and each is to be told by itself
bool Driver::carry_out(std::vector<Order> orders) {
  if (orders.empty()) return true;
  if (!connected_) {
    ignore(*orders.front().one, "there is no controller");
    return true;
  }
  settle();
  std::erase_if(orders, [&](const Order& order) {
    const bool obeys = takes_targets(order.one->condition);
    if (!obeys) ignore(*order.one, "the stage would not obey");
    return !obeys;
  });
  if (orders.empty()) return true;
  read_places(orders);
  const std::int64_t start_ns = clock_();
  std::erase_if(orders, [&](const Order& order) {
    const Verdict verdict = order.one->follower.judge(order.correction, start_ns);
    if (verdict != Verdict::Move) ignore(*order.one, text_of(verdict));
    return verdict != Verdict::Move || is_beyond_ends(*order.one);
  });
  return orders.empty() || move(orders, start_ns);
}

/// Then nothing is sent, and the driver says why.
bool Driver::is_beyond_ends(Followed& one) {
  const std::optional<double> nm = one.follower.beyond_ends_nm();
  if (!nm) return false;
  std::array<Followed*, 1> ones{&one};
  refuse(ones,
         fmt::format("z is found at {:.0f} nm, outside z.min_nm to z.max_nm within its travel "
                     "({:.0f} to {:.0f} nm): nothing is sent until it is inside",
                     *nm, one.follower.from_nm(0), one.follower.to_nm(0)));
  return true;
}

/// Reads where the stage is, which takes its time, if an order needs that. Those go for which the
/// readings differ.
void Driver::read_places(std::vector<Order>& orders) {
  PerGroup wanted{};
  for (const Order& order : orders) {
    wanted[static_cast<std::size_t>(order.one - groups_.data())] =
        order.one->follower.judge(order.correction, clock_()) == Verdict::Move &&
        wants_place(order);
  }
  if (wanted == PerGroup{}) return;
  const PerGroup sure = read_position(wanted);
  std::erase_if(orders, [&](const Order& order) {
    const auto g = static_cast<std::size_t>(order.one - groups_.data());
    if (!wanted[g]) return false;
    if (!sure[g]) {
      ignore(*order.one, "the stage's readings differ");
      return true;
    }
    if (order.one->follower.takes_zero(order.correction))
      order.one->zero_position_ns = position_ns_;
    return false;
  });
}

/// @return as carry_out()
bool Driver::move(std::vector<Order>& orders, std::int64_t start_ns) {
  PerStage targets{};
  targets.fill(kStays);
  std::int64_t expires_ns = std::numeric_limits<std::int64_t>::max();
  next_move_ns_ =
      start_ns + static_cast<std::int64_t>(kNanosecondsPerSecond / config_.motion.max_rate_hz);
  for (Followed& one : groups_) one.last_told = false;
  std::vector<Followed*> told;
  for (Order& order : orders) {
    Followed& one = *order.one;
    order.target = one.follower.plan(order.correction, start_ns);
    one.follower.sends();
    one.last_move_ns = start_ns;
    one.next_move_ns = next_move_ns_;
    one.last_told = true;
    one.zero_position_ns = 0;
    one.rest_look_ns = start_ns + Follower::kAtRest_ns + kMillisecond_ns;
    for (std::size_t i = 0; i < one.letters.size(); ++i)
      targets[one.first + i] = order.target.nm[i];
    expires_ns = std::min(expires_ns, order.correction.expires_ns);
    told.push_back(&one);
  }
  stage_.expires_at(expires_ns);
  try {
    if (call([&] { return stage_.move_to(std::span(targets.data(), axes())); })) {
      for (const Order& order : orders) take(order, start_ns);
      return true;
    }
    for (const Order& order : orders) order.one->follower.refused(order.target, start_ns);
    if (suspect(told)) return false;
    refuse(told);
  } catch (const TooLate& late) {
    std::vector<Followed*> refused;
    for (const Order& order : orders) {
      order.one->follower.refused(order.target, start_ns);
      if (++order.one->halves < kHalvesBorne)
        ignore(*order.one, text_of(Verdict::Expired));
      else
        refused.push_back(order.one);
    }
    if (!refused.empty()) refuse(refused, late.what());
  }
  return true;
}

bool Driver::wants_place(const Order& order) const {
  const std::int64_t now_ns = clock_();
  const Followed& one = *order.one;
  // If a correction asked for a reading, but came too late for it, the reading is for the next
  // correction: where reading takes longer than a correction lives, none would ever move the stage.
  if (one.follower.takes_zero(order.correction))
    return now_ns - one.zero_position_ns > kPlaceLasts_ns;
  const bool at_rest = !one.last_move_ns || now_ns - *one.last_move_ns > Follower::kAtRest_ns;
  return at_rest && now_ns - position_ns_ > kPlaceLasts_ns;
}

void Driver::take(const Order& order, std::int64_t start_ns) {
  Followed& one = *order.one;
  one.follower.moved(order.target, start_ns);
  const std::int64_t now_ns = clock_();
  one.board.latency.record(now_ns - order.correction.sent_ns);
  const std::optional<PerAxis> total = one.follower.total_nm(part_of(position_nm_, one));
  one.board.update([&](DriverState& state) {
    for (std::size_t i = 0; i < one.letters.size(); ++i)
      state.axes[i].target_nm = order.target.nm[i];
    state.session = order.correction.session;
    state.lock_id = order.correction.lock_id;
    state.total_nm = total;
    ++state.carried_out;
    state.rate.record(now_ns);
  });
  one.halves = 0;
  one.unconfirmed = true;
  tell_range(one, order.target);
}

void Driver::recover(Followed& one) {
  if (one.follower.stays_in_vain()) return;
  one.refusal_lasts_ns = kRefusalLasts_ns;
  one.suspected = false;
  if (!std::exchange(one.refuses, false)) return;
  one.board.update([](DriverState& state) { state.refuses = false; });
  spdlog::info("the controller takes targets again");
  one.told_refusal.clear();
  changed(one);
}

/// Of those that were in the last move.
void Driver::take_back() {
  std::vector<Followed*> refused;
  for (Followed& one : groups_) {
    if (!one.last_told) continue;
    one.follower.not_taken();
    one.board.update([&](DriverState& state) {
      if (std::exchange(one.unconfirmed, false)) --state.carried_out;
      for (std::size_t i = 0; i < state.axes.size(); ++i) {
        state.axes[i].target_nm.reset();
        if (one.follower.last_target_nm())
          state.axes[i].target_nm = (*one.follower.last_target_nm())[i];
      }
    });
    refused.push_back(&one);
  }
  if (!suspect(refused)) refuse(refused);
}

/// A move of several groups was refused: no lock is to be held for a target of another one. They
/// are told apart from now on, and whose target is refused again is told.
/// @return false: it is of one group
bool Driver::suspect(std::span<Followed* const> ones) {
  if (ones.size() < 2) return false;
  for (Followed* const one : ones) {
    one->refused_ns = clock_();
    one->apart = one->suspected = true;
  }
  return true;
}

/// @param why  empty: the controller is asked
void Driver::refuse(std::span<Followed* const> ones, const std::string& why) {
  std::vector<Followed*> newly;
  for (Followed* const one : ones) {
    one->refused_ns = clock_();
    one->apart = true;
    one->suspected = false;
    one->board.lock_is_over.store(false);
    one->board.update([&](DriverState& state) { ++state.refused; });
    if (!std::exchange(one->refuses, true)) newly.push_back(one);
  }
  if (newly.empty()) return;  // asked for the reason at the first
  if (why.empty()) ask_health();
  for (Followed* const one : newly) {
    one->board.update([&](DriverState& state) {
      state.refuses = true;  // told with its reason, never before it is known
      state.refusal =
          why.empty() ? state.health : Health{.condition = Condition::Error, .text = why};
    });
    const std::string told = one->board.state().refusal.text;
    if (told != one->told_refusal || told.empty())
      spdlog::warn("a target was refused: {}",
                   told.empty() ? "the controller does not say why" : told);
    one->told_refusal = told;
    changed(*one);
  }
}

void Driver::tell_range(Followed& one, const Target& target) {
  std::string text;
  for (std::size_t i = 0; i < one.letters.size(); ++i) {
    if (!target.limited[i].range) continue;
    text += fmt::format("{}{} is at the end of its range, {:.1f} nm on axis {}",
                        text.empty() ? "" : "; ", one.letters[i], target.nm[i],
                        settings_of(config_, one.letters[i]).axis);
  }
  one.board.lock_is_over.store(false);
  const bool limited = !text.empty();
  if (limited == one.range_limited) return;
  one.range_limited = limited;
  one.board.update([&](DriverState& state) { state.range_text = text; });
  if (limited) spdlog::warn("{}", text);
  changed(one);
}

void Driver::ignore(Followed& one, std::string_view why) {
  std::uint64_t ignored = 0;
  one.board.update([&](DriverState& state) { ignored = ++state.ignored; });
  const std::int64_t now_ns = clock_();
  if (ignored > 1 && now_ns - one.told_ignored_ns < kTellAgain_ns) return;
  one.told_ignored_ns = now_ns;
  spdlog::info("corrections{} are ignored: {} ({} since the start)",
               one.group == Group::Axial ? " of z" : "", why, ignored);
}

void Driver::changed(Followed& one) {
  ++one.board.changes;
  nudge_();
}

void Driver::all_changed() {
  for (Followed& one : groups_) changed(one);
}

}  // namespace driftd::stage
