// SPDX-License-Identifier: MIT
// The daemon's camera in virtual time: the tracking loop's thread waits in pop() until it is given
// something, and who gave it waits until the loop has dealt with that and is back. So one of the
// two runs at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "camera/frame_source.hpp"

namespace driftd::virtual_time {

class VirtualCamera final : public camera::FrameSource {
 public:
  explicit VirtualCamera(camera::SourceInfo info) : info_(std::move(info)) {}

  // The thread that lets time pass calls these.
  /// What pop() returns next; back when the loop waits for more. `frame` is not read otherwise.
  void give(camera::PopStatus status, const camera::Frame& frame = {});
  void connect();
  void disconnect(const std::string& why);
  void count_lost(bool incomplete);
  /// Whoever waits in pop() goes on with Timeout, and nobody waits there any more.
  void release();
  bool connected() const;
  /// The loop wants to know how fast the camera's clock runs.
  bool wants_clock() const;
  void tell_clock(const camera::ClockReading& reading);
  bool in_lock() const;
  double slowness() const;

  void start() override { connect(); }
  void stop() noexcept override { release(); }
  camera::PopStatus pop(std::chrono::microseconds timeout, camera::Frame& frame) noexcept override;
  camera::ClockRate clock_rate(bool wanted) noexcept override;
  void set_in_lock(bool in_lock) noexcept override;
  void set_slowness(double share) noexcept override;
  std::uint64_t order_exposure(const camera::ExposureOrder& order) override;
  camera::SourceCounters counters() const noexcept override;
  camera::SourceInfo info() const override;
  std::vector<camera::SourceEvent> take_events() override;

 private:
  mutable std::mutex mutex_;  ///< of all that follows
  std::condition_variable changed_;
  camera::SourceInfo info_;
  camera::SourceCounters counters_;
  std::vector<camera::SourceEvent> events_;
  camera::PopStatus status_ = camera::PopStatus::Timeout;
  camera::Frame frame_;
  bool waiting_ = false;  ///< the loop, in pop()
  bool given_ = false;    ///< something for it
  bool released_ = false;
  bool in_lock_ = false;
  double slowness_ = 0;
  bool wants_clock_ = false;
  camera::ClockReadings clock_;
};

}  // namespace driftd::virtual_time
