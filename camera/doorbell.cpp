// SPDX-License-Identifier: MIT
#include "camera/doorbell.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "base/monotonic.hpp"
#include "camera/frame_source.hpp"

namespace driftd::camera {

Doorbell::Doorbell() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) throw CameraError("cannot make an eventfd: too many open files");
}

Doorbell::~Doorbell() {
  close(fd_);
}

void Doorbell::ring() const noexcept {
  const std::uint64_t one = 1;
  // Fails only when 2^64 - 1 rings wait, and then the bell is rung already.
  [[maybe_unused]] const auto written = write(fd_, &one, sizeof(one));
}

bool Doorbell::wait_until(std::int64_t deadline_ns) const noexcept {
  for (;;) {
    const std::int64_t left_ns = std::max<std::int64_t>(deadline_ns - monotonic_ns(), 0);
    const timespec timeout = to_timespec(left_ns);
    pollfd poll_fd{.fd = fd_, .events = POLLIN, .revents = 0};
    const int ready = ppoll(&poll_fd, 1, &timeout, nullptr);
    if (ready > 0) {
      std::uint64_t rings = 0;
      if (read(fd_, &rings, sizeof(rings)) > 0) return true;
    }
    if (ready == 0 || left_ns == 0) return false;  // otherwise a signal came: wait for the rest
  }
}

}  // namespace driftd::camera
