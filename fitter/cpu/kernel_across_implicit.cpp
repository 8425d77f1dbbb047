// SPDX-License-Identifier: MIT
#include "fitter/cpu/across_lanes.hpp"

HWY_BEFORE_NAMESPACE();
namespace driftd::fitter::cpu::HWY_NAMESPACE {

void fit_across_lanes(const FitJob& job, Workspace* workspaces) {
  if (job.options->estimator != Estimator::ImplicitLeastSquares)
    return fit_levels_across_lanes(job, workspaces);
  fit_by<ImplicitLeastSquares>(job, workspaces);
}

}  // namespace driftd::fitter::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
