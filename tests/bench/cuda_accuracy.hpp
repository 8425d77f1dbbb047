// SPDX-License-Identifier: MIT
// The part of driftd_cuda_bench that measures accuracy, and the spots that all its parts fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "support/spots.hpp"

namespace driftd::bench {

/// Seeded spots, simulated on all cores.
test::SpotImages<std::uint16_t> simulate(int side, double signal, double background,
                                         std::size_t count, std::uint64_t seed);

/// Errors by the paper's Table 1, and what differs from the CPU twin. Prints a line a row.
nlohmann::json measure_accuracy();

}  // namespace driftd::bench
