// SPDX-License-Identifier: MIT
// z from widths: against curves whose formula is known, and against the least misfit of a fine
// scan.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "control/axial/width_curve.hpp"
#include "support/allocation_watch.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

using Knots = std::vector<WidthCurve::Knot>;

/// Huang et al., Science 2008, without the terms A and B: the foci lie at -focus and +focus.
double huang_px(double z_nm, double focus_nm) {
  const double u = (z_nm - focus_nm) / 350;
  return 1.1 * std::sqrt(1 + u * u);
}

Knots huang_knots(double reach_nm = 600, double step_nm = 25) {
  Knots knots;
  for (double z = -reach_nm; z <= reach_nm; z += step_nm)
    knots.push_back({z, huang_px(z, 220), huang_px(z, -220)});
  return knots;
}

/// Of 3e4 photons, about.
constexpr WidthVariance kBright{3e-5, 4e-5, 1e-5};

std::string refusal_of(const Knots& knots, double scatter = 1,
                       AxialMethod method = AxialMethod::Astigmatic,
                       WidthCurve::Range within = {}) {
  try {
    const WidthCurve curve(knots, scatter, method, within);
  } catch (const WidthCurveError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a spline through points of a cubic is that cubic, between them and at the ends") {
  const auto cubic = [](double x) { return 2 - x + 0.5 * x * x - 0.25 * x * x * x; };
  const std::vector<double> x{-2, -1.5, 0, 0.3, 2, 5};
  std::vector<double> y;
  for (const double at : x) y.push_back(cubic(at));
  const auto pieces = cubic_spline(x, y);
  REQUIRE(pieces.size() == 5);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    for (double at = x[i]; at < x[i + 1]; at += 0.07) {
      CHECK(value_of(pieces[i], at - x[i]) == Approx(cubic(at)).margin(1e-12));
      CHECK(slope_of(pieces[i], at - x[i]) == Approx(-1 + at - 0.75 * at * at).margin(1e-11));
    }
  }
}

TEST_CASE("a spline has no kink at its points, whatever they are") {
  const std::vector<double> x{0, 1, 1.5, 4, 7}, y{3, -1, 2, 2, -8};
  const auto pieces = cubic_spline(x, y);
  for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
    const double length = x[i + 1] - x[i];
    CHECK(value_of(pieces[i], length) == Approx(y[i + 1]).margin(1e-12));
    CHECK(slope_of(pieces[i], length) == Approx(pieces[i + 1][1]).margin(1e-12));
    CHECK(2 * pieces[i][2] + 6 * pieces[i][3] * length ==
          Approx(2 * pieces[i + 1][2]).margin(1e-12));
  }
}

TEST_CASE("of few points a spline is the parabola, or the line") {
  const std::vector<double> x{0, 1, 3};
  const auto parabola = cubic_spline(x, std::vector<double>{1, 2, 10});
  CHECK(value_of(parabola[1], 1) == Approx(5));  // x^2 + 1 at 2
  const auto line = cubic_spline(std::vector<double>{0, 2}, std::vector<double>{1, 5});
  CHECK(value_of(line[0], 1) == Approx(3));
}

TEST_CASE("widths on the curve give back their z, and the crossing is where both are equal") {
  const WidthCurve curve(huang_knots(), 1, AxialMethod::Astigmatic);
  CHECK(curve.crossing_nm() == Approx(0).margin(1e-3));
  CHECK(curve.lower_nm() == -600);
  CHECK(curve.upper_nm() == 600);
  for (double z = -590; z < 600; z += 7.3) {
    const AxialReading reading = curve.read(huang_px(z, 220), huang_px(z, -220), kBright);
    CAPTURE(z);
    REQUIRE(reading.measured);
    CHECK(reading.side == AxialSide::Inside);
    CHECK(reading.z_nm == Approx(z).margin(0.05));  // the spline between knots of 25 nm
    CHECK(curve.sigma_x_px(z) == Approx(huang_px(z, 220)).margin(2e-5));
    CHECK(curve.sigma_y_px(z) == Approx(huang_px(z, -220)).margin(2e-5));
  }
}

TEST_CASE("astigmatism of the other sign reads the same z") {
  Knots knots = huang_knots();
  for (auto& knot : knots) std::swap(knot.sigma_x_px, knot.sigma_y_px);
  const WidthCurve curve(knots, 1, AxialMethod::Astigmatic);
  const AxialReading reading = curve.read(huang_px(140, -220), huang_px(140, 220), kBright);
  REQUIRE(reading.measured);
  CHECK(reading.z_nm == Approx(140).margin(0.05));
}

TEST_CASE("the crossing lies where the file has it") {
  Knots knots = huang_knots();
  for (auto& knot : knots) knot.z_nm += 1234.5;
  CHECK(WidthCurve(knots, 1, AxialMethod::Astigmatic).crossing_nm() == Approx(1234.5).margin(1e-3));
}

TEST_CASE("readings scatter as the fits' covariance says, times the scatter factor") {
  const WidthCurve plain(huang_knots(), 1, AxialMethod::Astigmatic);
  const WidthCurve scattered(huang_knots(), 1.6, AxialMethod::Astigmatic);
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (const double correlation : {-0.6, 0.0, 0.7}) {
    const WidthVariance v{3e-5, 5e-5, correlation * std::sqrt(3e-5 * 5e-5)};
    for (const double z : {-350.0, 0.0, 180.0}) {
      constexpr int kReadings = 4000;
      double squares = 0, told = 0;
      for (int i = 0; i < kReadings; ++i) {
        const double a = normal(random), b = normal(random);
        const double x = std::sqrt(v.x_px2) * a;
        const double y =
            std::sqrt(v.y_px2) * (correlation * a + std::sqrt(1 - correlation * correlation) * b);
        const AxialReading reading = plain.read(huang_px(z, 220) + x, huang_px(z, -220) + y, v);
        REQUIRE(reading.measured);
        squares += (reading.z_nm - z) * (reading.z_nm - z);
        told += reading.sd_nm;
      }
      CAPTURE(correlation, z);
      // A standard deviation from 4000 is uncertain by 1.1 %.
      CHECK(std::sqrt(squares / kReadings) == Approx(told / kReadings).epsilon(0.045));
      CHECK(scattered.sd_nm(z, v) == Approx(1.6 * plain.sd_nm(z, v)));
    }
  }
}

TEST_CASE("z is the place of the least misfit on the whole curve") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> share(-1, 1);
  int measured = 0;
  for (int i = 0; i < 300; ++i) {
    Knots knots;
    for (double z = -500; z <= 500; z += 50)
      knots.push_back(
          {z, huang_px(z, 200) + 0.01 * share(random), huang_px(z, -200) + 0.01 * share(random)});
    const WidthCurve curve(knots, 1, AxialMethod::Astigmatic);
    const double sx = huang_px(400 * share(random), 200) + 0.05 * share(random);
    const double sy = huang_px(400 * share(random), -200) + 0.05 * share(random);
    const WidthVariance v{2e-3, 3e-3, 1e-3 * share(random)};
    const AxialReading reading = curve.read(sx, sy, v);
    if (!reading.measured) continue;
    ++measured;
    const double determinant = v.x_px2 * v.y_px2 - v.xy_px2 * v.xy_px2;
    const auto misfit = [&](double z) {
      const double x = sx - curve.sigma_x_px(z), y = sy - curve.sigma_y_px(z);
      return (v.y_px2 * x * x - 2 * v.xy_px2 * x * y + v.x_px2 * y * y) / determinant;
    };
    double least = 1e300;
    for (double z = -500; z <= 500; z += 0.25) least = std::min(least, misfit(z));
    CAPTURE(i, sx, sy);
    CHECK(misfit(reading.z_nm) < least + 0.3);  // a standard deviation away it is 1 more
  }
  CHECK(measured > 30);
}

TEST_CASE("outside the range is said, with the side, and no z is given") {
  const WidthCurve curve(huang_knots(), 1, AxialMethod::Astigmatic, {-300, 250});
  CHECK(curve.lower_nm() == -300);
  CHECK(curve.upper_nm() == 250);
  const auto side = [&](double z) {
    const AxialReading reading = curve.read(huang_px(z, 220), huang_px(z, -220), kBright);
    CHECK(reading.measured == (reading.side == AxialSide::Inside));
    return reading.side;
  };
  CHECK(side(-299) == AxialSide::Inside);
  CHECK(side(-301) == AxialSide::Below);
  CHECK(side(-590) == AxialSide::Below);
  CHECK(side(-800) == AxialSide::Below);  // beyond the knots
  CHECK(side(249) == AxialSide::Inside);
  CHECK(side(251) == AxialSide::Above);
  CHECK(side(590) == AxialSide::Above);
  CHECK(side(800) == AxialSide::Above);
}

TEST_CASE("the range ends where the difference of the widths turns back") {
  Knots knots;
  for (double z = -900; z <= 900; z += 50) {
    const double fold = std::abs(z) > 600 ? 1.4e-3 * (std::abs(z) - 600) : 0;  // the wider one
    knots.push_back(
        {z, huang_px(z, 220) - (z < 0 ? fold : 0), huang_px(z, -220) - (z > 0 ? fold : 0)});
  }
  const WidthCurve curve(knots, 1, AxialMethod::Astigmatic);
  CHECK(curve.lower_nm() == Approx(-620).margin(40));
  CHECK(curve.upper_nm() == Approx(620).margin(40));
}

TEST_CASE("what is no marker's of the curve has no z") {
  const WidthCurve curve(huang_knots(), 1, AxialMethod::Astigmatic);
  const auto unknown = [&](double x, double y, WidthVariance v) {
    const AxialReading reading = curve.read(x, y, v);
    return !reading.measured && reading.side == AxialSide::Unknown;
  };
  const double nan = std::nan("");
  CHECK(unknown(1.9, 1.9, kBright));  // two spots in one: wide both ways
  CHECK(unknown(0.9, 0.9, kBright));  // a hot pixel
  CHECK(unknown(nan, 1.3, kBright));
  CHECK(unknown(1.3, INFINITY, kBright));
  CHECK(unknown(0, 1.3, kBright));
  CHECK(unknown(1.3, 1.3, {nan, 1e-4, 0}));
  CHECK(unknown(1.3, 1.3, {0, 1e-4, 0}));
  CHECK(unknown(1.3, 1.3, {1e-4, -1e-4, 0}));
  CHECK(unknown(1.3, 1.3, {1e-4, 1e-4, 1e-4}));  // no covariance of two widths
  CHECK(unknown(1.3, 1.3, {INFINITY, 1e-4, 0}));
  // Markers differ by some percent, and noise may be more.
  CHECK_FALSE(unknown(huang_px(100, 220) * 1.05, huang_px(100, -220) * 1.04, kBright));
  CHECK(unknown(1.5, 1.5, kBright));
  CHECK_FALSE(unknown(1.5, 1.5, {0.01, 0.01, 0}));
}

TEST_CASE("widths that two places of the curve explain have no z") {
  Knots knots = huang_knots(500, 50);
  // Far below, rings make the fits jump to the widths of another height.
  for (int i = 1; i <= 4; ++i)
    knots.insert(knots.begin(), {-500.0 - 50 * i, huang_px(150, 220), huang_px(150, -220)});
  const WidthCurve curve(knots, 1, AxialMethod::Astigmatic);
  CHECK_FALSE(curve.read(huang_px(150, 220), huang_px(150, -220), kBright).measured);
  CHECK(curve.read(huang_px(-100, 220), huang_px(-100, -220), kBright).measured);
}

TEST_CASE("one width is read on one side of the focus") {
  Knots knots;
  for (double z = -300; z <= 900; z += 25) knots.push_back({z, huang_px(z, 0), 0});
  const WidthCurve curve(knots, 1, AxialMethod::Defocus);
  CHECK(curve.lower_nm() > 10);
  CHECK(curve.lower_nm() < 200);
  CHECK(curve.upper_nm() == 900);
  CHECK(curve.crossing_nm() == Approx(0.5 * (curve.lower_nm() + 900)));
  for (double z = 210; z < 890; z += 9) {
    const double width = huang_px(z, 0);
    const AxialReading reading = curve.read(width, width, {4e-5, 4e-5, 4e-5});
    CAPTURE(z);
    REQUIRE(reading.measured);
    CHECK(reading.z_nm == Approx(z).margin(0.1));
    CHECK(reading.sd_nm == Approx(std::sqrt(4e-5) / curve.sigma_x_px_per_nm(z)));
  }
  const auto side = [&](double width) { return curve.read(width, width, kBright).side; };
  CHECK(side(huang_px(5, 0)) == AxialSide::Below);
  CHECK(side(1.08) == AxialSide::Below);  // narrower than in focus, by noise
  CHECK(side(huang_px(1000, 0)) == AxialSide::Above);
  for (auto& knot : knots) knot.z_nm = -knot.z_nm;
  std::reverse(knots.begin(), knots.end());
  const WidthCurve below(knots, 1, AxialMethod::Defocus);
  CHECK(below.read(huang_px(500, 0), 0, kBright).z_nm == Approx(-500).margin(0.1));
  CHECK(below.read(1.08, 0, kBright).side == AxialSide::Above);
}

TEST_CASE("curves that z cannot be read from are refused with what is wrong") {
  Knots knots = huang_knots();
  CHECK(refusal_of(knots) == "");
  CHECK_THAT(refusal_of({knots.begin(), knots.begin() + 3}), contains("has 3 knots"));
  CHECK_THAT(refusal_of(Knots(1001, knots[0])), contains("has 1001 knots"));
  CHECK_THAT(refusal_of(knots, 0), contains("scatter factor is 0.00"));
  CHECK_THAT(refusal_of(knots, std::nan("")), contains("scatter factor is nan"));
  CHECK_THAT(refusal_of(knots, 1, AxialMethod::Reflection), contains("astigmatic and defocus"));
  CHECK_THAT(refusal_of({knots.begin(), knots.begin() + 20}), contains("cross nowhere"));
  CHECK_THAT(refusal_of(knots, 1, AxialMethod::Astigmatic, {100, 300}), contains("cross at"));
  CHECK_THAT(refusal_of(knots, 1, AxialMethod::Astigmatic, {300, 100}), contains("cross at"));
  std::swap(knots[4], knots[5]);
  CHECK_THAT(refusal_of(knots), contains("knot 5 of the curve is -500.0"));
  knots = huang_knots();
  knots[7].sigma_y_px = -1;
  CHECK_THAT(refusal_of(knots), contains("knot 7"));
  for (auto& knot : knots) knot.sigma_x_px = 1.3;
  CHECK_THAT(refusal_of(knots, 1, AxialMethod::Defocus), contains("the same everywhere"));
}

TEST_CASE("reading a curve allocates nothing") {
  if (!driftd::test::can_watch()) {
    WARN("SKIPPED: a sanitizer owns the allocator");
    return;
  }
  const WidthCurve curve(huang_knots(), 1, AxialMethod::Astigmatic);
  driftd::test::watch_this_thread(true);
  double sum = 0;
  for (double z = -900; z < 900; z += 1)
    sum += curve.read(huang_px(z, 220), huang_px(z, -220), kBright).z_nm;
  driftd::test::watch_this_thread(false);
  CHECK(std::isfinite(sum));
  CHECK(driftd::test::watched_allocations() == 0);
}

}  // namespace
}  // namespace driftd::control
