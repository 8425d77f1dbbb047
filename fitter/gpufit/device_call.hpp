// SPDX-License-Identifier: MIT
// A call whose arrays lie in the memory of a GPU. Any thread may call.
#pragma once

#include "fitter/gpufit/call.hpp"

namespace driftd::fitter::drop_in {

/// As fit(), with data, weights, user_info, initial_parameters, constraints and all outputs in the
/// memory of a device. The data are fitted where they lie; the rest is copied to the host and the
/// results back.
/// @throws FitterError
void fit_on_device(Call call);

}  // namespace driftd::fitter::drop_in
