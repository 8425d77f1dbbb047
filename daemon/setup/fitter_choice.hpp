// SPDX-License-Identifier: MIT
// Which back end and which estimator fit the markers, decided once at start; a fitter for another
// ROI or saturation keeps both. Not real time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "config/config.hpp"
#include "fitter/fitter.hpp"

namespace driftd::daemon {

/// Make a live fitter of the configured ROI side and capacity. @throws fitter::FitterError
struct FitterMakers {
  std::function<std::unique_ptr<fitter::LiveFitter>()> cpu, cuda;
};

/// What a trial fits, in every slot.
struct TrialSpots {
  double sigma_px = 1.3;
  double background_adu = 100, peak_adu = 1000;  ///< above the dark level, below saturation
};

/// What the configuration says of the choice.
struct FitterWish {
  config::Backend backend;
  config::Estimator estimator;
  bool gain_known;       ///< without, there is no Poisson likelihood
  double frame_rate_hz;  ///< 0: not known
  TrialSpots spots;
  std::string estimator_reason = {};  ///< why `estimator` is not fitter.estimator's; "": it is
};

struct ChosenFitter {
  std::shared_ptr<fitter::LiveFitter> fitter;
  std::string reason;  ///< why this back end, with the times measured
  fitter::Estimator estimator = fitter::Estimator::ImplicitLeastSquares;
  std::string estimator_reason;      ///< why this estimator, with the time measured
  std::uint32_t saturation_adu = 0;  ///< a pixel at or above is saturated; 0: not known here
};

/// The estimator of `fitter.estimator`, on the back end of choose_backend(). `auto` takes the
/// Poisson likelihood where the gain is known and a trial's 99th percentile, all slots full, is
/// within poisson_limit_us(); least squares otherwise.
/// @throws fitter::FitterError when what is asked for by name cannot be had
ChosenFitter choose_fitter(const FitterWish& wish,
                           const std::function<FitterMakers(fitter::Estimator)>& makers_of);

/// The same for a configuration and the frames' format, for so many markers at least.
/// @throws fitter::FitterError
ChosenFitter choose_fitter_for(const config::Config& config, camera::PixelFormat format,
                               std::size_t markers = 0);

/// A fitter for another configuration of the same daemon, without timing anything. It has the back
/// end and the estimator of `in_use`, or the CPU where a GPU has failed or cannot be had any more.
/// It holds so many `markers`, or as many as the configuration has, whichever are more.
/// @throws fitter::FitterError
ChosenFitter fitter_like(const ChosenFitter& in_use, bool gpu_failed, const config::Config& config,
                         camera::PixelFormat format, std::size_t markers = 0);

/// `cpu` and `cuda` are what is used. `auto` times both, warm-started and paced as in the
/// lock, and takes the one whose 99th percentile is lower; the CPU where CUDA cannot be had. A CUDA
/// fitter comes with the CPU as its twin, which takes over should it fail.
/// @throws fitter::FitterError when `cuda` is asked for and cannot be had
ChosenFitter choose_backend(config::Backend backend, const TrialSpots& spots,
                            const FitterMakers& make);

/// What the Poisson estimator's fits of a frame may take, us: kPoissonShare of the frame period.
double poisson_limit_us(double frame_rate_hz) noexcept;
constexpr double kPoissonShare = 0.1;
constexpr double kAssumedRateHz = 500;  ///< where the frame rate is not known

/// As `fitter.estimator` names it.
const char* name_of(fitter::Estimator estimator) noexcept;

}  // namespace driftd::daemon
