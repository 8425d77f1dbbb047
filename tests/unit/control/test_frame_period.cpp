// SPDX-License-Identifier: MIT
#include "control/values/frame_period.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kStartNs = 7'000'000'000;

std::int64_t frames(FramePeriod& period, std::int64_t from_ns, int count, std::int64_t every_ns) {
  for (int i = 0; i < count; ++i) period.arrived(from_ns += every_ns);
  return from_ns;
}

TEST_CASE("a period that nobody configured is measured from two frames on") {
  for (const std::int64_t every_ns : {kMs / 2, 2 * kMs, 200 * kMs, 3000 * kMs}) {
    FramePeriod period;
    CHECK(period.ns() == 0);
    CHECK(period.timeout_ns(100 * kMs, 3) == 100 * kMs);
    period.arrived(kStartNs);
    CHECK(period.ns() == 0);
    frames(period, kStartNs, 20, every_ns);
    CHECK(period.ns() == Approx(static_cast<double>(every_ns)));
  }
}

TEST_CASE("a configured period holds until it is measured otherwise, slower or faster") {
  FramePeriod period(2 * kMs);
  CHECK(period.ns() == 2e6);
  std::int64_t now_ns = frames(period, kStartNs, 3, 200 * kMs);  // two intervals: may be gaps
  CHECK(period.ns() == 2e6);
  now_ns = frames(period, now_ns, 2, 200 * kMs);
  CHECK(period.ns() == Approx(200e6));
  frames(period, now_ns, 1000, 5 * kMs);
  CHECK(period.ns() == Approx(5e6).epsilon(0.01));
}

TEST_CASE("lost frames and a camera away say nothing about the period") {
  FramePeriod period;
  std::int64_t now_ns = frames(period, kStartNs, 200, 2 * kMs);
  for (int i = 0; i < 50; ++i) {
    period.arrived(now_ns += 9 * kMs);
    now_ns = frames(period, now_ns, 3, 2 * kMs);
  }
  CHECK(period.ns() == Approx(2e6));
  period.restart();
  now_ns += 40'000 * kMs;
  frames(period, now_ns, 5, 2 * kMs);
  CHECK(period.ns() == Approx(2e6));
}

TEST_CASE("a time not after the one before is no interval") {
  FramePeriod period;
  std::int64_t now_ns = frames(period, kStartNs, 10, 4 * kMs);
  period.arrived(now_ns);
  period.arrived(now_ns - 100 * kMs);
  period.arrived(now_ns - 96 * kMs);
  CHECK(period.ns() == Approx(4e6));
}

TEST_CASE("a time-out is what was asked, or so many periods where that is longer") {
  FramePeriod period;
  frames(period, kStartNs, 10, 200 * kMs);
  CHECK(period.timeout_ns(100 * kMs, 3) == 600 * kMs);
  CHECK(period.timeout_ns(700 * kMs, 3) == 700 * kMs);
}

}  // namespace
}  // namespace driftd::control
