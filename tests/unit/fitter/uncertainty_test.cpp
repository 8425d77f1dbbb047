// SPDX-License-Identifier: MIT
// Reported standard deviations against the scatter of the errors, with and without a noise model.
#include <cmath>
#include <functional>
#include <random>

#include "support/catch.hpp"
#include "unit/fitter/fits.hpp"

namespace driftd {
namespace {

constexpr int kSide = 11;
constexpr std::size_t kSpots = 20000;
/// The rms of 20,000 normalized errors has a sampling error of 0.5 %; the linearization at the
/// fitted instead of the true parameters adds some per cent at low signal.
constexpr double kTolerance = 0.05;

struct Camera {
  double gain_e_per_adu, read_noise_e, offset_adu;
};

struct Scatter {
  double x, y, sigma, amplitude, background;  ///< rms of (fit - truth) / reported sd
};

/// Spots of random sub-pixel place, sigma 1.3 px, seen by a camera; `noise(g, expected)` in adu.
std::vector<float> images_of(std::vector<test::Spot>& truth, double amplitude, double background,
                             const std::function<double(std::mt19937_64&, double)>& noise) {
  std::mt19937_64 generator(77);
  std::uniform_real_distribution<double> place(-0.5, 0.5);
  std::vector<float> pixels;
  for (std::size_t i = 0; i < kSpots; ++i) {
    const double x = 5 + place(generator);
    const double y = 5 + place(generator);
    truth.push_back({x, y, 1.3, amplitude, background});
    for (int row = 0; row < kSide; ++row)
      for (int column = 0; column < kSide; ++column)
        pixels.push_back(
            static_cast<float>(noise(generator, test::intensity(truth.back(), column, row))));
  }
  return pixels;
}

Scatter scatter_of(const std::vector<fitter::Localization>& fits,
                   const std::vector<test::Spot>& truth) {
  Scatter s = {};
  const auto add = [](double& sum, double error, double sd) { sum += error * error / (sd * sd); };
  double used = 0;
  for (std::size_t i = 0; i < fits.size(); ++i) {
    const fitter::Localization& l = fits[i];
    if (!converged(l.status)) continue;
    used += 1;
    add(s.x, l.x_px - truth[i].x_px, l.x_sd_px);
    add(s.y, l.y_px - truth[i].y_px, l.y_sd_px);
    add(s.sigma, l.sigma_x_px - truth[i].sigma_px, l.sigma_x_sd_px);
    add(s.amplitude, l.amplitude_adu - truth[i].amplitude_adu, l.amplitude_sd_adu);
    add(s.background, l.background_adu - truth[i].background_adu, l.background_sd_adu);
  }
  CHECK(used > 0.99 * static_cast<double>(fits.size()));
  for (double* v : {&s.x, &s.y, &s.sigma, &s.amplitude, &s.background}) *v = std::sqrt(*v / used);
  return s;
}

void check_calibrated(const Scatter& s) {
  INFO("x " << s.x << " y " << s.y << " sigma " << s.sigma << " amplitude " << s.amplitude
            << " background " << s.background);
  CHECK(s.x == Approx(1).margin(kTolerance));
  CHECK(s.y == Approx(1).margin(kTolerance));
  CHECK(s.sigma == Approx(1).margin(kTolerance));
  CHECK(s.amplitude == Approx(1).margin(kTolerance));
  CHECK(s.background == Approx(1).margin(kTolerance));
}

TEST_CASE("With the noise model, standard deviations hold for photons and read noise") {
  const double photons = GENERATE(1e3, 1e4, 1e5, 1e6);
  const Camera camera = {0.5, 1.6, 100};
  constexpr double kTwoPi = 6.283185307179586;
  const double amplitude_adu = photons / (kTwoPi * 1.3 * 1.3) / camera.gain_e_per_adu;
  std::vector<test::Spot> truth;
  const auto pixels =
      images_of(truth, amplitude_adu, camera.offset_adu + 40, [&](auto& generator, double adu) {
        const double electrons = (adu - camera.offset_adu) * camera.gain_e_per_adu;
        std::poisson_distribution<int> shot(electrons);
        std::normal_distribution<double> read(0, camera.read_noise_e);
        return camera.offset_adu + (shot(generator) + read(generator)) / camera.gain_e_per_adu;
      });
  fitter::FitOptions options;
  options.noise = {0.5f, 1.6f, 100};
  INFO("photons " << photons);
  check_calibrated(scatter_of(test::fit_all(pixels, kSide, options), truth));
}

TEST_CASE("Without a noise model, standard deviations hold for noise that is even") {
  const double amplitude_adu = GENERATE(60.0, 500.0, 50000.0);
  std::vector<test::Spot> truth;
  const auto pixels = images_of(truth, amplitude_adu, 200, [](auto& generator, double adu) {
    std::normal_distribution<double> noise(adu, 5.0);
    return noise(generator);
  });
  INFO("amplitude " << amplitude_adu);
  check_calibrated(scatter_of(test::fit_all(pixels, kSide), truth));
}

TEST_CASE("Standard deviations do not depend on the iterations it took") {
  const auto images = test::simulate_spots<std::uint16_t>(kSide, 20000, 400, 200, 9);
  fitter::FitOptions options;
  options.noise = {1, 0, 0};
  const auto cold = test::fit_all(images.pixels, kSide, options);
  const auto warm = test::fit_all(images.pixels, kSide, options, test::starts_from(cold));
  for (std::size_t i = 0; i < cold.size(); ++i) {
    CHECK(warm[i].x_sd_px == Approx(cold[i].x_sd_px).epsilon(1e-3));
    CHECK(warm[i].amplitude_sd_adu == Approx(cold[i].amplitude_sd_adu).epsilon(1e-3));
  }
}

}  // namespace
}  // namespace driftd
