// SPDX-License-Identifier: MIT
// An answer of JSON. Pure.
#pragma once

#include <nlohmann/json.hpp>

#include "clients/web/server.hpp"

namespace driftd::web {

inline Response json_response(unsigned status, const nlohmann::json& body) {
  return {.status = status,
          .type = "application/json",
          .body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n'};
}

}  // namespace driftd::web
