// SPDX-License-Identifier: MIT
#include "clients/web/axial_proposal.hpp"

#include <spdlog/fmt/fmt.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "clients/common/calibration/axial_calibration.hpp"
#include "clients/common/calibration/axial_files.hpp"
#include "clients/common/kept_choice.hpp"

namespace driftd::web {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Empty: none is to be written.
fs::path curve_for(const fs::path& config, bool keep_curve) {
  return keep_curve ? fs::path() : clients::curve_beside(config);
}

clients::CalibrationFile file_of(const Instance& instance) {
  return clients::calibration_file(instance.file(), clients::kAxialFile, kBy, instance.status());
}

/// For who is asked whether the curve until now is right; null where there was none.
json question_of(const json& result) {
  const json gain = part_of(result, "gain_by_curve");
  if (!gain.is_number()) return nullptr;
  return json::array(
      {fmt::format("By the curve until now axial.stage.gain is {:.3g}, and {:.3g} is configured.",
                   gain.get<double>(), result.at("stage_gain").get<double>()),
       "Where that curve is right it can stay, and the gain is what it says."});
}

}  // namespace

void AxialProposal::describe(const json& result, bool keep_curve, json& proposal) const {
  proposal["findings"] = clients::axial_findings(result);
  proposal["question"] = question_of(result);
  const fs::path config = instance().file();
  if (config.empty()) return;
  json& lines = proposal["lines"] = json::array();
  for (const auto& [key, value] :
       clients::sweep_values(config, result, curve_for(config, keep_curve)))
    lines.push_back(fmt::format("{}: {}", key, value));
}

std::optional<CalibrationProposal::Kept> AxialProposal::kept(const json& result) const {
  const auto found = clients::kept_sweep(file_of(instance()), result);
  if (!found) return std::nullopt;
  return Kept{{found->line}, found->keys, false};
}

void AxialProposal::check(const json& result, bool keep_curve, json& proposal) const {
  const fs::path config = instance().file();
  const auto file =
      clients::checked_calibration_file(config, clients::kAxialFile, kBy, instance().status());
  const bool writes_curve = !keep_curve && !clients::curve_texts(result).curve.empty();
  if (writes_curve) clients::check_curve_writable(file, clients::curve_beside(config));
  clients::check_not_edited(file, instance().config(), result, curve_for(config, keep_curve));
  proposal["file"] = file.path().string();
  if (writes_curve) proposal["curve"] = clients::curve_beside(config).string();
}

WrittenFiles AxialProposal::write_files(const json& result, bool keep_curve) const {
  auto written = clients::write_sweep(file_of(instance()), instance().config(), result,
                                      curve_for(instance().file(), keep_curve), false);
  return {.lines = std::move(written.lines), .reloads = written.changed, .restart = false};
}

}  // namespace driftd::web
