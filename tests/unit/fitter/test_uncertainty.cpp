// SPDX-License-Identifier: MIT
// Reported standard deviations against the scatter of the errors, with and without a noise model.
#include <array>
#include <cmath>
#include <functional>
#include <random>

#include "fitter/uncertainty.hpp"
#include "support/catch.hpp"
#include "support/fisher.hpp"
#include "unit/fitter/explicit_sums.hpp"
#include "unit/fitter/fits.hpp"

namespace driftd {
namespace {

constexpr std::size_t kSpots = 20000;
/// The rms of 20,000 normalized errors has a sampling error of 0.5 %; the linearization at the
/// fitted instead of the true parameters adds some per cent at low signal.
constexpr double kTolerance = 0.05;

struct Camera {
  double gain_e_per_adu, read_noise_e, offset_adu;
};

struct Spots {
  int side = 11;
  double sigma_px = 1.3;
  std::size_t count = kSpots;
};

struct Scatter {
  double x, y, sigma, amplitude, background;  ///< rms of (fit - truth) / reported sd
  double unevenness;                          ///< sd of x's reported sd from fit to fit, over mean
};

using Noise = std::function<double(std::mt19937_64&, double)>;

/// Spots of random sub-pixel place, seen by a camera; `noise(g, expected)` in adu.
std::vector<float> images_of(std::vector<test::Spot>& truth, const Spots& spots, double amplitude,
                             double background, const Noise& noise) {
  std::mt19937_64 generator(77);
  std::uniform_real_distribution<double> place(-0.5, 0.5);
  std::vector<float> pixels;
  const double centre = 0.5 * (spots.side - 1);
  for (std::size_t i = 0; i < spots.count; ++i) {
    const double x = centre + place(generator);
    const double y = centre + place(generator);
    truth.push_back({x, y, spots.sigma_px, amplitude, background});
    for (int row = 0; row < spots.side; ++row)
      for (int column = 0; column < spots.side; ++column)
        pixels.push_back(
            static_cast<float>(noise(generator, test::intensity(truth.back(), column, row))));
  }
  return pixels;
}

Noise photons_seen_by(const Camera& camera, double excess = 1) {
  return [=](auto& generator, double adu) {
    const double electrons = (adu - camera.offset_adu) * camera.gain_e_per_adu;
    std::poisson_distribution<int> shot(electrons);
    std::normal_distribution<double> read(0, camera.read_noise_e);
    const double signal = electrons + std::sqrt(excess) * (shot(generator) - electrons);
    return camera.offset_adu + (signal + read(generator)) / camera.gain_e_per_adu;
  };
}

double amplitude_of(double photons, double sigma_px, const Camera& camera) {
  constexpr double kTwoPi = 6.283185307179586;
  return photons / (kTwoPi * sigma_px * sigma_px) / camera.gain_e_per_adu;
}

Scatter scatter_of(const std::vector<fitter::Localization>& fits,
                   const std::vector<test::Spot>& truth) {
  Scatter s = {};
  const auto add = [](double& sum, double error, double sd) { sum += error * error / (sd * sd); };
  double used = 0, sd_sum = 0, sd_squares = 0;
  for (std::size_t i = 0; i < fits.size(); ++i) {
    const fitter::Localization& l = fits[i];
    if (!converged(l.status)) continue;
    used += 1;
    sd_sum += l.x_sd_px;
    sd_squares += double{l.x_sd_px} * l.x_sd_px;
    add(s.x, l.x_px - truth[i].x_px, l.x_sd_px);
    add(s.y, l.y_px - truth[i].y_px, l.y_sd_px);
    add(s.sigma, l.sigma_x_px - truth[i].sigma_px, l.sigma_x_sd_px);
    add(s.amplitude, l.amplitude_adu - truth[i].amplitude_adu, l.amplitude_sd_adu);
    add(s.background, l.background_adu - truth[i].background_adu, l.background_sd_adu);
  }
  CHECK(used > 0.99 * static_cast<double>(fits.size()));
  for (double* v : {&s.x, &s.y, &s.sigma, &s.amplitude, &s.background}) *v = std::sqrt(*v / used);
  s.unevenness = std::sqrt(sd_squares * used / (sd_sum * sd_sum) - 1);
  return s;
}

void check_calibrated(const Scatter& s, double tolerance = kTolerance,
                      double level_tolerance = kTolerance) {
  INFO("x " << s.x << " y " << s.y << " sigma " << s.sigma << " amplitude " << s.amplitude
            << " background " << s.background << " unevenness " << s.unevenness);
  CHECK(s.x == Approx(1).margin(tolerance));
  CHECK(s.y == Approx(1).margin(tolerance));
  CHECK(s.sigma == Approx(1).margin(tolerance));
  CHECK(s.amplitude == Approx(1).margin(level_tolerance));
  CHECK(s.background == Approx(1).margin(level_tolerance));
}

TEST_CASE("With the noise model, standard deviations hold for photons and read noise") {
  const double photons = GENERATE(1e3, 1e4, 1e5, 1e6);
  const Camera camera = {0.5, 1.6, 100};
  std::vector<test::Spot> truth;
  const auto pixels = images_of(truth, {}, amplitude_of(photons, 1.3, camera),
                                camera.offset_adu + 40, photons_seen_by(camera));
  fitter::FitOptions options;
  options.noise = {0.5f, 1.6f, 100};
  INFO("photons " << photons);
  check_calibrated(scatter_of(test::fit_all(pixels, 11, options), truth));
}

struct Cell {
  double sigma_px;
  int side;
  double photons, background_e, excess;
  double tolerance;   ///< of place and width: rms of errors over uneven numbers is above 1
  double unevenness;  ///< at most
};

TEST_CASE("Without a noise model, standard deviations hold for photons that nobody counted") {
  const Cell cell =
      GENERATE(Cell{1.3, 7, 10000, 10, 1, 0.08, 0.18}, Cell{1.3, 9, 1000, 1, 1, 0.08, 0.18},
               Cell{1.3, 13, 1000, 4, 1, 0.08, 0.18}, Cell{1.3, 13, 30000, 4, 1, 0.06, 0.16},
               Cell{2, 9, 30000, 10, 1, 0.06, 0.13}, Cell{2, 13, 10000, 1, 2, 0.06, 0.12},
               Cell{3, 13, 10000, 4, 1, 0.06, 0.09}, Cell{0.8, 9, 10000, 4, 1, 0.15, 0.3},
               Cell{1.3, 5, 10000, 4, 2, 0.12, 0.22}, Cell{1.3, 20, 10000, 4, 1, 0.06, 0.16});
  const Camera camera = {0.5, 1, 100};
  const Spots spots = {cell.side, cell.sigma_px, 8000};
  std::vector<test::Spot> truth;
  const auto pixels = images_of(truth, spots, amplitude_of(cell.photons, cell.sigma_px, camera),
                                camera.offset_adu + cell.background_e / camera.gain_e_per_adu,
                                photons_seen_by(camera, cell.excess));
  CAPTURE(cell.sigma_px, cell.side, cell.photons, cell.background_e, cell.excess);
  const Scatter s = scatter_of(test::fit_all(pixels, cell.side), truth);
  check_calibrated(s, cell.tolerance, 0.15);
  CHECK(s.unevenness < cell.unevenness);
}

/// Half of the fits see the bright pixels noisier than the others by chance, and believe it.
TEST_CASE("Without a noise model, standard deviations nearly hold for noise that is even") {
  const double amplitude_adu = GENERATE(60.0, 500.0, 50000.0);
  std::vector<test::Spot> truth;
  const auto pixels = images_of(truth, {}, amplitude_adu, 200, [](auto& generator, double adu) {
    std::normal_distribution<double> noise(adu, 5.0);
    return noise(generator);
  });
  INFO("amplitude " << amplitude_adu);
  check_calibrated(scatter_of(test::fit_all(pixels, 11), truth), 0.1, 0.14);
}

/// By the plain way and in double: what a fit's own residuals say of its uncertainties.
std::vector<double> explicit_sd(const std::vector<float>& pixels, int side,
                                const fitter::Localization& l) {
  const auto model = [side](const std::vector<double>& p) {
    return test::scaled(test::gaussian({p[0], p[1], p[2]}, side), p[3], p[4]);
  };
  const std::vector<double> p = {l.x_px, l.y_px, l.sigma_x_px, l.amplitude_adu, l.background_adu};
  test::ScalarRoi roi({pixels.begin(), pixels.end()}, side, 0);
  roi.set_profile({l.x_px, l.y_px, l.sigma_x_px, l.sigma_x_px}, true);
  const test::Image f = test::gaussian({p[0], p[1], p[2]}, side), one(f.size(), 1);
  const float count = static_cast<float>(side * side), profile = test::f32(test::sum(f));
  const auto quotients = roi.quotient_sums(l.amplitude_adu, l.background_adu);
  const float squares = roi.squares(l.amplitude_adu, l.background_adu);
  const auto sums = fitter::variance_sums(quotients, count, profile, squares);
  const auto v = fitter::residual_variance(sums, count, profile, 4, l.chi_square / (count - 5));
  if (side > 4) CHECK(v.slope > 0);
  const test::Image variance = test::scaled(f, v.slope, v.constant);
  const auto d = test::derivatives(model, p);
  std::array<std::array<double, 5>, 5> normal{};
  for (int j = 0; j < 5; ++j)
    for (int k = 0; k < 5; ++k) normal.begin()[j].begin()[k] = test::sum(one, d[j], d[k]);
  const auto c = test::inverse(normal);
  std::vector<double> sd;
  for (std::size_t i = 0; i < 5; ++i) {
    test::Image row(f.size(), 0);
    for (int j = 0; j < 5; ++j)
      for (std::size_t k = 0; k < row.size(); ++k) row[k] += c[i].begin()[j] * d[j][k];
    sd.push_back(std::sqrt(test::sum(variance, row, row)));
  }
  return sd;
}

TEST_CASE("Standard deviations from the residuals are those of sums over the pixels") {
  const int side = GENERATE(4, 5, 8, 9, 16, 17, 33, 50, 64);
  const double sigma_px = side < 7 ? 0.9 : 0.8 + 0.04 * side;
  const Camera camera = {0.5, 1, 100};
  std::vector<test::Spot> truth;
  const auto pixels = images_of(truth, {side, sigma_px, 1}, 20000, 130, photons_seen_by(camera));
  const auto l = test::fit_one(pixels, side);
  REQUIRE(converged(l.status));
  CAPTURE(side);
  const auto sd = explicit_sd(pixels, side, l);
  const std::vector<float> told = {l.x_sd_px, l.y_sd_px, l.sigma_x_sd_px, l.amplitude_sd_adu,
                                   l.background_sd_adu};
  for (std::size_t j = 0; j < 5; ++j) CHECK(told[j] == Approx(sd[j]).epsilon(5e-3));
}

TEST_CASE("Standard deviations do not depend on the iterations it took") {
  const auto images = test::simulate_spots<std::uint16_t>(11, 20000, 400, 200, 9);
  fitter::FitOptions options;
  options.noise = {1, 0, 0};
  const auto cold = test::fit_all(images.pixels, 11, options);
  const auto warm = test::fit_all(images.pixels, 11, options, test::starts_from(cold));
  for (std::size_t i = 0; i < cold.size(); ++i) {
    CHECK(warm[i].x_sd_px == Approx(cold[i].x_sd_px).epsilon(1e-3));
    CHECK(warm[i].amplitude_sd_adu == Approx(cold[i].amplitude_sd_adu).epsilon(1e-3));
  }
}

}  // namespace
}  // namespace driftd
