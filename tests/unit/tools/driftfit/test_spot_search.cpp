// SPDX-License-Identifier: MIT
#include <limits>
#include <random>
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

TEST_CASE("float pixels that were rounded have the noise of that") {
  // Three of four pixels alike: the median difference is 0.
  const camera::StackShape shape{
      .width_px = 64, .height_px = 64, .frames = 1, .type = camera::PixelType::F32};
  std::vector<float> frame(64 * 64);
  std::mt19937 random(1);
  std::bernoulli_distribution one(0.05);
  for (float& pixel : frame) pixel = one(random) ? 1.0f : 0.0f;
  const auto* bytes = reinterpret_cast<const std::byte*>(frame.data());
  CHECK(SpotSearch({.box_px = 7}).find(shape, bytes).size() > 10);
  CHECK(SpotSearch({.box_px = 7, .least_noise = 0.289}).find(shape, bytes).empty());
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
