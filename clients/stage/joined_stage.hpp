// SPDX-License-Identifier: MIT
// x and y of two controllers as one Stage: the driver knows but one. Whoever owns it calls it from
// one thread, and the controllers are asked one after the other.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/monotonic.hpp"
#include "clients/stage/correction.hpp"
#include "clients/stage/interface/stage.hpp"

namespace driftd::stage {

class JoinedStage : public Stage {
 public:
  /// One stage of one axis for x and one for y.
  JoinedStage(std::unique_ptr<Stage> x, std::unique_ptr<Stage> y, Clock clock = monotonic_ns)
      : parts_{std::move(x), std::move(y)}, clock_(clock) {}

  std::vector<Axis> connect() override;
  void disconnect() noexcept override {
    for (const auto& part : parts_) part->disconnect();
  }
  std::string description() const override;
  /// False where either did not take its last target.
  bool prepare() override;
  void expires_at(std::int64_t expires_ns) override {
    expires_ns_ = expires_ns;
    for (const auto& part : parts_) part->expires_at(expires_ns);
  }
  /// False where either did not take its target; the other one has moved then.
  bool move_to(std::span<const double> nm) override;
  void read(std::span<double> nm) override;
  /// The worse of both, with both texts.
  Health health() override;

 private:
  std::array<std::unique_ptr<Stage>, kAxes> parts_;
  Clock clock_;
  std::int64_t expires_ns_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace driftd::stage
