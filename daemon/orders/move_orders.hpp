// SPDX-License-Identifier: MIT
// Moves under one lock, by command: what may be ordered, the order to the loop, the answer when the
// loop has taken it, and what is told of a move until it is over. Housekeeping thread; nothing here
// waits.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "config/config.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/orders/move_plan.hpp"
#include "daemon/wire/answer.hpp"

namespace driftd::daemon {

class MoveOrders {
 public:
  /// @param config  the one in force
  /// @param newest_id  of a move of either group
  MoveOrders(const config::Config& config, LoopControl& loop, EventLog& events,
             AxisGroup group = AxisGroup::Lateral,
             std::shared_ptr<std::uint64_t> newest_id = std::make_shared<std::uint64_t>(0))
      : config_(config),
        loop_(loop),
        events_(events),
        group_(group),
        newest_id_(std::move(newest_id)) {}

  /// The command `move`, answered once the loop has taken it.
  /// @throws CommandRefused  there is nothing to move now, or the limits do not allow it
  void order(const MoveRequest& move, Answer answer, std::int64_t now_ns);
  /// @throws CommandRefused  order() would
  void check(const MoveRequest& move) const;
  /// The lock holds the sample: there is something to stop, or to take home.
  bool is_engaged() const noexcept { return lock_now().holds(); }
  /// Answers what the loop has taken, or did not take in time; tells what became of moves.
  void turn(std::int64_t now_ns);
  /// Answers what waits.
  void refuse_pending(const CommandRefused& refused);
  bool pending() const noexcept { return order_.has_value(); }
  /// The object `move` of `status`.
  nlohmann::json status() const;

 private:
  struct Order {
    std::uint64_t number;   ///< of the loop's commands
    std::uint64_t move_id;  ///< 0: to stop
    std::int64_t until_ns;
    nlohmann::json reply;
    std::string text;
    Answer answer;
  };

  const LockReport& lock_now() const noexcept { return loop_.report().of(group_); }
  CommandRefused not_locked() const;
  void add_place(nlohmann::json& fields, Vec2 place_nm, const char* prefix = "") const;
  void send(LoopCommand command, Order order, std::int64_t now_ns);
  Outcome outcome_of(const Order& order);
  void tell_end();
  void tell_over(const char* why, const std::string& text, EventLog::Level level);

  const config::Config& config_;
  LoopControl& loop_;
  EventLog& events_;
  const AxisGroup group_;
  std::shared_ptr<std::uint64_t> newest_id_;
  std::optional<Order> order_;
  std::uint64_t told_id_ = 0;  ///< begun, and not told to be over; 0: none
};

}  // namespace driftd::daemon
