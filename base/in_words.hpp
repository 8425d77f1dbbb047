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

/// A lock's reason; of one that is lost with what it was held for, and with what held it before
/// that: "held too long: no frames, at first too few markers".
inline std::string in_words(std::string reason, const std::string& held_for,
                            const std::string& held_first) {
  if (held_for != "none") reason += ": " + held_for;
  if (held_first != "none") reason += ", at first " + held_first;
  return in_words(std::move(reason));
}

}  // namespace driftd
