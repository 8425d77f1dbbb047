// SPDX-License-Identifier: MIT
#include "camera/aravis/reaper.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace driftd::camera::aravis {
namespace {

/// How often to look whether the loop has let go of a closed connection's frames. It does so at its
/// next pop(), so all that waits for it is memory.
constexpr std::chrono::milliseconds kLookInterval{50};

}  // namespace

Reaper::Reaper(std::function<bool(const Connection*)> in_use)
    : in_use_(std::move(in_use)), thread_([this] { run(); }) {}

Reaper::~Reaper() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Reaper::take(std::unique_ptr<Connection> connection, bool camera_is_there) {
  {
    const std::lock_guard lock(mutex_);
    to_close_.push_back({std::move(connection), camera_is_there});
  }
  changed_.notify_all();
}

bool Reaper::wait_until_closed(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [this] { return to_close_.empty() && !closing_; });
}

void Reaper::run() {
  std::vector<std::unique_ptr<Connection>> closed;
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto woken = [this] { return stopping_ || !to_close_.empty(); };
    if (closed.empty()) {
      changed_.wait(lock, woken);
    } else {
      changed_.wait_for(lock, kLookInterval, woken);
    }
    std::vector<Lost> lost = std::exchange(to_close_, {});
    if (lost.empty() && stopping_) return;
    closing_ = !lost.empty();
    lock.unlock();
    for (Lost& item : lost) {
      item.connection->close(item.camera_is_there);
      closed.push_back(std::move(item.connection));
    }
    std::erase_if(closed, [this](const auto& connection) { return !in_use_(connection.get()); });
    lock.lock();
    closing_ = false;
    changed_.notify_all();
  }
}

}  // namespace driftd::camera::aravis
