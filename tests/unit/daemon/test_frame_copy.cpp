// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "daemon/loop/frame_copy.hpp"
#include "support/catch.hpp"

using driftd::camera::Frame;
using driftd::daemon::FrameCopies;
using driftd::daemon::FrameCopy;
using driftd::daemon::FrameImage;

namespace {

/// A Mono8 frame of one value, the last digits of its id.
struct Picture {
  std::array<std::byte, 64> bytes{};
  Frame frame;

  Picture(int width_px, int height_px, std::uint64_t id) {
    frame.width_px = width_px;
    frame.height_px = height_px;
    frame.id = id;
    bytes.fill(static_cast<std::byte>(id % 251));
    frame.pixels = bytes.data();
  }
};

bool is_whole(const FrameImage& image) {
  const auto count = image.frame.width_px * image.frame.height_px;
  return std::all_of(image.pixels.begin(), image.pixels.begin() + count,
                     [&](std::uint16_t value) { return value == image.frame.id % 251; });
}

}  // namespace

TEST_CASE("FrameCopy gives the next frame after it was asked, once") {
  FrameCopy copy;
  copy.offer(Picture(5, 3, 1).frame);
  REQUIRE(copy.take() == nullptr);
  REQUIRE(copy.ask(15));
  REQUIRE(copy.pending());
  REQUIRE(copy.take() == nullptr);
  copy.offer(Picture(5, 3, 2).frame);
  copy.offer(Picture(5, 3, 3).frame);
  const auto image = copy.take();
  REQUIRE(image != nullptr);
  REQUIRE(image->fits);
  REQUIRE(image->frame.id == 2);
  REQUIRE(image->frame.width_px == 5);
  REQUIRE(is_whole(*image));
  REQUIRE_FALSE(copy.pending());
  REQUIRE(copy.take() == nullptr);
}

TEST_CASE("FrameCopy says when a frame was larger than the room for it") {
  FrameCopy copy;
  REQUIRE(copy.ask(14));
  copy.offer(Picture(5, 3, 2).frame);
  const auto image = copy.take();
  REQUIRE(image != nullptr);
  REQUIRE_FALSE(image->fits);
}

TEST_CASE("a frame that is not wanted any more is not given to the next who asks") {
  FrameCopy copy;
  REQUIRE(copy.ask(15));
  copy.withdraw();
  copy.offer(Picture(5, 3, 7).frame);
  REQUIRE(copy.take() == nullptr);
  REQUIRE(copy.ask(15));
  copy.offer(Picture(5, 3, 8).frame);
  REQUIRE(copy.ask(6));  // what has come is dropped
  copy.offer(Picture(2, 3, 9).frame);
  const auto image = copy.take();
  REQUIRE(image != nullptr);
  REQUIRE(image->frame.id == 9);
  REQUIRE(image->pixels.size() == 6);
}

TEST_CASE("a frame that is not wanted any more while the loop copies it is dropped when it comes") {
  for (const bool given_up : {false, true}) {
    FrameCopy copy;
    REQUIRE(copy.ask(15));
    copy.offer(Picture(5, 3, 7).frame, [&] {
      copy.withdraw();
      return given_up;
    });
    CHECK_FALSE(copy.pending());
    if (given_up) copy.offer(Picture(5, 3, 8).frame);
    CHECK(copy.take() == nullptr);
    REQUIRE(copy.ask(6));
    CHECK(copy.take() == nullptr);
    copy.offer(Picture(2, 3, 9).frame);
    const auto image = copy.take();
    REQUIRE(image != nullptr);
    CHECK(image->frame.id == 9);
  }
}

TEST_CASE("a search and a snapshot do not take each other's frames") {
  FrameCopies copies;
  REQUIRE(copies.search.ask(15));
  REQUIRE(copies.snapshot.ask(40));
  copies.offer(Picture(5, 3, 4).frame);
  REQUIRE(copies.search.take()->pixels.size() == 15);
  REQUIRE(copies.snapshot.take()->pixels.size() == 40);
}

TEST_CASE("a frame is copied part by part while the loop has nothing else to do") {
  constexpr int kWidth = 1000, kHeight = 100;  // in parts of 32 lines
  std::vector<std::byte> bytes(kWidth * kHeight);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
  Frame frame{.pixels = bytes.data(), .width_px = kWidth, .height_px = kHeight, .id = 1};
  FrameCopy copy;
  REQUIRE(copy.ask(bytes.size()));
  int looked = 0;
  copy.offer(frame, [&] { return ++looked == 3; });
  CHECK(looked == 3);
  CHECK(copy.take() == nullptr);
  CHECK(copy.pending());
  frame.id = 2;
  copy.offer(frame, [&] {
    ++looked;
    return false;
  });
  CHECK(looked == 3 + 4);
  auto image = copy.take();
  REQUIRE(image != nullptr);
  CHECK(image->frame.id == 2);
  bool same = true;
  for (std::size_t i = 0; i < bytes.size(); ++i) same = same && image->pixels[i] == i % 251;
  CHECK(same);

  // Given up, it can be taken back.
  const auto always = [] { return true; };
  REQUIRE(copy.ask(bytes.size()));
  copy.offer(frame, always);
  copy.withdraw();
  copy.offer(frame);
  CHECK(copy.take() == nullptr);

  // Where each frame is followed too soon, one is copied all the same.
  REQUIRE(copy.ask(bytes.size()));
  int offers = 0;
  for (; image == nullptr || offers == 0; ++offers) {
    REQUIRE(offers <= FrameCopy::kMostTries);
    copy.offer(frame, always);
    image = copy.take();
  }
  CHECK(offers == FrameCopy::kMostTries + 1);
  CHECK(image->fits);
}

TEST_CASE("requests abandoned while the loop may be writing leave every image whole") {
  // An image withdrawn from under the loop's hands was torn in one round of ten.
  constexpr int kRounds = 4'000;
  FrameCopy copy;
  std::atomic<bool> stop{false};
  std::thread loop([&] {
    const std::array pictures = {Picture(8, 8, 1), Picture(4, 6, 2), Picture(7, 2, 3)};
    for (std::size_t i = 0; !stop; ++i) copy.offer(pictures[i % pictures.size()].frame);
  });
  int torn = 0;
  int taken = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto room = static_cast<std::size_t>(14 + round % 3 * 25);
    if (!copy.ask(room)) continue;
    if (round % 4 == 0) {
      copy.withdraw();
      continue;
    }
    if (round % 4 == 1) continue;  // the next round asks again, with other room
    std::unique_ptr<FrameImage> image;
    while (!(image = copy.take())) std::this_thread::yield();
    ++taken;
    torn += image->pixels.size() != room || (image->fits && !is_whole(*image)) ? 1 : 0;
  }
  stop = true;
  loop.join();
  CHECK(torn == 0);
  CHECK(taken > 0);
}
