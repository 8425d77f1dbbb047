// SPDX-License-Identifier: MIT
#include "base/counted.hpp"

#include <cstdint>

#include "support/catch.hpp"

namespace driftd {
namespace {

TEST_CASE("one thing is told in the singular") {
  CHECK(counted(1, "frame") == "1 frame");
  CHECK(counted(std::size_t{0}, "frame") == "0 frames");
  CHECK(counted(std::int64_t{2}, "frame") == "2 frames");
  CHECK(counted(1, "frame is", "frames are") == "1 frame is");
  CHECK(counted(std::uint64_t{3}, "frame is", "frames are") == "3 frames are");
}

}  // namespace
}  // namespace driftd
