// SPDX-License-Identifier: MIT
// `driftctl calibrate`: has the daemon measure the stage, prints what was found, and puts it into a
// drop-in of the configuration on request. One thread.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>

#include "clients/driftctl/shared/common_options.hpp"

namespace driftd::clients {

struct CalibrateStageOptions {
  std::optional<double> excursion_nm, seconds;  ///< empty: the daemon's
  std::filesystem::path plot;                   ///< SVG; empty: none
  bool write = false;                           ///< a drop-in of CommonOptions::config
  bool pixel_size_from_stage = false;
  bool yes = false;  ///< ask nothing
};

/// Adds the command with its options; both structs outlive the app. What is added to the command
/// returned is a command of its own: `calibrate` alone is the stage's.
CLI::App* add_calibrate(CLI::App& app, const CommonOptions& common, CalibrateStageOptions& options);

/// @throws CLI::ValidationError on wrong usage; as run_calibration(), write_calibration()
void calibrate_stage(const CommonOptions& common, const CalibrateStageOptions& options);

}  // namespace driftd::clients
