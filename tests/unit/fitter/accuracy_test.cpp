// SPDX-License-Identifier: MIT
// The accuracy of Leutenegger & Weber 2021, Table 1 (rows Fit2DGaussian), under its conditions.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "support/catch.hpp"
#include "unit/fitter/fits.hpp"

namespace driftd {
namespace {

struct Summary {
  double median, mean, sd;
};

Summary summarize(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return {values[values.size() / 2], mean, std::sqrt(squares / (count - 1))};
}

struct PaperRow {
  double signal, background;
  Summary position, sigma;  ///< of the absolute errors, in units of the true sigma
};

void check_no_worse(const Summary& measured, const Summary& paper) {
  constexpr double kTolerance = 1.015;  // the sampling error of 100,000 spots and rounding
  CHECK(measured.median <= kTolerance * paper.median);
  CHECK(measured.mean <= kTolerance * paper.mean);
  CHECK(measured.sd <= kTolerance * paper.sd);
}

TEST_CASE("Errors are no larger than the paper's Table 1") {
  const PaperRow row =
      GENERATE(PaperRow{400, 40, {0.0464, 0.0550, 0.0418}, {0.0420, 0.0506, 0.0396}},
               PaperRow{1600, 40, {0.0228, 0.0270, 0.0205}, {0.0203, 0.0244, 0.0190}},
               PaperRow{1600, 0, {0.0228, 0.0269, 0.0203}, {0.0198, 0.0238, 0.0186}});
  constexpr int kSide = 9;
  constexpr std::size_t kSpots = 100000;
  const auto images =
      test::simulate_spots<std::uint16_t>(kSide, row.signal, row.background, kSpots, 20210311);
  fitter::FitOptions options;
  options.min_chi_square = kSide * kSide / 3.0f;  // stop (i) of the paper: A / 3, A the ROI's area
  options.min_background_adu = 0;                 // photon counts
  const auto fits = test::fit_all(images.pixels, kSide, options);

  std::vector<double> position, sigma;
  std::size_t failed = 0;
  for (std::size_t i = 0; i < kSpots; ++i) {
    const test::Spot& truth = images.truth[i];
    const fitter::Localization& fit = fits[i];
    failed += converged(fit.status) ? 0u : 1u;
    position.push_back(std::fabs(fit.x_px - truth.x_px) / truth.sigma_px);
    position.push_back(std::fabs(fit.y_px - truth.y_px) / truth.sigma_px);
    sigma.push_back(std::fabs(fit.sigma_x_px - truth.sigma_px) / truth.sigma_px);
  }
  const Summary p = summarize(position);
  const Summary s = summarize(sigma);
  INFO("signal " << row.signal << " background " << row.background << ": position " << p.median
                 << " " << p.mean << " " << p.sd << ", sigma " << s.median << " " << s.mean << " "
                 << s.sd << ", not converged " << failed);
  check_no_worse(p, row.position);
  check_no_worse(s, row.sigma);
  CHECK(failed <= kSpots / 10000);  // "only very few fits"
}

TEST_CASE("A noise-free spot is found to single precision") {
  const int side = GENERATE(range(fitter::kMinRoiPx, fitter::kMaxRoiPx + 1));
  const double centre = (side - 1) / 2.0;
  const test::Spot spot = {centre + 0.3, centre - 0.2, side < 8 ? 0.8 : 1.4, 5000, 300};
  const fitter::Localization fit = test::fit_one(test::clean_image(spot, side), side);
  INFO("side " << side);
  CHECK(converged(fit.status));
  CHECK(fit.x_px == Approx(spot.x_px).margin(2e-5));
  CHECK(fit.y_px == Approx(spot.y_px).margin(2e-5));
  CHECK(fit.sigma_x_px == Approx(spot.sigma_px).epsilon(2e-5));
  CHECK(fit.sigma_y_px == fit.sigma_x_px);
  CHECK(fit.amplitude_adu == Approx(spot.amplitude_adu).epsilon(2e-5));
  CHECK(fit.background_adu == Approx(spot.background_adu).epsilon(2e-4));
}

TEST_CASE("Few fits exhaust the iterations, and most take four or five") {
  const auto images = test::simulate_spots<std::uint16_t>(9, 1600, 40, 20000, 3);
  const auto fits = test::fit_all(images.pixels, 9);
  const auto count = [&](auto&& condition) {
    return std::count_if(fits.begin(), fits.end(), condition);
  };
  // Figure 8 of the paper: four and five iterations for most, none near twenty.
  CHECK(count([](const auto& l) { return l.iterations == 4 || l.iterations == 5; }) > 18000);
  CHECK(count([](const auto& l) { return l.iterations > 8; }) == 0);
}

}  // namespace
}  // namespace driftd
