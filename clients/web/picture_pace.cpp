// SPDX-License-Identifier: MIT
#include "clients/web/picture_pace.hpp"

#include <algorithm>

namespace driftd::web {

void PicturePace::took(std::size_t bytes, std::int64_t took_ns, std::int64_t now_ns) noexcept {
  constexpr int kQuick = 3, kHeld = 100;
  const std::int64_t for_bytes_ns = took_ns - way_ns_;
  if (for_bytes_ns > kLongNs) {
    const std::size_t down = for_bytes_ns > 4 * kLongNs ? 2 : 1;
    level_ -= std::min(level_, down);
    quick_ = held_ = 0;
    larger_from_ns_ = now_ns + patience_ns_;
    patience_ns_ = std::min(2 * patience_ns_, kMostPatienceNs);
    return;
  }
  if (++held_ >= kHeld) patience_ns_ = kLeastPatienceNs;
  // A small picture, of a small part, says nothing of larger ones.
  if (for_bytes_ns > kShortNs || 2 * bytes < kSizes[level_])
    quick_ = 0;
  else
    ++quick_;
  if (quick_ < kQuick || level_ + 1 == kSizes.size() || now_ns < larger_from_ns_) return;
  ++level_;
  quick_ = held_ = 0;
}

}  // namespace driftd::web
