// SPDX-License-Identifier: MIT
// The camera's output that tells of the lock, on the simulated GigE Vision camera.
#include <string>
#include <thread>

#include "support/catch.hpp"
#include "support/uniform_camera.hpp"

using driftd::kNanosecondsPerSecond;
using driftd::monotonic_ns;
using namespace driftd::camera;
using namespace driftd::test;
using namespace std::chrono_literals;

TEST_CASE("a line of the camera is high while images may be taken, and low when the source stops") {
  Simulator simulator("127.0.49.1");
  AravisSettings settings = settings_for("127.0.49.1");
  settings.in_lock_line = "Line1";
  Frame frame;
  const auto is_soon = [&](FrameSource& source, bool high) {
    const std::int64_t end_ns = monotonic_ns() + 10 * kNanosecondsPerSecond;
    while (simulator.frames.line1_high != high && monotonic_ns() < end_ns) source.pop(10ms, frame);
    return simulator.frames.line1_high == high;
  };
  {
    const auto source = make_aravis_source(settings);
    source->start();
    CHECK(note_of(source->info(), "in_lock_line").text.empty());
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK_FALSE(simulator.frames.line1_high);  // which others had left inverted
    for (int i = 0; i < 3; ++i) {
      source->set_in_lock(true);
      CHECK(is_soon(*source, true));
      source->set_in_lock(false);
      CHECK(is_soon(*source, false));
    }
    source->set_in_lock(true);
    CHECK(is_soon(*source, true));
    simulator.frames.away = true;  // its line stays, and it comes back with another setting
    REQUIRE(pop_until(*source, PopStatus::Disconnected, frame));
    source->set_in_lock(false);
    simulator.frames.away = false;
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK(is_soon(*source, false));
    source->set_in_lock(true);
    CHECK(is_soon(*source, true));
  }
  settings.in_lock_line = "";
  const auto source = make_aravis_source(settings);
  source->start();
  REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  CHECK_FALSE(simulator.frames.line1_high);  // the one before took it down
  source->set_in_lock(true);                 // nobody asked for a line
  for (int i = 0; i < 20; ++i) REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  CHECK_FALSE(simulator.frames.line1_high);
}

TEST_CASE(
    "a line that the camera does not have, or that is an input, is said and costs nothing else") {
  Simulator simulator("127.0.49.2");
  AravisSettings settings = settings_for("127.0.49.2");
  Frame frame;
  struct Wrong {
    std::string line, says;
  };
  for (const Wrong& wrong :
       {Wrong{"Line7", "the camera has no line Line7; its lines are Line0, Line1"},
        Wrong{"Line0", "Line0 cannot be an output"}}) {
    settings.in_lock_line = wrong.line;
    const auto source = make_aravis_source(settings);
    source->start();
    const CameraNote note = note_of(source->info(), "in_lock_line");
    CHECK_THAT(note.text, contains(wrong.says));
    CHECK(note.severity == CameraNote::Severity::Warning);
    source->set_in_lock(true);
    for (int i = 0; i < 20; ++i) REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK_FALSE(simulator.frames.line1_high);
    CHECK(source->take_events().size() == 1);  // connected
  }
}

TEST_CASE("a camera that is gone is not waited for to set its line") {
  Simulator simulator("127.0.49.3");
  AravisSettings settings = settings_for("127.0.49.3");
  settings.in_lock_line = "Line1";
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  source->set_in_lock(true);
  for (int i = 0; i < 40; ++i) REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  REQUIRE(simulator.frames.line1_high);
  simulator.frames.away = true;
  const std::int64_t away_ns = monotonic_ns();
  std::this_thread::sleep_for(200ms);
  source->set_in_lock(false);  // as the loop does when frames fail to come
  REQUIRE(pop_until(*source, PopStatus::Disconnected, frame));
  CHECK(monotonic_ns() - away_ns < 2'400'000'000);  // Aravis waits for 2.5 s
  simulator.frames.away = false;
  REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  for (int i = 0; i < 10; ++i) REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  CHECK_FALSE(simulator.frames.line1_high);
}
