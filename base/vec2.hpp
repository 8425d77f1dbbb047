// SPDX-License-Identifier: MIT
// Two numbers that belong to the axes of one plane; the unit is in the name of what holds them.
#pragma once

namespace driftd {

struct Vec2 {
  double x = 0;
  double y = 0;
};

}  // namespace driftd
