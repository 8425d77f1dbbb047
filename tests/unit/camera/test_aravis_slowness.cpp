// SPDX-License-Identifier: MIT
// Frames that are asked to come a little later, on the simulated GigE Vision camera.
#include <algorithm>
#include <vector>

#include "support/catch.hpp"
#include "support/uniform_camera.hpp"

using driftd::kNanosecondsPerSecond;
using driftd::monotonic_ns;
using namespace driftd::camera;
using namespace driftd::test;
using namespace std::chrono_literals;

namespace {

/// From frame to frame by the camera's clock, the median of twenty.
double spacing_us(FrameSource& source) {
  Frame frame;
  REQUIRE(pop_until(source, PopStatus::Frame, frame));
  std::vector<double> list;
  while (list.size() < 20) {
    const Frame before = frame;
    REQUIRE(pop_until(source, PopStatus::Frame, frame));
    if (frame.id > before.id)
      list.push_back(1e-3 * static_cast<double>(frame.camera_time_ns - before.camera_time_ns) /
                     static_cast<double>(frame.id - before.id));
  }
  std::nth_element(list.begin(), list.begin() + 10, list.end());
  return list[10];
}

bool comes_to(FrameSource& source, double wanted_us) {
  const std::int64_t end_ns = monotonic_ns() + 20 * kNanosecondsPerSecond;
  double us = 0;
  while (std::abs(us - wanted_us) > 2 && monotonic_ns() < end_ns) us = spacing_us(source);
  INFO(us);
  CHECK(us == Approx(wanted_us).margin(2));
  return std::abs(us - wanted_us) <= 2;
}

}  // namespace

TEST_CASE("frames come later while that is asked for, and not after the camera was away") {
  Simulator simulator("127.0.49.5");
  const AravisSettings settings = settings_for("127.0.49.5");
  const auto source = make_aravis_source(settings);
  source->start();
  CHECK(source->info().rate_can_change);
  REQUIRE(comes_to(*source, 5000));
  source->set_slowness(0.02);
  REQUIRE(comes_to(*source, 5100));
  CHECK(source->info().frame_rate_hz == Approx(200));
  source->set_slowness(0);
  REQUIRE(comes_to(*source, 5000));
  source->set_slowness(0.02);
  REQUIRE(comes_to(*source, 5100));
  Frame frame;
  simulator.frames.away = true;
  REQUIRE(pop_until(*source, PopStatus::Disconnected, frame));
  source->set_slowness(0);
  simulator.frames.away = false;
  REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  CHECK(comes_to(*source, 5000));
}

TEST_CASE("a camera without a frame rate of ours is left as it is") {
  Simulator simulator("127.0.49.6");
  AravisSettings settings = settings_for("127.0.49.6");
  settings.trigger = Trigger::Software;
  const auto source = make_aravis_source(settings);
  source->start();
  CHECK_FALSE(source->info().rate_can_change);
}
