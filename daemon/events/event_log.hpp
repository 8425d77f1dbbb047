// SPDX-License-Identifier: MIT
// Events: each goes out on the wire and into the log. Where a source does not bound events of its
// code, at most kMostPerSecond of them go at once in a second. The last of the others goes when the
// second is over, and says how many before it were left out. Housekeeping thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/monotonic.hpp"
#include "daemon/wire/text_message.hpp"

namespace driftd::daemon {

class EventLog {
 public:
  enum class Level : std::uint8_t { Info, Warning, Error };

  static constexpr int kMostPerSecond = 10;

  /// @param send  publishes a message; false when it was not taken
  explicit EventLog(SendText send, Clock clock = monotonic_ns)
      : send_(std::move(send)), clock_(clock) {}
  /// Who else is given each event, in the order told. Before the first.
  void hear(std::function<void(const nlohmann::json&)> listener) {
    listeners_.push_back(std::move(listener));
  }
  /// @param fields  what the event's code adds to the message
  void raise(Level level, const std::string& code, const std::string& text,
             const nlohmann::json& fields = nlohmann::json::object());
  /// Tells what had to wait, of seconds that are over.
  void turn();

 private:
  struct Event {
    Level level;
    nlohmann::json message;
  };
  struct Budget {
    std::int64_t second = 0;
    int used = 0;
    std::optional<Event> waiting;  ///< the last one, to be told when the second is over
    std::uint64_t left_out = 0;    ///< before that
  };
  void tell_waiting(Budget& budget);
  void tell(const Event& event);

  SendText send_;
  Clock clock_;
  std::map<std::string, Budget> budgets_;
  std::vector<std::function<void(const nlohmann::json&)>> listeners_;
};

/// An object's text without its braces, as TextMessage wants it.
std::string fields_of(const nlohmann::json& object);

}  // namespace driftd::daemon
