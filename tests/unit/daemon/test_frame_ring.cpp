// SPDX-License-Identifier: MIT
// Which raw frames are kept in memory, and which are held.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/monotonic.hpp"
#include "ring_camera.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using driftd::daemon::test::kRingFrameBytes;
using driftd::daemon::test::kRingWidth;
using driftd::daemon::test::RingCamera;

namespace {

bool is_whole(const FrameRing::Kept& kept) {
  const std::byte first = std::byte(kept.frame.id % 251);
  return std::all_of(kept.frame.pixels, kept.frame.pixels + kRingFrameBytes,
                     [&](std::byte pixel) { return pixel == first; });
}

}  // namespace

TEST_CASE("the oldest frame goes, but for those that are held") {
  FrameRing ring(100 * kRingFrameBytes + 7);
  RingCamera camera(ring);
  camera.send(1);
  CHECK(ring.newest() == 0);  // nobody wants them
  ring.wanted = true;
  camera.send(250);
  CHECK(ring.room() == 100);
  CHECK(ring.newest() == 250);
  CHECK(ring.hold(0) == 159);  // the oldest ones are given up for the time that this takes
  ring.release();
  CHECK(ring.hold(202) == 201);  // by arrival: the first that was sent was not kept
  REQUIRE(ring.at(201) != nullptr);
  CHECK(ring.at(201)->frame.id == 202);
  CHECK(ring.at(201)->taken_ns == 201);
  camera.send(60);  // 50 places are free
  CHECK(ring.newest() == 300);
  CHECK(ring.not_kept == 10);
  for (std::uint64_t number = 201; number <= 300; ++number) {
    REQUIRE(ring.at(number) != nullptr);
    CHECK(is_whole(*ring.at(number)));
  }
  CHECK(ring.at(301) == nullptr);
  ring.release_before(206);
  camera.send(10);
  CHECK(ring.newest() == 305);
  ring.release();
  camera.send(100);
  CHECK(ring.newest() == 405);
  CHECK(ring.not_kept == 15);
}

TEST_CASE("frames of another size get places of their own, once none is held") {
  FrameRing ring(100 * kRingFrameBytes);
  ring.wanted = true;
  RingCamera camera(ring);
  camera.send(10);
  CHECK(ring.hold(0) == 1);
  camera.width = 2 * kRingWidth;
  camera.send(3);
  CHECK(ring.not_kept == 3);
  CHECK(is_whole(*ring.at(10)));
  ring.release();
  camera.send(3);
  CHECK(ring.room() == 50);
  CHECK(ring.at(10) == nullptr);
  CHECK(ring.at(13)->frame.width_px == 2 * kRingWidth);
  CHECK(ring.hold(10'000) == 14);  // the next one: until it comes none is held
  camera.width = kRingWidth;
  camera.send(1);
  CHECK(ring.not_kept == 3);
  REQUIRE(ring.at(14) != nullptr);
  CHECK(ring.at(14)->frame.width_px == kRingWidth);
  FrameRing empty(100 * kRingFrameBytes);
  empty.wanted = true;
  CHECK(empty.hold(0) == 1);
  RingCamera first(empty);
  first.send(1);
  CHECK(empty.at(1) != nullptr);
  FrameRing few(4 * kRingFrameBytes);
  few.wanted = true;
  RingCamera slow(few);
  slow.send(4);
  CHECK(few.hold(0) == 2);
  few.release();
  slow.width = 8 * kRingWidth;
  slow.send(5);
  CHECK(few.not_kept == 5);
  CHECK(few.room() == 0);
  CHECK(few.hold(0) == 5);
  CHECK(few.at(5) == nullptr);
  CHECK_THROWS_WITH(FrameRing(std::size_t{1} << 50), contains("record.frames_memory_mb"));
}

TEST_CASE("while the loop goes on no frame that is held changes") {
  FrameRing ring(40 * kRingFrameBytes);
  ring.wanted = true;
  RingCamera camera(ring);
  std::atomic<bool> stop{false};
  std::thread loop([&] {
    while (!stop) {
      camera.send(1);
      if (camera.id % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(1));
    }
  });
  while (ring.newest() < 100) std::this_thread::yield();
  std::size_t seen = 0, torn = 0;
  for (int round = 0; round < 300; ++round) {
    std::uint64_t number = ring.hold(0);
    for (const std::uint64_t end = number + 30; number < end; ++number) {
      const FrameRing::Kept* kept = ring.at(number);
      if (kept == nullptr) continue;
      ++seen;
      if (!is_whole(*kept)) ++torn;
      ring.release_before(number + 1);
    }
    ring.release();
  }
  stop = true;
  loop.join();
  CHECK(seen > 100);
  CHECK(torn == 0);
}

TEST_CASE("a frame that is held is there all the while that the loop passes over it") {
  FrameRing ring(40 * kRingFrameBytes);
  ring.wanted = true;
  RingCamera camera(ring);
  camera.send(40);
  const std::uint64_t held = ring.hold(0);
  std::atomic<bool> stop{false};
  std::thread loop([&] {
    while (!stop) camera.send(1);
  });
  std::size_t missed = 0;
  while (ring.not_kept < 500'000)
    if (ring.at(held) == nullptr) ++missed;
  stop = true;
  loop.join();
  CHECK(missed == 0);
}

TEST_CASE("who takes each frame as it comes misses none") {
  FrameRing ring(1000 * kRingFrameBytes);
  ring.wanted = true;
  RingCamera camera(ring);
  std::uint64_t number = ring.hold(0), missed = 0, torn = 0;
  std::atomic<bool> stop{false};
  std::thread loop([&] {
    while (!stop) camera.send(1);
  });
  for (std::uint64_t due = number; due <= 100'000; ++due) {
    const FrameRing::Kept* kept = nullptr;
    while (kept == nullptr) kept = ring.next(number);
    const std::byte last = kept->frame.pixels[kRingFrameBytes - 1];
    torn += last != std::byte(kept->frame.id % 251);
    missed += number - due;
    due = number++;
    ring.release_before(number);
  }
  stop = true;
  loop.join();
  CHECK(missed == 0);
  CHECK(torn == 0);
}

TEST_CASE("what it takes to keep a frame", "[.bench]") {
  const auto [width, height, format] =
      GENERATE(table<int, int, camera::PixelFormat>({{256, 256, camera::PixelFormat::Mono12},
                                                     {512, 512, camera::PixelFormat::Mono8},
                                                     {2048, 2048, camera::PixelFormat::Mono16}}));
  const std::size_t bytes = camera::image_bytes(format, width, height);
  FrameRing ring(std::max<std::size_t>(10 * bytes, 300'000'000));
  ring.wanted = true;
  const std::vector<std::byte> pixels(bytes);
  std::vector<std::int64_t> took_ns;
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t begin_ns = monotonic_ns();
    ring.keep({.pixels = pixels.data(), .format = format, .width_px = width, .height_px = height},
              0);
    took_ns.push_back(monotonic_ns() - begin_ns);
  }
  std::ranges::sort(took_ns);
  WARN(width << " x " << height << ' ' << camera::name_of(format) << ": p50 " << took_ns[500] / 1000
             << " us, p99 " << took_ns[990] / 1000 << " us");
}
