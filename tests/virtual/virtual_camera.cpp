// SPDX-License-Identifier: MIT
#include "tests/virtual/virtual_camera.hpp"

#include <utility>

#include "base/monotonic.hpp"

namespace driftd::virtual_time {
namespace {

/// The loop asks for less only to let the publisher send.
constexpr std::chrono::milliseconds kAsksForFrame{5};

}  // namespace

void VirtualCamera::give(camera::PopStatus status, const camera::Frame& frame) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_ || released_; });
  if (released_) return;
  status_ = status;
  frame_ = frame;
  if (status == camera::PopStatus::Frame) ++counters_.frames;
  given_ = true;
  waiting_ = false;
  changed_.notify_all();
  changed_.wait(lock, [this] { return waiting_ || released_; });
}

camera::PopStatus VirtualCamera::pop(std::chrono::microseconds timeout,
                                     camera::Frame& frame) noexcept {
  if (timeout < kAsksForFrame) return camera::PopStatus::Timeout;
  std::unique_lock lock(mutex_);
  waiting_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return given_ || released_; });
  waiting_ = false;
  if (released_) return camera::PopStatus::Timeout;
  given_ = false;
  frame = frame_;
  return status_;
}

void VirtualCamera::connect() {
  const std::lock_guard lock(mutex_);
  if (info_.connection++ > 0) ++counters_.reconnects;
  counters_.connected = true;
  events_.push_back(
      {camera::SourceEvent::Kind::Connected, monotonic_ns(), "connected to " + info_.description});
}

void VirtualCamera::disconnect(const std::string& why) {
  const std::lock_guard lock(mutex_);
  ++counters_.disconnects;
  counters_.connected = false;
  events_.push_back({camera::SourceEvent::Kind::Disconnected, monotonic_ns(),
                     "lost " + info_.description + ": " + why});
}

void VirtualCamera::count_lost(bool incomplete) {
  const std::lock_guard lock(mutex_);
  ++counters_.lost;
  if (incomplete) ++counters_.incomplete;
}

void VirtualCamera::release() {
  const std::lock_guard lock(mutex_);
  released_ = true;
  changed_.notify_all();
}

bool VirtualCamera::connected() const {
  const std::lock_guard lock(mutex_);
  return counters_.connected;
}

bool VirtualCamera::in_lock() const {
  const std::lock_guard lock(mutex_);
  return in_lock_;
}

bool VirtualCamera::wants_clock() const {
  const std::lock_guard lock(mutex_);
  return wants_clock_;
}

void VirtualCamera::tell_clock(const camera::ClockReading& reading) {
  const std::lock_guard lock(mutex_);
  clock_.add(reading);
}

camera::ClockRate VirtualCamera::clock_rate(bool wanted) noexcept {
  const std::lock_guard lock(mutex_);
  wants_clock_ = wanted;
  if (!wanted) clock_.clear();
  return clock_.rate();
}

void VirtualCamera::set_in_lock(bool in_lock) noexcept {
  const std::lock_guard lock(mutex_);
  in_lock_ = in_lock;
}

void VirtualCamera::set_slowness(double share) noexcept {
  const std::lock_guard lock(mutex_);
  slowness_ = share;
}

double VirtualCamera::slowness() const {
  const std::lock_guard lock(mutex_);
  return slowness_;
}

/// Obeyed at once: the next exposure has it.
std::uint64_t VirtualCamera::order_exposure(const camera::ExposureOrder& order) {
  const std::lock_guard lock(mutex_);
  info_.exposure_us = order.exposure_us.value_or(info_.exposure_us);
  info_.gain_db = order.gain_db.value_or(info_.gain_db);
  return ++info_.exposure_order;
}

camera::SourceCounters VirtualCamera::counters() const noexcept {
  const std::lock_guard lock(mutex_);
  return counters_;
}

camera::SourceInfo VirtualCamera::info() const {
  const std::lock_guard lock(mutex_);
  return info_;
}

std::vector<camera::SourceEvent> VirtualCamera::take_events() {
  const std::lock_guard lock(mutex_);
  return std::exchange(events_, {});
}

}  // namespace driftd::virtual_time
