// SPDX-License-Identifier: MIT
// The median of some values: of an even number the upper one, of none 0. Any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace driftd {

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace driftd
