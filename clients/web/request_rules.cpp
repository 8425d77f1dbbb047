// SPDX-License-Identifier: MIT
#include "clients/web/request_rules.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

namespace driftd::web {
namespace {

Response sentence(unsigned status, std::string text) {
  return {.status = status, .body = std::move(text) + '\n'};
}

bool is_host_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
}

bool equal_without_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

/// In time that does not tell how much of it is right.
bool is_token(std::string_view given, std::string_view token) {
  unsigned different = given.size() == token.size() && !token.empty() ? 0U : 1U;
  for (std::size_t i = 0; i < given.size() && i < token.size(); ++i)
    different |= given[i] == token[i] ? 0U : 1U;
  return different == 0;
}

/// The page's own: what the browser says beside where it sends the request to.
bool is_own_origin(const Request& request, bool by_tls) {
  const std::string_view origin = request.header("origin");
  const std::string host(request.header("host"));
  return equal_without_case(origin, "https://" + host) ||
         (!by_tls && equal_without_case(origin, "http://" + host));
}

std::optional<Response> refuse_headers(const Request& request) {
  if (!request.http_1_1) return sentence(505, "only HTTP/1.1 is spoken here");
  std::set<std::string_view> names;
  for (const Header& header : request.headers)
    if (!names.insert(header.name).second)
      return sentence(400, "a header is there twice: " + header.name);
  if (names.contains("transfer-encoding"))
    return sentence(411, "a body comes with its Content-Length");
  if (!names.contains("host")) return sentence(400, "the header Host is missing");
  return std::nullopt;
}

/// What a POST is for: a command, a login, its end.
std::optional<Response> refuse_post(const Request& request, const Rules& rules,
                                    std::string_view csrf) {
  if (!is_own_origin(request, rules.by_tls))
    return sentence(403, "commands are taken from this server's own page alone (Origin)");
  if (request.path != kLoginPath) {
    if (csrf.empty()) return sentence(401, "log in first");
    if (!is_token(request.header("x-csrf-token"), csrf))
      return sentence(403, "the token of a command (X-CSRF-Token) is not the one of `hello`");
  }
  std::string_view type = request.header("content-type");
  type = type.substr(0, type.find(';'));
  if (!equal_without_case(type, "application/json"))
    return sentence(415, "a command is application/json");
  return std::nullopt;
}

}  // namespace

std::string_view Request::header(std::string_view lower_case_name) const {
  const auto found = std::ranges::find(headers, lower_case_name, &Header::name);
  return found == headers.end() ? std::string_view{} : std::string_view(found->value);
}

std::span<const Header> security_headers() {
  static const std::array<Header, 6> headers = {{
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
       "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cache-Control", "no-store"},
  }};
  return headers;
}

std::string_view name_of_host(std::string_view host) {
  std::string_view name = host;
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) return {};
    name = host.substr(0, end + 1);
    for (const char c : name.substr(1, end - 1))
      if (std::isxdigit(static_cast<unsigned char>(c)) == 0 && c != ':' && c != '.') return {};
  } else {
    name = host.substr(0, host.find(':'));
    if (!std::ranges::all_of(name, is_host_letter)) return {};
  }
  std::string_view port = host.substr(name.size());
  if (!port.empty()) {
    port.remove_prefix(1);
    if (host[name.size()] != ':' || port.empty() || port.size() > 5 ||
        !std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; }))
      return {};
  }
  return name;
}

std::optional<Response> refuse_request(const Request& request, const Rules& rules,
                                       std::string_view csrf) {
  if (auto refused = refuse_headers(request)) return refused;
  if (!request.path.starts_with('/'))
    return sentence(400, "what is asked for begins with /, as in GET /index.html");
  const std::string_view name = name_of_host(request.header("host"));
  const auto is_it = [name](const std::string& own) { return equal_without_case(own, name); };
  if (name.empty() || !std::ranges::any_of(rules.hosts, is_it))
    return sentence(
        421, "this server is not called so (Host): driftd-web --host NAME says how else it is");
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const bool acts = request.path == kCommandPath || request.path == kLogoutPath;
  if (request.method == "POST" && (acts || request.path == kLoginPath))
    return refuse_post(request, rules, csrf);
  if (acts) {
    Response refused = sentence(405, "commands come by POST");
    refused.headers.push_back({"Allow", "POST"});
    return refused;
  }
  if (!reads) {
    Response refused = sentence(405, "only GET and HEAD are answered here");
    refused.headers.push_back({"Allow", "GET, HEAD"});
    return refused;
  }
  if (request.upgrade != (request.path == kStreamPath))
    return request.upgrade ? sentence(404, "there is no WebSocket but /ws")
                           : sentence(426, "this is a WebSocket");
  if (request.upgrade && !is_own_origin(request, rules.by_tls))
    return sentence(403, "the stream is for this server's own page alone (Origin)");
  if (request.upgrade && csrf.empty()) return sentence(401, "log in first");
  if (request.header("content-length") != "" && request.header("content-length") != "0")
    return sentence(400, "a request that reads has no body");
  return std::nullopt;
}

bool only_observes(const nlohmann::json& command) {
  constexpr std::array<std::string_view, 8> kObserving = {
      "status", "markers", "snapshot", "calibration", "record", "place", "exposure", "access"};
  const auto name = command.find("command");
  if (name == command.end() || !name->is_string()) return false;
  const auto& text = name->get_ref<const std::string&>();
  if (std::ranges::find(kObserving, text) == kObserving.end()) return false;
  return std::ranges::all_of(command.items(), [&](const auto& item) {
    return item.key() == "command" || (text == "place" && item.key() == "show") ||
           (text == "calibration" && item.key() == "axes");
  });
}

}  // namespace driftd::web
