// SPDX-License-Identifier: MIT
// Which back end fits the markers, decided once at start. Not real time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fitter/fitter.hpp"

namespace driftd::daemon {

/// Make a live fitter of the configured ROI side and capacity. @throws fitter::FitterError
struct FitterMakers {
  std::function<std::unique_ptr<fitter::LiveFitter>()> cpu, cuda;
};

struct ChosenFitter {
  std::unique_ptr<fitter::LiveFitter> fitter;
  std::string reason;  ///< why this one, with the times measured
};

/// `cpu` and `cuda` are taken at their word. `auto` times both on spots of `sigma_px` in every
/// slot, warm-started and paced as in the lock, and takes the one whose 99th percentile is lower;
/// the CPU where CUDA cannot be had. A CUDA fitter comes with the CPU as its twin, which takes over
/// should it fail.
/// @throws fitter::FitterError when `cuda` is asked for and cannot be had
ChosenFitter choose_fitter(const std::string& backend, double sigma_px, const FitterMakers& make);

}  // namespace driftd::daemon
