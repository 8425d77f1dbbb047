// SPDX-License-Identifier: MIT
// The median as the drift takes it: of an even number the mean of the two in the middle.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace driftd::tools {

/// Reorders them; at least one.
inline double middle_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(values.begin(), middle));
}

}  // namespace driftd::tools
