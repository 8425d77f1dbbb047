// SPDX-License-Identifier: MIT
#include "tools/driftfit/spot_fitter.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/hard_spots.hpp"
#include "support/spots.hpp"
#include "tools/driftfit/clipped_markers.hpp"

namespace driftd::tools {
namespace {

using Fits = std::vector<fitter::Localization>;

Fits fits_of(const fitter::Batch& batch, ColdStart cold_start, int threads = 2) {
  SpotFitterSettings settings;
  settings.back_end = BackEnd::Cpu;
  settings.threads = threads;
  settings.cold_start = cold_start;
  settings.options.model = fitter::Model::EllipticalGaussian;
  settings.options.estimator = fitter::Estimator::WeightedLeastSquares;
  settings.options.spots_only = false;
  SpotFitter spot_fitter(settings);
  Fits fits(batch.count);
  spot_fitter.fit(batch, fits);
  return fits;
}

TEST_CASE("a swarm searches what has no start and leaves alone what has one") {
  constexpr std::size_t kSpots = 30;
  const auto sample = test::draw_hard(test::Hard::Ordinary, kSpots, 2);
  std::vector<fitter::Start> starts(kSpots);
  const auto warm = [](std::size_t i) { return i % 5 < 2; };
  for (std::size_t i = 0; i < kSpots; ++i) {
    if (warm(i)) starts[i] = {5, 5, 1.4f, 1.4f};
  }
  fitter::Batch batch = sample.batch();
  batch.starts = starts.data();
  const Fits peak = fits_of(batch, ColdStart::Peak);
  const Fits swarm = fits_of(batch, ColdStart::Swarm);
  const Fits one_thread = fits_of(batch, ColdStart::Swarm, 1);
  std::size_t differ = 0;  // a few end on the same bits by either way
  for (std::size_t i = 0; i < kSpots; ++i) {
    if (warm(i)) CHECK(swarm[i].x_px == peak[i].x_px);
    differ += swarm[i].x_px != peak[i].x_px ? 1u : 0u;
    CHECK(swarm[i].x_px == Approx(peak[i].x_px).margin(5e-3));
    CHECK(swarm[i].x_px == one_thread[i].x_px);
  }
  CHECK(differ > kSpots / 3);
}

/// Fits with a read noise of 3 electrons of every pixel, told by the noise model or a map.
fitter::Localization one_fit(fitter::Estimator estimator, bool map, float excess_noise) {
  const auto sample = test::draw_hard(test::Hard::Ordinary, 1, 3);
  SpotFitterSettings settings;
  settings.back_end = BackEnd::Cpu;
  settings.options.estimator = estimator;
  settings.options.noise = {2, map ? 100.0f : 3.0f, 5};
  settings.excess_noise = excess_noise;
  fitter::Batch batch = sample.batch();
  const std::vector<float> variances(static_cast<std::size_t>(batch.roi_px * batch.roi_px),
                                     2.25f);  // adu^2
  if (map) batch.variances = variances.data();
  Fits fits(1);
  SpotFitter(settings).fit(batch, fits);
  return fits[0];
}

TEST_CASE("a map of the read noise is its read noise") {
  const auto estimator =
      GENERATE(fitter::Estimator::WeightedLeastSquares, fitter::Estimator::PoissonLikelihood);
  const float excess_noise = GENERATE(1.0f, 2.0f);
  const auto by_map = one_fit(estimator, true, excess_noise);
  const auto by_model = one_fit(estimator, false, excess_noise);
  REQUIRE(fitter::converged(by_model.status));
  CHECK(by_map.x_px == Approx(by_model.x_px).margin(1e-5));
  CHECK(by_map.x_sd_px == Approx(by_model.x_sd_px).epsilon(1e-4));
}

TEST_CASE("of a signal of twice the variance less is known") {
  const auto estimator =
      GENERATE(fitter::Estimator::ImplicitLeastSquares, fitter::Estimator::WeightedLeastSquares,
               fitter::Estimator::PoissonLikelihood);
  const double ratio = static_cast<double>(one_fit(estimator, false, 2).x_sd_px) /
                       static_cast<double>(one_fit(estimator, false, 1).x_sd_px);
  CHECK(ratio > 1.2);
  CHECK(ratio < std::sqrt(2.0) + 0.01);
}

/// What fits of the rotated model tell of a spot that lies at 45 degrees, without noise.
fitter::Localization diagonal_fit(fitter::Estimator estimator) {
  constexpr int kSide = 15;
  std::vector<float> pixels;
  for (int row = 0; row < kSide; ++row) {
    for (int column = 0; column < kSide; ++column) {
      const double u = (column + row - 14.0) / std::sqrt(2.0) / 2.6;
      const double v = (row - column) / std::sqrt(2.0) / 1.1;
      pixels.push_back(static_cast<float>(3 + 300 * std::exp(-(u * u + v * v) / 2)));
    }
  }
  SpotFitterSettings settings;
  settings.back_end = BackEnd::Cpu;
  settings.options.model = fitter::Model::RotatedGaussian;
  settings.options.estimator = estimator;
  settings.options.noise = {1, 1, 0};
  Fits fits(1);
  SpotFitter(settings).fit(
      {.pixels = pixels.data(), .type = fitter::PixelType::F32, .roi_px = kSide, .count = 1}, fits);
  return fits[0];
}

TEST_CASE("a weighted fit of a diagonal spot is told to know as much as the likelihood's") {
  const auto weighted = diagonal_fit(fitter::Estimator::WeightedLeastSquares);
  const auto likely = diagonal_fit(fitter::Estimator::PoissonLikelihood);
  REQUIRE(fitter::converged(weighted.status));
  CHECK(weighted.x_sd_px == Approx(likely.x_sd_px).epsilon(0.02));
  CHECK(weighted.y_sd_px == Approx(likely.y_sd_px).epsilon(0.02));
}

/// Photons and background that fits find of spots of 1,000 photons on `background`, on the average.
struct Found {
  double photons, background, passing;
};

Found found_of(double background, fitter::Estimator estimator, bool map) {
  constexpr int kSide = 11;
  constexpr std::size_t kCount = 400;
  const auto images =
      test::simulate_spots<std::uint16_t>(kSide, 1000, background * kSide * kSide, kCount, 31);
  SpotFitterSettings settings;
  settings.back_end = BackEnd::Cpu;
  settings.options.estimator = estimator;
  settings.options.noise = {1, 1, 0};
  const std::vector<float> variances(images.pixels.size(), 1);
  fitter::Batch batch = {.pixels = images.pixels.data(),
                         .type = fitter::PixelType::U16,
                         .roi_px = kSide,
                         .count = kCount,
                         .variances = map ? variances.data() : nullptr};
  Fits fits(kCount);
  SpotFitter(settings).fit(batch, fits);
  Found found = {};
  for (const fitter::Localization& l : fits) {
    if (!fitter::converged(l.status)) continue;
    found.passing += 1;
    found.photons += 2 * M_PI * static_cast<double>(l.amplitude_adu * l.sigma_x_px * l.sigma_x_px);
    found.background += static_cast<double>(l.background_adu);
  }
  return {found.photons / found.passing, found.background / found.passing,
          found.passing / static_cast<double>(kCount)};
}

TEST_CASE("weights make neither photons nor background less than they are") {
  const double background = GENERATE(1.0, 4.0, 20.0);
  const bool map = GENERATE(false, true);
  const Found weighted = found_of(background, fitter::Estimator::WeightedLeastSquares, map);
  const Found plain = found_of(background, fitter::Estimator::LeastSquares, false);
  CAPTURE(background, map);
  CHECK(weighted.passing > 0.98);
  CHECK(weighted.photons == Approx(plain.photons).epsilon(0.02));
  CHECK(weighted.background == Approx(plain.background).margin(0.02 * background + 0.05));
}

/// Spots cut off at a part of their height.
std::vector<std::uint16_t> clipped(double at, std::size_t count) {
  auto pixels = test::simulate_spots<std::uint16_t>(11, 20000, 1000, count, 32).pixels;
  const auto most = *std::max_element(pixels.begin(), pixels.end());
  for (auto& pixel : pixels)
    pixel = std::min(pixel, static_cast<std::uint16_t>(at * static_cast<double>(most)));
  return pixels;
}

std::string told(const auto& pixels, fitter::PixelType type, int side = 11) {
  const std::size_t area = static_cast<std::size_t>(side) * static_cast<std::size_t>(side);
  ClippedPixels clipped;
  for (std::size_t first = 0; first < pixels.size(); first += 100 * area)
    clipped.look_at({.pixels = pixels.data() + first, .type = type, .roi_px = side, .count = 100});
  return clipped_spots_in_words(clipped);
}

TEST_CASE("spots that are clipped are told, others are not") {
  constexpr auto kU16 = fitter::PixelType::U16;
  CHECK(told(clipped(1, 500), kU16).empty());
  CHECK_THAT(told(clipped(0.3, 500), kU16), contains("at the top") && contains("--saturation"));
  std::vector<std::uint16_t> few = test::simulate_spots<std::uint16_t>(11, 60, 400, 500, 33).pixels;
  CHECK(told(few, kU16).empty());
  CHECK(told(std::vector<std::uint16_t>(), kU16).empty());
}

TEST_CASE("a few flat tops below the tops of most others are chance, but not at full scale") {
  auto pixels = clipped(1, 100);
  const auto most = *std::max_element(pixels.begin(), pixels.end());
  const auto cut = [&](std::uint16_t level) {
    auto some = pixels;
    for (std::size_t i = 0; i < 3 * 121; ++i) some[i] = std::min(some[i], level);
    return told(some, fitter::PixelType::U16);
  };
  REQUIRE(most > 600);
  CHECK(cut(512).empty());
  CHECK_THAT(cut(511), contains("3 % of the ROIs") && contains("of exactly 511"));
}

TEST_CASE("spots without noise, the same on all their sides, are not told to be clipped") {
  constexpr int kSide = 10;
  for (const auto& [x, y] : {std::pair(3.0, 5.0), std::pair(4.5, 4.5), std::pair(4.5, 5.0)}) {
    std::vector<float> pixels;
    for (int i = 0; i < 100; ++i)
      for (int k = 0; k < kSide * kSide; ++k)
        pixels.push_back(static_cast<float>(
            900 * std::exp(-(std::pow(k % kSide - x, 2) + std::pow(k / kSide - y, 2)) / 4.5) + 30));
    CAPTURE(x, y);
    CHECK(told(pixels, fitter::PixelType::F32, kSide).empty());
  }
}

TEST_CASE("clipped spots are told beside hot pixels, and hot pixels are no clipped spots") {
  constexpr auto kU16 = fitter::PixelType::U16;
  auto hot = clipped(0.3, 500);
  const auto most = *std::max_element(hot.begin(), hot.end());
  for (std::size_t roi = 0; roi < 500; roi += 3)
    hot[roi * 121 + 17] = static_cast<std::uint16_t>(60000 + roi);
  CHECK_THAT(told(hot, kU16), contains("of exactly " + std::to_string(most)));

  auto sound = clipped(1, 500);
  for (std::size_t roi = 0; roi < 500; ++roi)
    for (const std::size_t pixel : {3u, 17u, 40u, 117u}) sound[roi * 121 + pixel] = 65535;
  CHECK(told(sound, kU16).empty());
}

TEST_CASE("neither rows and corners of hot pixels nor tracks of particles are clipped spots") {
  constexpr std::size_t kSide = 11;
  const auto sound = clipped(1, 500);
  const auto set = [](auto& pixels, std::size_t roi, std::size_t x, std::size_t y,
                      std::uint16_t level) {
    if (x < kSide && y < kSide) pixels[(roi * kSide + y) * kSide + x] = level;
  };
  struct Shape {
    std::vector<std::pair<std::size_t, std::size_t>> pixels;
  };
  const std::vector<Shape> shapes = {{{{2, 1}, {3, 1}, {4, 1}}},
                                     {{{9, 7}, {9, 8}, {9, 9}, {9, 10}}},
                                     {{{3, 5}, {4, 5}, {5, 5}}},  // through the spot
                                     {{{1, 1}, {2, 1}, {1, 2}}},
                                     {{{8, 8}, {9, 8}, {8, 9}, {9, 9}}}};
  for (const std::uint16_t level : {std::uint16_t{30000}, std::uint16_t{65535}}) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      auto hot = sound;
      for (std::size_t roi = 0; roi < 500; ++roi)
        for (const auto& [x, y] : shapes[i].pixels) set(hot, roi, x, y, level);
      CAPTURE(level, i);
      CHECK(told(hot, fitter::PixelType::U16).empty());
    }
  }
  std::mt19937 random(6);
  std::uniform_real_distribution<double> anywhere(0, 10.9), angles(0, 6.28), lengths(3, 8);
  auto tracks = sound;
  for (std::size_t roi = 0; roi < 500; ++roi) {
    const double x = anywhere(random), y = anywhere(random), angle = angles(random);
    const double length = lengths(random);
    for (double along = 0; along < length; along += 0.2)
      set(tracks, roi, static_cast<std::size_t>(x + along * std::cos(angle)),
          static_cast<std::size_t>(y + along * std::sin(angle)), 65535);
  }
  CHECK(told(tracks, fitter::PixelType::U16).empty());
}

TEST_CASE("beads with a flat top and no noise are not clipped") {
  constexpr int kSide = 19;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> about(8.5, 9.5);
  for (const auto& [power, width] :
       {std::pair(6.0, 3.0), std::pair(8.0, 4.0), std::pair(16.0, 3.0), std::pair(16.0, 5.0),
        std::pair(60.0, 4.0), std::pair(400.0, 4.0)}) {
    std::vector<float> pixels;
    for (int i = 0; i < 100; ++i) {
      const double x = about(random), y = about(random);
      for (int k = 0; k < kSide * kSide; ++k)
        pixels.push_back(static_cast<float>(
            100 +
            1000 * std::exp(-std::pow(std::hypot(k % kSide - x, k / kSide - y) / width, power))));
    }
    CAPTURE(power, width);
    CHECK(told(pixels, fitter::PixelType::F32, kSide).empty());
    std::vector<std::uint16_t> rounded;
    std::ranges::transform(pixels, std::back_inserter(rounded),
                           [](float value) { return static_cast<std::uint16_t>(value + 0.5f); });
    CHECK(told(rounded, fitter::PixelType::U16, kSide).empty());
  }
}

TEST_CASE("what --saturation would leave is counted, and what it leaves out is not told again") {
  const auto pixels = clipped(0.3, 500);
  const auto most = *std::max_element(pixels.begin(), pixels.end());
  for (const bool again : {false, true}) {
    ClippedPixels clipped(again ? static_cast<float>(most) : INFINITY);
    clipped.look_at(
        {.pixels = pixels.data(), .type = fitter::PixelType::U16, .roi_px = 11, .count = 500});
    CHECK(clipped.rois() == 500);
    CHECK(clipped.tops().size() == 500);
    CHECK(clipped.level().has_value() != again);
    const auto reach = std::ranges::count(clipped.tops(), static_cast<float>(most));
    CHECK(clipped.below(most) <= 500u - static_cast<std::size_t>(reach));
    CHECK(clipped.below(1.02 * most) == 500);
  }
}

TEST_CASE("a saturation is advised where it leaves markers for a drift, and else not") {
  const auto pixels = clipped(0.3, 100);
  const auto most = *std::max_element(pixels.begin(), pixels.end());
  ClippedPixels clipped;
  clipped.look_at(
      {.pixels = pixels.data(), .type = fitter::PixelType::U16, .roi_px = 11, .count = 100});
  REQUIRE(clipped.level() == std::optional<double>(most));
  // Of five markers so many reach the level, in frames from the first one of them on.
  const auto said = [&](int reaching, int from, bool picked) {
    MarkerTracks tracks(5);
    for (int frame = 0; frame < 10; ++frame) {
      std::vector<Spot> spots;
      for (int m = 0; m < 5; ++m) {
        Spot spot{.frame = frame, .marker = m};
        const bool reaches = m < reaching && frame >= from;
        spot.top = static_cast<float>(most) - (reaches ? 0.0f : 1.0f);
        spots.push_back(spot);
      }
      tracks.add_frame(spots);
    }
    return clipped_markers_in_words(clipped, tracks, {.picked = picked});
  };
  CHECK_THAT(said(2, 0, false), contains("leaves them out, and 3 of 5 markers with a drift in 10 "
                                         "of 10 frames\n"));
  // One marker is enough where no more are found, but not where three of those picked are wanted.
  CHECK_THAT(said(4, 0, false), contains("and 1 of 5 markers with a drift in 10 of 10 frames"));
  CHECK_THAT(said(4, 0, true), contains("less light or a shorter exposure helps (--saturation " +
                                        std::to_string(most) + " would leave a drift in 0 of 10"));
  CHECK_THAT(said(5, 0, false), contains("would leave a drift in 0 of 10 frames)\n"));
  CHECK_THAT(said(5, 4, false), contains("would leave a drift in 4 of 10 frames)\n"));
  CHECK_THAT(said(5, 6, false), contains("leaves them out, and 5 of 5 markers with a drift in 6 of "
                                         "10 frames\n"));
  CHECK(clipped_markers_in_words(ClippedPixels(), MarkerTracks(5), {}).empty());
}

TEST_CASE("floats that a program has scaled to 1 tell where their camera clipped") {
  for (const bool is_clipped : {false, true}) {
    std::vector<float> scaled;
    for (const std::uint16_t pixel : clipped(is_clipped ? 0.3 : 1, 500))
      scaled.push_back(static_cast<float>(pixel) / 65535.0f);
    const std::string said = told(scaled, fitter::PixelType::F32);
    CHECK(said.empty() == !is_clipped);
    if (!is_clipped) continue;
    // The level that is proposed leaves them out.
    const float proposed = std::stof(said.substr(said.find("--saturation ") + 13));
    const float level = *std::max_element(scaled.begin(), scaled.end());
    CHECK(proposed <= level);
    CHECK(proposed > 0.999f * level);
  }
}

TEST_CASE("wide spots on few levels are flat at their top without being clipped") {
  std::mt19937 random(4);
  std::uniform_real_distribution<double> apart(-0.5, 0.5);
  std::normal_distribution<double> noise(0, 0.3);
  std::vector<std::uint8_t> pixels;
  for (int roi = 0; roi < 500; ++roi) {
    const double x = 10 + apart(random), y = 10 + apart(random);
    for (int i = 0; i < 441; ++i) {
      const double square = std::pow(i % 21 - x, 2) + std::pow(i / 21 - y, 2);
      pixels.push_back(
          static_cast<std::uint8_t>(20.5 + 180 * std::exp(-square / 72) + noise(random)));
    }
  }
  CHECK(told(pixels, fitter::PixelType::U8, 21).empty());
}

}  // namespace
}  // namespace driftd::tools
