// SPDX-License-Identifier: MIT
// What a command comes to: a reply, or a refusal with one of the codes of
// docs/reference/protocol.md; and the way back to whoever asked, which housekeeping keeps until the
// outcome is known.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace driftd::daemon {

enum class Refusal : std::uint8_t {
  BadRequest,  ///< no request that there is
  Refused,     ///< not in this state
  Forbidden,   ///< not with this role
  Busy,        ///< too much of this kind is under way
  NoFrame,     ///< the camera is away, or no frame came in time
  NotFound,    ///< too few markers were found
  Timeout,     ///< the tracking loop did not take the order in time
  Stopping,    ///< the daemon ends
  Internal,    ///< a failure of the daemon's
};
inline constexpr std::array<std::pair<Refusal, const char*>, 9> kRefusals = {
    {{Refusal::BadRequest, "bad_request"},
     {Refusal::Refused, "refused"},
     {Refusal::Forbidden, "forbidden"},
     {Refusal::Busy, "busy"},
     {Refusal::NoFrame, "no_frame"},
     {Refusal::NotFound, "not_found"},
     {Refusal::Timeout, "timeout"},
     {Refusal::Stopping, "stopping"},
     {Refusal::Internal, "internal"}}};

/// As the wire names it.
constexpr const char* name_of(Refusal refusal) noexcept {
  for (const auto& [value, name] : kRefusals) {
    if (value == refusal) return name;
  }
  return "internal";
}

/// Why a command was not carried out. Thrown by what takes requests, caught by CommandServer.
struct CommandRefused {
  Refusal code = Refusal::Internal;
  std::string text;
  nlohmann::json fields = nlohmann::json::object();  ///< what the refusal says beside
};

struct Reply {
  nlohmann::json fields = nlohmann::json::object();  ///< beside `ok`
  /// The second part, if there is one. Lives until the peer, or the last of its peers, has read it
  /// or is gone.
  std::shared_ptr<const std::vector<std::uint8_t>> attachment = nullptr;
};

using Outcome = std::variant<Reply, CommandRefused>;

/// Takes the outcome to whoever asked: at once or later, once. Housekeeping thread.
using Answer = std::function<void(const Outcome&)>;

}  // namespace driftd::daemon
