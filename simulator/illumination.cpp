// SPDX-License-Identifier: MIT
#include "simulator/illumination.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "simulator/motion.hpp"

namespace driftd::simulator {

Illumination::Illumination(const IlluminationModel& model, std::uint64_t seed)
    : model_(model),
      random_(seed, 70),
      memory_(std::exp(-2 * std::numbers::pi * model.flicker_bandwidth_hz *
                       static_cast<double>(kTickNs) * 1e-9)),
      flicker_(model.flicker_share * random_.normal()) {
  step(0);
}

void Illumination::step(double time_s) noexcept {
  if (model_.flicker_share > 0) {
    flicker_ = memory_ * flicker_ +
               std::sqrt(1 - memory_ * memory_) * model_.flicker_share * random_.normal();
  }
  const double ripple =
      model_.ripple_share * std::sin(2 * std::numbers::pi * model_.ripple_hz * time_s);
  brightness_ = std::max(0.0, 1 + flicker_ + ripple);
}

}  // namespace driftd::simulator
