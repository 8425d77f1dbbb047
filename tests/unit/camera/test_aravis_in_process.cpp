// SPDX-License-Identifier: MIT
// The Aravis source on "Fake_1", Aravis' camera without a network, and the checks that need no
// camera at all.
#include <arv.h>

#include <cmath>
#include <fstream>
#include <string>
#include <thread>

#include "base/monotonic.hpp"
#include "camera/aravis/clock_watch.hpp"
#include "camera/aravis/network.hpp"
#include "camera/sources.hpp"
#include "support/catch.hpp"
#include "support/fake_camera.hpp"

using namespace driftd::camera;
using namespace driftd::test;
using namespace std::chrono_literals;

namespace {

std::uint64_t sum(const SourceCounters& counters) {
  return counters.frames + counters.superseded + counters.lost;
}

}  // namespace

TEST_CASE("frames of the in-process camera come in order and are all accounted for") {
  AravisSettings settings = fake_settings();
  int stream_threads = 0;
  settings.on_stream_thread_start = [&stream_threads] { ++stream_threads; };
  const auto source = make_aravis_source(settings);
  source->start();
  CHECK(source->info().description == "Aravis Fake 1 at Fake_1");
  CHECK(source->info().connection == 1);
  Frame frame;
  std::uint64_t first_id = 0;
  std::uint64_t last_id = 0;
  for (int i = 0; i < 50; ++i) {
    REQUIRE(source->pop(10s, frame) == PopStatus::Frame);
    CHECK((i == 0 || frame.id > last_id));
    if (i == 0) first_id = frame.id;
    last_id = frame.id;
    CHECK(frame.width_px == 128);
    CHECK(frame.height_px == 64);
    CHECK(frame.arrival_ns > 0);
  }
  source->stop();
  const SourceCounters counters = source->counters();
  CHECK(counters.frames == 50);
  CHECK(counters.incomplete == 0);
  // Frames after the last one popped may have been superseded or not: at least those in between.
  CHECK(last_id - first_id + 1 <= counters.frames + counters.superseded + counters.lost);
  CHECK(stream_threads == 1);
  CHECK_FALSE(counters.connected);
  CHECK(source->pop(0us, frame) == PopStatus::Disconnected);
}

TEST_CASE("a nudge ends one wait for a frame, and loses none") {
  AravisSettings settings = fake_settings();
  settings.frame_rate_hz = 1;  // none is due meanwhile
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  REQUIRE(source->pop(10s, frame) == PopStatus::Frame);
  const std::uint64_t first = frame.id;
  source->nudge();  // before the wait
  CHECK(source->pop(10s, frame) == PopStatus::Timeout);
  std::thread later([&] {
    std::this_thread::sleep_for(20ms);
    source->nudge();
  });
  CHECK(source->pop(10s, frame) == PopStatus::Timeout);  // while it waits
  later.join();
  REQUIRE(source->pop(10s, frame) == PopStatus::Frame);
  CHECK(frame.id == first + 1);
  source->nudge();
  std::this_thread::sleep_for(1200ms);
  CHECK(source->pop(10s, frame) == PopStatus::Frame);  // it is there, and nothing to wait for
  source->stop();
}

TEST_CASE("a rest tells whether a frame waits, and takes neither that nor a nudge") {
  AravisSettings settings = fake_settings();
  settings.frame_rate_hz = 1;  // none is due meanwhile
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  REQUIRE(source->pop(10s, frame) == PopStatus::Frame);
  const std::uint64_t first = frame.id;
  CHECK_FALSE(source->rest(0us));
  source->nudge();
  CHECK_FALSE(source->rest(10s));  // ends at once
  CHECK(source->pop(10s, frame) == PopStatus::Timeout);
  CHECK(source->rest(10s));
  CHECK(source->rest(0us));
  REQUIRE(source->pop(0us, frame) == PopStatus::Frame);
  CHECK(frame.id == first + 1);
  CHECK_FALSE(source->rest(0us));
  source->stop();
}

TEST_CASE("no frame is counted twice") {
  const auto source = make_aravis_source(fake_settings());
  source->start();
  Frame frame;
  REQUIRE(source->pop(10s, frame) == PopStatus::Frame);
  const std::uint64_t first_id = frame.id;
  const std::uint64_t before = sum(source->counters());
  for (int i = 0; i < 50; ++i) REQUIRE(source->pop(10s, frame) == PopStatus::Frame);
  const std::uint64_t after = sum(source->counters());
  REQUIRE(source->pop(10s, frame) == PopStatus::Frame);  // newer than all that is counted
  CHECK(after - before >= 50);
  CHECK(after - before <= frame.id - first_id);
}

TEST_CASE("of more events than are kept the newest stay") {
  AravisSettings settings = fake_settings();
  settings.id = "Basler-21876543";  // there is none
  settings.start_without_camera = true;
  const auto source = make_aravis_source(settings);
  const auto start_and_stop = [&] {
    source->start();  // fails, and tells so
    source->stop();
  };
  start_and_stop();
  const std::int64_t first_ns = driftd::monotonic_ns();
  for (int i = 0; i < 255; ++i) start_and_stop();
  const std::int64_t last_ns = driftd::monotonic_ns();
  start_and_stop();
  const std::vector<SourceEvent> events = source->take_events();
  REQUIRE(events.size() == 256);
  CHECK(events.front().time_ns > first_ns);
  CHECK(events.back().time_ns > last_ns);
}

TEST_CASE("without a name the first camera found is taken") {
  AravisSettings settings = fake_settings();
  settings.id = "";
  const auto source = make_aravis_source(settings);
  source->start();
  CHECK(source->info().description == "Aravis Fake 1 at Fake_1");
}

TEST_CASE("what the camera cannot do is taken over as it can, and said") {
  AravisSettings settings = fake_settings();
  settings.region_x_px = 48;
  settings.region_width_px = 0;
  settings.region_height_px = 0;
  settings.region_y_px = 1024;
  settings.frame_rate_hz = 5000;
  const auto source = make_aravis_source(settings);
  source->start();
  const SourceInfo info = source->info();
  CHECK(info.width_px == 2000);  // sensor of 2048, less the offset
  CHECK(info.offset_x_px == 48);
  CHECK(info.height_px == 1024);
  CHECK_FALSE(has_note(info, "Height"));  // 0 asked for what there is
  CHECK(info.frame_rate_hz == Approx(1000));
  CHECK(has_note(info, "the frame rate is 1000 frames/s instead of 5000"));
}

TEST_CASE("a stopped source stops again and is destroyed without harm") {
  const auto source = make_aravis_source(fake_settings());
  source->stop();
  source->start();
  source->stop();
  source->stop();
  Frame frame;
  CHECK(source->pop(1ms, frame) == PopStatus::Disconnected);
}

TEST_CASE("no camera of that name is an error that lists those there are") {
  AravisSettings settings = fake_settings();
  settings.id = "Basler-21876543";
  const std::string error = error_of(settings);
  INFO(error);
  CHECK(error.find("Basler-21876543") != std::string::npos);
  CHECK(error.find("Fake_1") != std::string::npos);
}

TEST_CASE("a pixel format that the camera lacks is refused with those of its own that are known") {
  AravisSettings settings = fake_settings();
  settings.format = PixelFormat::Mono12;
  const std::string error = error_of(settings);
  INFO(error);
  CHECK(error.find("set camera.pixel_format to one of these that driftd knows: Mono8") !=
        std::string::npos);
  const std::size_t known = error.find("driftd knows: ");
  REQUIRE(known != std::string::npos);
  CHECK(error.find("RGB8", known) == std::string::npos);  // offered, and not known
}

TEST_CASE("a trigger input that the camera lacks is an error, not free running") {
  AravisSettings settings = fake_settings();
  settings.trigger = Trigger::HardwareLine;
  settings.trigger_line = "Line9";
  const std::string error = error_of(settings);
  INFO(error);
  CHECK(error.find("Line9") != std::string::npos);
  CHECK(error.find("Line0") != std::string::npos);  // what there is
}

TEST_CASE("settings that cannot work are refused before any camera is touched") {
  AravisSettings settings = driftd::test::default_aravis_settings();
  settings.format = PixelFormat::Mono8;
  SECTION("negative region") {
    settings.region_x_px = -1;
  }
  SECTION("a row above the sensor") {
    settings.region_y_px = -1;
  }
  SECTION("no exposure") {
    settings.exposure_us = 0;
  }
  SECTION("a rate that is no number") {
    settings.frame_rate_hz = std::nan("");
  }
  SECTION("too few buffers") {
    settings.buffers = 3;
  }
  SECTION("a packet time-out with which Aravis spins") {
    settings.packet_timeout_us = 999;
  }
  SECTION("retention below the time-out") {
    settings.frame_retention_us = 500;
  }
  SECTION("a software trigger without a rate") {
    settings.trigger = Trigger::Software;
  }
  SECTION("back-off the wrong way round") {
    settings.reconnect_max_ms = 100;
  }
  SECTION("packet too large") {
    settings.packet_size_bytes = 70000;
  }
  CHECK_THROWS_AS(make_aravis_source(settings), CameraError);
}

TEST_CASE("a socket buffer that the kernel cuts is told with its remedy") {
  int allowed = 0;
  if (std::ifstream("/proc/sys/net/core/rmem_max") >> allowed) {
    CHECK(aravis::socket_buffer_given(allowed) == allowed);
    CHECK(aravis::socket_buffer_given(allowed + 1) == allowed);
  }
  CHECK(aravis::socket_buffer_given(4096) == 4096);
  const CameraNote note = aravis::socket_buffer_note(1 << 30, 212992);
  CHECK(note.asked == "1073741824");
  CHECK(note.got == "212992");
  CHECK(note.text.starts_with(
      "the kernel gives a socket buffer of 212992 bytes instead of 1073741824"));
  CHECK(note.text.find("net.core.rmem_max=1073741824") != std::string::npos);
}

namespace {

constexpr guint64 kLatchRegister = 0x1f0;  // none of the fake camera's own

/// A camera whose time, which stands, can be latched by the names of SFNC 2.
/// @param value  its feature for what was latched
struct Latching {
  explicit Latching(const std::string& value)
      : description(
            "<Command Name=\"TimestampLatch\"><pValue>LatchReg</pValue><CommandValue>1"
            "</CommandValue></Command><IntReg Name=\"LatchReg\"><Address>496</Address><Length>4"
            "</Length><AccessMode>RW</AccessMode><pPort>Device</pPort><Cachable>NoCache</Cachable>"
            "<Sign>Unsigned</Sign><Endianess>BigEndian</Endianess></IntReg>"
            "<Integer Name=\"" +
            value + "\"><Value>5</Value></Integer>") {
    fake_settings();
    camera.reset(arv_camera_new("Fake_1", nullptr));
  }
  /// @returns whether it was asked
  bool update(std::int64_t now_ms, bool wanted, bool there) {
    ArvDevice* device = arv_camera_get_device(camera.get());
    arv_device_write_register(device, kLatchRegister, 0, nullptr);
    rate = watch.update(camera.get(), now_ms * 1'000'000, wanted, there);
    guint32 asked = 0;
    arv_device_read_register(device, kLatchRegister, &asked, nullptr);
    return asked != 0;
  }

  Description description;
  aravis::Ref<ArvCamera> camera;
  aravis::ClockWatch watch;
  ClockRate rate;
};

}  // namespace

TEST_CASE("a camera is asked for its time four times a second while that is wanted") {
  Latching camera("TimestampLatchValue");
  CHECK_FALSE(camera.update(1000, false, true));
  CHECK_FALSE(camera.update(1000, true, false));
  CHECK(camera.update(1000, true, true));
  CHECK_FALSE(camera.update(1249, true, true));
  CHECK(camera.update(1250, true, true));
  CHECK(std::isinf(camera.rate.uncertainty));
  CHECK(camera.update(1500, true, true));
  CHECK(camera.rate.slow == 1);  // it stands
  CHECK_FALSE(camera.update(2000, true, false));
  CHECK(camera.rate.slow == 1);
  CHECK_FALSE(camera.update(2000, false, true));
  CHECK(std::isinf(camera.rate.uncertainty));
  CHECK(camera.update(2000, true, true));
}

TEST_CASE("a camera that refuses its time is not asked again") {
  Latching camera("NotTheLatchedValue");
  CHECK(camera.update(1000, true, true));
  CHECK_FALSE(camera.update(2000, true, true));
  CHECK_FALSE(camera.update(3000, true, true));
  CHECK(std::isinf(camera.rate.uncertainty));
}

TEST_CASE("a camera without a latch is not known by its rate, and streams on") {
  const auto source = make_aravis_source(fake_settings());
  source->start();
  Frame frame;
  for (int i = 0; i < 100; ++i) {  // half a second
    while (source->pop(1s, frame) != PopStatus::Frame) {
    }
    CHECK(std::isinf(source->clock_rate(true).uncertainty));
  }
  CHECK(source->counters().disconnects == 0);
}
