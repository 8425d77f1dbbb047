// SPDX-License-Identifier: MIT
// Where the user says that markers are: Picasso's picks (YAML) or a table (CSV).
#pragma once

#include <filesystem>
#include <vector>

namespace driftd::tools {

/// Image pixels; the first pixel's centre is (0, 0).
struct Pick {
  double x_px = 0;
  double y_px = 0;
};

/// By the name's end: .yaml and .yml as Picasso writes them, anything else as CSV with columns `x`
/// and `y` (or `x_px`, `y_px`) in pixels; further columns are left alone, lines from # are
/// comments. At least one pick, and none within a pixel of another. @throws InputError
std::vector<Pick> read_picks(const std::filesystem::path& path);

}  // namespace driftd::tools
