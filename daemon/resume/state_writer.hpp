// SPDX-License-Identifier: MIT
// The thread that writes a saved lock, or another text, to its file, the newest only: a disk may
// take seconds, and nobody waits. What fails is tried again each second until it succeeds or
// something newer is ordered: a disk that is full or dead for a moment must not keep a lock that
// has ended. Owned by LockSaver or StageMemory, whose thread (housekeeping) makes all calls. The
// destructor still tries once what was ordered last.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>

#include "daemon/resume/saved_lock.hpp"

namespace driftd::daemon {

class StateWriter {
 public:
  /// @param patience  a disk that has not answered for so long is a problem
  explicit StateWriter(std::filesystem::path file,
                       std::chrono::milliseconds patience = std::chrono::seconds(10));
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  /// In place of what has not been written yet.
  void write(SavedLock lock);
  void write(std::string text);
  void remove();
  /// What hindered the last write or removal, which may still go on; "" where it went well, or none
  /// was asked for yet.
  std::string problem();
  /// What was ordered last was not tried yet, or is being tried.
  bool is_busy();
  const std::filesystem::path& file() const noexcept { return file_; }

 private:
  struct Removal {};
  using Order = std::variant<Removal, SavedLock, std::string>;

  void order(Order order);
  void run(const std::stop_token& stop);
  std::string carry_out(const Order& order) const;

  std::filesystem::path file_;
  std::chrono::milliseconds patience_;
  std::mutex mutex_;  // for what follows
  std::condition_variable_any changed_;
  std::optional<Order> order_;
  std::optional<std::chrono::steady_clock::time_point> begun_;  ///< to be carried out
  std::string problem_;
  std::jthread thread_;  // last: it uses what is above, and ends first
};

}  // namespace driftd::daemon
