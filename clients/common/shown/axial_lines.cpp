// SPDX-License-Identifier: MIT
#include "clients/common/shown/axial_lines.hpp"

#include <spdlog/fmt/fmt.h>

#include "base/in_words.hpp"
#include "clients/common/axial_lock.hpp"
#include "clients/common/shown/fields.hpp"
#include "clients/common/shown/lock_lines.hpp"

namespace driftd::clients::shown {

using nlohmann::json;

bool has_axial(const json& status) {
  const json* axial = find(status, "/axial");
  return axial != nullptr && axial->is_object();
}

void add_z(const json& status, const json& position, std::vector<Line>& lines) {
  if (!has_axial(status)) return;
  const json& axial = status.at("axial");
  const bool live = position.is_object() && position.contains("z_nm");
  const std::string z =
      live ? number(position, "/z_nm", "{:+.3f}") : number(axial, "/z_nm", "{:+.3f}");
  if (z != "-") {
    std::string rest = "   sd " + (live ? number(position, "/z_sd_nm", "{:.3f}")
                                        : number(axial, "/sd_nm", "{:.3f}"));
    rest += text(axial, "/method") == "reflection"
                ? "   by the reflected spot"
                : fmt::format("   {} of {} markers", number(axial, "/markers_used"),
                              number(axial, "/markers_total"));
    const std::string off = number(axial, "/distance_from_crossing_nm", "{:+.0f}");
    if (off != "-") rest += fmt::format(", {} nm from focus", off);
    lines.push_back({fmt::format("{:<12}{:>11} nm{}", "z", z, rest), Tone::Plain});
  } else {
    const std::string why = text(axial, "/text");
    const std::string reason = text(axial, "/reason");
    lines.push_back({"z           not measured", Tone::Warning});
    add_words(why.empty() || why == "-" ? (reason == "-" ? "" : in_words(reason)) : why,
              Tone::Warning, lines);
  }
  add_text(axial, "/warning", Tone::Warning, lines);
}

void add_axial_lock(const json& status, const json& correction, double since_told_s,
                    std::vector<Line>& lines) {
  const json& lock = axial_lock(status);
  if (!lock.is_object()) return;
  const std::string state = text(lock, "/state");
  lines.push_back({"z lock      " + state +
                       since_and_why(lock, find(status, "/time_ns"), since_told_s) + "   lock " +
                       number(lock, "/lock_id"),
                   tone_of_state(state)});
  add_text(lock, "/cure", Tone::Warning, lines);
  add_text(lock, "/warning", Tone::Warning, lines);
  if (state == "idle") return;
  add_text(lock, "/acquaintance/text", Tone::Plain, lines);
  lines.push_back(gate_line("z in lock", lock, since_told_s > kSilentAfter_s));
  const std::string set_nm = number(lock, "/move/z_nm", "{:+.1f}");
  const std::string phase = text(lock, "/move/phase");
  if (set_nm != "-" && !(phase == "resting" && set_nm == "+0.0"))
    lines.push_back({fmt::format("{:<12}{:>11} nm{}", "z set-point", set_nm,
                                 phase == "resting" ? "" : "   " + phase)});
  add_law("z law", lock, lines);
  const json& total = correction.is_object() ? correction : lock;
  lines.push_back({fmt::format("{:<12}{:>11} nm{}", "z stage at",
                               number(total, "/total_z_nm", "{:+.3f}"), limits(correction))});
  add_stage("z stage", lock, lines);
}

}  // namespace driftd::clients::shown
