// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include "support/catch.hpp"
#include "tools/driftfit/spot_search.hpp"
#include "unit/tools/driftfit/files.hpp"

namespace driftd::tools {
namespace {

std::vector<std::uint16_t> noise(int side, double mean, double sd, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> value(mean, sd);
  std::vector<std::uint16_t> frame(static_cast<std::size_t>(side * side));
  for (auto& pixel : frame) pixel = static_cast<std::uint16_t>(std::lround(value(random)));
  return frame;
}

TEST_CASE("every spot is found once, at its brightest pixel") {
  Scene scene;
  scene.spots = {{10.2, 11.8}, {40, 20.4}, {55.3, 40.1}};
  const auto frame = scene.frame(0, 0);
  const auto found = SpotSearch({.box_px = 7}).find(scene.shape(), bytes_of(frame));
  REQUIRE(found.size() == 3);
  CHECK((found[0].x_px == 10 && found[0].y_px == 12));
  CHECK((found[1].x_px == 40 && found[1].y_px == 20));
  CHECK((found[2].x_px == 55 && found[2].y_px == 40));
}

TEST_CASE("the net gradient is what its definition says") {
  // A single pixel of height 100: its 8 neighbours' gradients, 100 each for 4 of them, point at it.
  const camera::StackShape shape{
      .width_px = 9, .height_px = 9, .frames = 1, .type = camera::PixelType::U8};
  std::vector<std::uint8_t> frame(81, 0);
  frame[4 * 9 + 4] = 100;
  const auto found =
      SpotSearch({.box_px = 3}).find(shape, reinterpret_cast<const std::byte*>(frame.data()));
  REQUIRE(found.size() == 1);
  CHECK(found[0].net_gradient == Approx(400));
}

TEST_CASE("of a plateau the first pixel counts, and a threshold is obeyed") {
  const camera::StackShape shape{
      .width_px = 12, .height_px = 9, .frames = 1, .type = camera::PixelType::F32};
  std::vector<float> frame(12 * 9, 0.0f);
  frame[4 * 12 + 5] = frame[4 * 12 + 6] = 100;
  const auto* bytes = reinterpret_cast<const std::byte*>(frame.data());
  const auto found = SpotSearch({.box_px = 3, .min_net_gradient = 1}).find(shape, bytes);
  REQUIRE(found.size() == 1);
  CHECK(found[0].x_px == 5);
  const double above = static_cast<double>(found[0].net_gradient) + 1;
  CHECK(SpotSearch({.box_px = 3, .min_net_gradient = above}).find(shape, bytes).empty());
}

TEST_CASE("a pixel that is no number hides the spot whose box it is in, and no other") {
  Scene scene;
  scene.spots = {{30, 20}};
  const auto counts = scene.frame(0, 0);
  camera::StackShape shape = scene.shape();
  shape.type = camera::PixelType::F32;
  const auto index = [&](int x, int y) {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(shape.width_px) +
           static_cast<std::size_t>(x);
  };
  const auto found_beside = [&](int x, int y) {
    std::vector<float> frame(counts.begin(), counts.end());
    frame[index(x, y)] = std::numeric_limits<float>::quiet_NaN();
    return SpotSearch({.box_px = 7, .least_noise = 0.3})
        .find(shape, reinterpret_cast<const std::byte*>(frame.data()))
        .size();
  };
  for (const auto& [x, y] : {std::pair{27, 20}, {33, 23}, {30, 17}, {30, 20}})
    CHECK(found_beside(x, y) == 0);
  for (const auto& [x, y] : {std::pair{26, 20}, {34, 20}, {30, 24}, {29, 16}, {34, 24}, {0, 0}})
    CHECK(found_beside(x, y) == 1);
}

/// Every pixel by the definition alone.
template <class Pixel>
std::vector<FoundSpot> by_definition(const std::vector<Pixel>& frame, int width, int height,
                                     int box) {
  const int half = box / 2;
  const auto at = [&](int x, int y) {
    const int index = std::clamp(y, 0, height - 1) * width + std::clamp(x, 0, width - 1);
    return static_cast<double>(frame[static_cast<std::size_t>(index)]);
  };
  std::vector<FoundSpot> found;
  for (int y = half; y < height - half; ++y) {
    for (int x = half; x < width - half; ++x) {
      bool largest = true;
      double sum = 0;
      for (int v = -half; v <= half; ++v) {
        for (int u = -half; u <= half; ++u) {
          if (u == 0 && v == 0) continue;
          const bool before = v < 0 || (v == 0 && u < 0);
          const double here = at(x + u, y + v);
          largest = largest && (before ? here < at(x, y) : here <= at(x, y));
          const double by_x = at(x + u + 1, y + v) - at(x + u - 1, y + v);
          const double by_y = at(x + u, y + v + 1) - at(x + u, y + v - 1);
          sum -= (u * by_x + v * by_y) / std::hypot(u, v);
        }
      }
      if (largest && sum > 0.5) found.push_back({x, y, static_cast<float>(sum)});
    }
  }
  return found;
}

TEMPLATE_TEST_CASE("spots are found where the definition says, in frames of any width", "",
                   std::uint8_t, std::uint16_t, float) {
  constexpr int kHeight = 21;
  const auto type = sizeof(TestType) == 1   ? camera::PixelType::U8
                    : sizeof(TestType) == 2 ? camera::PixelType::U16
                                            : camera::PixelType::F32;
  std::mt19937 random(3);
  std::uniform_int_distribution<int> few_values(0, 12);  // so that many are equal
  std::size_t all = 0;
  for (int width = 7; width < 60; ++width) {
    std::vector<TestType> frame(static_cast<std::size_t>(width * kHeight));
    for (auto& pixel : frame) pixel = static_cast<TestType>(few_values(random));
    for (const int box : {3, 5, 7}) {
      CAPTURE(width, box);
      const auto expected = by_definition(frame, width, kHeight, box);
      const auto found =
          SpotSearch({.box_px = box, .min_net_gradient = 0.5})
              .find({.width_px = width, .height_px = kHeight, .frames = 1, .type = type},
                    reinterpret_cast<const std::byte*>(frame.data()));
      REQUIRE(found.size() == expected.size());
      all += found.size();
      for (std::size_t i = 0; i < found.size(); ++i) {
        REQUIRE((found[i].x_px == expected[i].x_px && found[i].y_px == expected[i].y_px));
        REQUIRE(found[i].net_gradient == Approx(expected[i].net_gradient).margin(1e-3));
      }
    }
  }
  CHECK(all > 1000);
}

TEST_CASE("the noise of a frame is the same by counting whole pixels as by ordering them") {
  const int side = 200;
  camera::StackShape shape{
      .width_px = side, .height_px = side, .frames = 1, .type = camera::PixelType::U16};
  for (const double sd : {1.5, 60.0, 400.0, 1000.0}) {  // differences of two bytes, too
    CAPTURE(sd);
    auto frame = noise(side, 8000, sd, 5);
    for (int i = 0; i < 100; ++i) {  // from what no noise hides to what it does
      const auto centre = static_cast<std::size_t>((10 + i / 10 * 20) * side + 10 + i % 10 * 20);
      frame[centre] = static_cast<std::uint16_t>(frame[centre] + 0.3 * sd * i);
    }
    const std::vector<float> same(frame.begin(), frame.end());
    const SpotSearch search({.box_px = 3, .least_noise = 0.28867513459481287});
    shape.type = camera::PixelType::U16;
    const auto whole = search.find(shape, bytes_of(frame));
    shape.type = camera::PixelType::F32;
    const auto ordered = search.find(shape, reinterpret_cast<const std::byte*>(same.data()));
    CHECK(whole.size() > 20);
    CHECK(whole.size() < 90);
    CHECK(whole.size() == ordered.size());
  }
}

TEST_CASE("a box that has no middle, or is too large, is refused") {
  for (const int box : {0, 1, 4, 64, 65})
    CHECK_THROWS_WITH(SpotSearch({.box_px = box}),
                      "a box of " + std::to_string(box) + " px; it must be odd, from 3 to 63");
  SpotSearch({.box_px = 63});
}

TEST_CASE("float pixels that were rounded have the noise of that") {
  // Three of four pixels alike: the median difference is 0.
  const camera::StackShape shape{
      .width_px = 64, .height_px = 64, .frames = 1, .type = camera::PixelType::F32};
  std::vector<float> frame(64 * 64);
  std::mt19937 random(1);
  std::bernoulli_distribution one(0.05);
  for (float& pixel : frame) pixel = one(random) ? 1.0f : 0.0f;
  const auto* bytes = reinterpret_cast<const std::byte*>(frame.data());
  CHECK(SpotSearch({.box_px = 7}).find(shape, bytes).empty());  // by the pixels that differ
  CHECK(SpotSearch({.box_px = 7, .least_noise = 0.289}).find(shape, bytes).empty());
  const std::vector<std::uint16_t> whole(frame.begin(), frame.end());  // which always have it
  camera::StackShape of_whole = shape;
  of_whole.type = camera::PixelType::U16;
  CHECK(SpotSearch({.box_px = 7}).find(of_whole, bytes_of(whole)).empty());
}

TEST_CASE("of an odd number of differences the middle one is the noise, whatever its bytes") {
  constexpr std::size_t kSide = 64, kMiddle = kSide * kSide / 2 - 1;  // of 4095
  const camera::StackShape shape{
      .width_px = kSide, .height_px = kSide, .frames = 1, .type = camera::PixelType::U16};
  for (const std::size_t step : {255u, 256u, 300u, 1024u}) {
    for (const std::size_t ones : {kMiddle - 1, kMiddle, kMiddle + 1, kMiddle + 2}) {
      CAPTURE(step, ones);
      // Stripes, and below them faint ones and a spot, whose two differences are none of these.
      std::vector<std::uint16_t> frame(kSide * kSide, 0);
      const std::size_t striped = kSide * kSide - 1 - ones - 2;
      for (std::size_t i = 0; i < striped; ++i)
        frame[i + 1] = static_cast<std::uint16_t>(frame[i] == 0 ? step : 0);
      for (std::size_t i = striped + 1; i < frame.size(); ++i)
        frame[i] = static_cast<std::uint16_t>(frame[striped] + (i - striped) % 2);
      frame[60 * kSide + 30] = static_cast<std::uint16_t>(frame[striped] + 5 * step);
      std::size_t at_spot = 0;
      for (const FoundSpot& spot : SpotSearch({.box_px = 3}).find(shape, bytes_of(frame)))
        at_spot += spot.y_px == 60 ? 1 : 0;
      CHECK(at_spot == (ones > kMiddle ? 1 : 0));
    }
  }
}

/// Found by the default limit from a column on, with pixels as whole numbers and as floats.
std::pair<std::size_t, std::size_t> found_in(int width, const std::vector<std::uint16_t>& frame,
                                             int first_column = 0) {
  camera::StackShape shape{.width_px = width,
                           .height_px = static_cast<int>(frame.size()) / width,
                           .frames = 1,
                           .type = camera::PixelType::U16};
  const SpotSearch search({.box_px = 9});
  const auto count = [&](const std::vector<FoundSpot>& spots) {
    return static_cast<std::size_t>(std::ranges::count_if(
        spots, [&](const FoundSpot& spot) { return spot.x_px >= first_column; }));
  };
  const std::size_t whole = count(search.find(shape, bytes_of(frame)));
  const std::vector<float> same(frame.begin(), frame.end());
  shape.type = camera::PixelType::F32;
  return {whole, count(search.find(shape, reinterpret_cast<const std::byte*>(same.data())))};
}

void add_spot(std::vector<std::uint16_t>& frame, int width, int x, int y, double height) {
  for (int v = -6; v <= 6; ++v)
    for (int u = -6; u <= 6; ++u) {
      auto& pixel = frame[static_cast<std::size_t>((y + v) * width + x + u)];
      pixel = static_cast<std::uint16_t>(
          std::lround(pixel + height * std::exp(-(u * u + v * v) / (2 * 1.3 * 1.3))));
    }
}

TEST_CASE("where a part of the chip is masked, the noise is that of the part that is lit") {
  constexpr int kSide = 192;
  for (const double masked : {0.35, 0.5, 0.67, 0.9}) {
    for (const bool spots : {false, true}) {
      CAPTURE(masked, spots);
      auto frame = noise(kSide, 100, 10, 3);
      if (spots) {
        for (int y = 20; y < 180; y += 40) add_spot(frame, kSide, 182, y, 120);
      }
      for (std::size_t i = 0; i < frame.size(); ++i) {
        if (static_cast<double>(i % kSide) < masked * kSide) frame[i] = 0;
      }
      // At the mask's edge the lit part is a step of ten times its noise, which no fit takes.
      const auto [whole, floats] =
          found_in(kSide, frame, static_cast<int>(std::ceil(masked * kSide)) + 6);
      CHECK(whole == (spots ? 4 : 0));
      CHECK(floats == (spots ? 4 : 0));
    }
  }
}

TEST_CASE("a background that was cut off at 0 gives next to no spots, and hides none") {
  constexpr int kSide = 192;
  for (const double level : {0.0, -0.5, -1.0, -2.0}) {  // of the background, in sd of its noise
    CAPTURE(level);
    std::mt19937 random(7);
    std::normal_distribution<double> value(20 * level, 20);
    std::vector<std::uint16_t> frame(std::size_t{kSide} * kSide);
    for (auto& pixel : frame)
      pixel = static_cast<std::uint16_t>(std::lround(std::max(0.0, value(random))));
    const auto [whole, floats] = found_in(kSide, frame);
    CHECK(whole <= 1);
    CHECK(floats <= 1);
    for (int y = 20; y < 180; y += 40) add_spot(frame, kSide, 100, y, 400);
    const auto [with, as_floats] = found_in(kSide, frame);
    CHECK((with >= 4 && with <= 5));
    CHECK((as_floats >= 4 && as_floats <= 5));
  }
}

TEST_CASE("spots on a background without noise are found, cut off at 0 or not") {
  constexpr int kSide = 192;
  for (const int background : {0, 100}) {
    std::vector<std::uint16_t> frame(std::size_t{kSide} * kSide,
                                     static_cast<std::uint16_t>(background));
    for (int y = 20; y < 180; y += 20)
      for (int x = 20; x < 180; x += 20) add_spot(frame, kSide, x, y, 50);
    const auto [whole, floats] = found_in(kSide, frame);
    CHECK(whole == 64);
    CHECK(floats == 64);
  }
}

TEST_CASE("noise alone gives next to no spots, at any level") {
  const int side = 256;
  const camera::StackShape shape{
      .width_px = side, .height_px = side, .frames = 1, .type = camera::PixelType::U16};
  std::size_t found = 0;
  for (unsigned seed = 0; seed < 16; ++seed) {
    const auto frame = noise(side, 1000, seed % 2 == 0 ? 2 : 50, seed);
    for (const int box : {3, 7, 9, 13}) {
      found += SpotSearch({.box_px = box}).find(shape, bytes_of(frame)).size();
    }
  }
  CHECK(found <= 1);  // 4 megapixels
}

TEST_CASE("a frame smaller than the box, or all equal, holds no spot") {
  const camera::StackShape small{
      .width_px = 5, .height_px = 9, .frames = 1, .type = camera::PixelType::U16};
  const std::vector<std::uint16_t> equal(81, 7);
  CHECK(SpotSearch({.box_px = 7}).find(small, bytes_of(equal)).empty());
  const camera::StackShape shape{
      .width_px = 9, .height_px = 9, .frames = 1, .type = camera::PixelType::U16};
  CHECK(SpotSearch({.box_px = 7}).find(shape, bytes_of(equal)).empty());
}

}  // namespace
}  // namespace driftd::tools
