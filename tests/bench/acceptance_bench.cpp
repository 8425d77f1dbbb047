// SPDX-License-Identifier: MIT
// What the verdict on a minimum lets through and what it refuses: ROIs of noise alone that pass, by
// kind of noise; and spots that are refused, without and with pixels that the map of variances
// calls noisy or gone. To stdout.
#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <vector>

#include "fitter/fitter.hpp"
#include "support/noisy_pixels.hpp"

namespace driftd {
namespace {

using fitter::Estimator;

struct EstimatorUnderTest {
  const char* name;
  Estimator estimator;
};
constexpr std::array kEstimators = {EstimatorUnderTest{"implicit", Estimator::ImplicitLeastSquares},
                                    EstimatorUnderTest{"squares", Estimator::LeastSquares},
                                    EstimatorUnderTest{"weighted", Estimator::WeightedLeastSquares},
                                    EstimatorUnderTest{"poisson", Estimator::PoissonLikelihood}};

using Generator = std::mt19937_64;

struct Noise {
  const char* name;
  double variance;
  float gain;  ///< as the fits are told
  std::function<double(Generator&)> draw;
};

Noise gaussian(const char* name, double mean, double sd) {
  return {name, sd * sd, 1, [=](Generator& g) { return std::normal_distribution(mean, sd)(g); }};
}

Noise poisson(const char* name, double mean) {
  return {name, mean, 1,
          [=](Generator& g) -> double { return std::poisson_distribution(mean)(g); }};
}

/// Each electron becomes an exponentially distributed number of them, of mean 1: an excess noise of
/// 2, to the fit half as many electrons.
Noise multiplied(const char* name, double mean) {
  return {name, 2 * mean, 0.5f, [=](Generator& g) {
            const int electrons = std::poisson_distribution(mean)(g);
            return electrons == 0 ? 0.0 : std::gamma_distribution(double(electrons), 1.0)(g);
          }};
}

/// Amplitude over its own standard deviation, by the gain, that a caller may ask for beside.
constexpr float kAsked = 4;

struct Passing {
  std::size_t all = 0, clear = 0;
};

/// How many of `count` ROIs of noise pass.
void print_noise(std::size_t count, int threads) {
  const std::array noises = {gaussian("gaussian", 100, 10),     poisson("poisson 0.2", 0.2),
                             poisson("poisson 1", 1),           poisson("poisson 3", 3),
                             poisson("poisson 10", 10),         poisson("poisson 100", 100),
                             multiplied("multiplied 0.2", 0.2), multiplied("multiplied 1", 1),
                             multiplied("multiplied 3", 3),     multiplied("multiplied 10", 10),
                             multiplied("multiplied 100", 100)};
  std::printf(
      "Of %zu ROIs of noise pass, and of those with an amplitude beyond %g of its standard "
      "deviations;\nhot: one pixel of 1000 times the variance, in the map\n",
      count, double{kAsked});
  std::printf("%-15s %4s", "noise", "side");
  for (const auto& [name, estimator] : kEstimators) std::printf(" %13s", name);
  std::printf("  hot: %13s %13s\n", "weighted", "poisson");
  const auto print = [](const Passing& p) { std::printf(" %6zu %6zu", p.all, p.clear); };
  for (const Noise& noise : noises) {
    for (const int side : {7, 9, 13, 16}) {
      const auto area = static_cast<std::size_t>(side * side);
      Generator generator(1);
      std::vector<float> pixels(count * area);
      for (float& p : pixels) p = static_cast<float>(noise.draw(generator));
      std::vector<float> variances(pixels.size(), static_cast<float>(noise.variance));
      std::vector<fitter::Localization> fits(count);
      const auto passing = [&](Estimator estimator, bool mapped) {
        fitter::FitOptions options;
        options.estimator = estimator;
        options.noise.gain_e_per_adu = noise.gain;
        fitter::fit_batch_cpu({.pixels = pixels.data(),
                               .type = fitter::PixelType::F32,
                               .roi_px = side,
                               .count = count,
                               .variances = mapped ? variances.data() : nullptr},
                              options, fits, threads);
        Passing p;
        for (const auto& l : fits) {
          if (!converged(l.status)) continue;
          ++p.all;
          if (l.amplitude_adu > kAsked * l.amplitude_sd_adu) ++p.clear;
        }
        return p;
      };
      std::printf("%-15s %4d", noise.name, side);
      for (const auto& [name, estimator] : kEstimators)
        print(passing(estimator, estimator == Estimator::WeightedLeastSquares));
      std::uniform_int_distribution<std::size_t> place(0, area - 1);
      const double hot = 1000 * noise.variance;
      std::normal_distribution<double> more(0, std::sqrt(hot));
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = i * area + place(generator);
        pixels[at] += static_cast<float>(more(generator));
        variances[at] = static_cast<float>(hot);
      }
      std::printf("      ");
      print(passing(Estimator::WeightedLeastSquares, true));
      for (float& v : variances)
        if (v < 500 * noise.variance) v = 0;  // read noise alone
      print(passing(Estimator::PoissonLikelihood, true));
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

/// What share of spots is refused: without noisy pixels, with one, with two.
void print_spots(std::size_t count, int threads) {
  std::printf(
      "\nPer cent of %zu spots (background 10 photons) refused, without, with one, with two "
      "noisy pixels; of those that pass, with one: rms of x's error over its own\n",
      count);
  std::printf("%-9s %5s %4s %7s %4s %8s  %7s %7s %7s  %7s\n", "estimator", "sigma", "side",
              "photons", "gain", "variance", "without", "one", "two", "rms");
  for (const auto estimator : {Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood}) {
    for (const double sigma : {0.6, 0.8, 1.3}) {
      for (const int side : {7, 9, 13, 16}) {
        for (const double photons : {300.0, 1000.0, 10000.0}) {
          for (const double variance : {100.0, 1000.0, 10000.0, double{INFINITY}}) {
            const double gain = side % 2 == 0 ? 2 : 1;
            double refused[3], rms = 0;
            for (int noisy = 0; noisy < 3; ++noisy) {
              const test::NoisyPixels s =
                  test::draw_noisy({side, sigma, photons, 10, gain, variance, noisy}, count, 1);
              std::vector<fitter::Localization> fits(count);
              fitter::fit_batch_cpu(s.batch(estimator), s.options(estimator), fits, threads);
              const test::Verdicts v = test::verdicts(s, fits);
              refused[noisy] = 100 * v.refused;
              if (noisy == 1) rms = v.rms;
            }
            std::printf("%-9s %5g %4d %7g %4g %8g  %7.2f %7.2f %7.2f  %7.3f\n",
                        estimator == Estimator::PoissonLikelihood ? "poisson" : "weighted", sigma,
                        side, photons, gain, variance, refused[0], refused[1], refused[2], rms);
          }
          std::fflush(stdout);
        }
      }
    }
  }
}

/// What it costs of the spots to ask for an amplitude beyond kAsked of its standard deviations.
void print_cost(std::size_t count, int threads) {
  std::printf(
      "\nPer cent of the spots that pass (of %zu; sigma 1.3 px, 9x9) whose amplitude is below %g "
      "of its standard deviations\n%7s %10s %9s %9s\n",
      count, double{kAsked}, "photons", "background", "implicit", "poisson");
  struct Light {
    double photons, background;
  };
  for (const Light light : {Light{200, 10}, {100, 1}, {60, 1}, {100, 10}}) {
    const test::NoisyPixels s =
        test::draw_noisy({9, 1.3, light.photons, light.background, 1, 1, 0}, count, 1);
    std::printf("%7g %10g", light.photons, light.background);
    for (const auto estimator : {Estimator::ImplicitLeastSquares, Estimator::PoissonLikelihood}) {
      std::vector<fitter::Localization> fits(count);
      fitter::fit_batch_cpu(s.batch(estimator), s.options(estimator), fits, threads);
      double passed = 0, faint = 0;
      for (const auto& l : fits) {
        if (!converged(l.status)) continue;
        ++passed;
        if (!(l.amplitude_adu > kAsked * l.amplitude_sd_adu)) ++faint;
      }
      std::printf(" %9.2f", 100 * faint / passed);
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace driftd

int main(int argc, char** argv) {
  CLI::App app("What the verdict lets through and what it refuses");
  std::size_t noise = 100'000, spots = 2000;
  int threads = 0;
  app.add_option("--noise", noise, "ROIs of noise for each cell; 0: none")->capture_default_str();
  app.add_option("--spots", spots, "for each cell; 0: none")->capture_default_str();
  app.add_option("--threads", threads, "0: all cores")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (noise > 0) driftd::print_noise(noise, threads);
  if (spots > 0) driftd::print_spots(spots, threads);
  if (spots > 0) driftd::print_cost(20 * spots, threads);
  return 0;
}
