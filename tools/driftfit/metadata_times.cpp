// SPDX-License-Identifier: MIT
#include "tools/driftfit/metadata_times.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "camera/recording/micromanager.hpp"

namespace driftd::tools {

std::vector<double> times_in_metadata(camera::ImageStack& stack, std::int64_t first,
                                      std::int64_t count) {
  // Where the first, the middle and the last have no text, no frame is asked: it takes a while.
  const auto has_text = [&](std::int64_t frame) { return !stack.metadata(frame).empty(); };
  if (count <= 0 ||
      !(has_text(first) || has_text(first + count / 2) || has_text(first + count - 1)))
    return {};
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> times_s(static_cast<std::size_t>(stack.shape().frames), kUnknown);
  for (std::int64_t i = first; i < first + count; ++i) {
    if (!stack.is_repeat(i))
      times_s[static_cast<std::size_t>(i)] =
          camera::elapsed_s(stack.metadata(i)).value_or(kUnknown);
  }
  const bool any = std::ranges::any_of(times_s, [](double time_s) { return !std::isnan(time_s); });
  return any ? times_s : std::vector<double>();
}

}  // namespace driftd::tools
