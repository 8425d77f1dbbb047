// SPDX-License-Identifier: MIT
#include "daemon/orders/lock_orders.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/in_words.hpp"
#include "daemon/camera/camera_watch.hpp"

namespace driftd::daemon {
namespace {

using control::LockState;
using Kind = LoopCommand::Kind;

constexpr std::int64_t kMillisecond = 1'000'000;        // ns
constexpr std::int64_t kAnswerNs = 500 * kMillisecond;  // the loop takes commands every 5 ms
constexpr std::int64_t kRetryNs = 1000 * kMillisecond;
constexpr std::size_t kMostOrders = 256;  // each is answered within kAnswerNs

bool is_engaged(LockState state) {
  return state == LockState::Referencing || state == LockState::Locked ||
         state == LockState::Holding || state == LockState::Calibrating;
}

/// Whether corrections may leave after such an order.
bool begins_something(Kind kind) {
  return kind == Kind::Lock || kind == Kind::Calibrate;
}

}  // namespace

bool LockOrders::is_engaged() const noexcept {
  return daemon::is_engaged(lock_now().lock.state);
}

std::string LockOrders::is_text() const {
  return fmt::format("the lock{} is `{}`", settings_.group == AxisGroup::Axial ? " of z" : "",
                     control::name_of(lock_now().lock.state));
}

void LockOrders::check_can_lock() const {
  if (settings_.recording) {
    throw CommandRefused{Refusal::Refused, "a recording cannot be held still"};
  }
  check_can_begin();
  const LockState state = lock_now().lock.state;
  const bool of_z = settings_.group == AxisGroup::Axial;
  if (state == LockState::Fault) {
    throw CommandRefused{
        Refusal::Refused,
        fmt::format("the lock{} is in `fault`: `driftctl reset` first", of_z ? " of z" : "")};
  }
  if (state == LockState::Calibrating) {
    throw CommandRefused{
        Refusal::Refused,
        fmt::format("the stage{} is being calibrated: lock when that is over, or stop it where it "
                    "was begun (Ctrl-C), which takes the stage back to its start",
                    of_z ? " of z" : "")};
  }
  if (state != LockState::Idle && state != LockState::Lost) {
    throw CommandRefused{Refusal::Refused, is_text() + " already"};
  }
}

void LockOrders::lock(Answer answer, std::int64_t now_ns, std::optional<LockResumption> resumption,
                      bool leaves_z) {
  check_can_lock();
  if (!loop_.report().has_frames()) throw CameraWatch::no_frames();
  if (const std::string why = too_few_(); !why.empty()) throw CommandRefused{Refusal::Refused, why};
  const StageForLock stage = ask_stage();
  if (stage.refuses) {
    throw CommandRefused{Refusal::Refused,
                         stage.problem + ", and stage.require_driver asks for one that is ready"};
  }
  at_start_over_ = true;
  LoopCommand command{.kind = Kind::Lock};
  command.stage_waiting_us = stage.waiting_us;
  command.resumption = resumption;
  command.leaves_z = leaves_z;
  send(std::move(command), stage.problem, std::move(answer), now_ns);
}

void LockOrders::check_can_begin() const {
  if (pending() || owes_unlock_) {
    throw CommandRefused{Refusal::Busy, "another order to the lock is under way"};
  }
}

void LockOrders::check_can_calibrate() const {
  check_can_begin();
  if (lock_now().lock.state != LockState::Idle) {
    throw CommandRefused{
        Refusal::Refused,
        fmt::format("{}: calibrate while it is `idle` (`driftctl {}` first)", is_text(),
                    settings_.group != AxisGroup::Axial         ? "unlock"
                    : lock_now().lock.state == LockState::Fault ? "reset"
                                                                : "unlock --axes z")};
  }
}

void LockOrders::calibrate(std::unique_ptr<StageRun> run, Answer answer, std::int64_t now_ns) {
  check_can_calibrate();
  at_start_over_ = true;
  LoopCommand command{.kind = Kind::Calibrate};
  command.calibration = std::move(run);
  send(std::move(command), {}, std::move(answer), now_ns);
}

/// An order after which corrections may leave.
void LockOrders::send(LoopCommand command, const std::string& warning, Answer answer,
                      std::int64_t now_ns) {
  const Kind kind = command.kind;
  const std::uint64_t lock_id = *settings_.newest_id + 1;
  command.group = settings_.group;
  command.lock_id = lock_id;
  // The gate opens before the order: the first correction may follow that at once.
  gate_.open(lock_id);
  const auto number = loop_.send(std::move(command));
  if (!number) {
    gate_.close();
    return answer(CommandRefused{Refusal::Timeout, "the tracking loop does not take commands"});
  }
  *settings_.newest_id = lock_id;
  orders_.push_back({kind, *number, lock_id, now_ns + kAnswerNs, std::move(answer), warning});
}

void LockOrders::unlock(Answer answer, std::int64_t now_ns) {
  go_idle(Kind::Unlock, std::move(answer), now_ns);
}

void LockOrders::reset(Answer answer, std::int64_t now_ns) {
  const auto begins = [](const Order& order) { return begins_something(order.kind); };
  if (std::any_of(orders_.begin(), orders_.end(), begins)) {
    throw CommandRefused{Refusal::Busy, "an order to lock or calibrate is under way"};
  }
  if (is_engaged()) {
    throw CommandRefused{Refusal::Refused,
                         is_text() + ", and reset is for `lost` and `fault`: unlock it"};
  }
  go_idle(Kind::Reset, std::move(answer), now_ns);
}

void LockOrders::go_idle(Kind kind, Answer answer, std::int64_t now_ns) {
  gate_.close();  // before anything else
  at_start_over_ = true;
  if (orders_.size() >= kMostOrders) {
    throw CommandRefused{Refusal::Busy, "too many orders to the lock are under way; none corrects"};
  }
  // A second one of its kind is the same order.
  std::optional<std::uint64_t> number;
  if (pending() && orders_.back().kind == kind) number = orders_.back().number;
  if (!number)
    number = loop_.send(LoopCommand{.kind = kind, .group = settings_.group, .leaves_z = true});
  if (!number) {
    owes_unlock_ = true;
    return answer(CommandRefused{Refusal::Timeout,
                                 "the tracking loop does not take commands; no correction leaves"});
  }
  orders_.push_back({kind, *number, 0, now_ns + kAnswerNs, std::move(answer)});
}

void LockOrders::turn(std::int64_t now_ns) {
  if (owes_unlock_ && loop_.send(LoopCommand{.kind = Kind::Unlock, .group = settings_.group}))
    owes_unlock_ = false;
  std::vector<Order> orders;
  orders.swap(orders_);  // an answer may lead to another order
  for (Order& order : orders) {
    if (loop_.has_taken(order.number)) {
      order.answer(outcome_of(order));
    } else if (now_ns > order.until_ns) {
      expire(order);
    } else {
      orders_.push_back(std::move(order));
    }
  }
  lock_at_start(now_ns);
}

void LockOrders::refuse_pending(const CommandRefused& refused) {
  for (const Order& order : std::exchange(orders_, {})) order.answer(refused);
}

Outcome LockOrders::outcome_of(const Order& order) const {
  const LockReport& report = lock_now();
  const LockState state = report.lock.state;
  Reply reply{.fields = {{"state", control::name_of(state)}}};
  if (begins_something(order.kind)) {
    if (report.lock_id == order.lock_id && daemon::is_engaged(state)) {
      reply.fields["lock_id"] = order.lock_id;
      if (!order.warning.empty()) reply.fields["warning"] = order.warning;
      return reply;
    }
  } else if (state == LockState::Idle) {
    return reply;
  }
  std::string text =
      is_text() + ": " +
      in_words(control::name_of(report.lock.reason), control::name_of(report.lock.held_for),
               control::name_of(control::held_before(report.lock)));
  if (state == LockState::Fault) text += "; no correction leaves; reset it";
  return CommandRefused{Refusal::Refused, text};
}

void LockOrders::expire(const Order& order) {
  if (begins_something(order.kind)) {  // it was not seen to happen, so it must not happen later
    gate_.close();
    owes_unlock_ = true;
  }
  order.answer(CommandRefused{
      Refusal::Timeout, "the tracking loop did not take the order in time; no correction leaves"});
}

/// Tries until the lock was engaged once or the user has given an order, which goes first.
void LockOrders::lock_at_start(std::int64_t now_ns) {
  waits_for_.clear();
  if (!settings_.at_start || settings_.recording || at_start_over_) return;
  if (held_back_at_start_) return;
  const LoopReport& report = loop_.report();
  const LockState state = lock_now().lock.state;
  if (state != LockState::Idle && state != LockState::Referencing) at_start_over_ = true;
  if (state != LockState::Idle || pending() || owes_unlock_) return;
  const StageForLock stage = ask_stage();
  if (!report.has_frames())
    waits_for_ = CameraWatch::no_frames().text;
  else if (const std::string why = too_few_(); !why.empty())
    waits_for_ = why;
  else if (!report.sees_drift(settings_.group))
    waits_for_ = settings_.group == AxisGroup::Axial ? "z is not measured now"
                                                     : "too few markers are measured now";
  else if (stage.refuses)
    waits_for_ = stage.problem + ", and stage.require_driver asks for one that is ready";
  if (!waits_for_.empty() || now_ns < next_try_ns_) return;
  next_try_ns_ = now_ns + kRetryNs;
  LoopCommand command{.kind = Kind::Lock};
  command.stage_waiting_us = stage.waiting_us;
  send(
      std::move(command), {}, [](const Outcome&) {}, now_ns);
}

}  // namespace driftd::daemon
