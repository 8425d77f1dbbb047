// SPDX-License-Identifier: MIT
// Fits of images that are no spots, by the hundred million: by every model and estimator, as
// Gaussians at the pixels' centres and integrated, with and without details, cold, from anywhere,
// never satisfied, bounded, partly fixed, with maps. Each call has to end, and each result to be
// what fitter.hpp promises.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "fitter/cuda_fitter.hpp"
#include "fitter/fitter.hpp"
#include "unit/fitter/hard_images.hpp"

namespace driftd {
namespace {

using fitter::Batch;
using fitter::Bounds;
using fitter::Estimator;
using fitter::FitDetails;
using fitter::FitOptions;
using fitter::FitStatus;
using fitter::Localization;
using fitter::Model;
using Clock = std::chrono::steady_clock;

constexpr std::array kModels = {Model::CircularGaussian, Model::EllipticalGaussian,
                                Model::RotatedGaussian};
constexpr std::array kModelNames = {"circular", "elliptical", "rotated"};
constexpr std::array kEstimators = {Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                                    Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood};
constexpr std::array kEstimatorNames = {"implicit", "least squares", "weighted", "Poisson"};
constexpr std::array kMostIterations = {1, 20, 46, 255};
constexpr int kSmall = 16;
/// Forty rotated fits of 64x64, integrated, take some seconds of one core.
constexpr std::chrono::seconds kNoEnd(300);

/// Ends the program when a call takes longer than kNoEnd.
class Watchdog {
 public:
  Watchdog() : thread_([this](const std::stop_token& stop) { watch(stop); }) {}
  /// @param what  lives until the next call
  void begin(const std::string& what) {
    what_ = what.c_str();
    begun_ns_ = Clock::now().time_since_epoch().count();
  }

 private:
  void watch(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      const Clock::time_point begun{Clock::duration(begun_ns_)};
      if (begun_ns_ == 0 || Clock::now() - begun < kNoEnd) continue;
      std::printf("no end: %s\n", what_.load());
      std::fflush(stdout);
      _exit(1);
    }
  }

  std::atomic<const char*> what_ = nullptr;
  std::atomic<Clock::rep> begun_ns_ = 0;
  std::jthread thread_;
};

/// What is wrong with a result, or null.
/// @param own  bounds of this fit, or null
const char* fault_of(const Localization& l, const FitOptions& options, const Bounds* own) {
  const std::array values = {l.x_px,          l.y_px,           l.sigma_x_px, l.sigma_y_px,
                             l.amplitude_adu, l.background_adu, l.chi_square};
  const std::array sds = {l.x_sd_px,       l.y_sd_px,          l.sigma_x_sd_px,
                          l.sigma_y_sd_px, l.amplitude_sd_adu, l.background_sd_adu};
  if (l.status > FitStatus::BadInput) return "the status is none";
  if (l.iterations > options.max_iterations) return "more iterations than allowed";
  for (const float sd : sds)
    if (sd < 0) return "an uncertainty is negative";
  if (l.status == FitStatus::BadInput) {
    for (const float v : values)
      if (!std::isnan(v)) return "bad input has a number";
    return nullptr;
  }
  if (!converged(l.status)) return nullptr;
  for (const float v : values)
    if (!std::isfinite(v)) return "converged to no number";
  if (!(l.sigma_x_px > 0 && l.sigma_y_px > 0)) return "converged to no width";
  for (std::size_t j = 0; j < 6; ++j) {
    if (options.fixed >> j & 1) continue;
    for (const Bounds* bounds : {&options.bounds, own}) {
      if (bounds == nullptr) continue;
      if (values[j] < bounds->lower[j]) return "converged below a bound";
      if (values[j] > bounds->upper[j]) return "converged above a bound";
    }
  }
  return nullptr;
}

/// @param status  of the fit that they are of
const char* fault_of(const FitDetails& d, FitStatus status) {
  if (status == FitStatus::BadInput)
    return std::isnan(d.angle_rad) && std::isnan(d.covariance[0][0]) ? nullptr
                                                                     : "details of bad input";
  for (int j = 0; j < FitDetails::kOrder; ++j)
    if (d.covariance[j][j] < 0) return "a negative variance";
  if (!converged(status)) return nullptr;
  return std::isfinite(d.angle_rad) ? nullptr : "converged to no angle";
}

/// Small ones are many: large ones take most of the time.
/// @param times  as many as that: a GPU would wait for calls of few
test::HardImages many_images(int side, std::uint64_t times, std::uint64_t seed) {
  test::HardImages all = {side, {}, {}};
  const std::uint64_t copies = times * (side <= kSmall ? 24 : 1);
  for (std::uint64_t i = 0; i < copies; ++i) {
    const test::HardImages images = test::hard_images(side, seed + i);
    all.kinds.insert(all.kinds.end(), images.kinds.begin(), images.kinds.end());
    all.pixels.insert(all.pixels.end(), images.pixels.begin(), images.pixels.end());
  }
  return all;
}

struct Tally {
  std::size_t fits = 0, converged = 0, unfinished = 0, bad = 0;
  double longest_us = 0;  ///< of a call, for each of its fits
};

class HostileFits {
 public:
  HostileFits(bool on_gpu, int threads, std::uint64_t seed) : threads_(threads), random_(seed) {
    if (on_gpu) cuda_ = fitter::make_cuda_batch_fitter();
  }

  /// Every model and estimator on images of one side. @return false when a result is wrong
  bool fit_some() {
    const bool small = random_() % 16 != 0;
    const int side =
        std::uniform_int_distribution<int>(small ? 4 : kSmall + 1, small ? kSmall : 64)(random_);
    const std::uint64_t seed = random_();
    const test::HardImages images = many_images(side, cuda_ ? 16 : 1, seed);
    // Pixel by pixel to the last iteration takes ten times as long as all others: every eighth
    // time.
    const std::size_t models = random_() % 8 == 0 ? kModels.size() : kModels.size() - 1;
    for (std::size_t m = 0; m < models; ++m) {
      for (std::size_t e = 0; e < kEstimators.size(); ++e) {
        FitOptions options;
        options.model = kModels[m];
        options.estimator = kEstimators[e];
        options.integrated = random_() % 3 == 0;
        options.max_iterations = kMostIterations[random_() % kMostIterations.size()];
        std::size_t kind = 0;
        for (const test::HardInput& input : test::hard_inputs(images, options, seed)) {
          what_ = std::string(kModelNames[m]) + ", " + kEstimatorNames[e] +
                  (options.integrated ? ", integrated" : "") + ", side " + std::to_string(side) +
                  ", images of seed " + std::to_string(seed) + ", input " + std::to_string(kind++) +
                  ", at most " + std::to_string(options.max_iterations) + " iterations";
          if (!fit(images, input, tallies_[m][e])) return false;
        }
      }
    }
    return true;
  }

  std::size_t fits() const {
    std::size_t all = 0;
    for (const auto& of_model : tallies_)
      for (const Tally& tally : of_model) all += tally.fits;
    return all;
  }

  void print() const {
    std::printf("%-12s%-15s%14s%11s%11s%11s%16s\n", "", "", "fits", "converged", "unfinished",
                "bad input", "longest, us each");
    for (std::size_t m = 0; m < kModels.size(); ++m) {
      for (std::size_t e = 0; e < kEstimators.size(); ++e) {
        const Tally& t = tallies_[m][e];
        const auto share = [&t](std::size_t n) {
          return t.fits == 0 ? 0 : 100 * static_cast<double>(n) / static_cast<double>(t.fits);
        };
        std::printf("%-12s%-15s%14zu%10.1f%%%10.1f%%%10.1f%%%16.0f\n", kModelNames[m],
                    kEstimatorNames[e], t.fits, share(t.converged), share(t.unfinished),
                    share(t.bad), t.longest_us);
      }
    }
    std::fflush(stdout);
  }

 private:
  bool fit(const test::HardImages& images, const test::HardInput& input, Tally& tally) {
    Batch batch = input.batch(images);
    results_.resize(batch.count);
    std::memset(results_.data(), 0xa5, results_.size() * sizeof(results_[0]));  // poison
    details_.resize(batch.count);
    std::memset(details_.data(), 0xa5, details_.size() * sizeof(details_[0]));
    if (random_() % 2 == 0) batch.details = details_.data();
    watchdog_.begin(what_);
    const auto begin = Clock::now();
    if (cuda_)
      cuda_->fit(batch, input.options, results_);
    else
      fitter::fit_batch_cpu(batch, input.options, results_, threads_);
    const std::chrono::duration<double, std::micro> taken = Clock::now() - begin;
    tally.longest_us = std::max(tally.longest_us, taken.count() / static_cast<double>(batch.count));
    tally.fits += batch.count;
    for (std::size_t i = 0; i < batch.count; ++i) {
      const Localization& l = results_[i];
      tally.converged += converged(l.status) ? 1U : 0U;
      tally.unfinished += l.status == FitStatus::IterationLimit ? 1U : 0U;
      tally.bad += l.status == FitStatus::BadInput ? 1U : 0U;
      const Bounds* own = batch.bounds != nullptr ? batch.bounds + i : nullptr;
      const char* fault = fault_of(l, input.options, own);
      if (fault == nullptr && batch.details != nullptr) fault = fault_of(details_[i], l.status);
      if (fault != nullptr) {
        std::printf("%s: %s, \"%s\": %g %g, %g %g, %g %g\n", fault, what_.c_str(),
                    images.kinds[i].c_str(), static_cast<double>(l.x_px),
                    static_cast<double>(l.y_px), static_cast<double>(l.sigma_x_px),
                    static_cast<double>(l.sigma_y_px), static_cast<double>(l.amplitude_adu),
                    static_cast<double>(l.background_adu));
        return false;
      }
    }
    return true;
  }

  std::unique_ptr<fitter::CudaBatchFitter> cuda_;
  int threads_;
  std::mt19937_64 random_;
  std::string what_;
  std::vector<Localization> results_;
  std::vector<FitDetails> details_;
  std::array<std::array<Tally, kEstimators.size()>, kModels.size()> tallies_ = {};
  Watchdog watchdog_;
};

}  // namespace
}  // namespace driftd

int main(int argc, char** argv) {
  CLI::App app("Fits of images that are no spots: that each ends, and in what is promised");
  double fits = 1e6, most_s = 1e9;
  bool gpu = false;
  int threads = 1;
  std::uint64_t seed = 1;
  app.add_option("--fits", fits)->capture_default_str()->check(CLI::Range(1.0, 1e12));
  app.add_option("--seconds", most_s, "begins no more images then")->check(CLI::Range(0.0, 1e9));
  app.add_flag("--gpu", gpu);
  app.add_option("--threads", threads, "of the CPU")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--seed", seed)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (gpu && driftd::fitter::cuda_device_count() == 0) {
    std::fputs("--gpu: no CUDA device was found\n", stderr);
    return 2;
  }
  driftd::HostileFits hostile(gpu, threads, seed);
  const auto end = driftd::Clock::now() + std::chrono::duration<double>(most_s);
  bool right = true, in_time = true;
  for (int tenth = 1; right && in_time && tenth <= 10; ++tenth) {
    while (right && in_time && static_cast<double>(hostile.fits()) < tenth * fits / 10) {
      right = hostile.fit_some();
      in_time = driftd::Clock::now() < end;
    }
    hostile.print();
  }
  return right && hostile.fits() > 0 ? 0 : 1;  // none: of --fits nan
}
