// SPDX-License-Identifier: MIT
// What the swarms of the back ends share: random numbers, domain, steps, value and report.
#include "fitter/swarm_search.hpp"
#include "fitter/swarm_step.hpp"

#include "fitter/circular_gaussian.hpp"
#include "fitter/elliptical_gaussian.hpp"
#include "support/catch.hpp"
#include "unit/fitter/explicit_sums.hpp"

namespace driftd {
namespace {

using fitter::EllipticalGaussian;

TEST_CASE("Philox gives the published numbers") {
  // Known answers of philox4x32-7 that come with Random123 (kat_vectors).
  const auto zeros = fitter::philox({{0, 0, 0, 0}}, 0, 0);
  CHECK(zeros.v[0] == 0x5f6fb709u);
  CHECK(zeros.v[1] == 0x0d893f64u);
  CHECK(zeros.v[2] == 0x4f121f81u);
  CHECK(zeros.v[3] == 0x4f730a48u);
  constexpr std::uint32_t kOnes = 0xffffffffu;
  const auto ones = fitter::philox({{kOnes, kOnes, kOnes, kOnes}}, kOnes, kOnes);
  CHECK(ones.v[0] == 0x5207ddc2u);
  CHECK(ones.v[1] == 0x45165e59u);
  CHECK(ones.v[2] == 0x4d8ee751u);
  CHECK(ones.v[3] == 0x8c52f662u);
}

TEST_CASE("The halves of a word are numbers between 0 and 1, as far from the one as the other") {
  const auto least = fitter::uniform_pair(0), most = fitter::uniform_pair(0xffffffffu);
  CHECK(least.of_low == 0.5f / 65536);
  CHECK(least.of_high == 0.5f / 65536);
  CHECK(most.of_low == 1 - 0.5f / 65536);
  CHECK(most.of_high == 1 - 0.5f / 65536);
  const auto other = fitter::uniform_pair(0x40008000u);
  CHECK(other.of_low == 0.5f + 0.5f / 65536);
  CHECK(other.of_high == 0.25f + 0.5f / 65536);
}

TEST_CASE("All of seed, ROI, particle and iteration make other numbers") {
  const std::uint64_t seed = 0x123456789abcdef0u;
  const auto numbers = fitter::swarm_numbers(seed, 1, 2, 3);
  const auto expected = fitter::philox({{0x00030002u, 0, 1, 0}}, 0x9abcdef0u, 0x12345678u);
  for (int k = 0; k < 4; ++k) CHECK(numbers.v[k] == expected.v[k]);
  const auto far = fitter::swarm_numbers(seed, 0x1234567800000001u, 2, 3);
  const auto of_far = fitter::philox({{0x00030002u, 0x12345678u, 1, 0}}, 0x9abcdef0u, 0x12345678u);
  for (int k = 0; k < 4; ++k) CHECK(far.v[k] == of_far.v[k]);
}

TEST_CASE("A swarm's domain is the ROI within all bounds") {
  fitter::Bounds of_all, own;
  of_all.lower[0] = -3;
  of_all.upper[0] = 5;
  of_all.lower[1] = 1;
  own.lower[1] = 2;
  own.upper[2] = 1.5f;
  const auto d = fitter::swarm_domain<EllipticalGaussian>(8, of_all, &own);
  const float lowest[] = {0, 2, 0.4f, 0.4f}, highest[] = {5, 7, 1.5f, 4};
  for (int j = 0; j < 4; ++j) {
    CHECK(d.lowest[j] == lowest[j]);
    CHECK(d.highest[j] == highest[j]);
  }
  CHECK(d.valid());
  CHECK(fitter::swarm_domain<EllipticalGaussian>(8, of_all, nullptr).lowest[1] == 1);
  own.lower[1] = 7.5f;
  CHECK_FALSE(fitter::swarm_domain<EllipticalGaussian>(8, of_all, &own).valid());
}

TEST_CASE("The spread is the standard deviation of the last best places") {
  fitter::BestPlaces<EllipticalGaussian> places = {};
  const float best[] = {7, 8, 9, 10};
  for (int i = 0; i < 5; ++i) {
    const float x = static_cast<float>(i * i);  // the last three: 4, 9, 16
    const float place[] = {x, 2 * x, 3 * x, 4 * x};
    places.add(place, 3);
    if (i == 0) CHECK(places.report(best, 5, 3).spread.x_px == 0);
  }
  const fitter::SwarmReport report = places.report(best, 5, 3);
  const double sd = std::sqrt(
      (std::pow(4 - 29 / 3.0, 2) + std::pow(9 - 29 / 3.0, 2) + std::pow(16 - 29 / 3.0, 2)) / 2);
  CHECK(report.spread.x_px == Approx(sd));
  CHECK(report.spread.y_px == Approx(2 * sd));
  CHECK(report.spread.sigma_x_px == Approx(3 * sd));
  CHECK(report.spread.sigma_y_px == Approx(4 * sd));
  CHECK(report.best.y_px == 8);
  CHECK(report.best.sigma_x_px == 9);
  CHECK(report.best.sigma_y_px == 10);
  CHECK(report.chi_square == 5);
}

TEST_CASE("A particle is pulled to both best places, no faster than allowed either way") {
  fitter::SwarmOptions o;
  o.inertia = 0.5f;
  o.own_pull = 2;
  o.swarm_pull = 3;
  const auto next = [&](float velocity, float fastest) {
    return fitter::next_velocity(o, velocity, 4.0f, -5.0f, 0.25f, 0.75f, fastest);
  };
  CHECK(next(8, 100) == 0.5f * 8 + 2 * 0.25f * 4 - 3 * 0.75f * 5);
  CHECK(next(100, 10) == 10);
  CHECK(next(-100, 10) == -10);
}

TEST_CASE("A place's value is chi-square with the best levels; a dark spot is none") {
  const test::Image f = test::gaussian({3.3, 4.6, 1.2, 1.7}, 8);
  const double amplitude = GENERATE(40.0, -40.0);
  const test::Image g =
      test::difference(test::scaled(f, amplitude, 9), test::scaled(test::uneven(8), 0.2, 0));
  const double count = 64, total = test::sum(f), mean = test::sum(g) / count;
  const double alpha = (test::sum(f, g) - total * mean) / (test::sum(f, f) - total * total / count);
  const test::Image r =
      alpha > 0 ? test::difference(g, test::scaled(f, alpha, mean - alpha * total / count))
                : test::scaled(g, 1, -mean);
  const fitter::PixelSummary summary = {0, test::f32(test::sum(g)), test::f32(test::sum(g, g)),
                                        true};
  CHECK((alpha > 0) == (amplitude > 0));
  CHECK(fitter::swarm_chi_square(summary, 64, test::f32(total), test::f32(test::sum(f, f)),
                                 test::f32(test::sum(f, g))) ==
        Approx(test::sum(r, r)).epsilon(1e-3));
}

}  // namespace
}  // namespace driftd
