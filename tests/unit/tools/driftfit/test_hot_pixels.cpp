// SPDX-License-Identifier: MIT
#include "tools/driftfit/spot_search.hpp"

#include <cmath>
#include <limits>

#include "support/catch.hpp"

namespace driftd::tools {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kWidth = 6, kHeight = 5;

camera::StackShape shape_of(camera::PixelType type) {
  return {.width_px = kWidth, .height_px = kHeight, .frames = 1, .type = type};
}

/// A frame whose pixel in column x and row y is 10 x + y, with the hot pixels filled.
template <class Pixel>
std::vector<Pixel> filled(const HotPixels& hot, camera::PixelType type) {
  std::vector<Pixel> frame;
  for (int y = 0; y < kHeight; ++y)
    for (int x = 0; x < kWidth; ++x) frame.push_back(static_cast<Pixel>(10 * x + y));
  std::vector<std::byte> copy;
  const auto* bytes =
      hot.filled(shape_of(type), reinterpret_cast<const std::byte*>(frame.data()), copy);
  const auto* pixels = reinterpret_cast<const Pixel*>(bytes);
  return {pixels, pixels + frame.size()};
}

std::size_t at(int x, int y) {
  return static_cast<std::size_t>(y * kWidth + x);
}

std::vector<float> even_map() {
  return std::vector<float>(static_cast<std::size_t>(kWidth * kHeight), 2.0f);
}

TEST_CASE("a frame without hot pixels is not copied") {
  const std::vector<std::byte> frame(kWidth * kHeight);
  std::vector<std::byte> copy;
  auto map = even_map();
  map[at(2, 2)] = 16 * 2.0f;  // not beyond the limit
  for (const HotPixels& hot : {HotPixels(), HotPixels(kWidth, map)}) {
    CHECK(hot.count() == 0);
    CHECK(hot.filled(shape_of(camera::PixelType::U8), frame.data(), copy) == frame.data());
  }
}

TEST_CASE("a hot pixel has the mean of its neighbours that are not, in frames of each type") {
  auto map = even_map();
  map[at(2, 2)] = 16 * 2.0f + 0.01f;
  map[at(3, 2)] = kInfinity;
  map[at(0, 0)] = 1e6f;
  const HotPixels hot(kWidth, map);
  CHECK(hot.count() == 3);
  CHECK(hot.median_variance() == 2);
  // Means of 11, 12, 13, 21, 23, 31, 33; of 21, 23, 31, 33, 41, 42, 43; of 1, 10, 11.
  const auto floats = filled<float>(hot, camera::PixelType::F32);
  CHECK(floats[at(2, 2)] == Approx(144.0 / 7));
  CHECK(floats[at(3, 2)] == Approx(234.0 / 7));
  CHECK(floats[at(0, 0)] == Approx(22.0 / 3));
  CHECK(floats[at(4, 2)] == 42);
  const auto bytes = filled<std::uint8_t>(hot, camera::PixelType::U8);
  CHECK(bytes[at(2, 2)] == 21);
  CHECK(bytes[at(3, 2)] == 33);
  CHECK(filled<std::uint16_t>(hot, camera::PixelType::U16)[at(0, 0)] == 7);
}

TEST_CASE("neighbours in the last column and row count") {
  auto map = even_map();
  map[at(4, 3)] = kInfinity;
  map[at(5, 0)] = kInfinity;
  const auto pixels = filled<float>(HotPixels(kWidth, map), camera::PixelType::F32);
  CHECK(pixels[at(4, 3)] == Approx(43));  // mean of 32 to 34, 42, 44, 52 to 54
  CHECK(pixels[at(5, 0)] == Approx(44));  // mean of 40, 41, 51
}

TEST_CASE("in a map of whole numbers most of which are 0, those of 1 are not hot") {
  std::vector<float> map(kWidth * kHeight, 0.0f);
  map[at(1, 1)] = map[at(4, 3)] = 1;
  map[at(2, 3)] = 2;
  CHECK(HotPixels(kWidth, map).count() == 1);
}

TEST_CASE("a hole is filled from its rim inwards") {
  auto map = even_map();
  for (int x = 0; x < 3; ++x)
    for (int y = 0; y < 4; ++y) map[at(x, y)] = kInfinity;
  const auto pixels = filled<float>(HotPixels(kWidth, map), camera::PixelType::F32);
  CHECK(pixels[at(2, 1)] == Approx(31));  // mean of 30, 31 and 32
  CHECK(pixels[at(0, 3)] == Approx(9));   // mean of 4 and 14
  // (1, 0) is filled from (2, 0), 30.5, and (2, 1), 31; (1, 1) waits as long as (1, 0), and (0, 0)
  // is filled from both.
  CHECK(pixels[at(1, 0)] == Approx((30.5 + 31) / 2));
  CHECK(pixels[at(0, 0)] == Approx((pixels[at(1, 0)] + pixels[at(1, 1)]) / 2));
}

}  // namespace
}  // namespace driftd::tools
