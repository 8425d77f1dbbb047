// SPDX-License-Identifier: MIT
// How large pictures a link takes: so large that each is over in half a second, and what else is
// told does not wait for long. From how long each took. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace driftd::web {

class PicturePace {
 public:
  /// Bytes of a picture's pixels: each has a quarter of the next one's.
  static constexpr std::array<std::size_t, 4> kSizes = {8'192, 32'768, 131'072, 524'288};
  static constexpr std::int64_t kLongNs = 500'000'000, kShortNs = 100'000'000;
  /// Until a larger one is tried again after it took too long; twice as long each time.
  static constexpr std::int64_t kLeastPatienceNs = 5'000'000'000, kMostPatienceNs = 160'000'000'000;

  std::size_t most_bytes() const noexcept { return kSizes[level_]; }
  /// So long next to nothing takes, there and back.
  void set_way_ns(std::int64_t way_ns) noexcept { way_ns_ = way_ns; }
  /// A picture of so many bytes was there, and was said to be, after so long.
  void took(std::size_t bytes, std::int64_t took_ns, std::int64_t now_ns) noexcept;

 private:
  std::size_t level_ = 1;
  int quick_ = 0, held_ = 0;  ///< pictures in a row
  std::int64_t way_ns_ = 0, patience_ns_ = kLeastPatienceNs, larger_from_ns_ = 0;
};

}  // namespace driftd::web
