// SPDX-License-Identifier: MIT
// Values that stand for many: of none 0. Any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace driftd {

/// The value that so many of `parts` equal parts of the sorted values are below.
inline double value_above(std::vector<double> values, std::size_t below, std::size_t parts) {
  if (values.empty()) return 0;
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(values.size() * below / parts);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

/// The upper one of an even number.
inline double median(std::vector<double> values) {
  return value_above(std::move(values), 1, 2);
}

/// Between neighbouring frames, where any number of frames may be missing, most of them even: the
/// median would be that of frames further apart.
inline double usual_interval(std::vector<double> intervals) {
  return value_above(std::move(intervals), 1, 10);
}

}  // namespace driftd
