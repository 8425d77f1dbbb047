// SPDX-License-Identifier: MIT
#include <algorithm>
#include <vector>

#include "control/search/clip_level.hpp"
#include "detection_images.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

using test::Canvas;
using test::Picture;

/// Nine spots, all of the amplitude given.
Canvas spots(double amplitude_adu) {
  Canvas canvas(160, 120, 300);
  for (int i = 0; i < 9; ++i)
    canvas.add({.x_px = 25.3 + 50 * (i % 3),
                .y_px = 20.6 + 37 * (i / 3),
                .amplitude_adu = amplitude_adu,
                .sigma_px = 1.4});
  return canvas;
}

TEST_CASE("nine clipped markers of 12 bits in 16 show where they are clipped") {
  const Picture clipped = spots(6000).picture(8, 1, 4095);
  const ClipLevel clip = clip_level(clipped.pixels);
  CHECK(clip.level_adu == 4095);
  CHECK(static_cast<std::ptrdiff_t>(clip.pixels) ==
        std::count(clipped.pixels.begin(), clipped.pixels.end(), 4095));

  Picture left_aligned = clipped;
  for (std::uint16_t& p : left_aligned.pixels) p = static_cast<std::uint16_t>(p << 4);
  CHECK(clip_level(left_aligned.pixels).level_adu == 65520);
}

TEST_CASE("what is not clipped is not said to be") {
  for (const double amplitude_adu : {0.0, 200.0, 3700.0, 30000.0})
    for (unsigned seed = 1; seed <= 20; ++seed) {
      INFO(amplitude_adu << ' ' << seed);
      CHECK(clip_level(spots(amplitude_adu).picture(8, seed).pixels).level_adu == 0);
    }
  // Few levels, as 8 bits have: many pixels share each.
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Picture coarse = spots(3000).picture(8, seed);
    for (std::uint16_t& p : coarse.pixels) p = static_cast<std::uint16_t>(p >> 5);
    CHECK(clip_level(coarse.pixels).level_adu == 0);
  }
  CHECK(clip_level({}).level_adu == 0);
  CHECK(clip_level(std::vector<std::uint16_t>(500, 77)).level_adu == 0);
  CHECK(clip_level(std::vector<std::uint16_t>(500, 0)).level_adu == 0);
}

TEST_CASE("eight pixels are enough, and eight times the others are") {
  std::vector<std::uint16_t> image;
  for (std::uint16_t value = 100; value < 120; ++value) image.push_back(value);
  image.insert(image.end(), 7, 500);
  CHECK(clip_level(image).level_adu == 0);
  image.push_back(500);
  CHECK(clip_level(image).level_adu == 500);
  CHECK(clip_level(image).pixels == 8);
  image.push_back(110);  // one of the sixteen next
  CHECK(clip_level(image).level_adu == 0);
  image.pop_back();
  image.push_back(101);  // none of them
  CHECK(clip_level(image).level_adu == 500);
}

TEST_CASE("some hot pixels above do not hide where spots are clipped") {
  Picture clipped = spots(6000).picture(8, 1, 4095);
  const ClipLevel without = clip_level(clipped.pixels);
  for (std::size_t i = 0; i < without.pixels / 8; ++i)
    clipped.pixels[17 + 1000 * i] = static_cast<std::uint16_t>(20000 + 977 * i);
  const ClipLevel clip = clip_level(clipped.pixels);
  CHECK(clip.level_adu == 4095);
  CHECK(clip.pixels == without.pixels);

  // Those of sound spots are none: each has a value of its own, and a few the largest there is.
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Picture sound = spots(3700).picture(8, seed);
    for (std::size_t i = 0; i < 6; ++i)
      sound.pixels[17 + 1000 * i] = static_cast<std::uint16_t>(i < 3 ? 65535 : 30000 + 977 * i);
    CHECK(clip_level(sound.pixels).level_adu == 0);
  }
}

}  // namespace
}  // namespace driftd::control
