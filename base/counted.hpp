// SPDX-License-Identifier: MIT
// Counted nouns, as sentences for people have them. Pure.
#pragma once

#include <string>

namespace driftd {

/// "1 frame", "2 frames", "0 frames". @param several  where it is not an s that is added
template <class Count>
std::string counted(Count count, const std::string& one, const std::string& several = {}) {
  const std::string number = std::to_string(count) + " ";
  if (count == 1) return number + one;
  return number + (several.empty() ? one + "s" : several);
}

}  // namespace driftd
