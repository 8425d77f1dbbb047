// SPDX-License-Identifier: MIT
// Where the user says that markers are: Picasso's picks (YAML) or a table (CSV).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace driftd::tools {

/// Image pixels; the first pixel's centre is (0, 0).
struct Pick {
  double x_px = 0;
  double y_px = 0;
};

/// By the name's end: .yaml and .yml as Picasso writes them, anything else as a table. It begins
/// with a heading; tabs, semicolons (numbers may then have a decimal comma) or commas end its
/// columns. Columns: `x`, `y` (or `x_px`, `y_px`) in pixels; `X`, `Y` of Fiji's results, pixels
/// from the corner of the first; the last two of napari's `axis-0`, `axis-1` ..., rows and columns;
/// `x [nm]`, `y [nm]` of ThunderSTORM, nm from that corner. Where there is a column `frame` (Frame,
/// FRAME), as localizations have, the picks are those of the first in the table.
/// Further columns are left alone, lines from # are comments. At least one pick, and none within a
/// pixel of another.
/// @param pixel_nm  nothing: not known, and a table in nm is refused
/// @param note      gets a sentence where lines of other frames were left out; or null
/// @throws InputError
std::vector<Pick> read_picks(const std::filesystem::path& path,
                             std::optional<double> pixel_nm = std::nullopt,
                             std::string* note = nullptr);

}  // namespace driftd::tools
