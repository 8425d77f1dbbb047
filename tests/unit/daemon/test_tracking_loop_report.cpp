// SPDX-License-Identifier: MIT
#include "unit/daemon/tracking_bench.hpp"

using namespace driftd;
using namespace driftd::daemon;
using driftd::daemon::test::Bench;

namespace {

LoopReport report_after(int young, int late) {
  Bench bench;
  bench.frames(young);
  bench.frames(late, {.late_ns = 200'000'000});  // beyond lock.max_frame_age_ms
  return bench.run();
}

}  // namespace

TEST_CASE("the report tells the arrival of the newest frame and of the newest that was used") {
  const LoopReport none = report_after(0, 0);
  CHECK(none.frame_ns == 0);
  CHECK(none.tracked_ns == 0);
  const LoopReport young = report_after(7, 0);
  CHECK(young.frame_ns > 0);
  CHECK(young.tracked_ns == young.frame_ns);
  const LoopReport late = report_after(7, 3);
  CHECK(late.stale == 3);
  CHECK(late.tracked_ns == young.tracked_ns);
  CHECK(late.frame_ns == late.tracked_ns + 3 * 2'000'000 - 200'000'000);
}

TEST_CASE("an observer is wished for, also of what a configuration has by default") {
  for (const double delay_us : {0.0, 2500.0}) {
    Bench bench;
    bench.config.camera.frame_rate_hz = 500;  // else the first wish is of no rate, and differs
    bench.config.stage.delay_us = delay_us;
    bench.config.stage.time_constant_us = 0;
    bench.config.control.rate_limit_nm_per_s = 2000;  // 4 nm of 2 ms
    bench.frames(20);
    bench.run();
    REQUIRE(bench.ports.observer.wish.refresh());
    const control::ObserverSettings& wish = bench.ports.observer.wish.reading();
    CHECK(wish.period_s == Approx(0.002));
    CHECK(wish.stage.delay_us == delay_us);
    CHECK(wish.change_limit_nm == Approx(4));
  }
}
