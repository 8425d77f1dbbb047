// SPDX-License-Identifier: MIT
// The thread that writes a saved lock to its file, the newest only: a disk may take seconds, and
// nobody waits. Owned by the lock's memory, whose thread (housekeeping) makes all calls; what was
// ordered last is still written when it is destroyed.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>

#include "daemon/saved_lock.hpp"

namespace driftd::daemon {

class StateWriter {
 public:
  explicit StateWriter(std::filesystem::path file);
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  /// In place of what has not been written yet.
  void write(SavedLock lock);
  void remove();
  /// Of the last that was written or removed; "" where that went well, or nothing was yet.
  std::string problem();
  const std::filesystem::path& file() const noexcept { return file_; }

 private:
  struct Removal {};
  using Order = std::variant<Removal, SavedLock>;

  void order(Order order);
  void run(const std::stop_token& stop);
  std::string carry_out(const Order& order) const;

  std::filesystem::path file_;
  std::mutex mutex_;  // for what follows
  std::condition_variable_any changed_;
  std::optional<Order> order_;
  std::string problem_;
  std::jthread thread_;  // last: it uses what is above, and ends first
};

}  // namespace driftd::daemon
