// SPDX-License-Identifier: MIT
// What the last sweep of z found, and the files that are made of it, as `driftctl calibrate z
// --write` makes them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "clients/web/calibration_proposal.hpp"

namespace driftd::web {

/// The choice, `keep_curve`: the curve until now is right, and stays.
class AxialProposal : public CalibrationProposal {
 public:
  explicit AxialProposal(Instance& instance)
      : CalibrationProposal(instance, {{{"command", "calibration"}, {"axes", "z"}},
                                       "calibration of z",
                                       "calibrate z",
                                       "keep_curve"}) {}

 protected:
  void describe(const nlohmann::json& result, bool keep_curve,
                nlohmann::json& proposal) const override;
  std::optional<Kept> kept(const nlohmann::json& result) const override;
  void check(const nlohmann::json& result, bool keep_curve,
             nlohmann::json& proposal) const override;
  WrittenFiles write_files(const nlohmann::json& result, bool keep_curve) const override;
};

}  // namespace driftd::web
