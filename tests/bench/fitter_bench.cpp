// SPDX-License-Identifier: MIT
// Speed of the CPU fitter on the workload of Leutenegger & Weber 2021 (400 signal, 40 background
// counts, sigma 1..2 px, centres of standard deviation S/20): fits per second of large batches on
// one thread, the latency of a live batch of 16 markers, and the histogram of iterations, by ROI
// side, pixel type and kind of start.
// The model and the estimator may be chosen; the paper's are the default. Weighted least squares,
// and the likelihood with --map, get a map of variances without a noisy pixel, and no live batches.
// A table to stdout, JSON to --json.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "bench/cpu_target.hpp"
#include "fitter/fitter.hpp"
#include "support/spots.hpp"

namespace driftd {
namespace {

using Clock = std::chrono::steady_clock;
using Fits = std::vector<fitter::Localization>;
using Starts = std::vector<fitter::Start>;

constexpr double kSignal = 400, kBackground = 40;
constexpr std::size_t kMarkers = 16;

struct Settings {
  std::vector<int> sides = {4, 5, 6, 7, 8, 9, 11, 13, 15, 16, 17, 20, 24, 32, 48, 64};
  std::size_t fits = 200;
  int repeats = 1000;
  int frames = 20000;
  fitter::FitOptions options;
  bool map = false;
  std::string json;

  bool mapped() const {
    return map || options.estimator == fitter::Estimator::WeightedLeastSquares;
  }
};

const std::map<std::string, fitter::Model> kModels = {
    {"circular", fitter::Model::CircularGaussian},
    {"elliptical", fitter::Model::EllipticalGaussian}};
const std::map<std::string, fitter::Estimator> kEstimators = {
    {"implicit", fitter::Estimator::ImplicitLeastSquares},
    {"least-squares", fitter::Estimator::LeastSquares},
    {"weighted", fitter::Estimator::WeightedLeastSquares},
    {"poisson", fitter::Estimator::PoissonLikelihood}};

struct Throughput {
  double best_per_s, median_per_s;
};

struct Latency {
  double p50_us, p99_us, p99_9_us, max_us;
};

double elapsed_us(Clock::time_point since) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
}

Starts starts_from(const Fits& fits) {
  Starts starts;
  for (const auto& l : fits) starts.push_back({l.x_px, l.y_px, l.sigma_x_px, l.sigma_y_px});
  return starts;
}

/// Variances of an ordinary camera beside the background's, adu^2, of every pixel of the fits.
std::vector<float> variance_map(int side, std::size_t fits) {
  std::mt19937 generator(20210313);
  std::exponential_distribution<float> read(0.5f);
  std::vector<float> map(fits * static_cast<std::size_t>(side * side));
  for (float& variance : map) variance = static_cast<float>(kBackground) + read(generator);
  return map;
}

/// One batch after another on this thread; `results` are those of the last.
Throughput measure_batches(const fitter::Batch& batch, const Settings& settings, Fits& results) {
  std::vector<double> us;
  for (int i = 0; i < settings.repeats; ++i) {
    const auto start = Clock::now();
    fitter::fit_batch_cpu(batch, settings.options, results);
    us.push_back(elapsed_us(start));
  }
  std::sort(us.begin(), us.end());
  const double count = 1e6 * static_cast<double>(batch.count);
  return {count / us.front(), count / us[us.size() / 2]};
}

struct TypeResult {
  const char* type;
  Throughput cold, warm;
};

template <class Pixel>
TypeResult measure_type(const char* name, fitter::PixelType type, int side,
                        const Settings& settings, Fits& cold_fits) {
  const auto spots =
      test::simulate_spots<Pixel>(side, kSignal, kBackground, settings.fits, 20210311);
  fitter::Batch batch = {spots.pixels.data(), type, side, settings.fits, nullptr};
  std::vector<float> map;
  if (settings.mapped()) map = variance_map(side, settings.fits);
  if (settings.mapped()) batch.variances = map.data();
  TypeResult result = {name, {}, {}};
  cold_fits.resize(settings.fits);
  result.cold = measure_batches(batch, settings, cold_fits);
  const Starts starts = starts_from(cold_fits);
  batch.starts = starts.data();
  Fits warm_fits(settings.fits);
  result.warm = measure_batches(batch, settings, warm_fits);
  return result;
}

/// A live fitter of 16 markers, another noisy image of each in every frame.
Latency measure_live(int side, bool warm, const Settings& settings) {
  constexpr std::size_t kImages = 64 * kMarkers;
  const auto spots =
      test::simulate_spots<std::uint16_t>(side, kSignal, kBackground, kImages, 20210312);
  const auto live = fitter::make_cpu_live_fitter(side, kMarkers, settings.options);
  Fits cold(kImages);
  fitter::fit_batch_cpu({spots.pixels.data(), fitter::PixelType::U16, side, kImages},
                        settings.options, cold);
  const Starts all = warm ? starts_from(cold) : Starts(kImages);
  std::vector<double> us;
  for (int frame = 0; frame < settings.frames; ++frame) {
    const std::size_t first = static_cast<std::size_t>(frame) % 64 * kMarkers;
    for (std::size_t i = 0; i < kMarkers; ++i)
      std::copy_n(spots.roi(first + i), side * side, live->staging(i));
    const auto start = Clock::now();
    live->fit({all.data() + first, kMarkers});
    us.push_back(elapsed_us(start));
  }
  std::sort(us.begin(), us.end());
  const auto quantile = [&us](double q) {
    return us[static_cast<std::size_t>(q * static_cast<double>(us.size() - 1))];
  };
  return {quantile(0.5), quantile(0.99), quantile(0.999), us.back()};
}

nlohmann::json to_json(const Throughput& t) {
  return {{"best_fits_per_s", t.best_per_s}, {"median_fits_per_s", t.median_per_s}};
}

nlohmann::json to_json(const Latency& l) {
  return {{"p50", l.p50_us}, {"p99", l.p99_us}, {"p99_9", l.p99_9_us}, {"max", l.max_us}};
}

nlohmann::json measure_side(int side, const Settings& settings) {
  Fits fits;
  const std::array types = {
      measure_type<std::uint8_t>("u8", fitter::PixelType::U8, side, settings, fits),
      measure_type<float>("f32", fitter::PixelType::F32, side, settings, fits),
      measure_type<std::uint16_t>("u16", fitter::PixelType::U16, side, settings, fits)};
  std::vector<int> iterations(fitter::FitOptions().max_iterations + 1);
  std::size_t converged_count = 0;
  for (const auto& l : fits) {
    ++iterations[l.iterations];
    converged_count += converged(l.status) ? 1u : 0u;
  }
  const bool live = !settings.mapped();
  const Latency cold = live ? measure_live(side, false, settings) : Latency{};
  const Latency warm = live ? measure_live(side, true, settings) : Latency{};

  nlohmann::json result = {{"side_px", side},
                           {"converged_fraction", static_cast<double>(converged_count) /
                                                      static_cast<double>(fits.size())},
                           {"iterations", iterations},
                           {"batch_of_16_us", {{"cold", to_json(cold)}, {"warm", to_json(warm)}}}};
  for (const TypeResult& t : types)
    result["throughput"][t.type] = {{"cold", to_json(t.cold)}, {"warm", to_json(t.warm)}};
  const TypeResult& u16 = types.back();
  std::printf("%4d %9.3f %9.3f %8.3f %8.3f %8.3f %8.3f %8.1f %7.1f %7.1f %7.1f %8.1f %7.1f\n", side,
              1e6 / u16.cold.best_per_s, 1e6 / u16.cold.median_per_s, 1e6 / u16.warm.best_per_s,
              1e6 / u16.warm.median_per_s, 1e6 / types[0].cold.best_per_s,
              1e6 / types[1].cold.best_per_s, cold.p50_us, cold.p99_us, cold.p99_9_us, warm.p50_us,
              warm.p99_us, warm.p99_9_us);
  std::fflush(stdout);
  return result;
}

int run(const Settings& settings) {
  const std::string back_end = fitter::make_cpu_live_fitter(9, 1, {})->description();
  std::printf("%s, one thread; %g signal and %g background counts\n", back_end.c_str(), kSignal,
              kBackground);
  std::printf("%4s %19s %17s %8s %8s %24s %24s\n", "", "u16 cold, us/fit", "u16 warm, us/fit",
              "u8 cold", "f32 cold", "16 markers cold, us", "16 markers warm, us");
  std::printf("%4s %9s %9s %8s %8s %8s %8s %8s %7s %7s %7s %8s %7s\n", "side", "best", "median",
              "best", "median", "best", "best", "p50", "p99", "p99.9", "p50", "p99", "p99.9");
  nlohmann::json report = {{"back_end", back_end},
                           {"signal_counts", kSignal},
                           {"background_counts", kBackground},
                           {"fits_per_batch", settings.fits},
                           {"frames", settings.frames}};
  for (const int side : settings.sides) report["sides"].push_back(measure_side(side, settings));
  if (!settings.json.empty()) {
    std::ofstream file(settings.json);
    file << report.dump(2) << '\n';
    if (!file) {
      std::fprintf(stderr, "cannot write %s\n", settings.json.c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace driftd

int main(int argc, char** argv) {
  driftd::Settings settings;
  CLI::App app("Speed of the CPU fitter by ROI side");
  app.add_option("--sides", settings.sides, "ROI sides, px")->check(CLI::Range(4, 64));
  app.add_option("--fits", settings.fits, "Fits in a batch")->check(CLI::Range(1, 1000000));
  app.add_option("--repeats", settings.repeats, "Batches timed")->check(CLI::Range(1, 100000));
  app.add_option("--frames", settings.frames, "Live batches of 16 markers timed")
      ->check(CLI::Range(1, 100000000));
  app.add_option("--model", settings.options.model)
      ->transform(CLI::CheckedTransformer(driftd::kModels));
  app.add_option("--estimator", settings.options.estimator)
      ->transform(CLI::CheckedTransformer(driftd::kEstimators));
  app.add_flag("--integrated", settings.options.integrated, "The Gaussian's mean over each pixel");
  app.add_flag("--map", settings.map, "With a map of variances");
  std::int64_t target = 0;
  app.add_option("--target", target, "Instruction set; default: the best one")
      ->transform(CLI::CheckedTransformer(driftd::bench::kCpuTargets));
  app.add_option("--json", settings.json, "File for the report");
  CLI11_PARSE(app, argc, argv);
  driftd::bench::use_cpu_target(target);
  return driftd::run(settings);
}
