// SPDX-License-Identifier: MIT
#include "daemon/camera/snapshots.hpp"
#include "housekeeping_for_tests.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using driftd::daemon::test::Asker;
using driftd::daemon::test::PlayedCamera;
using driftd::daemon::test::PlayedLoop;
using driftd::daemon::test::refused_at_once;
using driftd::daemon::test::Told;

namespace {

constexpr std::int64_t kMs = 1'000'000;

struct Fixture {
  config::Config config = config::default_config();
  PlayedLoop played;
  PlayedCamera source;
  Told told;
  LoopControl loop{played.ports};
  CameraWatch camera{config, source, loop, told.log};
  Snapshots snapshots{[] { return 13; }, camera, loop};
  std::int64_t now_ns = 1000 * kMs;
  std::vector<std::byte> bytes;

  explicit Fixture(int width_px = 40, int height_px = 24) {
    config.camera.frame_rate_hz = 0;
    describe(width_px, height_px);
    camera.look();
  }
  void describe(int width_px, int height_px) {
    source.described.width_px = width_px;
    source.described.height_px = height_px;
    bytes.resize(2 * static_cast<std::size_t>(width_px) * static_cast<std::size_t>(height_px));
  }
  void ask(Asker& asker) { snapshots.request(asker.answer(), now_ns); }
  void turn(std::int64_t later_ms = 10) {
    now_ns += later_ms * kMs;
    loop.refresh();
    snapshots.turn(now_ns);
  }
  void frame(std::uint64_t id) {
    camera::Frame frame;
    frame.pixels = bytes.data();
    frame.format = camera::PixelFormat::Mono16;
    frame.width_px = source.described.width_px;
    frame.height_px = source.described.height_px;
    frame.offset_x_px = 1000;
    frame.offset_y_px = 500;
    frame.id = id;
    played.ports.frame_copy.offer(frame);
  }
};

}  // namespace

TEST_CASE("one frame answers all who wait for a snapshot, pixels little-endian") {
  Fixture f;
  f.bytes[2] = std::byte{0x34};  // the second pixel, on a little-endian machine
  f.bytes[3] = std::byte{0x12};
  Asker first;
  Asker second;
  f.ask(first);
  f.turn();
  f.ask(second);
  f.turn();
  REQUIRE_FALSE(first.answered());
  f.frame(7);
  f.turn();
  for (const Asker& asker : {first, second}) {
    const Reply reply = asker.reply();
    REQUIRE(reply.fields["frame"]["frame_id"] == 7);
    REQUIRE(reply.fields["frame"]["width_px"] == 40);
    REQUIRE(reply.fields["frame"]["height_px"] == 24);
    REQUIRE(reply.fields["frame"]["offset_x_px"] == 1000);
    REQUIRE(reply.fields["frame"]["offset_y_px"] == 500);
    REQUIRE(reply.fields["frame"]["bits"] == 16);
    REQUIRE(reply.attachment->size() == 2 * 40 * 24);
    REQUIRE((*reply.attachment)[2] == 0x34);
    REQUIRE((*reply.attachment)[3] == 0x12);
  }
  REQUIRE_FALSE(f.snapshots.pending());
}

TEST_CASE("a snapshot's ROIs are counted within its frame") {
  Fixture f;
  MarkersReport& report = f.played.ports.markers.writing();
  report.count = 1;
  report.entries[0].marker.id = 3;
  report.entries[0].roi = {1011, 504};
  f.played.ports.markers.publish();
  Asker asker;
  f.ask(asker);
  f.turn();
  f.frame(1);
  f.turn();
  const auto roi = asker.reply().fields["frame"]["rois"][0];
  CHECK(roi["id"] == 3);
  CHECK(roi["x_px"] == 11);
  CHECK(roi["y_px"] == 4);
  CHECK(roi["side_px"] == 13);
}

TEST_CASE("with the camera away a snapshot is refused at once, and those waiting are, too") {
  Fixture f;
  Asker waiting;
  f.ask(waiting);
  f.turn();
  f.source.connected = false;
  Asker late;
  REQUIRE(refused_at_once([&] { f.ask(late); }) == "no_frame");
  f.turn();
  REQUIRE(waiting.code() == "no_frame");
  REQUIRE_FALSE(f.snapshots.pending());
}

TEST_CASE("how long a snapshot waits comes from the frame period") {
  // rate measured, set on the camera, configured; limit in ms
  const std::array<std::array<double, 4>, 6> cases = {{{0, 0, 0, 1000},
                                                       {500, 0, 0, 1000},
                                                       {5, 0, 0, 1000},
                                                       {0.5, 20, 20, 2900},
                                                       {0, 0.4, 20, 3525},
                                                       {0, 0, 0.25, 5400}}};
  for (const auto& [measured_hz, set_hz, configured_hz, limit_ms] : cases) {
    Fixture f;
    f.played.report.frame_rate_hz = measured_hz;
    f.played.tell();
    f.source.described.frame_rate_hz = set_hz;
    f.config.camera.frame_rate_hz = configured_hz;
    f.camera.look();
    f.loop.refresh();
    Asker asker;
    f.ask(asker);
    f.turn(static_cast<std::int64_t>(limit_ms));
    CHECK_FALSE(asker.answered());
    f.turn(1);
    CHECK(asker.code() == "no_frame");
  }
}

TEST_CASE("each who waits for a snapshot is told by its own time that no frame came") {
  Fixture f;
  Asker first;
  Asker second;
  f.ask(first);
  f.turn(600);
  f.ask(second);
  f.turn(401);
  CHECK(first.code() == "no_frame");
  CHECK_FALSE(second.answered());
  f.turn(600);
  CHECK(second.code() == "no_frame");
  CHECK(first.answers == 1);
}

TEST_CASE("snapshots that wait are bounded in number") {
  Fixture f;
  std::vector<Asker> askers(33);
  for (std::size_t i = 0; i < 32; ++i) f.ask(askers[i]);
  REQUIRE(refused_at_once([&] { f.ask(askers[32]); }) == "busy");
  f.turn();
  f.frame(1);
  f.turn();
  REQUIRE(refused_at_once([&] { f.ask(askers[32]); }).empty());
}

TEST_CASE("snapshots that nobody reads are bounded in memory, all together") {
  Fixture f(2048, 2048);  // 8 MiB each; the bound is 64 MiB
  std::vector<Asker> askers(9);
  for (std::size_t i = 0; i < 8; ++i) {
    f.ask(askers[i]);
    f.turn();
    f.frame(i);
    f.turn();
    REQUIRE(askers[i].reply().attachment != nullptr);
  }
  REQUIRE(refused_at_once([&] { f.ask(askers[8]); }) == "busy");
  askers[4].outcome.reset();  // read
  REQUIRE(refused_at_once([&] { f.ask(askers[8]); }).empty());
}

TEST_CASE("a snapshot of a camera that came back larger asks for a frame again") {
  Fixture f;
  Asker asker;
  f.ask(asker);
  f.turn();
  f.describe(64, 48);
  f.frame(1);
  f.turn();
  REQUIRE_FALSE(asker.answered());
  f.frame(2);
  f.turn();
  REQUIRE(asker.reply().fields["frame"]["frame_id"] == 2);
  REQUIRE(asker.reply().attachment->size() == 2 * 64 * 48);
}
