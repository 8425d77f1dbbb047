// SPDX-License-Identifier: MIT
// What the last calibration of the stage found, and the drop-in that is made of it, as `driftctl
// calibrate --write` makes it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "clients/web/calibration_proposal.hpp"

namespace driftd::web {

/// The choice, `stage_is_right`: the pixel size is not, where lengths are off by one factor.
class StageProposal : public CalibrationProposal {
 public:
  explicit StageProposal(Instance& instance)
      : CalibrationProposal(
            instance,
            {{{"command", "calibration"}}, "calibration", "calibrate", "stage_is_right"}) {}

 protected:
  void describe(const nlohmann::json& result, bool stage_is_right,
                nlohmann::json& proposal) const override;
  std::optional<Kept> kept(const nlohmann::json& result) const override;
  void check(const nlohmann::json& result, bool stage_is_right,
             nlohmann::json& proposal) const override;
  WrittenFiles write_files(const nlohmann::json& result, bool stage_is_right) const override;
};

}  // namespace driftd::web
