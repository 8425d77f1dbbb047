// SPDX-License-Identifier: MIT
#include "daemon/wire/refusals.hpp"

#include <utility>

namespace driftd::daemon {
namespace {

constexpr std::int64_t kMinuteNs = 60'000'000'000;
/// Further ones are told under one name: whoever has many addresses is one crowd.
constexpr std::size_t kMostPeers = 64;
constexpr const char* kOthers = "further addresses";

}  // namespace

void Refusals::note(const std::string& peer, const std::string& socket, const std::string& why) {
  count_.fetch_add(1, std::memory_order_relaxed);
  const std::int64_t now_ns = clock_();
  const std::scoped_lock lock(mutex_);
  if (peers_.size() >= kMostPeers && !peers_.contains(peer)) forget_old(now_ns);
  const bool known = peers_.contains(peer) || peers_.size() < kMostPeers;
  const std::string& name = known ? peer : kOthers;
  const auto [place, first] = peers_.try_emplace(name);
  Peer& entry = place->second;
  if (!first && now_ns - entry.told_ns < kMinuteNs) {
    ++entry.untold;
    return;
  }
  due_.push_back({name, socket, why, std::exchange(entry.untold, 0)});
  entry.told_ns = now_ns;
}

void Refusals::forget_old(std::int64_t now_ns) {
  std::erase_if(peers_,
                [&](const auto& peer) { return now_ns - peer.second.told_ns >= kMinuteNs; });
}

std::vector<Refused> Refusals::take() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(due_, {});
}

}  // namespace driftd::daemon
