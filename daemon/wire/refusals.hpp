// SPDX-License-Identifier: MIT
// Peers that were refused: all are counted, and of each at most one a minute is told, with how many
// there were meanwhile, so that nobody fills the log by being refused. Any thread; a lock guards
// it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/monotonic.hpp"

namespace driftd::daemon {

struct Refused {
  std::string peer;    ///< "192.168.1.7", "user 1000", or a client's name
  std::string socket;  ///< "wire.commands"
  std::string why;
  std::uint64_t untold = 0;  ///< of this peer, since the one that was told before
};

class Refusals {
 public:
  explicit Refusals(Clock clock = monotonic_ns) : clock_(clock) {}

  void note(const std::string& peer, const std::string& socket, const std::string& why);
  /// What is to be told now.
  std::vector<Refused> take();
  std::uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }

 private:
  struct Peer {
    std::int64_t told_ns = 0;
    std::uint64_t untold = 0;
  };
  void forget_old(std::int64_t now_ns);

  Clock clock_;
  std::atomic<std::uint64_t> count_{0};
  std::mutex mutex_;
  std::map<std::string, Peer> peers_;
  std::vector<Refused> due_;
};

}  // namespace driftd::daemon
