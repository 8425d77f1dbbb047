// SPDX-License-Identifier: MIT
// Numbers in the sentences for people.
#pragma once

#include <cstdio>
#include <string>

namespace driftd::control {

inline std::string number(double value, int decimals) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
  return buffer;
}

}  // namespace driftd::control
