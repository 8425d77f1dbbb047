// SPDX-License-Identifier: MIT
#include "clients/common/shown/marker_lines.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/in_words.hpp"
#include "clients/common/shown/fields.hpp"

namespace driftd::clients::shown {
namespace {

using nlohmann::json;

/// Why a marker counts less than another, or not at all; empty of one that counts in full.
std::string doubt(const json& marker) {
  const std::string reason = text(marker, "/reputation_reason");
  if (reason == "-" || reason == "good") return {};
  const json* excluded = find(marker, "/excluded");
  const bool out = excluded != nullptr && excluded->is_boolean() && excluded->get<bool>();
  return (out ? "  excluded: " : "  ") + in_words(reason);
}

/// Whether z of any of them is measured, or could be.
bool have_z(const json& markers) {
  return std::any_of(markers.begin(), markers.end(), [](const json& marker) {
    return number(marker, "/z_nm") != "-" || number(marker, "/sigma_y_px") != "-";
  });
}

Line marker_line(const json& marker, bool with_z) {
  const std::string health = text(marker, "/health");
  const std::string why = doubt(marker);
  Tone tone = Tone::Bad;
  if (health == "good") tone = why.empty() ? Tone::Good : Tone::Warning;
  if (health == "unreferenced") tone = Tone::Plain;
  return {
      fmt::format("{:>3}  {:<9}{:<14}{:>5}{:>9}{:>9}{:>10}{:>10}{:>9}{:>7}{}{}",
                  number(marker, "/id"), text(marker, "/role"), in_words(health),
                  number(marker, "/reputation", "{:.2f}"), number(marker, "/x_px", "{:.2f}"),
                  number(marker, "/y_px", "{:.2f}"), number(marker, "/residual_x_nm", "{:+.2f}"),
                  number(marker, "/residual_y_nm", "{:+.2f}"), number(marker, "/x_sd_nm", "{:.2f}"),
                  number(marker, "/sigma_px", "{:.2f}"),
                  with_z ? fmt::format("{:>9}{:>10}", number(marker, "/z_nm", "{:+.1f}"),
                                       number(marker, "/residual_z_nm", "{:+.1f}"))
                         : "",
                  why),
      tone};
}

}  // namespace

std::vector<Line> marker_table(const json& listed, std::size_t max_lines) {
  const json* markers = find(listed, "/markers");
  if (markers == nullptr || !markers->is_array() || max_lines < 2) return {};
  std::vector<Line> lines;
  const bool with_z = have_z(*markers);
  lines.push_back(
      {fmt::format("{:>3}  {:<9}{:<14}{:>5}{:>9}{:>9}{:>10}{:>10}{:>9}{:>7}{}", "id", "role",
                   "health", "trust", "x px", "y px", "res x nm", "res y nm", "sd x nm", "sigma",
                   with_z ? fmt::format("{:>9}{:>10}", "z nm", "res z nm") : ""),
       Tone::Dim});
  for (const json& marker : *markers) {
    if (lines.size() + 1 == max_lines && markers->size() + 1 > max_lines) {
      lines.push_back(
          {fmt::format("     and {} more", markers->size() + 1 - lines.size()), Tone::Dim});
      break;
    }
    lines.push_back(marker_line(marker, with_z));
  }
  return lines;
}

}  // namespace driftd::clients::shown
