// SPDX-License-Identifier: MIT
#include "tools/driftfit/picks.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "tools/driftfit/errors.hpp"
#include "tools/driftfit/yaml_files.hpp"

namespace driftd::tools {
namespace {

/// Excel begins its UTF-8 files with it.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\"";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    fields.push_back(trimmed(line.substr(begin, end - begin)));
    begin = end + 1;
  }
  return fields;
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

/// Which columns hold x and y.
struct Columns {
  std::size_t x = 0, y = 0;
};

Columns columns_of(const std::filesystem::path& path, std::string_view header) {
  std::optional<std::size_t> x;
  std::optional<std::size_t> y;
  const auto fields = fields_of(header);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i] == "x" || fields[i] == "x_px") x = i;
    if (fields[i] == "y" || fields[i] == "y_px") y = i;
  }
  if (x && y) return {*x, *y};
  throw InputError(path, "the first line must name columns x and y (in pixels), it is '" +
                             std::string(header.substr(0, 80)) + "'");
}

std::vector<Pick> read_csv_picks(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw InputError(path, "cannot be opened");
  std::vector<Pick> picks;
  std::optional<Columns> columns;
  int line_number = 0;
  for (std::string line; std::getline(file, line);) {
    if (++line_number == 1 && line.starts_with(kByteOrderMark))
      line.erase(0, kByteOrderMark.size());
    const std::string_view text = trimmed(line);
    if (text.empty() || text.starts_with('#')) continue;
    if (!columns) {
      columns = columns_of(path, line);
      continue;
    }
    const auto fields = fields_of(line);
    const auto field = [&](std::size_t i) {
      const std::optional<double> value = i < fields.size() ? number(fields[i]) : std::nullopt;
      if (value) return *value;
      throw InputError(
          path, "line " + std::to_string(line_number) + ": column " + std::to_string(i + 1) +
                    " is '" + std::string(i < fields.size() ? fields[i] : "") + "', not a number");
    };
    picks.push_back({.x_px = field(columns->x), .y_px = field(columns->y)});
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

std::vector<Pick> read_picks(const std::filesystem::path& path) {
  std::error_code ignored;  // what is not there cannot be opened, either
  if (std::filesystem::is_directory(path, ignored)) {
    throw InputError(path, "is a folder, not a file of picks");
  }
  const std::string end = path.extension().string();
  std::vector<Pick> picks =
      end == ".yaml" || end == ".yml" ? read_yaml_picks(path) : read_csv_picks(path);
  if (picks.empty()) throw InputError(path, "names no pick");
  refuse_twice(path, picks);
  return picks;
}

}  // namespace driftd::tools
