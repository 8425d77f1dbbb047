// SPDX-License-Identifier: MIT
// Tells a change that lasts from a flicker. One thread.
#pragma once

#include <cstdint>

namespace driftd::daemon {

template <typename T>
class Debounced {
 public:
  explicit Debounced(T value) : told_(value), seen_(value) {}

  /// True once for each other value that has been seen without interruption for `settle_ns`.
  bool update(T value, std::int64_t now_ns, std::int64_t settle_ns) {
    if (value != seen_) {
      seen_ = value;
      since_ns_ = now_ns;
    }
    if (seen_ == told_ || now_ns - since_ns_ < settle_ns) return false;
    told_ = seen_;
    return true;
  }

 private:
  T told_, seen_;
  std::int64_t since_ns_ = 0;
};

}  // namespace driftd::daemon
