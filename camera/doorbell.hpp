// SPDX-License-Identifier: MIT
// Doorbell: wakes one waiting thread; rings while nobody waits are merged into one. Owned by a
// source: its stream and supervisor threads ring, the tracking loop waits. It never allocates,
// spins or takes a lock of ours (it is a Linux eventfd).
#pragma once

#include <cstdint>

namespace driftd::camera {

class Doorbell {
 public:
  /// @throws CameraError when the process is out of file descriptors
  Doorbell();
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  void ring() const noexcept;
  /// Waits for a ring since the last return with true. False: the deadline (CLOCK_MONOTONIC)
  /// passed.
  bool wait_until(std::int64_t deadline_ns) const noexcept;

 private:
  int fd_;
};

}  // namespace driftd::camera
