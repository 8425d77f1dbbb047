// SPDX-License-Identifier: MIT
#include "config/endpoint.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace driftd::config {
namespace {

bool is_number_up_to(std::string_view text, unsigned most) {
  unsigned value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && stop == text.data() + text.size() && value <= most;
}

/// Four numbers. ZeroMQ binds to numeric addresses and interface names only, and to IPv6 only when
/// asked to: "localhost" and "[::1]" would pass here and fail at start.
bool is_address(std::string_view host) {
  int dots = 0;
  std::string_view rest = host;
  while (true) {
    const std::size_t dot = rest.find('.');
    if (!is_number_up_to(rest.substr(0, dot), 255)) return false;
    if (dot == std::string_view::npos) break;
    ++dots;
    rest.remove_prefix(dot + 1);
  }
  return dots == 3;
}

constexpr const char* kEndpointsAllowed =
    "ipc://NAME in the runtime directory, ipc:///ABSOLUTE/PATH or tcp://127.0.0.1:PORT "
    "(tcp://127.0.0.1:* takes any free port)";
constexpr const char* kWithKeys =
    "ipc://NAME in the runtime directory, ipc:///ABSOLUTE/PATH, or tcp://ADDRESS:PORT with an IPv4 "
    "address of this computer or * for all of them";

/// A file name that needs no quoting anywhere, and no name of the abstract namespace ("@...").
bool is_plain_name(std::string_view name) {
  constexpr std::size_t kLongest = 32;  // leaves room for the folder within kLongestSocketPath
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && name.size() <= kLongest && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_letter(c) || c == '.' || c == '-' || c == '_'; });
}

}  // namespace

bool is_tcp(std::string_view endpoint) {
  return endpoint.starts_with("tcp://");
}

std::optional<std::string> refused_endpoint(std::string_view endpoint, bool keys) {
  // sockaddr_un.sun_path, without its final 0 (unix(7)).
  constexpr std::size_t kLongestSocketPath = 107;
  if (endpoint.starts_with("ipc:///")) {
    const std::size_t length = endpoint.size() - std::string_view("ipc://").size();
    if (!endpoint.ends_with('/') && length <= kLongestSocketPath) return std::nullopt;
    return "the path of a socket, of at most " + std::to_string(kLongestSocketPath) + " bytes";
  }
  constexpr std::string_view kIpc = "ipc://";
  if (endpoint.starts_with(kIpc) && is_plain_name(endpoint.substr(kIpc.size()))) {
    return std::nullopt;
  }
  const std::size_t colon = endpoint.rfind(':');
  constexpr std::string_view kTcp = "tcp://";
  const char* allowed = keys ? kWithKeys : kEndpointsAllowed;
  if (!is_tcp(endpoint) || colon < kTcp.size()) return allowed;
  const std::string_view host = endpoint.substr(kTcp.size(), colon - kTcp.size());
  const std::string_view port = endpoint.substr(colon + 1);
  if (port != "*" && (!is_number_up_to(port, 65535) || port == "0")) return allowed;
  const bool address = is_address(host);
  if (keys ? address || host == "*" : address && host.starts_with("127.")) return std::nullopt;
  return allowed +
         std::string(keys ? ""
                          : "; sockets that other computers reach need keys: access.server_key");
}

}  // namespace driftd::config
