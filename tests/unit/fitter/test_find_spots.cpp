// SPDX-License-Identifier: MIT
// What the kernels that find spots do, by threads of the processor: the spots of SpotSearch, with
// net gradients of the same bits, whatever the frames and however many threads.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/searching_blocks.hpp"
#include "unit/fitter/drawn_frames.hpp"

namespace driftd::fitter {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// What the kernels make of frames, one after another.
template <class Pixel>
std::vector<FrameSpot> found_by_blocks(const FrameShape& shape, std::vector<Pixel> frames,
                                       const SpotSearch& search, const HotPixels& hot,
                                       std::size_t threads) {
  const auto count = static_cast<std::uint32_t>(frames.size() / shape.pixels());
  cuda::SearchArgument job = {};
  job.shape = shape;
  job.frames = frames.data();
  job.count = count;
  job.first = 40;
  job.box = search.box();
  job.min_net_gradient = search.settings().min_net_gradient;
  job.noise_limit = search.noise_limit();
  job.least_noise = search.settings().least_noise;
  job.fills = hot.fills().data();
  job.sources = hot.sources().data();
  job.rings = hot.rings().data();
  job.ring_count = static_cast<std::uint32_t>(hot.rings().size());
  std::vector<double> limits(count);
  std::vector<std::uint32_t> is_spot(std::size_t{count} * job.words()), counts(count), ends(count);
  job.limits = limits.data();
  job.is_spot = is_spot.data();
  job.found = counts.data();
  job.ends = ends.data();
  const auto in_each = [&](const auto& step) {
    for (std::uint32_t frame = 0; frame < count; ++frame)
      test::run_block(threads, [&](auto& group, auto& memory) { step(group, memory, frame); });
  };
  in_each([&](auto& group, auto&, auto frame) { cuda::fill_holes(group, job, frame); });
  if (!(job.min_net_gradient > 0))
    in_each(
        [&](auto& group, auto& memory, auto frame) { cuda::set_limit(group, memory, job, frame); });
  test::mark_spots(job);
  in_each(
      [&](auto& group, auto& memory, auto frame) { cuda::count_spots(group, memory, job, frame); });
  test::run_block(threads, [&](auto& group, auto& memory) { cuda::set_ends(group, memory, job); });
  std::vector<FrameSpot> spots(ends.back());
  std::vector<Place> places(spots.size());
  job.spots = spots.data();
  job.roi_px = 4;
  job.places = places.data();
  in_each([&](auto& group, auto& memory, auto frame) {
    cuda::gather_spots(group, memory, job, frame);
  });
  for (std::size_t i = 0; i < spots.size(); ++i) {
    CHECK(places[i].frame == spots[i].frame - 40);
    CHECK(places[i].x_px == roi_origin(spots[i].x_px, 4, shape.width_px) + 2);
    CHECK(places[i].y_px == roi_origin(spots[i].y_px, 4, shape.height_px) + 2);
  }
  return spots;
}

/// @returns how many there are
template <class Pixel>
std::size_t check_same(const FrameShape& shape, const std::vector<Pixel>& frames,
                       const SpotSearchSettings& settings, const HotPixels& hot = {},
                       std::size_t threads = 3) {
  const SpotSearch search(settings);
  const std::vector<FrameSpot> found = found_by_blocks(shape, frames, search, hot, threads);
  std::vector<FrameSpot> expected;
  std::vector<std::byte> copy;
  for (std::size_t frame = 0; frame * shape.pixels() < frames.size(); ++frame) {
    const auto* pixels = reinterpret_cast<const std::byte*>(frames.data() + frame * shape.pixels());
    for (const FoundSpot& spot : search.find(shape, hot.filled(shape, pixels, copy)))
      expected.push_back(
          {spot.x_px, spot.y_px, static_cast<std::int32_t>(40 + frame), spot.net_gradient});
  }
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const FrameSpot &is = found[i], &wanted = expected[i];
    if (is.x_px != wanted.x_px || is.y_px != wanted.y_px || is.frame != wanted.frame ||
        std::bit_cast<std::uint32_t>(is.net_gradient) !=
            std::bit_cast<std::uint32_t>(wanted.net_gradient))
      FAIL("spot " << i << ": " << is.x_px << ", " << is.y_px << " in " << is.frame << " with "
                   << is.net_gradient << ", expected " << wanted.x_px << ", " << wanted.y_px
                   << " in " << wanted.frame << " with " << wanted.net_gradient);
  }
  return found.size();
}

template <class Pixel>
void check_sizes_and_boxes() {
  std::size_t spots = 0;
  for (const auto& [width, height] : {std::pair{61, 40}, {7, 7}, {33, 9}, {6, 30}, {150, 129}}) {
    const FrameShape shape{width, height, test::type_of<Pixel>()};
    for (const int box_px : {3, 7, 13, 63}) {
      CAPTURE(width, height, box_px);
      const auto frames =
          test::drawn<Pixel>(shape, 3, 20, 3, static_cast<unsigned>(width + box_px));
      spots += check_same(shape, frames, {.box_px = box_px, .least_noise = 0.3});
      spots += check_same(shape, frames, {.box_px = box_px, .min_net_gradient = 5});
    }
  }
  CHECK(spots > 200);
}

TEST_CASE("Blocks of threads find the spots that the CPU finds, of every pixel type, to the bit") {
  check_sizes_and_boxes<std::uint8_t>();
  check_sizes_and_boxes<std::uint16_t>();
  check_sizes_and_boxes<float>();
}

TEST_CASE("The noise is the CPU's where most neighbours are equal, or all, or few are numbers") {
  const FrameShape whole{120, 90, PixelType::U16}, floats{120, 90, PixelType::F32};
  std::size_t spots = 0;
  for (const double background : {-6.0, -3.0, 0.0, 500.0})  // cut off at 0 in part
    for (const double noise : {0.0, 0.2, 3.0, 900.0}) {
      CAPTURE(background, noise);
      spots += check_same(whole, test::drawn<std::uint16_t>(whole, 2, background, noise, 5),
                          {.box_px = 7}, {}, 5);
      auto light = test::drawn<float>(floats, 2, background, noise, 6);
      spots += check_same(floats, light, {.box_px = 7}, {}, 2);
      for (float& pixel : light) pixel = std::max(pixel, 0.0f) * 0.37f;
      spots += check_same(floats, light, {.box_px = 7, .least_noise = 0.1});
      for (std::size_t i = 0; i < light.size(); ++i)
        if (i % 120 > 40) light[i] = i % 3 == 0 ? 0.0f : -0.0f;  // a mask
      spots += check_same(floats, light, {.box_px = 7, .least_noise = 0.1});
    }
  CHECK(spots > 100);
  check_same(whole, std::vector<std::uint16_t>(whole.pixels(), 7), {.box_px = 7});
  check_same(floats, std::vector<float>(floats.pixels(), kNaN), {.box_px = 7, .least_noise = 0.1});
}

TEST_CASE(
    "Pixels that are no numbers, or beyond all others, hide the spots that they hide on the CPU") {
  const FrameShape shape{80, 60, PixelType::F32};
  std::mt19937 random(3);
  std::size_t spots = 0;
  for (const float odd : {kNaN, kInfinity, -kInfinity, 3e38f, -3e38f})
    for (const int every : {7, 60, 900}) {
      auto frames = test::drawn<float>(shape, 3, 20, 3, 9);
      std::uniform_int_distribution<int> one_in(0, every);
      for (float& pixel : frames)
        if (one_in(random) == 0) pixel = odd;
      spots += check_same(shape, frames, {.box_px = 5, .least_noise = 0.1});
      spots += check_same(shape, frames, {.box_px = 5, .min_net_gradient = 20});
    }
  CHECK(spots > 100);
}

TEST_CASE("Plateaus have one spot, the first in reading order") {
  const FrameShape shape{48, 33, PixelType::U8};
  std::mt19937 random(4);
  std::size_t spots = 0;
  for (const int levels : {2, 3, 5}) {
    std::uniform_int_distribution<int> level(0, levels - 1);
    std::vector<std::uint8_t> frames(3 * shape.pixels());
    for (auto& pixel : frames) pixel = static_cast<std::uint8_t>(level(random));
    spots += check_same(shape, frames, {.box_px = 3, .min_net_gradient = 1e-3});
    spots += check_same(shape, frames, {.box_px = 3});
  }
  CHECK(spots > 50);
}

template <class Pixel>
void check_holes() {
  const FrameShape shape{50, 44, test::type_of<Pixel>()};
  std::vector<float> variances(shape.pixels(), 2.0f);
  std::mt19937 random(8);
  std::uniform_int_distribution<int> one_in(0, 15);
  for (float& variance : variances)
    if (one_in(random) == 0) variance = 1e6f;
  for (std::size_t y = 10; y < 19; ++y)  // a hole of several rings, and one at the border
    for (std::size_t x = 0; x < 9; ++x)
      variances[y * 50 + x + 20] = variances[(y + 25) * 50 + x] = kInfinity;
  const HotPixels hot(50, variances);
  CHECK(hot.rings().size() >= 5);
  CHECK(hot.rings().back() == hot.fills().size());
  auto frames = test::drawn<Pixel>(shape, 4, 20, 3, 2);
  for (std::size_t i = 0; i < frames.size(); ++i)
    if (variances[i % shape.pixels()] > 100) frames[i] = 250;
  CHECK(check_same(shape, frames, {.box_px = 7, .least_noise = 0.1}, hot) > 3);
}

TEST_CASE("Holes are filled as on the CPU, ring by ring") {
  check_holes<std::uint8_t>();
  check_holes<std::uint16_t>();
  check_holes<float>();
}

TEST_CASE("Any number of threads finds the same") {
  const FrameShape shape{70, 51, PixelType::U16};
  const auto frames = test::drawn<std::uint16_t>(shape, 9, 1, 2, 12);
  for (const std::size_t threads : {1u, 2u, 7u, 16u})
    CHECK(check_same(shape, frames, {.box_px = 7}, {}, threads) > 5);
}

}  // namespace
}  // namespace driftd::fitter
