// SPDX-License-Identifier: MIT
// Both clocks at once, and how well the host's one is known. Any thread; no allocation.
#pragma once

#include "record/rows.hpp"

namespace driftd::daemon {

/// The closest of a few readings.
record::ClockRow read_clocks() noexcept;

}  // namespace driftd::daemon
