// SPDX-License-Identifier: MIT
// The Aravis source where the network carries less than the camera sends, where lines are padded,
// where frame ids wrap, and where there is no clock.
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/uniform_camera.hpp"

using driftd::kNanosecondsPerSecond;
using driftd::monotonic_ns;
using namespace driftd::camera;
using namespace driftd::test;
using namespace std::chrono_literals;

namespace {

/// Whether such an event comes; frames that come meanwhile are taken.
bool is_told(const std::string& part, FrameSource& source) {
  const std::int64_t end_ns = monotonic_ns() + 60 * kNanosecondsPerSecond;
  Frame frame;
  while (monotonic_ns() < end_ns) {
    source.pop(20ms, frame);
    for (const SourceEvent& event : source.take_events()) {
      if (event.kind == SourceEvent::Kind::Disconnected &&
          event.text.find(part) != std::string::npos)
        return true;
    }
  }
  return false;
}

driftd::simulator::CameraModel behind_a_switch_of_1500() {
  auto model = camera_model();
  model.network_mtu_bytes = 1500;
  return model;
}

}  // namespace

TEST_CASE("packets that the network does not carry are told before and after frames are lost") {
  Simulator simulator("127.0.41.41", behind_a_switch_of_1500());
  AravisSettings settings = settings_for("127.0.41.41");
  settings.packet_size_bytes = 9000;
  const auto source = make_aravis_source(settings);
  source->start();
  const CameraNote note = note_of(source->info(), "packet_size_bytes");
  CHECK(note.severity == CameraNote::Severity::Warning);
  CHECK_THAT(note.text, contains("test packets of 9000 bytes do not get here, of ") &&
                            contains("set packet_size_bytes to 0"));
  CHECK(note.got == "9000");
  CHECK(is_told("frames came incomplete: packets of 9000 bytes over lo, whose MTU is ", *source));
  CHECK(source->counters().incomplete >= 10);
  CHECK(source->counters().frames == 0);
}

TEST_CASE("a packet size that is not given becomes one that the network carries") {
  Simulator simulator("127.0.41.42", behind_a_switch_of_1500());
  const auto source = make_aravis_source(settings_for("127.0.41.42"));
  source->start();
  CHECK(is_told("frames came incomplete: packets of 9000 bytes", *source));
  Frame frame;
  REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  CHECK(is_uniform(frame));
  const CameraNote note = note_of(source->info(), "packet_size_bytes");
  CHECK(note.got == "1400");
  CHECK_THAT(note.text, contains("no frame came whole before; trying packets of 1400 bytes"));
}

TEST_CASE("a packet size that fits is not remarked upon") {
  Simulator simulator("127.0.41.43");
  AravisSettings settings = settings_for("127.0.41.43");
  settings.packet_size_bytes = 1500;
  const auto source = make_aravis_source(settings);
  source->start();
  CHECK(note_of(source->info(), "packet_size_bytes").text.empty());
  Frame frame;
  REQUIRE(pop_until(*source, PopStatus::Frame, frame));
}

TEST_CASE("lines with bytes behind them give the same pixels") {
  auto model = camera_model();
  model.dialect.line_padding_bytes = 12;
  for (const auto format : {PixelFormat::Mono8, PixelFormat::Mono12p}) {
    Simulator simulator("127.0.41.46", model);
    AravisSettings settings = settings_for("127.0.41.46");
    settings.format = format;
    const auto source = make_aravis_source(settings);
    source->start();
    for (int i = 0; i < 20; ++i) {
      Frame frame;
      REQUIRE(pop_until(*source, PopStatus::Frame, frame));
      REQUIRE(frame.line_padding_bytes == 12);
      std::vector<std::uint16_t> pixels(std::size_t{128} * 64);
      unpack(frame, pixels.data());
      const unsigned byte = std::to_integer<unsigned>(frame.pixels[0]);
      // Two pixels of 12 bits, all of whose bytes are alike, have their halves exchanged.
      const unsigned even = byte | (byte & 0xf) << 8, odd = byte >> 4 | byte << 4;
      for (std::size_t k = 0; k < pixels.size(); ++k)
        REQUIRE(pixels[k] == (format == PixelFormat::Mono8 ? byte : k % 2 == 0 ? even : odd));
    }
    CHECK(source->counters().incomplete == 0);
  }
}

TEST_CASE("the ids of a camera that counts zero go on past it") {
  auto model = camera_model();
  model.first_frame_id = 65500;
  model.dialect.counts_zero = true;
  Simulator simulator("127.0.41.44", model);
  const auto source = make_aravis_source(settings_for("127.0.41.44"));
  source->start();
  Frame frame;
  std::uint64_t before = 0;
  while (frame.id < 65600) {
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK(frame.id > before);
    before = frame.id;
    REQUIRE(before < 100'000);
  }
  // A busy machine may lose frames, but not half a round of ids.
  CHECK(source->counters().lost < 1000);
}

TEST_CASE("frames of a camera without a clock have no time of their own") {
  for (const std::int64_t tick_hz : {std::int64_t{0}, std::int64_t{125'000'000}}) {
    auto model = camera_model();
    model.dialect.tick_hz = tick_hz;
    Simulator simulator("127.0.41.45", model);
    const auto source = make_aravis_source(settings_for("127.0.41.45"));
    source->start();
    Frame frame;
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK((frame.camera_time_ns > 0) == (tick_hz > 0));
  }
}
