// SPDX-License-Identifier: MIT
// Axes of several controllers as one Stage: the driver knows but one. Whoever owns it calls it from
// one thread, and the controllers are asked one after the other.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/monotonic.hpp"
#include "clients/stage/correction.hpp"
#include "clients/stage/interface/stage.hpp"

namespace driftd::stage {

class JoinedStage : public Stage {
 public:
  /// A controller, and which of the axes are its: "x" of "xy", "xz" of "xyz".
  struct Part {
    std::unique_ptr<Stage> stage;
    std::string letters;
  };
  /// @param letters  all axes, in their order; each is of one part
  JoinedStage(std::vector<Part> parts, std::string letters, Clock clock = monotonic_ns)
      : parts_(std::move(parts)), letters_(std::move(letters)), clock_(clock) {}

  std::vector<Axis> connect() override;
  void disconnect() noexcept override {
    for (const Part& part : parts_) part.stage->disconnect();
  }
  std::string description() const override;
  /// False where any did not take its last target.
  bool prepare() override;
  void expires_at(std::int64_t expires_ns) override {
    expires_ns_ = expires_ns;
    for (const Part& part : parts_) part.stage->expires_at(expires_ns);
  }
  /// False where any did not take its target; the others have moved then. One whose axes all stay
  /// is told nothing.
  bool move_to(std::span<const double> nm) override;
  void read(std::span<double> nm) override;
  /// The worst of all, with all texts, each with the axes that it is of: "xy: the servo is off".
  Health health() override;

 private:
  Health health_of(const Part& part) const;

  std::vector<Part> parts_;
  std::string letters_;
  Clock clock_;
  std::int64_t expires_ns_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace driftd::stage
