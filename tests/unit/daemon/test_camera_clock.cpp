// SPDX-License-Identifier: MIT
#include "daemon/camera_clock.hpp"
#include "support/catch.hpp"

using driftd::daemon::CameraClock;

namespace {
constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kZero = 123'456'789'000;  // the clocks' unknown difference
}  // namespace

TEST_CASE("CameraClock measures the delay beyond the fastest frame's") {
  CameraClock clock;
  REQUIRE(clock.delay_ns(10 * kMillisecond, kZero + 10 * kMillisecond) == 0);
  REQUIRE(clock.delay_ns(12 * kMillisecond, kZero + 15 * kMillisecond) ==
          Approx(3.0 * kMillisecond).epsilon(0.01));
  REQUIRE(clock.delay_ns(14 * kMillisecond, kZero + 13 * kMillisecond) == 0);  // faster than ever
}

TEST_CASE("CameraClock follows a camera clock that runs fast or slow by 100 ppm") {
  for (const double ppm : {-100.0, 100.0}) {
    CameraClock clock;
    std::int64_t worst = 0;
    for (std::int64_t t = 1; t <= 600'000; ++t) {  // ten minutes at 1000 frames/s
      const auto camera =
          static_cast<std::int64_t>(static_cast<double>(t * kMillisecond) * (1 + ppm * 1e-6));
      worst = std::max(worst, clock.delay_ns(camera, kZero + t * kMillisecond));
    }
    REQUIRE(worst < 1000);  // 1 us of error where the clocks are 60 ms apart at the end
  }
}

TEST_CASE("CameraClock does not get used to a backlog") {
  CameraClock clock;
  clock.delay_ns(kMillisecond, kZero + kMillisecond);
  std::int64_t delay = 0;
  for (std::int64_t t = 2; t <= 60'000; ++t) {  // a minute at 1000 frames/s, all 1 s late
    delay = clock.delay_ns(t * kMillisecond, kZero + (t + 1000) * kMillisecond);
  }
  REQUIRE(delay > 980 * kMillisecond);
}

TEST_CASE(
    "CameraClock starts anew with a camera that was restarted, and knows none without a clock") {
  CameraClock clock;
  clock.delay_ns(1000 * kMillisecond, kZero);
  clock.restart();
  REQUIRE(clock.delay_ns(kMillisecond, kZero + 5 * kMillisecond) == 0);
  REQUIRE(clock.delay_ns(0, kZero + 500 * kMillisecond) == 0);
}
