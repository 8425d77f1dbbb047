// SPDX-License-Identifier: MIT
// The Aravis source on "Fake_1", Aravis' camera without a network, and the checks that need no
// camera at all.
#include <arv.h>

#include <cstdlib>
#include <string>

#include "camera/aravis/network.hpp"
#include "camera/sources.hpp"
#include "support/catch.hpp"

using namespace driftd::camera;
using namespace std::chrono_literals;

namespace {

AravisSettings fake_settings() {
  // The other interfaces would search the network for a second.
  arv_enable_interface("Fake");
  arv_disable_interface("GigEVision");
  arv_disable_interface("USB3Vision");
  AravisSettings settings;
  settings.id = "Fake_1";
  settings.region_width_px = 128;
  settings.region_height_px = 64;
  settings.frame_rate_hz = 200;
  return settings;
}

std::string error_of(const AravisSettings& settings) {
  try {
    make_aravis_source(settings)->start();
  } catch (const CameraError& error) {
    return error.what();
  }
  return "no error";
}

bool has_note(const SourceInfo& info, const std::string& part) {
  for (const std::string& note : info.notes) {
    if (note.find(part) != std::string::npos) return true;
  }
  return false;
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

TEST_CASE("without a name the first camera found is taken") {
  AravisSettings settings = fake_settings();
  settings.id = "";
  const auto source = make_aravis_source(settings);
  source->start();
  CHECK(source->info().description == "Aravis Fake 1 at Fake_1");
}

TEST_CASE("what the camera cannot do is taken over as it can, and said") {
  AravisSettings settings = fake_settings();
  settings.format = PixelFormat::Mono12p;  // the fake camera has Mono8, Mono16 and colour
  settings.region_x_px = 48;
  settings.region_width_px = 5000;
  settings.region_height_px = 0;
  settings.region_y_px = 1024;
  settings.frame_rate_hz = 5000;
  const auto source = make_aravis_source(settings);
  source->start();
  const SourceInfo info = source->info();
  CHECK(info.format == PixelFormat::Mono8);
  CHECK(has_note(info, "PixelFormat is Mono8 instead of Mono12p"));
  CHECK(info.width_px == 2000);  // sensor of 2048, less the offset
  CHECK(info.offset_x_px == 48);
  CHECK(has_note(info, "Width is 2000 instead of 5000"));
  CHECK(info.height_px == 1024);
  CHECK_FALSE(has_note(info, "Height"));  // 0 asked for what there is
  CHECK(info.frame_rate_hz == Approx(1000));
  CHECK(has_note(info, "the frame rate is 1000 frames/s instead of 5000"));
  CHECK(has_note(info, "GainAuto is off"));
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
  AravisSettings settings;
  SECTION("negative region") {
    settings.region_x_px = -1;
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
  CHECK(aravis::socket_buffer_shortfall(4096).empty());
  const std::string note = aravis::socket_buffer_shortfall(1 << 30);  // 1 GiB: nobody allows that
  CHECK(note.find("net.core.rmem_max=1073741824") != std::string::npos);
}
