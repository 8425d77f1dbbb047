// SPDX-License-Identifier: MIT
// Checks that every back end makes before it starts.
#pragma once

#include <cstddef>

#include "fitter/fitter.hpp"

namespace driftd::fitter {

/// @throws FitterError naming the setting, what it is and what is allowed
void check_range(const char* name, double value, double low, double high);

/// Whether it does nothing without the variances of the pixels.
bool needs_variances(Estimator estimator);

/// @throws FitterError outside kMinRoiPx .. kMaxRoiPx
void check_roi_px(int roi_px);

/// What the model does not have can neither be fixed nor bounded. @throws FitterError
void check_model_has(Model model, unsigned fixed, const Bounds& bounds);

/// @throws FitterError for a setting outside its range
void check_options(const FitOptions& options);

/// @throws FitterError also for what only a batch can do
void check_live_options(const FitOptions& options);

/// @param results  how many the caller has room for
/// @throws FitterError also for a batch that is not what it says
void check_batch(const Batch& batch, const FitOptions& options, std::size_t results);

/// @throws FitterError for a pixel type that is none
std::size_t bytes_per_pixel(PixelType type);

}  // namespace driftd::fitter
