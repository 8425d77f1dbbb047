// SPDX-License-Identifier: MIT
#include "daemon/setup/fitter_choice.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "base/monotonic.hpp"
#include "daemon/setup/compose.hpp"
#include "fitter/failover.hpp"

namespace driftd::daemon {
namespace {

constexpr int kWarmUps = 20;
constexpr int kCalls = 600;
/// Between calls, as between frames: caches cool down and a GPU idles, which back-to-back calls
/// hide.
constexpr std::chrono::milliseconds kPause{1};

/// A noisy spot near the middle of every slot.
void stage_spots(fitter::LiveFitter& fitter, const TrialSpots& spots) {
  std::mt19937 random(1);
  std::normal_distribution<double> place(0, 0.3), noise(0, 1);
  const int side = fitter.roi_px();
  for (std::size_t slot = 0; slot < fitter.capacity(); ++slot) {
    const double x0 = (side - 1) / 2.0 + place(random);
    const double y0 = (side - 1) / 2.0 + place(random);
    std::uint16_t* pixel = fitter.staging(slot);
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        const double r2 = (x - x0) * (x - x0) + (y - y0) * (y - y0);
        const double level = spots.background_adu +
                             spots.peak_adu * std::exp(-r2 / (2 * spots.sigma_px * spots.sigma_px));
        *pixel++ = static_cast<std::uint16_t>(
            std::lround(std::max(0.0, level + std::sqrt(level) * noise(random))));
      }
    }
  }
}

/// The 99th percentile of a call with all slots full, us. @throws fitter::FitterError if it fails
double time_p99_us(fitter::LiveFitter& fitter, const TrialSpots& spots) {
  stage_spots(fitter, spots);
  std::vector<fitter::Start> starts(fitter.capacity());
  std::vector<double> us;
  us.reserve(kCalls);
  for (int call = 0; call < kWarmUps + kCalls; ++call) {
    std::this_thread::sleep_for(kPause);
    const std::int64_t begin_ns = monotonic_ns();
    const auto fits = fitter.fit(starts);
    const std::int64_t end_ns = monotonic_ns();
    if (fitter.error() != nullptr) throw fitter::FitterError(fitter.error());
    for (std::size_t i = 0; i < fits.size(); ++i) {
      starts[i] = {fits[i].x_px, fits[i].y_px, fits[i].sigma_x_px, fits[i].sigma_y_px};
    }
    if (call >= kWarmUps) us.push_back(static_cast<double>(end_ns - begin_ns) * 1e-3);
  }
  const auto p99 = us.begin() + kCalls * 99 / 100;
  std::nth_element(us.begin(), p99, us.end());
  return *p99;
}

ChosenFitter chosen(std::unique_ptr<fitter::LiveFitter> fitter, std::string reason) {
  ChosenFitter result;
  result.fitter = std::move(fitter);
  result.reason = std::move(reason);
  return result;
}

}  // namespace

ChosenFitter choose_fitter(const FitterWish& wish,
                           const std::function<FitterMakers(fitter::Estimator)>& makers_of) {
  using fitter::Estimator;
  const auto with = [&](Estimator estimator, std::string reason) {
    ChosenFitter chosen = choose_backend(wish.backend, wish.spots, makers_of(estimator));
    chosen.estimator = estimator;
    chosen.estimator_reason = std::move(reason);
    return chosen;
  };
  const auto because = [&](const char* configured) {
    return wish.estimator_reason.empty() ? configured : wish.estimator_reason;
  };
  switch (wish.estimator) {
    case config::Estimator::LeastSquares:
      return with(Estimator::ImplicitLeastSquares, because("fitter.estimator is `least_squares`"));
    case config::Estimator::Poisson:
      return with(Estimator::PoissonLikelihood, because("fitter.estimator is `poisson`"));
    case config::Estimator::Auto:
      break;
  }
  if (!wish.gain_known)
    return with(Estimator::ImplicitLeastSquares, "camera.gain_e_per_adu is not given");
  std::string reason;
  try {
    ChosenFitter poisson = with(Estimator::PoissonLikelihood, {});
    const double p99_us = time_p99_us(*poisson.fitter, wish.spots);
    const double limit_us = poisson_limit_us(wish.frame_rate_hz);
    reason = fmt::format("p99 of {} fits {:.1f} us, {} {:.0f} us", poisson.fitter->capacity(),
                         p99_us, p99_us <= limit_us ? "within" : "above", limit_us);
    poisson.estimator_reason = reason;
    if (p99_us <= limit_us) return poisson;
  } catch (const fitter::FitterError& error) {
    reason = error.what();
  }
  return with(Estimator::ImplicitLeastSquares, "poisson: " + reason);
}

ChosenFitter choose_fitter_for(const config::Config& config, camera::PixelFormat format,
                               std::size_t markers) {
  const std::size_t capacity = std::max(markers, marker_capacity(config));
  ChosenFitter chosen =
      choose_fitter(fitter_wish(config, format), [&](fitter::Estimator estimator) {
        return fitter_makers(config, format, estimator, capacity);
      });
  chosen.saturation_adu = detection_settings(config, format).saturation_adu;
  return chosen;
}

ChosenFitter fitter_like(const ChosenFitter& in_use, bool gpu_failed, const config::Config& config,
                         camera::PixelFormat format, std::size_t markers) {
  config::Config same = config;
  same.fitter.estimator = in_use.estimator == fitter::Estimator::PoissonLikelihood
                              ? config::Estimator::Poisson
                              : config::Estimator::LeastSquares;
  const bool cuda = std::string_view(in_use.fitter->description()).starts_with("cuda");
  same.fitter.backend = cuda && !gpu_failed ? config::Backend::Cuda : config::Backend::Cpu;
  ChosenFitter made;
  std::string reason = in_use.reason;
  try {
    made = choose_fitter_for(same, format, markers);
  } catch (const fitter::FitterError& error) {
    if (same.fitter.backend == config::Backend::Cpu) throw;
    reason = error.what();
    same.fitter.backend = config::Backend::Cpu;
    made = choose_fitter_for(same, format, markers);
  }
  made.reason = std::move(reason);
  made.estimator_reason = in_use.estimator_reason;
  return made;
}

double poisson_limit_us(double frame_rate_hz) noexcept {
  return kPoissonShare * 1e6 / (frame_rate_hz > 0 ? frame_rate_hz : kAssumedRateHz);
}

const char* name_of(fitter::Estimator estimator) noexcept {
  return estimator == fitter::Estimator::PoissonLikelihood ? "poisson" : "least_squares";
}

ChosenFitter choose_backend(config::Backend backend, const TrialSpots& spots,
                            const FitterMakers& make) {
  auto cpu = make.cpu();
  if (backend == config::Backend::Cpu) return chosen(std::move(cpu), "fitter.backend is `cpu`");
  std::unique_ptr<fitter::LiveFitter> cuda;
  if (backend == config::Backend::Cuda) {
    cuda = make.cuda();
    return chosen(fitter::make_failover_live_fitter(std::move(cuda), std::move(cpu)),
                  "fitter.backend is `cuda`");
  }
  try {
    cuda = make.cuda();
    const double cuda_us = time_p99_us(*cuda, spots);
    const double cpu_us = time_p99_us(*cpu, spots);
    std::string reason = fmt::format("p99 of {} fits: cpu {:.1f} us, cuda {:.1f} us",
                                     cpu->capacity(), cpu_us, cuda_us);
    if (cpu_us <= cuda_us) return chosen(std::move(cpu), std::move(reason));
    return chosen(fitter::make_failover_live_fitter(std::move(cuda), std::move(cpu)),
                  std::move(reason));
  } catch (const fitter::FitterError& error) {
    return chosen(std::move(cpu), error.what());
  }
}

}  // namespace driftd::daemon
