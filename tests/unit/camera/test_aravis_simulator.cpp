// SPDX-License-Identifier: MIT
// The Aravis source on the simulated GigE Vision camera: what Aravis' own fake camera cannot do
// (resend, packed formats, refusal of a second controller, power-on after an absence). Each case
// has an address of its own.
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "camera/monotonic.hpp"
#include "camera/simulator/gige_camera.hpp"
#include "camera/sources.hpp"
#include "support/catch.hpp"

using namespace driftd::camera;
using namespace std::chrono_literals;
namespace sim = driftd::simulator;

namespace {

/// Frames of one byte value each, which changes with the frame: a hole or a mixture shows.
class UniformFrames final : public sim::FrameProducer {
 public:
  sim::MadeFrame make(const sim::FramePlan& plan, std::span<std::byte> image) override {
    if (!image.empty()) std::memset(image.data(), plan.frame_id & 0xFF, image.size());
    const bool corrupt = corrupt_every != 0 && plan.frame_count % corrupt_every == 0;
    return {.fate = corrupt ? sim::FrameFate::Corrupt : sim::FrameFate::Send,
            .packet_loss = packet_loss};
  }
  bool camera_away() override { return away; }

  std::atomic<bool> away{false};
  std::atomic<double> packet_loss{0};
  std::atomic<std::uint64_t> corrupt_every{0};
};

struct Simulator {
  explicit Simulator(const std::string& address)
      : camera({.address = address, .serial = address.substr(address.rfind('.'))},
               sim::CameraModel{}, frames) {}
  UniformFrames frames;
  sim::GigeCamera camera;
};

AravisSettings settings_for(const std::string& address) {
  AravisSettings settings;
  settings.id = address;
  settings.region_x_px = 32;
  settings.region_y_px = 16;
  settings.region_width_px = 128;
  settings.region_height_px = 64;
  settings.exposure_us = 1500;
  settings.frame_rate_hz = 200;
  settings.stall_timeout_ms = 1000;  // a busy machine may keep the simulator off its CPU
  return settings;
}

bool is_uniform(const Frame& frame) {
  const std::size_t bytes = image_bytes(frame.format, frame.width_px, frame.height_px);
  for (std::size_t i = 1; i < bytes; ++i) {
    if (frame.pixels[i] != frame.pixels[0]) return false;
  }
  return true;
}

bool pop_until(FrameSource& source, PopStatus wanted, Frame& frame) {
  const std::int64_t end_ns = monotonic_ns() + 60 * kNanosecondsPerSecond;
  while (monotonic_ns() < end_ns) {
    if (source.pop(100ms, frame) == wanted) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("every pixel format comes over the wire whole") {
  Simulator simulator("127.0.41.1");
  Frame frame;
  for (const PixelFormat format : kPixelFormats) {
    INFO(name_of(format));
    AravisSettings settings = settings_for("127.0.41.1");
    settings.format = format;
    const auto source = make_aravis_source(settings);
    source->start();
    CHECK(source->info().format == format);
    CHECK(source->info().width_px == 128);
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK(frame.format == format);
    CHECK(is_uniform(frame));
  }
}

TEST_CASE("what alters pixels is switched off and said") {
  Simulator simulator("127.0.41.2");
  const auto source = make_aravis_source(settings_for("127.0.41.2"));
  source->start();
  const SourceInfo info = source->info();
  for (const std::string feature : {"ExposureAuto", "GainAuto", "GammaEnable", "SharpnessEnable",
                                    "DefectCorrectStaticEnable"}) {
    INFO(feature);
    bool off = false;
    for (const std::string& note : info.notes) {
      off = off || note == feature + " is off" ||
            (note.starts_with(feature + " was ") && note.ends_with("; switched off"));
    }
    CHECK(off);
  }
  CHECK(info.exposure_us == Approx(1500));
  CHECK(info.frame_rate_hz == Approx(200));
}

TEST_CASE("lost packets are sent again and no frame is lost by them") {
  Simulator simulator("127.0.41.3");
  simulator.frames.packet_loss = 0.05;
  AravisSettings settings = settings_for("127.0.41.3");
  settings.packet_size_bytes = 1000;      // 9 packets a frame and the leader and trailer
  settings.frame_retention_us = 200'000;  // a busy machine may answer late
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  // 200 frames of 11 packets, 5 % lost: none of them losing any has a chance of 1e-49.
  for (int i = 0; i < 200; ++i) {
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK(is_uniform(frame));
  }
  std::this_thread::sleep_for(300ms);  // Aravis' statistics are read at intervals
  const SourceCounters counters = source->counters();
  CHECK(counters.resent_packets > 0);
  CHECK(counters.disconnects == 0);
}

TEST_CASE("without resend the same loss costs frames") {
  Simulator simulator("127.0.41.4");
  simulator.frames.packet_loss = 0.05;
  AravisSettings settings = settings_for("127.0.41.4");
  settings.packet_size_bytes = 1000;
  settings.resend = Resend::Never;
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  for (int i = 0; i < 100; ++i) {
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK(is_uniform(frame));
  }
  const SourceCounters counters = source->counters();
  CHECK(counters.resent_packets == 0);
  CHECK(counters.incomplete > 0);
  CHECK(counters.lost > 0);
}

TEST_CASE("a frame that no resend completes never passes") {
  Simulator simulator("127.0.41.5");
  simulator.frames.corrupt_every = 4;
  const auto source = make_aravis_source(settings_for("127.0.41.5"));
  source->start();
  Frame frame;
  for (int i = 0; i < 60; ++i) {
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK(is_uniform(frame));
  }
  CHECK(source->counters().incomplete > 0);
  CHECK(source->counters().lost > 0);
}

TEST_CASE("after an absence the camera is set up anew by itself") {
  Simulator simulator("127.0.41.6");
  AravisSettings settings = settings_for("127.0.41.6");
  settings.id = GENERATE("127.0.41.6", ".6");  // by address; by serial number
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  std::uint64_t id = 0;
  for (int absence = 1; absence <= 2; ++absence) {
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    id = frame.id;
    simulator.frames.away = true;
    REQUIRE(pop_until(*source, PopStatus::Disconnected, frame));
    std::this_thread::sleep_for(300ms);
    simulator.frames.away = false;
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK(frame.id > id);
    CHECK(frame.width_px == 128);
    CHECK(is_uniform(frame));
    CHECK(source->info().exposure_us == Approx(1500));
    CHECK(source->counters().disconnects == static_cast<std::uint64_t>(absence));
    CHECK(source->counters().reconnects == static_cast<std::uint64_t>(absence));
  }
}

TEST_CASE("a camera taken by another source is refused at once and free after it") {
  Simulator simulator("127.0.41.7");
  const auto first = make_aravis_source(settings_for("127.0.41.7"));
  first->start();
  const auto second = make_aravis_source(settings_for("127.0.41.7"));
  std::string error;
  try {
    second->start();
  } catch (const CameraError& thrown) {
    error = thrown.what();
  }
  INFO(error);
  CHECK(error.find("is controlled by another program") != std::string::npos);
  first->stop();
  const auto third = make_aravis_source(settings_for("127.0.41.7"));
  third->start();
  Frame frame;
  CHECK(pop_until(*third, PopStatus::Frame, frame));
}

TEST_CASE("a slow camera is not taken for a dead one") {
  Simulator simulator("127.0.41.9");
  AravisSettings settings = settings_for("127.0.41.9");
  settings.frame_rate_hz = 4;
  settings.stall_timeout_ms = 100;  // shorter than a frame
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  for (int i = 0; i < 4; ++i) REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  CHECK(source->counters().disconnects == 0);
}

TEST_CASE("a slow loop gets the newest frame, and the others are counted") {
  Simulator simulator("127.0.41.10");
  const auto source = make_aravis_source(settings_for("127.0.41.10"));
  source->start();
  Frame frame;
  REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  const std::uint64_t first_id = frame.id;
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(100ms);  // 20 frames, more than there are buffers
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  }
  const SourceCounters counters = source->counters();
  CHECK(counters.superseded > 0);
  CHECK(counters.underruns == 0);
  CHECK(frame.id - first_id + 1 <= counters.frames + counters.superseded + counters.lost);
}
