// SPDX-License-Identifier: MIT
// A correction of x and y, or of z, as it comes from driftd (docs/reference/protocol.md), as far as
// a stage needs it. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace driftd::stage {

/// Axes that driftd locks together, with a topic of corrections of their own.
enum class Group : std::uint8_t { Lateral, Axial };
constexpr std::size_t kGroups = 2;
/// Most axes of a group.
constexpr std::size_t kAxes = 2;
/// One value for each axis of a group, in their order; z has the first place of its own.
using PerAxis = std::array<double, kAxes>;

/// Most axes of a stage: x, y and z.
constexpr std::size_t kMostAxes = 3;
/// One value for each axis of a stage, in their order.
using PerStage = std::array<double, kMostAxes>;

/// The axes of a group, a letter each: "xy", "z".
std::string_view letters_of(Group group);
/// What its messages begin with: "correction ", "axial ".
std::string_view topic_of(Group group);

struct Correction {
  std::string session;
  std::int64_t lock_id = 0;
  std::int64_t sent_ns = 0;
  std::int64_t expires_ns = 0;
  PerAxis total_nm{};  ///< from the stage's place at lock, stage axes, sample plane
  PerAxis delta_nm{};  ///< the part of it that is new
};

/// Reads "correction {json}", or "axial {json}". Empty when it is no such message, lacks one of the
/// fields above, or has a length that no stage has (a metre and more).
std::optional<Correction> parse_correction(std::string_view message, Group group);

}  // namespace driftd::stage
