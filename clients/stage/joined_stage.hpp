// SPDX-License-Identifier: MIT
// x and y of two controllers as one Stage: the driver knows but one. Whoever owns it calls it from
// one thread, and the controllers are asked one after the other.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "clients/stage/correction.hpp"
#include "clients/stage/stage.hpp"

namespace driftd::stage {

class JoinedStage : public Stage {
 public:
  /// One stage of one axis for x and one for y.
  JoinedStage(std::unique_ptr<Stage> x, std::unique_ptr<Stage> y)
      : parts_{std::move(x), std::move(y)} {}

  std::vector<Axis> connect() override;
  std::string description() const override;
  /// False where either did not take its target; the other one has moved then.
  bool move_to(std::span<const double> nm) override;
  void read(std::span<double> nm) override;
  /// The worse of both.
  Health health() override;
  void stop() override;

 private:
  std::array<std::unique_ptr<Stage>, kAxes> parts_;
};

}  // namespace driftd::stage
