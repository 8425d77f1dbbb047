// SPDX-License-Identifier: MIT
// z as a lock of one axis takes it: a drift whose x is z and whose y is none. Tracking loop;
// noexcept.
#pragma once

#include "control/axial/axial_estimator.hpp"
#include "control/values/types.hpp"

namespace driftd::control {

/// {z, 0} with the variance of z, of the frame and of the average. Not valid where z is not, or is
/// not finite. For a Supervisor with SupervisorSettings::axes 1.
DriftEstimate as_drift(const AxialEstimate& estimate) noexcept;

}  // namespace driftd::control
