// SPDX-License-Identifier: MIT
// z by the curves of one instrument for bright and dim markers: on curves whose formula is known,
// and by the fitter on images behind a pupil.
#include "control/axial/brightness_curves.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "bench/axial/readings.hpp"
#include "support/allocation_watch.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

/// Widths that shrink by 3 % for each tenfold of dimness, where that is `dimness` at any height.
double width_px(double z_nm, double focus_nm, double dimness) {
  const double u = (z_nm - focus_nm) / 350;
  return 1.1 * std::sqrt(1 + u * u) * (1 - 0.03 * std::log10(dimness / 1e-3));
}

/// Fits tell a dimness that grows by a half from the crossing to the ends.
double told_dimness(double z_nm, double dimness) {
  return dimness * (1 + 0.5 * std::abs(z_nm) / 600);
}

WidthCurve curve_of(double dimness, double excess = 2e-4) {
  std::vector<WidthCurve::Knot> knots;
  for (double z = -600; z <= 600; z += 25)
    knots.push_back({z, width_px(z, 220, dimness), width_px(z, -220, dimness), 1.5,
                     told_dimness(z, dimness), excess});
  return {knots, 1, AxialMethod::Astigmatic};
}

BrightnessCurves three() {
  return BrightnessCurves({curve_of(1e-3), curve_of(1e-2), curve_of(1e-1)});
}

SpotFit fit_at(double z_nm, double dimness, double electrons = 1e4) {
  SpotFit fit;
  fit.sigma_x_px = width_px(z_nm, 220, dimness);
  fit.sigma_y_px = width_px(z_nm, -220, dimness);
  fit.variance = {3e-5, 4e-5, 1e-5};
  fit.amplitude_e = electrons / (2 * std::numbers::pi * fit.sigma_x_px * fit.sigma_y_px);
  fit.read_noise_e = 3;
  fit.background_e = told_dimness(z_nm, dimness) * electrons - 9;
  return fit;
}

std::string refusal_of(std::vector<WidthCurve> curves) {
  try {
    const BrightnessCurves made(std::move(curves));
  } catch (const WidthCurveError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a fit's dimness is its background and read noise over its electrons") {
  const SpotFit fit = fit_at(-80, 5e-3);
  CHECK(fit.electrons() == Approx(1e4));
  CHECK(fit.dimness() == Approx(told_dimness(-80, 5e-3)));
}

TEST_CASE("z is read whatever the brightness, on the curves, between and beyond them") {
  const BrightnessCurves curves = three();
  for (const double z : {-280.0, -120.0, 0.0, 35.0, 150.0, 300.0}) {
    for (const double dimness : {1e-3, 2e-3, 5e-3, 1e-2, 4e-2, 1e-1}) {
      INFO(z << " nm, dimness " << dimness);
      const AxialReading reading = curves.read(fit_at(z, dimness));
      REQUIRE(reading.measured);
      // Linear in the logarithm between curves a decade apart, whose widths are so themselves.
      CHECK(reading.z_nm == Approx(z).margin(0.7));
    }
  }
  // The curve of bright markers alone would be off by so much.
  const SpotFit dim = fit_at(150, 1e-1);
  const auto alone = curve_of(1e-3).read(dim.sigma_x_px, dim.sigma_y_px, dim.variance);
  CHECK((!alone.measured || std::abs(alone.z_nm - 150) > 5));
  const AxialReading beyond = curves.read(fit_at(0, 1e-1, 3e4));
  CHECK(beyond.measured);
  SpotFit nothing = fit_at(0, 1e-2);
  nothing.amplitude_e = std::nan("");
  CHECK_FALSE(curves.read(nothing).measured);
}

TEST_CASE("out of the range of either curve z is not read") {
  const BrightnessCurves curves = three();
  SpotFit fit = fit_at(590, 3e-3);
  fit.sigma_x_px *= 1.3;
  fit.sigma_y_px *= 1.3;
  CHECK_FALSE(curves.read(fit).measured);
}

TEST_CASE("a knot's scatter multiplies what the fits tell, linear between knots") {
  std::vector<WidthCurve::Knot> knots = curve_of(1e-2).knots();
  for (WidthCurve::Knot& knot : knots) knot.scatter = knot.z_nm < 0 ? 0 : 1 + knot.z_nm / 100;
  const WidthCurve curve(knots, 2.5, AxialMethod::Astigmatic);
  CHECK(curve.scatter(-200) == 2.5);  // the curve's own
  CHECK(curve.scatter(62.5) == Approx(1.625));
  const WidthVariance v = {3e-5, 4e-5, 1e-5};
  const WidthCurve plain(curve_of(1e-2).knots(), 1, AxialMethod::Astigmatic);
  CHECK(curve.sd_nm(62.5, v) / plain.sd_nm(62.5, v) == Approx(1.625 / 1.5));
  knots[3].scatter = 101;
  CHECK_THROWS_WITH(WidthCurve(knots, 1, AxialMethod::Astigmatic), contains("scatter of the knot"));
}

TEST_CASE("widths off the curve are trusted by so much less") {
  const BrightnessCurves curves = three();
  const SpotFit on = fit_at(100, 1e-2);
  const double told = curves.read(on).sd_nm;
  // Off the curve at a right angle to it, by the fit's covariance: z stays, the misfit is `sds`.
  const auto off = [&](double sds) {
    SpotFit fit = on;
    const WidthCurve& curve = curves.curves()[1];
    const double dx = curve.sigma_x_px_per_nm(100), dy = curve.sigma_y_px_per_nm(100);
    const double vx = fit.variance.x_px2, vy = fit.variance.y_px2, vxy = fit.variance.xy_px2;
    // e with e' C^-1 d = 0: e is C^-1 d turned by a right angle.
    const double ex = -(vx * dy - vxy * dx), ey = vy * dx - vxy * dy;
    const double norm =
        std::sqrt((ex * ex * vy - 2 * ex * ey * vxy + ey * ey * vx) / (vx * vy - vxy * vxy));
    fit.sigma_x_px += sds * ex / norm;
    fit.sigma_y_px += sds * ey / norm;
    return curves.read(fit);
  };
  CHECK(off(1.9).sd_nm == Approx(told).epsilon(0.02));
  CHECK(off(6).z_nm == Approx(100).margin(2));
  CHECK(off(6).sd_nm == Approx(3 * told).epsilon(0.05));
}

TEST_CASE("a fit whose pixels are too far off it is not one of a single marker") {
  const BrightnessCurves curves = three();
  SpotFit fit = fit_at(50, 1e-2, 2e4);
  const double single = 2e-4 * 2e4;  // what a single marker's chi-square has over 1
  const auto read = [&](double excess, int pixels) {
    fit.pixels = pixels;
    fit.chi_square = (1 + excess) * pixels;
    return curves.read(fit).measured;
  };
  CHECK(read(single, 169));
  CHECK(read(1.65 * single, 169));
  CHECK_FALSE(read(1.75 * single, 169));
  CHECK(read(0, 169));
  CHECK(read(1.75 * single, 4));  // five standard deviations of so few pixels are 3.5
  fit.pixels = 0;                 // not a likelihood's
  CHECK(curves.read(fit).measured);
  const BrightnessCurves unknown({curve_of(1e-3, std::nan("")), curve_of(1e-1, std::nan(""))});
  fit.pixels = 169;
  fit.chi_square = 1e6;
  CHECK(unknown.read(fit).measured);
}

TEST_CASE("curves that cannot be told apart by brightness are refused") {
  CHECK_THAT(refusal_of({}), contains("there is no curve"));
  CHECK_THAT(refusal_of({curve_of(1e-2), curve_of(1e-2)}), contains("does not grow"));
  CHECK_THAT(refusal_of({curve_of(1e-2), curve_of(1e-3)}), contains("does not grow"));
  CHECK(refusal_of({curve_of(1e-3), curve_of(1e-2)}).empty());
  std::vector<WidthCurve::Knot> bare = curve_of(1e-2).knots();
  for (auto& knot : bare) knot.dimness = 0;
  const WidthCurve unknown(bare, 1, AxialMethod::Astigmatic);
  CHECK(refusal_of({unknown}).empty());  // alone it need not be known
  CHECK_FALSE(refusal_of({unknown, curve_of(1e-2)}).empty());
  const WidthCurve defocus(curve_of(1e-1).knots(), 1, AxialMethod::Defocus);
  CHECK_THAT(refusal_of({curve_of(1e-3), defocus}), contains("two methods"));
}

TEST_CASE("reading by brightness allocates nothing") {
  if (!test::can_watch()) {
    WARN("SKIPPED: a sanitizer owns the allocator");
    return;
  }
  const BrightnessCurves curves = three();
  test::watch_this_thread(true);
  double sum = 0;
  for (double z = -500; z < 500; z += 10) sum += curves.read(fit_at(z, 5e-3)).z_nm;
  test::watch_this_thread(false);
  CHECK(std::isfinite(sum));
  CHECK(test::watched_allocations() == 0);
}

TEST_CASE("behind a pupil, less light changes no z, and the sd told is the sd") {
  simulator::OpticsModel optics;
  optics.shape = simulator::SpotShape::Pupil;
  optics.pupil.astigmatism_waves = 0.075;
  const test::AxialScene scene(optics, 20, 3);
  bench::AxialSetup setup;
  setup.covariance = false;
  const BrightnessCurves curves = bench::calibrated(
      setup, scene,
      {.lowest_nm = -500, .highest_nm = 500, .dimness = {1e-3, 3e-3, 1e-2}, .markers = 30});
  struct Mean {
    double z_nm = 0, sd_nm = 0, told_nm = 0;
  };
  const auto read = [&](double z_nm, double photons) {
    simulator::Random random(5, 1);
    double n = 0, sum = 0, squares = 0, degrees = 0, told = 0;
    for (int marker = 0; marker < 20; ++marker) {
      const simulator::Spot spot = bench::spot_anywhere(setup, z_nm, photons, random);
      double own_n = 0, own = 0, own_squares = 0;
      for (const bench::Fit& fit : bench::fit_exposures(setup, scene, {&spot, 1}, 40, random)) {
        const AxialReading z = bench::reading_of(setup, fit, curves, 3);
        if (!z.measured) continue;
        own_n += 1, own += z.z_nm, own_squares += z.z_nm * z.z_nm, told += z.sd_nm * z.sd_nm;
      }
      REQUIRE(own_n > 30);
      squares += own_squares - own * own / own_n, degrees += own_n - 1;
      n += own_n, sum += own;
    }
    return Mean{sum / n, std::sqrt(squares / degrees), std::sqrt(told / n)};
  };
  for (const double z : {0.0, 150.0}) {
    INFO(z << " nm");
    const Mean bright = read(z, 3e4);
    const Mean half = read(z, 1.5e4);
    // 800 readings of some 4 and 6 nm; the curve of 60 fits a plane is good to 0.5 nm.
    CHECK(bright.z_nm == Approx(z).margin(1.5));
    CHECK(half.z_nm == Approx(bright.z_nm).margin(1.5));  // by one curve 10 nm at 150 nm
    CHECK(bright.told_nm == Approx(bright.sd_nm).epsilon(0.15));
    CHECK(half.told_nm == Approx(half.sd_nm).epsilon(0.15));
  }
}

}  // namespace
}  // namespace driftd::control
