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

/// What a stage does that does not follow, by `status.stage`: "looks stuck".
inline std::string looks_in_words(const std::string& looks) {
  if (looks == "wrong_gain") return "seems to have another gain";
  if (looks == "unexplained") return "moves as nothing explains";
  return "looks " + in_words(looks);
}

}  // namespace driftd
