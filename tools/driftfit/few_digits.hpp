// SPDX-License-Identifier: MIT
// Numbers as a reader has them.
#pragma once

#include <fmt/format.h>

#include <string>

namespace driftd::tools {

/// The double nearest to the fewest digits that give the float: 0.46, not 0.46000000834465027.
inline double in_few_digits(float value) {
  return std::stod(fmt::format("{}", value));
}

}  // namespace driftd::tools
