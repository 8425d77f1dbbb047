// SPDX-License-Identifier: MIT
// Where a lock's z comes from. Constant; any thread.
#pragma once

#include <cstdint>

namespace driftd::control {

enum class AxialMethod : std::uint8_t {
  None,
  Astigmatic,  ///< a cylinder lens: the widths along x and y against a curve
  Defocus,     ///< no lens, markers out of focus to one side: the one width against a curve
  Reflection,  ///< a spot of light that the cover glass reflects: its place
};

}  // namespace driftd::control
