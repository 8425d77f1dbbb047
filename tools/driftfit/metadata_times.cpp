// SPDX-License-Identifier: MIT
#include "tools/driftfit/metadata_times.hpp"

#include <cmath>
#include <limits>
#include <optional>

#include "camera/recording/micromanager.hpp"

namespace driftd::tools {

std::vector<double> times_in_metadata(camera::ImageStack& stack, std::int64_t first,
                                      std::int64_t count) {
  if (count <= 0 || !camera::elapsed_s(stack.metadata(first))) return {};
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> times_s(static_cast<std::size_t>(stack.shape().frames), kUnknown);
  for (std::int64_t i = first; i < first + count; ++i) {
    if (!stack.is_repeat(i))
      times_s[static_cast<std::size_t>(i)] =
          camera::elapsed_s(stack.metadata(i)).value_or(kUnknown);
  }
  return times_s;
}

}  // namespace driftd::tools
