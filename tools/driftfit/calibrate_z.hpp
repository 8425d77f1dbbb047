// SPDX-License-Identifier: MIT
// driftfit calibrate-z: from a stack of beads through focus to the curve that z is read by, its
// plots and its table. docs/use/axial.md.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "tools/driftfit/options.hpp"

namespace CLI {
class App;
}

namespace driftd::tools {

struct CalibrateZOptions {
  Options stack;
  OptionTexts texts;
  double step_nm = 0;
  int frames_per_step = 1;
  std::string method = "astigmatic", planes = "all";
  std::filesystem::path curve, picasso, table;
  bool overwrite = false, quiet = false;
};

void add_calibrate_z_options(CLI::App& app, CalibrateZOptions& options);

/// Writes all files or none.
/// @returns what was found, in lines
/// @throws InputError, camera::RecordingError, OutputError, UsageError, Interrupted
std::string calibrate_z(CalibrateZOptions options, const std::function<bool()>& stop);

}  // namespace driftd::tools
