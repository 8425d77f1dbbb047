// SPDX-License-Identifier: MIT
// The demo's picture: the true drift unlocked and locked, and the residual enlarged, drawn by
// gnuplot from a data file that stays beside it. One thread.
#pragma once

#include <filesystem>
#include <string>

#include "clients/demo/recording.hpp"
#include "clients/demo/report.hpp"

namespace driftd::clients {

/// Writes drift.tsv (thinned so that every peak stays), drift.gp, drift.png and drift.svg.
/// Returns what was drawn, or why nothing was (no gnuplot, or what it said), in one line.
/// @throws std::runtime_error when the folder cannot be written
std::string draw_plot(const Recording& recording, const Phases& phases, const Report& report,
                      const std::filesystem::path& folder);

}  // namespace driftd::clients
