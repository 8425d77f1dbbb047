// SPDX-License-Identifier: MIT
// Values that are each allowed and make no sense together. Private to config/; pure.
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"

namespace driftd::config {

struct Conflict {
  /// The keys that take part; the first one is named in the message. An entry of the marker list
  /// is "markers.list[2]".
  std::vector<std::string> keys;
  std::string found;
  std::string allowed;
};

/// Empty for a configuration that makes sense. Sections that the configuration does not use (replay
/// with a camera, the list in mode auto) are not looked at.
std::vector<Conflict> find_conflicts(const Config& config);

}  // namespace driftd::config
