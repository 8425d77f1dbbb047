// SPDX-License-Identifier: MIT
// What z from widths costs a lock: the fits of a frame and the estimators, as the tracking loop
// calls them, of a flat lock and of one with an astigmatic lens, in turn, at the pace of frames.
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/monotonic.hpp"
#include "control/axial/axial_estimator.hpp"
#include "control/drift/drift_estimator.hpp"
#include "fitter/cuda_fitter.hpp"
#include "fitter/fitter.hpp"

namespace {

using namespace driftd;

constexpr int kSide = 13;
constexpr std::size_t kFrames = 64;
constexpr double kPhotons = 3e4, kBackground = 20, kGain = 0.5;  // e/ADU

/// As the option table has them; the bench is to run where no camera's library is.
constexpr control::EstimatorSettings kSettings = {.pixel_size_nm = 100,
                                                  .average_frames = 1,
                                                  .min_markers = 3,
                                                  .outlier_sigma = 4,
                                                  .outlier_floor_nm = 3,
                                                  .max_width_change = 0.5,
                                                  .max_brightness_change = 0.8};

double width_px(double z_nm, double focus_nm) {
  const double off = (z_nm - focus_nm) / 350;
  return 1.1 * std::sqrt(1 + off * off);
}

const control::FitUnits kUnits = {kGain, 100, 1.5, kSide* kSide};

control::WidthCurve curve() {
  std::vector<control::WidthCurve::Knot> knots;
  for (int z = -500; z <= 500; z += 50)
    knots.push_back({static_cast<double>(z), width_px(z, -220), width_px(z, 220)});
  return {knots, 1.5, control::AxialMethod::Astigmatic};
}

/// Markers that stand still but in z, with new noise in each of kFrames frames.
std::vector<std::vector<std::uint16_t>> draw(std::size_t markers, bool astigmatic) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> place(-0.5, 0.5);
  std::normal_distribution<double> height(0, 60);
  std::vector<std::array<double, 3>> at;
  for (std::size_t i = 0; i < markers; ++i)
    at.push_back({6 + place(random), 6 + place(random), height(random)});
  std::vector<std::vector<std::uint16_t>> frames(kFrames);
  for (std::size_t frame = 0; frame < kFrames; ++frame) {
    for (const auto& [x0, y0, height_nm] : at) {
      const double z_nm = height_nm + 50 * std::sin(0.1 * static_cast<double>(frame));
      const double sx = astigmatic ? width_px(z_nm, -220) : 1.3;
      const double sy = astigmatic ? width_px(z_nm, 220) : 1.3;
      const double peak = kPhotons / (2 * 3.14159265 * sx * sy);
      for (int y = 0; y < kSide; ++y) {
        for (int x = 0; x < kSide; ++x) {
          const double u = (x - x0) / sx, v = (y - y0) / sy;
          std::poisson_distribution<int> light(kBackground +
                                               peak * std::exp(-0.5 * (u * u + v * v)));
          frames[frame].push_back(static_cast<std::uint16_t>(100 + light(random) / kGain));
        }
      }
    }
  }
  return frames;
}

class Lock {
 public:
  Lock(const char* lock_name, bool cuda, fitter::Model model, fitter::Estimator estimator,
       std::size_t markers, bool astigmatic)
      : name(lock_name),
        frames_(draw(markers, astigmatic)),
        lateral_(kSettings),
        axial_(kSettings, markers),
        measures_z_(astigmatic),
        starts_(markers),
        observations_(markers) {
    fitter::FitOptions options;
    options.model = model;
    options.estimator = estimator;
    options.noise = {static_cast<float>(kGain), 1.5F, 100};
    fitter_ = cuda ? fitter::make_cuda_live_fitter(kSide, markers, options, {})
                   : fitter::make_cpu_live_fitter(kSide, markers, options);
    std::vector<control::Marker> listed;
    for (std::size_t i = 0; i < markers; ++i)
      listed.push_back({.id = static_cast<std::uint32_t>(i + 1),
                        .role = control::MarkerRole::Tracking,
                        .x_px = 6 + 30.0 * static_cast<double>(i),
                        .y_px = 6});
    lateral_.set_markers(listed);
  }

  void frame(std::size_t number) {
    const std::vector<std::uint16_t>& pixels = frames_[number % kFrames];
    constexpr std::size_t kPixels = std::size_t{kSide} * kSide;
    for (std::size_t i = 0; i < starts_.size(); ++i)
      std::copy_n(pixels.begin() + static_cast<std::ptrdiff_t>(i * kPixels), kPixels,
                  fitter_->staging(i));
    const std::int64_t begin_ns = monotonic_ns();
    const auto fits = fitter_->fit(starts_);
    const std::int64_t fitted_ns = monotonic_ns();
    for (std::size_t i = 0; i < fits.size(); ++i) {
      const fitter::Localization& f = fits[i];
      observations_[i] = {.fitted = fitter::converged(f.status),
                          .x_px = 30.0 * static_cast<double>(i) + static_cast<double>(f.x_px),
                          .y_px = f.y_px,
                          .x_sd_px = f.x_sd_px,
                          .y_sd_px = f.y_sd_px,
                          .sigma_px = control::mean_width(f.sigma_x_px, f.sigma_y_px),
                          .amplitude_adu = f.amplitude_adu,
                          .background_adu = f.background_adu,
                          .sigma_x_px = f.sigma_x_px,
                          .sigma_y_px = f.sigma_y_px,
                          .sigma_x_sd_px = f.sigma_x_sd_px,
                          .sigma_y_sd_px = f.sigma_y_sd_px,
                          .chi_square = f.chi_square};
      starts_[i] = fitter::converged(f.status)
                       ? fitter::Start{f.x_px, f.y_px, f.sigma_x_px, f.sigma_y_px}
                       : fitter::Start{};
    }
    valid += lateral_.update(observations_).valid ? 1 : 0;
    if (measures_z_)
      with_z += axial_.update(curves_, kUnits, observations_, lateral_).valid ? 1 : 0;
    const std::int64_t end_ns = monotonic_ns();
    fit_us.push_back(1e-3 * static_cast<double>(fitted_ns - begin_ns));
    all_us.push_back(1e-3 * static_cast<double>(end_ns - begin_ns));
  }

  std::string name;
  std::vector<double> fit_us, all_us;
  int valid = 0, with_z = 0;

 private:
  std::vector<std::vector<std::uint16_t>> frames_;
  std::unique_ptr<fitter::LiveFitter> fitter_;
  control::DriftEstimator lateral_;
  control::AxialEstimator axial_;
  bool measures_z_;
  const control::BrightnessCurves curves_ = control::BrightnessCurves({curve()});
  std::vector<fitter::Start> starts_;
  std::vector<control::MarkerObservation> observations_;
};

double percentile(std::vector<double> values, double share) {
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What z from widths costs a lock, against the flat one.");
  int frames = 3000, pause_us = 500;
  std::size_t markers = 16;
  bool cuda = false;
  app.add_option("--frames", frames, "Of each lock")->check(CLI::Range(100, 10'000'000));
  app.add_option("--pause-us", pause_us, "Between two frames");
  app.add_option("--markers", markers)->check(CLI::Range(4, 256));
  app.add_flag("--cuda", cuda, "Fit on a GPU");
  CLI11_PARSE(app, argc, argv);

  using fitter::Estimator;
  using fitter::Model;
  std::vector<std::unique_ptr<Lock>> locks;
  const auto add = [&](const char* name, Model model, Estimator estimator, bool astigmatic) {
    locks.push_back(std::make_unique<Lock>(name, cuda, model, estimator, markers, astigmatic));
  };
  try {
    add("flat, likelihood", Model::CircularGaussian, Estimator::PoissonLikelihood, false);
    add("flat, least squares", Model::CircularGaussian, Estimator::ImplicitLeastSquares, false);
    add("astigmatic", Model::EllipticalGaussian, Estimator::PoissonLikelihood, true);
  } catch (const fitter::FitterError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  const timespec pause{0, 1000L * pause_us};
  for (int frame = 0; frame < frames; ++frame) {
    for (auto& lock : locks) {
      nanosleep(&pause, nullptr);
      lock->frame(static_cast<std::size_t>(frame));
    }
  }
  const double flat_us = percentile(locks[0]->all_us, 0.5);
  std::printf("%zu markers, %d frames each, us\n%-22s%9s%9s%9s%9s%12s\n", markers, frames, "",
              "fit p50", "all p50", "all p99", "ratio", "with z");
  for (const auto& lock : locks) {
    const double p50_us = percentile(lock->all_us, 0.5);
    std::printf("%-22s%9.1f%9.1f%9.1f%9.3f%8d/%d\n", lock->name.c_str(),
                percentile(lock->fit_us, 0.5), p50_us, percentile(lock->all_us, 0.99),
                p50_us / flat_us, lock->with_z, lock->valid);
  }
  return 0;
}
