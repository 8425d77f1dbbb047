// SPDX-License-Identifier: MIT
// The two groups of axes that are held, each by a lock of its own: x and y, and z.
#pragma once

#include <cstddef>
#include <cstdint>

namespace driftd::daemon {

enum class AxisGroup : std::uint8_t { Lateral, Axial };

constexpr std::size_t kAxisGroups = 2;

/// As commands name it.
constexpr const char* name_of(AxisGroup group) noexcept {
  return group == AxisGroup::Lateral ? "xy" : "z";
}

}  // namespace driftd::daemon
