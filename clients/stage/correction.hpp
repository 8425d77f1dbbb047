// SPDX-License-Identifier: MIT
// A correction as it comes from driftd (docs/reference/protocol.md), as far as a stage needs it.
// Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace driftd::stage {

/// x and y.
constexpr std::size_t kAxes = 2;
/// One value for each axis of the corrections, in that order.
using PerAxis = std::array<double, kAxes>;

struct Correction {
  std::string session;
  std::int64_t lock_id = 0;
  std::int64_t sent_ns = 0;
  std::int64_t expires_ns = 0;
  PerAxis total_nm{};  ///< from the stage's place at lock, stage axes, sample plane
  PerAxis delta_nm{};  ///< the part of it that is new
};

/// Reads "correction {json}". Empty when it is no such message, lacks one of the fields above, or
/// has a length that no stage has (a metre and more).
std::optional<Correction> parse_correction(std::string_view message);

}  // namespace driftd::stage
