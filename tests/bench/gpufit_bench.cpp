// SPDX-License-Identifier: MIT
// What Gpufit's interface costs: the same fits from host to host through libGpufit and through our
// own batch call, in turn, on the workload of Leutenegger & Weber 2021 with start values off by up
// to 15 %. Medians of speed and of the ratios, of time and of processor time (which other programs
// on the machine disturb less), to stdout, JSON to --json.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "fitter/cuda_fitter.hpp"
#include "fitter/fitter.hpp"
#include "fitter/gpufit/gpufit.h"
#include "support/spots.hpp"

namespace driftd {
namespace {

constexpr double kSignal = 400, kBackground = 40;
constexpr float kTolerance = 1e-4f;
constexpr int kMostIterations = 20;

struct Settings {
  std::vector<int> sides = {9, 16};
  std::vector<std::size_t> counts = {1000, 100000};
  int repeats = 21;
  std::string json;
};

struct Case {
  const char* name;
  int model_id, estimator_id;
  bool weighted;
};
constexpr Case kCases[] = {{"GAUSS_2D, LSE", GAUSS_2D, LSE, false},
                           {"GAUSS_2D, LSE, weights", GAUSS_2D, LSE, true},
                           {"GAUSS_2D, MLE", GAUSS_2D, MLE, false},
                           {"GAUSS_2D_ELLIPTIC, LSE", GAUSS_2D_ELLIPTIC, LSE, false},
                           {"GAUSS_2D_ELLIPTIC, MLE", GAUSS_2D_ELLIPTIC, MLE, false}};

/// The same input in both forms.
struct Input {
  int side;
  std::size_t count;
  std::vector<float> pixels, weights, variances;
  std::vector<fitter::Start> starts;
  std::vector<fitter::StartLevels> levels;

  std::size_t points() const { return static_cast<std::size_t>(side * side); }
};

Input draw(int side, std::size_t count) {
  const auto spots = test::simulate_spots<float>(side, kSignal, kBackground, count, 20210311);
  Input in = {side, count, spots.pixels, {}, {}, {}, {}};
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> off(0.85f, 1.15f);
  for (const test::Spot& s : spots.truth) {
    const auto x = static_cast<float>(s.x_px), y = static_cast<float>(s.y_px);
    const float sigma = static_cast<float>(s.sigma_px) * off(generator);
    in.starts.push_back({x * off(generator), y * off(generator), sigma, sigma});
    in.levels.push_back({static_cast<float>(s.amplitude_adu) * off(generator),
                         static_cast<float>(s.background_adu) * off(generator)});
  }
  for (const float pixel : in.pixels) {
    in.variances.push_back(std::max(pixel, 1.0f));
    in.weights.push_back(1 / std::max(pixel, 1.0f));
  }
  return in;
}

class Gpufit {
 public:
  Gpufit(const Case& c, Input& in)
      : case_(c), in_(in), states_(in.count), iterations_(in.count), chi_squares_(in.count) {
    for (std::size_t i = 0; i < in.count; ++i) {
      const fitter::Start& s = in.starts[i];
      for (const float value : {in.levels[i].amplitude_adu, s.x_px, s.y_px, s.sigma_x_px})
        start_.push_back(value);
      if (c.model_id == GAUSS_2D_ELLIPTIC) start_.push_back(s.sigma_y_px);
      start_.push_back(in.levels[i].background_adu);
    }
    parameters_.resize(start_.size());
  }

  void fit() {
    int all[] = {1, 1, 1, 1, 1, 1};
    if (gpufit(in_.count, in_.points(), in_.pixels.data(),
               case_.weighted ? in_.weights.data() : nullptr, case_.model_id, start_.data(),
               kTolerance, kMostIterations, all, case_.estimator_id, 0, nullptr, parameters_.data(),
               states_.data(), chi_squares_.data(), iterations_.data()) != OK)
      throw std::runtime_error(gpufit_get_last_error());
  }

  double converged() const {
    return static_cast<double>(std::count(states_.begin(), states_.end(), int{CONVERGED})) /
           static_cast<double>(in_.count);
  }

 private:
  const Case& case_;
  Input& in_;
  std::vector<int> states_, iterations_;
  std::vector<float> chi_squares_, start_, parameters_;
};

class Own {
 public:
  Own(const Case& c, const Input& in) : results_(in.count) {
    options_.model = c.model_id == GAUSS_2D ? fitter::Model::CircularGaussian
                                            : fitter::Model::EllipticalGaussian;
    options_.estimator = c.estimator_id == MLE ? fitter::Estimator::PoissonLikelihood
                         : c.weighted          ? fitter::Estimator::WeightedLeastSquares
                                               : fitter::Estimator::LeastSquares;
    options_.spots_only = false;
    options_.max_iterations = kMostIterations;
    options_.min_decrease = kTolerance;
    options_.min_step = 1e-6f;
    batch_ = {in.pixels.data(),
              fitter::PixelType::F32,
              in.side,
              in.count,
              in.starts.data(),
              in.levels.data(),
              c.weighted ? in.variances.data() : nullptr,
              nullptr};
  }

  void fit() {
    if (cuda_) {
      cuda_->fit(batch_, options_, results_);
    } else {
      fitter::fit_batch_cpu(batch_, options_, results_, 0);
    }
  }

 private:
  /// Where there is a GPU, Gpufit's interface uses it.
  std::unique_ptr<fitter::CudaBatchFitter> cuda_ = fitter::cuda_device_count() > 0
                                                       ? fitter::make_cuda_batch_fitter()
                                                       : nullptr;
  fitter::FitOptions options_;
  fitter::Batch batch_;
  std::vector<fitter::Localization> results_;
};

struct Cost {
  double seconds, processor_seconds;
};

template <class Fits>
Cost cost_of(Fits& fits) {
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t processor = std::clock();
  fits.fit();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  return {elapsed.count(), static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

nlohmann::json measure(const Case& c, Input& in, int repeats) {
  Gpufit theirs(c, in);
  Own own(c, in);
  std::vector<double> through, direct, ratio, processor_ratio;
  cost_of(theirs);
  cost_of(own);
  for (int i = 0; i < repeats; ++i) {
    const Cost a = cost_of(theirs), b = cost_of(own);
    through.push_back(a.seconds);
    direct.push_back(b.seconds);
    ratio.push_back(a.seconds / b.seconds);
    processor_ratio.push_back(a.processor_seconds / b.processor_seconds);
  }
  const auto count = static_cast<double>(in.count);
  const nlohmann::json result = {{"case", c.name},
                                 {"side_px", in.side},
                                 {"fits", in.count},
                                 {"gpufit_fits_per_s", count / median(through)},
                                 {"own_fits_per_s", count / median(direct)},
                                 {"ratio_of_times", median(ratio)},
                                 {"ratio_of_processor_times", median(processor_ratio)},
                                 {"converged", theirs.converged()}};
  std::printf("%-24s %4d %8zu %12.3f %12.3f %8.3f %10.3f %9.4f\n", c.name, in.side, in.count,
              count / median(through) / 1e6, count / median(direct) / 1e6, median(ratio),
              median(processor_ratio), theirs.converged());
  std::fflush(stdout);
  return result;
}

int run(const Settings& settings) {
  nlohmann::json report = nlohmann::json::array();
  std::printf("%-24s %4s %8s %12s %12s %8s %10s %9s\n", "", "side", "fits", "gpufit, M/s",
              "own, M/s", "time", "processor", "converged");
  for (const int side : settings.sides) {
    for (const std::size_t count : settings.counts) {
      Input in = draw(side, count);
      for (const Case& c : kCases) report.push_back(measure(c, in, settings.repeats));
    }
  }
  if (settings.json.empty()) return 0;
  std::ofstream file(settings.json);
  file << report.dump(2) << '\n';
  if (!file) std::fprintf(stderr, "cannot write %s\n", settings.json.c_str());
  return file ? 0 : 1;
}

}  // namespace
}  // namespace driftd

int main(int argc, char** argv) {
  driftd::Settings settings;
  CLI::App app("What Gpufit's interface costs over our own");
  app.add_option("--sides", settings.sides, "Image sides, px")->check(CLI::Range(4, 64));
  app.add_option("--fits", settings.counts, "Fits in a call")->check(CLI::Range(1, 10000000));
  app.add_option("--repeats", settings.repeats, "Calls timed")->check(CLI::Range(1, 100000));
  app.add_option("--json", settings.json, "File for the report");
  CLI11_PARSE(app, argc, argv);
  return driftd::run(settings);
}
