// SPDX-License-Identifier: MIT
// What a lock's status says of how still the sample could be, in words: `driftctl advise`. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace driftd::clients {

/// One thing to know, or to do.
struct Advice {
  std::string code;  ///< for programs
  std::string axis;  ///< of the stage: "x", "y", or "": of the lock
  std::string text;
};

/// @param status  a daemon's answer to the command `status` (docs/reference/protocol.md)
/// @returns at least one: where the lock does not let anything be said, why
std::vector<Advice> advice_of(const nlohmann::json& status);
nlohmann::json to_json(const std::vector<Advice>& advice);

}  // namespace driftd::clients
