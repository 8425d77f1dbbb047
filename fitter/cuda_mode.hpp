// SPDX-License-Identifier: MIT
// How a live CUDA fitter hands a frame's fits to the GPU. A value; any thread.
#pragma once

#include <cstdint>

namespace driftd::fitter {

enum class CudaMode : std::uint8_t {
  Launch,   ///< one kernel launch a call
  Graph,    ///< the same as an instantiated graph: quicker wherever it was measured
  Resident  ///< a kernel that stays and waits: shortest, but it keeps multiprocessors busy, and
            ///< calls that wait for the whole device (most allocations) do not return meanwhile
};

}  // namespace driftd::fitter
