// SPDX-License-Identifier: MIT
// What is allowed of a value, and how messages say it. Pure.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace driftd::yaml {

/// The numbers that are allowed, both ends included.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::string_view unit = {};  ///< "" for numbers without a unit
  bool above_min = false;      ///< `min` itself is not allowed
  bool or_auto = false;        ///< the word `auto` as well, which is read as 0
};
bool in_range(double value, const Range& range);
/// "a number from 1 to 10000000 us".
std::string allowed_number(const Range& range, bool whole);
/// "one of off, hardware, software"; "text" when there are no choices.
std::string allowed_text(std::span<const std::string_view> choices);

}  // namespace driftd::yaml
