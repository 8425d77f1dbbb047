// SPDX-License-Identifier: MIT
#include "config/roles.hpp"

#include <array>
#include <utility>

namespace driftd::config {
namespace {

constexpr std::array<std::pair<std::string_view, bool Roles::*>, 3> kNamesOfRoles = {
    {{"observe", &Roles::observe}, {"stage", &Roles::stage}, {"command", &Roles::command}}};

}  // namespace

std::optional<Roles> roles_named(std::string_view text) {
  constexpr std::string_view kBetween = ", \t";
  Roles roles;
  while (true) {
    const std::size_t begin = text.find_first_not_of(kBetween);
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(kBetween));
    bool known = false;
    for (const auto& [name, member] : kNamesOfRoles) {
      if (name != word) continue;
      roles.*member = true;
      known = true;
    }
    if (!known) return std::nullopt;
    text.remove_prefix(word.size());
  }
  return roles.any() ? std::optional(roles) : std::nullopt;
}

std::string text_of(const Roles& roles) {
  std::string text;
  for (const auto& [name, member] : kNamesOfRoles) {
    if (roles.*member) text.append(text.empty() ? "" : ", ").append(name);
  }
  return text.empty() ? "none" : text;
}

}  // namespace driftd::config
