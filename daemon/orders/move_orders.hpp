// SPDX-License-Identifier: MIT
// Moves under lock, by command: what may be ordered, the order to the loop, the answer when the
// loop has taken it, and what is told of a move until it is over. Housekeeping thread; nothing here
// waits.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "config/config.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/wire/answer.hpp"

namespace driftd::daemon {

class MoveOrders {
 public:
  /// @param config  the one in force
  MoveOrders(const config::Config& config, LoopControl& loop, EventLog& events)
      : config_(config), loop_(loop), events_(events) {}

  /// The command `move`, answered once the loop has taken it.
  /// @throws CommandRefused  it makes no sense, or there is nothing to move now
  void order(const nlohmann::json& request, Answer answer, std::int64_t now_ns);
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

  void send(LoopCommand command, Order order, std::int64_t now_ns);
  Outcome outcome_of(const Order& order);
  void tell_end();
  void tell_over(const char* why, const std::string& text, EventLog::Level level);

  const config::Config& config_;
  LoopControl& loop_;
  EventLog& events_;
  std::optional<Order> order_;
  std::uint64_t last_id_ = 0;
  std::uint64_t told_id_ = 0;  ///< begun, and not told to be over; 0: none
};

}  // namespace driftd::daemon
