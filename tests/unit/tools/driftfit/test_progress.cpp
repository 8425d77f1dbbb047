// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "tools/driftfit/progress.hpp"

namespace driftd::tools {
namespace {

TEST_CASE("the bar shows share, rate and what is left") {
  CHECK(progress_line(500, 1000, 2) ==
        "[###############...............]  50 %  500/1000 frames, 250/s, 2 s left");
  CHECK_THAT(progress_line(0, 1000, 0), contains("  0 %") && !contains("left"));
  CHECK_THAT(progress_line(0, 0, 0), contains("100 %"));
}

}  // namespace
}  // namespace driftd::tools
