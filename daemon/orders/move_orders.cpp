// SPDX-License-Identifier: MIT
#include "daemon/orders/move_orders.hpp"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <utility>

namespace driftd::daemon {
namespace {

using control::LockState;
using control::MoveEnd;
using control::SetPointPhase;
using Level = EventLog::Level;

constexpr std::int64_t kAnswerNs = 500'000'000;  // the loop takes commands every 5 ms

const char* name_of(SetPointPhase phase) {
  constexpr std::array kNames = {"resting", "moving", "dwelling"};
  return kNames.at(static_cast<std::size_t>(phase));
}

const char* name_of(MoveEnd end) {
  constexpr std::array kNames = {"", "done", "stopped", "limits", "unlocked"};
  return kNames.at(static_cast<std::size_t>(end));
}

/// What helps, where it is not plain.
const char* way_to_lock(LockState state) {
  switch (state) {
    case LockState::Idle:
    case LockState::Referencing:
      return " (`driftctl lock --wait` first)";
    case LockState::Holding:
    case LockState::Lost:
      return " (`driftctl status` tells what helps)";
    default:
      return "";
  }
}

}  // namespace

CommandRefused MoveOrders::not_locked() const {
  const LockState state = lock_now().lock.state;
  return {Refusal::Refused,
          fmt::format("the lock{} is `{}`: the sample is moved while it is `locked`{}",
                      group_ == AxisGroup::Axial ? " of z" : "", control::name_of(state),
                      way_to_lock(state))};
}

void MoveOrders::add_place(nlohmann::json& fields, Vec2 place_nm, const char* prefix) const {
  const auto name = [prefix](const char* axis) { return std::string(prefix) + axis; };
  if (group_ == AxisGroup::Axial) {
    fields[name("z_nm")] = place_nm.x;
  } else {
    fields[name("x_nm")] = place_nm.x;
    fields[name("y_nm")] = place_nm.y;
  }
}

void MoveOrders::check(const MoveRequest& move) const {
  const bool stop = move.kind == MoveRequest::Kind::Stop;
  if (stop ? !is_engaged() : lock_now().lock.state != LockState::Locked) throw not_locked();
  if (!stop && lock_now().acquainting)
    throw CommandRefused{Refusal::Busy,
                         "the lock gets to know its stage, which takes some seconds: ask again"};
  if (order_) throw CommandRefused{Refusal::Busy, "another move is being ordered: ask again"};
  if (!stop) plan_move(move, config_, loop_.report(), group_);
}

void MoveOrders::order(const MoveRequest& move, Answer answer, std::int64_t now_ns) {
  check(move);
  Order order{.number = 0,
              .move_id = 0,
              .until_ns = 0,
              .reply = nlohmann::json::object(),
              .text = {},
              .answer = std::move(answer)};
  LoopCommand command{.kind = LoopCommand::Kind::StopMove, .group = group_};
  if (move.kind != MoveRequest::Kind::Stop) {
    MovePlan plan = plan_move(move, config_, loop_.report(), group_);
    plan.path.id = order.move_id = ++*newest_id_;
    const control::Vec2 goal = plan.path.places[plan.path.count - 1].place_nm;
    order.reply = {{"move", plan.path.id},
                   {"speed_nm_per_s", plan.fastest_nm_per_s},
                   {"duration_s", plan.duration_s}};
    add_place(order.reply, goal);
    order.text = fmt::format("move {}: to {}{} in {:.3g} s", plan.path.id, place_text(goal, group_),
                             plan.path.count * plan.path.repeats > 1
                                 ? fmt::format(" by {} places", plan.path.count * plan.path.repeats)
                                 : "",
                             plan.duration_s);
    command.kind = LoopCommand::Kind::Move;
    command.move = std::make_unique<control::MovePath>(plan.path);
  }
  send(std::move(command), std::move(order), now_ns);
}

void MoveOrders::send(LoopCommand command, Order order, std::int64_t now_ns) {
  const auto number = loop_.send(std::move(command));
  if (!number) {
    return order.answer(
        CommandRefused{Refusal::Timeout, "the tracking loop does not take commands"});
  }
  order.number = *number;
  order.until_ns = now_ns + kAnswerNs;
  order_ = std::move(order);
}

void MoveOrders::turn(std::int64_t now_ns) {
  if (order_ && (loop_.has_taken(order_->number) || now_ns > order_->until_ns)) {
    Order order = std::move(*order_);
    order_.reset();
    if (loop_.has_taken(order.number)) {
      order.answer(outcome_of(order));
    } else {
      order.answer(CommandRefused{
          Refusal::Timeout,
          "the tracking loop did not take the move in time; it may still begin: `stop` ends it"});
    }
  }
  tell_end();
}

void MoveOrders::refuse_pending(const CommandRefused& refused) {
  if (!order_) return;
  const Order order = std::move(*order_);
  order_.reset();
  order.answer(refused);
}

/// The loop has taken the order: what came of it.
Outcome MoveOrders::outcome_of(const Order& order) {
  const LockReport& report = lock_now();
  Reply reply{.fields = order.reply};
  reply.fields["state"] = control::name_of(report.lock.state);
  reply.fields["lock_id"] = report.lock_id;
  if (order.move_id == 0) {
    if (!is_engaged()) return not_locked();
    add_place(reply.fields, report.move.set_nm);
    return reply;
  }
  if (report.move.id != order.move_id) return not_locked();
  if (told_id_ != 0) tell_over("replaced", fmt::format("by move {}", order.move_id), Level::Info);
  told_id_ = order.move_id;
  events_.raise(Level::Info, "move_begun", order.text, order.reply);
  return reply;
}

void MoveOrders::tell_end() {
  if (told_id_ == 0) return;
  const MoveReport& move = lock_now().move;
  if (move.id > told_id_)  // taken after its answer was due
    return tell_over("replaced", fmt::format("by move {}", move.id), Level::Info);
  if (move.id != told_id_)
    return tell_over("unlocked", "the lock has ended, and the set-point with it", Level::Warning);
  if (move.phase != SetPointPhase::Resting) return;
  const std::string at = "the set-point is " + place_text(move.set_nm, group_);
  switch (move.end) {
    case MoveEnd::Limits:
      return tell_over(name_of(move.end), "the limits leave no room to go on; " + at,
                       Level::Warning);
    case MoveEnd::Stopped:
      return tell_over(name_of(move.end), "by command; " + at, Level::Info);
    case MoveEnd::None:
    case MoveEnd::Done:
    case MoveEnd::Unlocked:
      break;
  }
  nlohmann::json fields = {{"move", told_id_}};
  add_place(fields, move.set_nm);
  events_.raise(Level::Info, "move_done", fmt::format("move {}: done; {}", told_id_, at), fields);
  told_id_ = 0;
}

void MoveOrders::tell_over(const char* why, const std::string& text, Level level) {
  events_.raise(level, "move_ended", fmt::format("move {}: ended: {}", told_id_, text),
                {{"move", told_id_}, {"why", why}});
  told_id_ = 0;
}

nlohmann::json MoveOrders::status() const {
  const bool engaged = is_engaged();
  const MoveReport move = engaged ? lock_now().move : MoveReport{};
  nlohmann::json now = {{"move", move.id},
                        {"phase", engaged ? name_of(move.phase) : "unlocked"},
                        {"moving", move.moving},
                        {"ended", name_of(move.end)},
                        {"place", move.phase == SetPointPhase::Resting ? 0 : move.place + 1},
                        {"places", move.places},
                        {"repeats_left", move.repeats_left}};
  add_place(now, move.set_nm);
  add_place(now, move.goal_nm, "goal_");
  if (engaged) return now;
  for (const char* place : {"x_nm", "y_nm", "z_nm", "goal_x_nm", "goal_y_nm", "goal_z_nm"})
    if (now.contains(place)) now[place] = nullptr;
  return now;
}

}  // namespace driftd::daemon
