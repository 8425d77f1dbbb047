// SPDX-License-Identifier: MIT
// JSON behind the line that guards it, as all files of the state directory are. Any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "daemon/resume/saved_lock.hpp"

namespace driftd::daemon {

/// The text of a JSON body.
std::string sealed_json(const nlohmann::json& body, const Seal& seal);
/// What `read` makes of the JSON that was sealed. @throws StateError, too where `read` does not
/// find in it what it should
template <class Read>
auto read_sealed(const std::string& text, const Seal& seal, const Read& read) {
  const std::string body = unsealed(text, seal);
  try {
    return read(nlohmann::json::parse(body));
  } catch (const nlohmann::json::exception& error) {
    throw StateError(std::string("it is not as this version writes it: ") + error.what());
  }
}

}  // namespace driftd::daemon
