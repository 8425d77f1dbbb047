// SPDX-License-Identifier: MIT
// What the tracking loop gives the recorder, and that it does not mind one that takes nothing.
#include <iostream>

#include "support/allocation_watch.hpp"
#include "support/catch.hpp"
#include "unit/daemon/tracking_bench.hpp"

using namespace driftd;
using namespace driftd::daemon;
using driftd::daemon::test::Bench;

namespace {

std::shared_ptr<RecordFeed> feed_of(Bench& bench, std::size_t frames) {
  auto feed = std::make_shared<RecordFeed>(5, frames);
  feed->wanted = true;
  bench.ports.record = feed;
  return feed;
}

}  // namespace

TEST_CASE("each frame goes to the recorder with its markers, a stale one without") {
  Bench bench;
  const auto feed = feed_of(bench, 200);
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.frames(20, {.drift_nm = {6, -3}});
  bench.frames(2, {.late_ns = 200'000'000});
  bench.frames(3, {.hidden = 2});
  bench.run();
  RecordedFrame frame;
  std::vector<RecordedFrame> frames;
  while (feed->frames.pop(frame)) frames.push_back(frame);
  REQUIRE(frames.size() == 55);
  const auto positions = bench.of("position");
  REQUIRE(positions.size() == 53);  // the stale ones have none
  std::size_t at = 0;
  for (const RecordedFrame& f : frames) {
    CHECK(f.localizations == (f.row.stale ? 0 : 5));
    if (f.row.stale) {
      CHECK_FALSE(f.row.valid);
      continue;
    }
    const auto& position = positions[at++];
    CHECK(f.row.frame_id == position["frame_id"]);
    CHECK(position["state"] ==
          std::string(control::name_of(static_cast<control::LockState>(f.row.state))));
    CHECK(f.row.x_nm == Approx(position["x_nm"].get<double>()).margin(1e-3));
    CHECK(f.row.taken_ns <= f.row.arrival_ns);
  }
  // From the reference on the drift has another zero.
  CHECK(frames.back().row.reference == frames.front().row.reference + 1);
  for (const auto& c : bench.of("correction")) {
    const auto id = c["frame_id"].get<std::uint64_t>();
    const auto found =
        std::ranges::find_if(frames, [&](const RecordedFrame& f) { return f.row.frame_id == id; });
    REQUIRE(found != frames.end());
    CHECK(found->row.total_x_nm == Approx(c["total_x_nm"].get<double>()).margin(1e-3));
  }
  record::LocalizationRow spot;
  std::size_t fitted = 0, spots = 0;
  for (; feed->localizations.pop(spot); ++spots) fitted += spot.fitted ? 1 : 0;
  CHECK(spots == 53 * 5);
  CHECK(fitted == 50 * 5 + 3 * 3);
}

TEST_CASE("a recorder that takes nothing costs the loop no frame, no time and no allocation") {
  if (!driftd::test::can_watch()) {
    std::cout << "SKIPPED: the sanitizer owns the allocator\n";
    return;
  }
  Bench bench;
  const auto feed = feed_of(bench, 20);  // full after twenty frames, as when a disk stands still
  bench.command_here(LoopCommand::Kind::Lock);
  bench.camera.watch_after = 0;
  bench.frames(100, {.drift_nm = {4, 1}});
  bench.frames(5, {.late_ns = 200'000'000});
  const LoopReport report = bench.run();
  CHECK(report.fitted == 100);
  CHECK(report.queue_dropped == 0);
  CHECK(bench.of("position").size() == 100);
  CHECK(feed->not_recorded == 85);
  CHECK(driftd::test::watched_allocations() == 0);
}

TEST_CASE("each frame's pixels are kept once its correction has left, without an allocation") {
  Bench bench;
  bench.ports.raw_frames = std::make_shared<FrameRing>(
      std::size_t{40} * 2 * driftd::daemon::test::kWidthPx * driftd::daemon::test::kHeightPx);
  FrameRing& ring = *bench.ports.raw_frames;
  ring.wanted = true;
  bench.command_here(LoopCommand::Kind::Lock);
  if (driftd::test::can_watch()) bench.camera.watch_after = 0;
  bench.frames(30);
  bench.frames(2, {.late_ns = 200'000'000});
  bench.frames(3, {.hidden = 2});
  bench.run();
  CHECK(driftd::test::watched_allocations() == 0);
  CHECK(ring.newest() == 35);
  CHECK(ring.not_kept == 0);
  const auto positions = bench.of("position");
  REQUIRE(positions.size() == 33);
  for (const auto& position : positions) {
    const FrameRing::Kept* kept = ring.at(position["frame_id"].get<std::uint64_t>());
    REQUIRE(kept != nullptr);
    CHECK(kept->frame.id == position["frame_id"]);
    CHECK(kept->taken_ns <= kept->frame.arrival_ns);
    CHECK(kept->frame.pixels != nullptr);
  }
  CHECK(bench.camera.rests == 33);
}
