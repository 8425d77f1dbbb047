// SPDX-License-Identifier: MIT
#include "clients/web/stage_proposal.hpp"

#include "clients/common/kept_choice.hpp"

namespace driftd::web {
namespace {

using nlohmann::json;

std::optional<clients::PixelSizeQuestion> pixel_of(const clients::StageCalibration& found,
                                                   bool stage_is_right) {
  return stage_is_right ? clients::pixel_size_question(found) : std::nullopt;
}

}  // namespace

void StageProposal::describe(const json& result, bool stage_is_right, json& proposal) const {
  const auto found = clients::read_calibration(result);
  const auto question = clients::pixel_size_question(found);
  proposal["findings"] = clients::findings(found);
  proposal["question"] = question ? json(clients::question_lines(*question)) : json();
  proposal["lines"] = clients::proposal_lines(
      found, clients::proposed_values(found, pixel_of(found, stage_is_right)));
}

std::optional<CalibrationProposal::Kept> StageProposal::kept(const json& result) const {
  const auto found = clients::kept_already(
      clients::calibration_file(instance().file(), clients::kStageFile, kBy, instance().status()),
      clients::read_calibration(result));
  if (!found) return std::nullopt;
  return Kept{found->lines, found->keys, found->restart};
}

void StageProposal::check(const json& result, bool stage_is_right, json& proposal) const {
  const auto found = clients::read_calibration(result);
  proposal["file"] = clients::checked_calibration_file(instance().file(), clients::kStageFile, kBy,
                                                       instance().status())
                         .path()
                         .string();
  clients::values_to_write(instance().file(), found, pixel_of(found, stage_is_right));
}

WrittenFiles StageProposal::write_files(const json& result, bool stage_is_right) const {
  const auto found = clients::read_calibration(result);
  return write_values(
      clients::checked_calibration_file(instance().file(), clients::kStageFile, kBy,
                                        instance().status()),
      clients::values_to_write(instance().file(), found, pixel_of(found, stage_is_right)));
}

}  // namespace driftd::web
