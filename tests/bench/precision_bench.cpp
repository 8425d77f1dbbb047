// SPDX-License-Identifier: MIT
// How near each estimator comes to the Cramer-Rao bound, and how honest its reported uncertainties
// are: point-sampled Gaussians with Poisson noise (11x11), over photons, background, width and
// shape. A table to stdout, JSON to --json.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fitter/fitter.hpp"
#include "support/precision.hpp"

namespace driftd {
namespace {

struct EstimatorUnderTest {
  const char* name;
  fitter::Estimator estimator;
};
constexpr std::array kEstimators = {
    EstimatorUnderTest{"implicit", fitter::Estimator::ImplicitLeastSquares},
    EstimatorUnderTest{"weighted", fitter::Estimator::WeightedLeastSquares},
    EstimatorUnderTest{"poisson", fitter::Estimator::PoissonLikelihood}};

std::vector<test::PrecisionCell> all_cells() {
  std::vector<test::PrecisionCell> cells;
  constexpr std::array<std::array<double, 2>, 5> kSigmas = {
      {{1.0, 1.0}, {1.5, 1.5}, {2.0, 2.0}, {1.0, 2.0}, {1.3, 1.6}}};
  for (const double photons : {100.0, 200.0, 500.0, 1000.0, 1e4, 1e5})
    for (const double background : {0.0, 1.0, 10.0, 100.0})
      for (const auto& s : kSigmas) cells.push_back({photons, background, s[0], s[1]});
  return cells;
}

int run(std::size_t spots, const std::string& json) {
  std::printf("%zu spots a cell; rms of error / bound and of error / reported sd\n", spots);
  std::printf("%8s %6s %9s  %-9s %7s  %-31s  %s\n", "photons", "bkg", "sigma", "estimator", "conv.",
              "bound: x  sigma  ampl.  bkg", "reported: x  sigma  ampl.  bkg");
  nlohmann::json out = nlohmann::json::array();
  for (const test::PrecisionCell& cell : all_cells()) {
    const test::PrecisionSample sample = test::draw_sample(cell, spots);
    for (const auto& [name, estimator] : kEstimators) {
      // Weights of 1 / 0 say nothing.
      if (estimator == fitter::Estimator::WeightedLeastSquares && cell.background == 0) continue;
      const test::Precision p = test::measure_precision(sample, estimator, 0);
      const test::Ratios& b = p.over_bound;
      const test::Ratios& r = p.over_reported;
      std::printf("%8g %6g %4.1f/%-4.1f  %-9s %6.2f%%", cell.photons, cell.background,
                  cell.sigma_x_px, cell.sigma_y_px, name, 100 * p.converged);
      std::printf("  %7.3f %7.3f %7.3f %7.3f  %7.3f %7.3f %7.3f %7.3f\n", b[0], b[1], b[2], b[3],
                  r[0], r[1], r[2], r[3]);
      std::fflush(stdout);
      out.push_back({{"photons", cell.photons},
                     {"background", cell.background},
                     {"sigma_x_px", cell.sigma_x_px},
                     {"sigma_y_px", cell.sigma_y_px},
                     {"estimator", name},
                     {"converged", p.converged},
                     {"over_bound", b},
                     {"over_reported", r}});
    }
  }
  if (!json.empty()) std::ofstream(json) << out.dump(1) << '\n';
  return 0;
}

}  // namespace
}  // namespace driftd

int main(int argc, char** argv) {
  CLI::App app("Precision of each estimator against the Cramer-Rao bound");
  std::size_t spots = 100'000;
  std::string json;
  app.add_option("--spots", spots, "for each cell")->capture_default_str();
  app.add_option("--json", json, "write the figures there");
  CLI11_PARSE(app, argc, argv);
  return driftd::run(spots, json);
}
