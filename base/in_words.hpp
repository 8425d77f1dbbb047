// SPDX-License-Identifier: MIT
// Names of the wire, "turned_or_swapped", as people read them. Pure.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

namespace driftd {

inline std::string in_words(std::string name) {
  std::ranges::replace(name, '_', ' ');
  return name;
}

/// A lock's reason; of one that is lost with what it was held for: "held too long: no frames".
inline std::string in_words(std::string reason, const std::string& held_for) {
  return in_words(held_for == "none" ? std::move(reason) : reason + ": " + held_for);
}

}  // namespace driftd
