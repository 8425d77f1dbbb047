// SPDX-License-Identifier: MIT
// Reaper: closes lost connections on a thread of its own, because that blocks for seconds when the
// camera is silent. Owned by a source; its supervisor hands connections over.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "camera/aravis/connection.hpp"

namespace driftd::camera::aravis {

class Reaper {
 public:
  /// @param in_use  whether the tracking loop may still read a connection's frames
  explicit Reaper(std::function<bool(const Connection*)> in_use);
  /// Closes what is left; the tracking loop must use no connection any more.
  ~Reaper();
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  void take(std::unique_ptr<Connection> connection, bool camera_is_there);
  /// Waits until everything taken is closed (its frames may still be in use). False: timed out.
  bool wait_until_closed(std::chrono::milliseconds timeout);

 private:
  struct Lost {
    std::unique_ptr<Connection> connection;
    bool camera_is_there = false;
  };

  void run();

  const std::function<bool(const Connection*)> in_use_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Lost> to_close_;
  bool closing_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace driftd::camera::aravis
