// SPDX-License-Identifier: MIT
// The particle swarm on the CPU: how many iterations until it agrees with the converged fit (PSFIT,
// figure 6), how often it finds a spot that Levenberg-Marquardt from the brightest place does not,
// and what an image costs. 11x11 pixels, elliptical, 256 particles, as PSFIT. JSON to --json.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fitter/fitter.hpp"
#include "fitter/swarm.hpp"
#include "support/hard_spots.hpp"

namespace driftd {
namespace {

using Fits = std::vector<fitter::Localization>;
using Reports = std::vector<fitter::SwarmReport>;

fitter::FitOptions elliptical() {
  fitter::FitOptions options;
  options.model = fitter::Model::EllipticalGaussian;
  return options;
}

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// Median distance of the swarm's best place from the converged fit, px over (x, y, sigma_x,
/// sigma_y).
nlohmann::json figure_6(std::size_t images) {
  const test::HardSample sample = test::draw_hard(test::Hard::Ordinary, images, 6);
  Fits fits(images);
  fitter::fit_batch_cpu(sample.batch(), elliptical(), fits, 0);
  nlohmann::json out = nlohmann::json::array();
  std::printf("iterations  median distance from the converged fit, px  (%zu images)\n", images);
  for (const int iterations : {1, 2, 5, 10, 15, 20, 25, 30, 40, 60}) {
    fitter::SwarmOptions swarm;
    swarm.iterations = iterations;
    Fits polished(images);
    Reports reports(images);
    fitter::fit_swarm_cpu(sample.batch(), elliptical(), swarm, polished, reports, 0);
    std::vector<double> distances;
    for (std::size_t i = 0; i < images; ++i) {
      if (!fitter::converged(fits[i].status)) continue;
      const fitter::Start& b = reports[i].best;
      distances.push_back(std::hypot(
          std::hypot(b.x_px - fits[i].x_px, b.y_px - fits[i].y_px),
          std::hypot(b.sigma_x_px - fits[i].sigma_x_px, b.sigma_y_px - fits[i].sigma_y_px)));
    }
    const double at = median(distances);
    std::printf("%10d  %.5f\n", iterations, at);
    out.push_back({{"iterations", iterations}, {"median_distance_px", at}});
  }
  return out;
}

/// From where a fit begins, and whether the widths are bounded to those that a spot has.
nlohmann::json success_rates(std::size_t images) {
  constexpr std::array kStarts = {"middle + LM", "peak + LM", "swarm + LM"};
  nlohmann::json out = nlohmann::json::array();
  std::printf("found the brightest spot, %zu images each\n%-16s %-10s", images, "", "sigma");
  for (const char* start : kStarts) std::printf(" %11s", start);
  std::printf("\n");
  const std::vector<fitter::Start> middle(images, {5, 5, 1.4f, 1.4f});
  for (const test::Hard hard : test::kAllHard) {
    const test::HardSample sample = test::draw_hard(hard, images, 7);
    for (const bool bounded : {false, true}) {
      fitter::FitOptions options = elliptical();
      options.estimator = fitter::Estimator::LeastSquares;
      options.spots_only = false;  // judged by where it ends, not by the rule for spots
      options.bounds.lower[2] = options.bounds.lower[3] = bounded ? 0.8f : 0.0f;
      options.bounds.upper[2] = options.bounds.upper[3] = bounded ? 2.2f : 99.0f;
      std::array<Fits, 3> fits = {Fits(images), Fits(images), Fits(images)};
      fitter::Batch from_middle = sample.batch();
      from_middle.starts = middle.data();
      fitter::fit_batch_cpu(from_middle, options, fits[0], 0);
      fitter::fit_batch_cpu(sample.batch(), options, fits[1], 0);
      fitter::fit_swarm_cpu(sample.batch(), options, {}, fits[2], {}, 0);
      const char* const sigma = bounded ? "0.8 .. 2.2" : "free";
      std::printf("%-16s %-10s", test::name_of(hard), sigma);
      for (std::size_t k = 0; k < fits.size(); ++k) {
        const double found = test::share_found(sample, fits[k]);
        std::printf(" %10.2f%%", 100 * found);
        out.push_back({{"case", test::name_of(hard)},
                       {"sigma", sigma},
                       {"start", kStarts[k]},
                       {"found", found}});
      }
      std::printf("\n");
    }
  }
  return out;
}

nlohmann::json cost(std::size_t images) {
  const test::HardSample sample = test::draw_hard(test::Hard::Ordinary, images, 8);
  Fits fits(images);
  nlohmann::json out;
  for (const int threads : {1, 0}) {
    const double swarm = seconds(
        [&] { fitter::fit_swarm_cpu(sample.batch(), elliptical(), {}, fits, {}, threads); });
    const double peak =
        seconds([&] { fitter::fit_batch_cpu(sample.batch(), elliptical(), fits, threads); });
    const char* const name = threads == 1 ? "one thread" : "all cores";
    const double each_us = 1e6 * swarm / static_cast<double>(images);
    std::printf("%s: %zu images in %.2f s, %.1f us each; %.0f times the fit from the peak\n", name,
                images, swarm, each_us, swarm / peak);
    out[name] = {{"us_each", each_us}, {"over_peak", swarm / peak}};
  }
  return out;
}

}  // namespace
}  // namespace driftd

int main(int argc, char** argv) {
  CLI::App app("The particle swarm: iterations, success and cost");
  std::size_t images = 50'000;
  std::string json;
  app.add_option("--images", images)->capture_default_str();
  app.add_option("--json", json, "write the figures there");
  CLI11_PARSE(app, argc, argv);
  const nlohmann::json out = {{"figure_6", driftd::figure_6(images / 5)},
                              {"success", driftd::success_rates(images / 5)},
                              {"cost", driftd::cost(images)}};
  if (!json.empty()) std::ofstream(json) << out.dump(1) << '\n';
  return 0;
}
