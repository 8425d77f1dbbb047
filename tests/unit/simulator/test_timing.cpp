// SPDX-License-Identifier: MIT
// The camera's clock and its delivery beyond an exact rate, and that a world which asks for nothing
// of the kind is the world of before.
#include <cmath>
#include <vector>

#include "simulator/simulation.hpp"
#include "support/catch.hpp"
#include "support/source_dir.hpp"
#include "unit/simulator/statistics.hpp"

using namespace driftd::simulator;
using driftd::test::Moments;

namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;

/// FNV-1a over whole numbers.
class Checksum {
 public:
  void add(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) sum_ = (sum_ ^ ((value >> (8 * i)) & 0xff)) * 1099511628211ULL;
  }
  std::uint64_t sum() const { return sum_; }

 private:
  std::uint64_t sum_ = 14695981039346656037ULL;
};

}  // namespace

TEST_CASE("The demo's world is bit for bit what it was before the harsh models came") {
  // Both sums were made by the simulator of commit 65ac8ba, which has none of them.
  Simulation simulation(
      load_scenario(driftd::test::source_dir() / "config/examples/scenario-demo.yaml"));
  SensorSettings settings;
  settings.offset_x_px = 64;
  settings.offset_y_px = 32;
  settings.width_px = 128;
  settings.height_px = 96;
  settings.exposure_us = 1000;
  std::vector<std::uint16_t> levels(settings.pixels());
  Checksum pixels, motion;
  for (int i = 0; i < 40; ++i) {
    const std::int64_t time_ns = i * kSecondNs / 500;
    simulation.command_stage(time_ns, {3.0 * i, -40.0 - i});
    const Truth truth = simulation.expose(time_ns, settings, levels.data());
    for (const std::uint16_t level : levels) pixels.add(level);
    for (const double nm :
         {truth.sample_nm.x, truth.sample_nm.y, truth.stage_nm.x, truth.stage_nm.y}) {
      motion.add(static_cast<std::uint64_t>(std::llround(nm * 1e6)));
    }
    CHECK(simulation.clock_error_ns(time_ns) == 0);
    CHECK(simulation.take_frame_time_error_ns() == 0);
    CHECK(simulation.next_delivery_delay_ns() == 0);
  }
  CHECK(pixels.sum() == 0xc27f400fa8d66618ULL);
  CHECK(motion.sum() == 0xb3eb57f6d39493f8ULL);
}

TEST_CASE("Each frame's time has the clock's jitter") {
  Scenario scenario;
  scenario.camera.clock_jitter_us = 12;
  Simulation simulation(scenario);
  Moments errors_us;
  for (int i = 0; i < 4000; ++i) {
    errors_us.add(static_cast<double>(simulation.take_frame_time_error_ns()) * 1e-3);
  }
  CHECK(std::abs(errors_us.mean()) < 4 * errors_us.standard_error());
  CHECK(std::sqrt(errors_us.variance()) == Approx(12).epsilon(4 / std::sqrt(2 * 4000.0)));
  simulation.inject({.kind = FaultKind::ClockJump, .shift_s = 0.5});
  CHECK(std::abs(simulation.take_frame_time_error_ns() - kSecondNs / 2) < 100'000);
}

TEST_CASE("The clock is set again and again, by steps of its size at its mean interval") {
  Scenario scenario;
  scenario.camera.clock_step_us = 300;
  scenario.camera.clock_step_every_s = 0.05;
  scenario.camera.clock_rate = 1.0001;
  Simulation simulation(scenario);
  Moments steps_us;
  std::int64_t before_ns = 0;
  constexpr int kTicks = 400'000;  // 40 s
  for (std::int64_t tick = 1; tick <= kTicks; ++tick) {
    simulation.advance(tick * kTickNs);
    const std::int64_t error_ns = *simulation.clock_error_ns(0);  // without the rate's part
    if (error_ns != before_ns) steps_us.add(static_cast<double>(error_ns - before_ns) * 1e-3);
    before_ns = error_ns;
  }
  CHECK(steps_us.count() == Approx(800).margin(4 * std::sqrt(800)));
  CHECK(std::sqrt(steps_us.variance()) == Approx(300).epsilon(0.12));
  CHECK(std::abs(steps_us.mean()) < 4 * steps_us.standard_error());
}

TEST_CASE("Frames wait an exponentially distributed time for delivery") {
  Scenario scenario;
  scenario.camera.delivery_jitter_us = 250;
  Simulation simulation(scenario);
  Moments delays_us;
  for (int i = 0; i < 10000; ++i) {
    delays_us.add(static_cast<double>(simulation.next_delivery_delay_ns()) * 1e-3);
  }
  CHECK(delays_us.mean() == Approx(250).epsilon(0.04));
  CHECK(std::sqrt(delays_us.variance()) == Approx(250).epsilon(0.08));
}
