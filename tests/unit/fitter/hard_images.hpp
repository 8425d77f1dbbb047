// SPDX-License-Identifier: MIT
// Images that are no spots, or hardly: what a search must end on all the same. Seeded.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "fitter/fitter.hpp"
#include "support/spots.hpp"

namespace driftd::test {

/// One image of each kind; all pixels are finite.
struct HardImages {
  int side;
  std::vector<std::string> kinds;
  std::vector<float> pixels;
};

namespace hard {

using Random = std::mt19937_64;

inline float gaussian(Random& random, float mean, float sd) {
  return std::normal_distribution<float>(mean, sd)(random);
}

inline float poisson(Random& random, double mean) {
  return static_cast<float>(std::poisson_distribution<int>(mean)(random));
}

/// Calls add(kind, value): value(column, row) gives the pixels of one image.
template <class Add>
void add_noise(Random& random, const Add& add) {
  add("white", [&](int, int) { return gaussian(random, 100, 5); });
  add("white about 0", [&](int, int) { return gaussian(random, 0, 3); });
  for (const double mean : {0.05, 1.0, 30.0, 1e5})
    add("Poisson", [&](int, int) { return poisson(random, mean); });
  add("two levels", [&](int, int) { return random() % 2 == 0 ? 7.0f : 8.0f; });
}

template <class Add>
void add_pixels(int side, Random& random, const Add& add) {
  const auto hot = [](int column, int row) {
    return [=](int c, int r) { return c == column && r == row ? 4095.0f : 100.0f; };
  };
  add("constant", [](int, int) { return 42.0f; });
  add("hot pixel", hot(side / 2, side / 3));
  add("hot corner", hot(0, side - 1));
  add("cold pixel", [=](int c, int r) { return c == side / 3 && r == 1 ? 0.0f : 100.0f; });
  add("hot pixels in noise", [&](int c, int r) {
    return gaussian(random, 100, 5) + ((c * 7 + r * 5) % 11 == 3 ? 2000.0f : 0.0f);
  });
  add("all but one saturated", [=](int c, int r) { return c + r == 1 ? 4094.0f : 4095.0f; });
  add("hot row", [=](int, int r) { return r == side / 2 ? 900.0f : 0.0f; });
}

template <class Add>
void add_patterns(int side, Random& random, const Add& add) {
  const auto n = static_cast<float>(side);
  add("ramp", [](int c, int) { return 100.0f + 10.0f * static_cast<float>(c); });
  add("falling ramp", [=](int, int r) { return 3.0f * (n - static_cast<float>(r)); });
  add("noisy ramp",
      [&](int c, int r) { return static_cast<float>(3 * c - 2 * r) + gaussian(random, 500, 2); });
  add("half", [=](int c, int) { return 2 * c < side ? 10.0f : 90.0f; });
  add("checkerboard", [](int c, int r) { return (c + r) % 2 == 0 ? 0.0f : 1000.0f; });
  add("stripes", [](int c, int) { return c % 3 == 0 ? 50.0f : 60.0f; });
  add("saddle", [=](int c, int r) {
    return (static_cast<float>(c) - n / 2) * (static_cast<float>(r) - n / 2);
  });
}

template <class Add>
void add_spots(int side, Random& random, const Add& add) {
  const double n = side;
  const auto drawn = [](const Spot& spot) {
    return [=](int c, int r) { return static_cast<float>(intensity(spot, c, r)); };
  };
  add("clean spot", drawn({n * 0.4, n * 0.55, n / 8, 1000, 10}));
  add("hole", drawn({n * 0.5, n * 0.45, n / 8, -90, 100}));
  add("spot outside", drawn({n + 2, n * 0.5, n / 6, 1000, 10}));
  add("wide", drawn({n * 0.5, n * 0.5, 3 * n, 1000, 0}));
  add("narrow", drawn({n * 0.5, n * 0.5, 0.1, 1000, 0}));
  const Spot bright = {n * 0.45, n * 0.5, n / 7, 9000, 10};
  add("clipped", [=](int c, int r) {
    return std::fmin(4095.0f, static_cast<float>(intensity(bright, c, r)));
  });
  const Spot left = {n * 0.25, n * 0.3, 1, 500, 20}, right = {n * 0.75, n * 0.7, 1.3, 450, 0};
  add("two spots", [&](int c, int r) {
    return poisson(random, intensity(left, c, r) + intensity(right, c, r));
  });
  const Spot dim = {n * 0.5, n * 0.5, 1.2, 6, 2};
  add("dim", [&](int c, int r) { return poisson(random, intensity(dim, c, r)); });
}

template <class Add>
void add_extremes(int side, Random& random, const Add& add) {
  for (const float unit : {1e-30f, 1e-12f, 1e12f, 1e17f, 1e30f})
    add("unit", [&, unit](int, int) { return unit * gaussian(random, 3, 1); });
  constexpr float kLargest = std::numeric_limits<float>::max();
  add("largest", [](int c, int r) { return c > r ? kLargest : -kLargest; });
  add("a last digit", [&](int, int) { return 1e7f + (random() % 2 == 0 ? 1.0f : 0.0f); });
  add("subnormal", [&](int, int) { return 1e-39f * static_cast<float>(random() % 9); });
  add("one of many", [=](int c, int r) { return c + r == side ? 1e9f : 1e-9f; });
}

}  // namespace hard

inline HardImages hard_images(int side, std::uint64_t seed) {
  hard::Random random(seed);
  HardImages images = {side, {}, {}};
  const auto add = [&images, side](const char* kind, const auto& value) {
    images.kinds.emplace_back(kind);
    for (int row = 0; row < side; ++row)
      for (int column = 0; column < side; ++column) images.pixels.push_back(value(column, row));
  };
  hard::add_noise(random, add);
  hard::add_pixels(side, random, add);
  hard::add_patterns(side, random, add);
  hard::add_spots(side, random, add);
  hard::add_extremes(side, random, add);
  return images;
}

/// What beside the pixels a fit may be given; each array has an element for each image.
struct HardInput {
  fitter::FitOptions options;
  std::vector<fitter::Start> starts;
  std::vector<fitter::StartLevels> levels;
  std::vector<float> variances;
  std::vector<fitter::Bounds> bounds;

  fitter::Batch batch(const HardImages& images) const {
    const auto given = [](const auto& v) { return v.empty() ? nullptr : v.data(); };
    return {images.pixels.data(), fitter::PixelType::F32, images.side,      images.kinds.size(),
            given(starts),        given(levels),          given(variances), given(bounds)};
  }
};

namespace hard {

inline std::vector<float> any_variances(std::size_t pixels, Random& random) {
  std::vector<float> variances(pixels);
  for (float& v : variances) v = std::exp(gaussian(random, 1, 2));
  variances[pixels / 2] = std::numeric_limits<float>::infinity();
  return variances;
}

inline std::vector<fitter::Start> any_starts(const HardImages& images, Random& random) {
  const auto n = static_cast<float>(images.side);
  std::uniform_real_distribution<float> place(-1, n), width(0.2f, n);
  std::vector<fitter::Start> starts(images.kinds.size());
  for (fitter::Start& s : starts) s = {place(random), place(random), width(random), width(random)};
  return starts;
}

}  // namespace hard

/// A fit of each kind that one estimator can make: cold, from anywhere, never satisfied, bounded,
/// partly fixed, with a map of variances.
inline std::vector<HardInput> hard_inputs(const HardImages& images, fitter::FitOptions options,
                                          std::uint64_t seed) {
  using fitter::Estimator;
  using fitter::Parameter;
  hard::Random random(seed);
  const std::size_t count = images.kinds.size();
  HardInput cold = {options, {}, {}, {}, {}};
  if (options.estimator == Estimator::WeightedLeastSquares)
    cold.variances = hard::any_variances(images.pixels.size(), random);
  std::vector<HardInput> inputs = {cold};
  HardInput warm = cold;
  warm.starts = hard::any_starts(images, random);
  inputs.push_back(warm);
  for (HardInput restless : {cold, warm}) {
    restless.options.min_decrease = restless.options.min_step = 0;
    restless.options.spots_only = false;
    inputs.push_back(restless);
    restless.options.lambda_max = 1e9f;
    restless.options.noise = {0.3f, 2, 90};
    inputs.push_back(restless);
  }
  if (options.estimator == Estimator::ImplicitLeastSquares) return inputs;
  HardInput bounded = inputs.back();
  const unsigned has = bits_of(options.model);
  for (const Parameter width : {Parameter::SigmaX, Parameter::SigmaY})
    if ((has & bit(width)) != 0)
      bounded.options.bounds.upper[static_cast<std::size_t>(width)] = 2.5f;
  bounded.options.bounds.lower[5] = 0;
  bounded.bounds.resize(count);
  bounded.bounds[count / 2].upper[4] = 50;
  inputs.push_back(bounded);
  HardInput fixed = inputs.back();
  fixed.bounds.clear();
  fixed.options.bounds = {};
  for (std::size_t i = 0; i < count; ++i) {
    const auto k = static_cast<float>(i % 5);
    fixed.levels.push_back({100 * (k - 1), 30 * (k - 2)});  // of either sign, and 0
  }
  inputs.push_back(fixed);
  constexpr std::uint8_t kWidths = bit(Parameter::SigmaX) | bit(Parameter::SigmaY);
  constexpr std::uint8_t kPlace = bit(Parameter::X) | bit(Parameter::Y);
  for (const std::uint8_t which : {kWidths, kPlace, bit(Parameter::Amplitude)}) {
    fixed.options.fixed = static_cast<std::uint8_t>(which & has);
    inputs.push_back(fixed);
  }
  if (options.estimator == Estimator::PoissonLikelihood) {
    HardInput mapped = warm;
    mapped.variances = hard::any_variances(images.pixels.size(), random);
    inputs.push_back(mapped);
  }
  return inputs;
}

}  // namespace driftd::test
