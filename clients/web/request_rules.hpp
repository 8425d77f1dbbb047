// SPDX-License-Identifier: MIT
// Which requests are answered at all, whatever they ask for: against pages of other sites that the
// same browser shows (Origin, a token), names that were bound anew to this computer (Host), and
// what two programs could read differently (a repeated header). Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clients/web/server.hpp"

namespace driftd::web {

/// Every answer has them.
std::span<const Header> security_headers();

struct Rules {
  std::vector<std::string>
      hosts;            ///< names it is called by, without a port: lower case, IPv6 in brackets
  bool by_tls = false;  ///< no browser comes here but by https
  std::string token;    ///< that a command brings, where nobody logs in
};

inline constexpr std::string_view kCommandPath = "/api/command", kLoginPath = "/api/login",
                                  kLogoutPath = "/api/logout", kStreamPath = "/ws";

/// "localhost" of "localhost:8080"; "" where it is no name with or without a port.
std::string_view name_of_host(std::string_view host);

/// Why a request is refused, or nothing.
/// @param csrf  that a command of this visitor's brings; "": it has to log in before it looks
std::optional<Response> refuse_request(const Request& request, const Rules& rules,
                                       std::string_view csrf);

/// Whether a command changes nothing: allowed to who may only look. What is not known is taken to
/// act.
bool only_observes(const nlohmann::json& command);

}  // namespace driftd::web
