// SPDX-License-Identifier: MIT
// Where the lock of z stands in `status`. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>

namespace driftd::clients {

/// Has the fields of a lock, as `status` itself has those of x and y; null where z is not measured,
/// or only measured and never held.
inline const nlohmann::json& axial_lock(const nlohmann::json& status) {
  static const nlohmann::json none;
  const nlohmann::json::json_pointer lock("/axial/lock");
  return status.is_object() && status.contains(lock) ? status.at(lock) : none;
}

}  // namespace driftd::clients
