// SPDX-License-Identifier: MIT
// Events: each goes out on the wire and into the log, at most a few a second of each code, with the
// number left out said in the next one. Housekeeping thread.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace driftd::daemon {

class Publisher;

class EventLog {
 public:
  enum class Level : std::uint8_t { Info, Warning, Error };

  explicit EventLog(Publisher& publisher) : publisher_(publisher) {}
  /// @param fields  what the event's code adds to the message
  void raise(Level level, const std::string& code, const std::string& text,
             const nlohmann::json& fields = nlohmann::json::object());

 private:
  struct Budget {
    std::int64_t second = 0;
    int used = 0;
    std::uint64_t left_out = 0;
  };
  Publisher& publisher_;
  std::map<std::string, Budget> budgets_;
};

/// An object's text without its braces, as TextMessage wants it.
std::string fields_of(const nlohmann::json& object);

}  // namespace driftd::daemon
