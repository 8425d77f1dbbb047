// SPDX-License-Identifier: MIT
// What a peer may do, by its role: one table for the daemon, the key files and the clients
// (docs/reference/protocol.md, "Roles"). Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace driftd::config {

/// The roles of one peer. Each holds what `observe` does.
struct Roles {
  bool observe = false;
  bool stage = false;    ///< moves the stage: corrections, and reports of it
  bool command = false;  ///< what a person does: locks, unlocks, calibrates, records

  bool any() const noexcept { return observe || stage || command; }
  bool operator==(const Roles&) const = default;
};

inline constexpr Roles kAllRoles = {.observe = true, .stage = true, .command = true};
inline constexpr std::string_view kRolesAllowed =
    "observe, stage or command, or several of them with commas between";

/// "stage, command"; nothing when a word is no role, or there is none.
std::optional<Roles> roles_named(std::string_view text);
/// As roles_named() reads it; "none" for no role.
std::string text_of(const Roles& roles);

}  // namespace driftd::config
