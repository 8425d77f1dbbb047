// SPDX-License-Identifier: MIT
// How load_scenario() reads the optics of a scenario, and a choice of names in any part of it.
// Private to it (yaml-cpp shows here).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/yaml/section.hpp"
#include "simulator/scenario.hpp"

namespace driftd::simulator {

/// One of `names`, as the value of the same place in the enumeration.
template <typename Value, std::size_t count>
void read_choice(yaml::Section& section, const std::string& key,
                 const std::array<std::string_view, count>& names, Value& value) {
  std::string name(names[static_cast<std::size_t>(value)]);
  section.text(key, name, names);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) value = static_cast<Value>(found - names.begin());
}

void read_optics(yaml::Section section, OpticsModel& optics);

}  // namespace driftd::simulator
