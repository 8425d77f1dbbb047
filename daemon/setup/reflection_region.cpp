// SPDX-License-Identifier: MIT
#include "daemon/setup/reflection_region.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "daemon/loop/reflection_reader.hpp"

namespace driftd::daemon {

int first_of(double middle_px, int side_px) {
  return static_cast<int>(std::lround(middle_px - 0.5 * (side_px - 1)));
}

std::optional<ReflectionRoom> reflection_room(const config::Config& config,
                                              const LoopReport& loop) {
  if (config.axial.method != control::AxialMethod::Reflection || !loop.axial.valid ||
      !loop.spot_zero)
    return std::nullopt;
  const config::Reflection& region = config.reflection;
  const control::SpotZero& zero = *loop.spot_zero;
  const double angle_rad = region.angle_deg * std::numbers::pi / 180;
  const double cosine = std::cos(angle_rad), sine = std::sin(angle_rad);
  const double along_px = zero.along_px + loop.axial.z_nm / region.nm_per_px;
  const double margin_px = ReflectionReader::kClearanceSigmas * zero.sigma_px;
  // Along the spot's way: those of the columns, then of the rows.
  double back_px = std::numeric_limits<double>::infinity(), on_px = back_px;
  const auto bound = [&](double at_px, double middle_px, double share) {
    constexpr double kAcross = 1e-9;  // such a way does not lead to these edges
    if (std::abs(share) < kAcross) return;
    const double low_px = first_of(middle_px, region.roi_px) + margin_px;
    const double high_px = low_px + region.roi_px - 1 - 2 * margin_px;
    const double one_px = (low_px - at_px) / share, other_px = (high_px - at_px) / share;
    back_px = std::min(back_px, -std::min(one_px, other_px));
    on_px = std::min(on_px, std::max(one_px, other_px));
  };
  bound(cosine * along_px - sine * zero.across_px, region.x_px, cosine);
  bound(sine * along_px + cosine * zero.across_px, region.y_px, sine);
  const double nm = std::abs(region.nm_per_px);
  if (region.nm_per_px < 0) std::swap(back_px, on_px);
  return ReflectionRoom{.below_nm = nm * back_px, .above_nm = nm * on_px};
}

}  // namespace driftd::daemon
