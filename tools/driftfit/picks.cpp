// SPDX-License-Identifier: MIT
#include "tools/driftfit/picks.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/counted.hpp"
#include "base/table_text.hpp"
#include "tools/driftfit/errors.hpp"
#include "tools/driftfit/yaml_files.hpp"

namespace driftd::tools {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\"";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

/// What stands in quotes is one field.
std::vector<std::string_view> fields_of(std::string_view line, char end) {
  std::vector<std::string_view> fields;
  bool quoted = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') quoted = !quoted;
    if (line[i] != end || quoted) continue;
    fields.push_back(trimmed(line.substr(begin, i - begin)));
    begin = i + 1;
  }
  fields.push_back(trimmed(line.substr(begin)));
  return fields;
}

std::optional<double> number(std::string text, bool decimal_comma) {
  text = without_thousands(text);
  if (decimal_comma) std::replace(text.begin(), text.end(), ',', '.');
  const char* first = text.data();
  double value = 0;
  const auto [end, error] = std::from_chars(first, first + text.size(), value);
  if (error != std::errc() || end != first + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

/// What the heading says: which columns hold x and y, and in what they count.
struct Columns {
  char end = ',';
  std::size_t x = 0, y = 0;
  double pixels_each = 1;  ///< of the table's unit
  double first_px = 0;     ///< where the first pixel's centre is 0, of the table's zero
  std::optional<std::size_t> frame = std::nullopt;
};

Columns columns_of(const std::filesystem::path& path, std::string_view header,
                   std::optional<double> pixel_nm) {
  Columns columns;
  for (const char end : {'\t', ';'}) {
    if (header.find(end) == std::string_view::npos) continue;
    columns.end = end;
    break;
  }
  const auto fields = fields_of(header, columns.end);
  const auto find = [&](std::string_view x, std::string_view y) {
    const auto at_x = std::find(fields.begin(), fields.end(), x);
    const auto at_y = std::find(fields.begin(), fields.end(), y);
    if (at_x == fields.end() || at_y == fields.end()) return false;
    columns.x = static_cast<std::size_t>(at_x - fields.begin());
    columns.y = static_cast<std::size_t>(at_y - fields.begin());
    return true;
  };
  for (const std::string_view name : {"frame", "Frame", "FRAME"}) {
    const auto frame = std::find(fields.begin(), fields.end(), name);
    if (frame == fields.end()) continue;
    columns.frame = static_cast<std::size_t>(frame - fields.begin());
    break;
  }
  if (find("x", "y") || find("x_px", "y_px")) return columns;
  if (find("X", "Y")) {
    columns.first_px = -0.5;
    return columns;
  }
  if (find("x [nm]", "y [nm]")) {
    if (!pixel_nm) throw InputError(path, "is in nm: --pixel-nm says how many a pixel has");
    columns.pixels_each = 1 / *pixel_nm;
    columns.first_px = -0.5;
    return columns;
  }
  if (std::find(fields.begin(), fields.end(), "shape-type") != fields.end())
    throw InputError(path, "holds napari's shapes; save a layer of points");
  for (const auto& [x, y] : {std::pair("axis-3", "axis-2"), std::pair("axis-2", "axis-1"),
                             std::pair("axis-1", "axis-0")}) {
    if (find(x, y)) return columns;
  }
  throw InputError(
      path,
      "the first line must name columns x and y (in pixels), X and Y, axis-0 and axis-1, or x "
      "[nm] and y [nm], it is '" +
          std::string(header.substr(0, 80)) + "'");
}

/// @throws InputError, also for a file of ROIs
std::vector<std::string> lines_of(const std::filesystem::path& path) {
  if (std::filesystem::is_regular_file(path)) {  // a pipe gives its first bytes once
    std::ifstream file(path, std::ios::binary);
    std::string begin(4, '\0');
    file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
    if (begin == "Iout" || begin == "PK\x03\x04") {
      throw InputError(path,
                       "holds ROIs of ImageJ, which are not read: in ImageJ choose Centroid by "
                       "Analyze, Set Measurements, measure them, and save the results as .csv");
    }
  }
  try {
    return text_lines(path);
  } catch (const std::runtime_error& error) {
    throw InputError(path, error.what());
  }
}

/// @param note  gets a sentence where lines of other frames were left out
std::vector<Pick> read_table_picks(const std::filesystem::path& path,
                                   std::optional<double> pixel_nm, std::string& note) {
  std::vector<Pick> picks;
  std::optional<Columns> columns;
  std::optional<double> first_frame;
  std::size_t left_out = 0;
  int line_number = 0;
  for (const std::string& line : lines_of(path)) {
    ++line_number;
    const std::string_view text = trimmed(line);
    if (text.empty() || text.starts_with('#')) continue;
    if (!columns) {
      columns = columns_of(path, line, pixel_nm);
      continue;
    }
    const auto fields = fields_of(line, columns->end);
    const auto field = [&](std::size_t i) {
      const std::string found(i < fields.size() ? fields[i] : "");
      if (const auto value = number(found, columns->end != ',')) return *value;
      throw InputError(path, "line " + std::to_string(line_number) + ": column " +
                                 std::to_string(i + 1) + " is '" + found + "', not a number");
    };
    if (columns->frame) {
      const double frame = field(*columns->frame);
      if (!first_frame) first_frame = frame;
      if (frame != *first_frame) {
        ++left_out;
        continue;
      }
    }
    const auto pixels = [&](std::size_t i) {
      return field(i) * columns->pixels_each + columns->first_px;
    };
    picks.push_back({.x_px = pixels(columns->x), .y_px = pixels(columns->y)});
  }
  if (left_out > 0) {
    note = fmt::format(
        "{}: picks are the {} of frame {:g}, the first in the table; {} of other frames {} left "
        "out",
        path.string(), counted(picks.size(), "line"), *first_frame, counted(left_out, "line"),
        left_out == 1 ? "is" : "are");
  }
  return picks;
}

/// A marker that is picked twice would count as two.
void refuse_twice(const std::filesystem::path& path, const std::vector<Pick>& picks) {
  constexpr double kApartPx = 1;  // nearer ones are no two spots
  for (auto a = picks.begin(); a != picks.end(); ++a) {
    const auto b = std::find_if(std::next(a), picks.end(), [&](const Pick& other) {
      return std::hypot(a->x_px - other.x_px, a->y_px - other.y_px) < kApartPx;
    });
    if (b == picks.end()) continue;
    throw InputError(path, fmt::format("the picks at {:g}, {:g} and at {:g}, {:g} are of one "
                                       "marker, which would count twice",
                                       a->x_px, a->y_px, b->x_px, b->y_px));
  }
}

}  // namespace

std::vector<Pick> read_picks(const std::filesystem::path& path, std::optional<double> pixel_nm,
                             std::string* note) {
  std::error_code ignored;  // what is not there cannot be opened, either
  if (std::filesystem::is_directory(path, ignored)) {
    throw InputError(path, "is a folder, not a file of picks");
  }
  std::string end = path.extension().string();
  std::ranges::transform(end, end.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string left_out;
  std::vector<Pick> picks = end == ".yaml" || end == ".yml"
                                ? read_yaml_picks(path)
                                : read_table_picks(path, pixel_nm, left_out);
  if (note != nullptr) *note = left_out;
  if (picks.empty()) throw InputError(path, "names no pick");
  refuse_twice(path, picks);
  return picks;
}

}  // namespace driftd::tools
