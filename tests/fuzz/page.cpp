// SPDX-License-Identifier: MIT
// What a browser, or somebody who is none, says to driftd-web: a request of HTTP, whoever has
// logged in; its cookies; and what follows its headers as a tab's wish, a login, a file of logins
// and a daemon's position.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "clients/web/logins.hpp"
#include "clients/web/messages.hpp"
#include "clients/web/page_files.hpp"
#include "clients/web/request_rules.hpp"
#include "clients/web/server.hpp"
#include "config/config.hpp"
#include "fuzz/fuzz.hpp"

namespace driftd::fuzz {
namespace {

using namespace driftd::web;

const Rules& rules() {
  static const Rules rules = {.hosts = {"localhost", "127.0.0.1", "[::1]"},
                              .token = "0123456789abcdef"};
  return rules;
}

std::size_t times(const Request& request, std::string_view name) {
  return static_cast<std::size_t>(std::ranges::count(request.headers, name, &Header::name));
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

/// Nobody is let in by a cookie that was not given, and by no certificate but one that is named.
void check_session(const Request& request) {
  static Sessions sessions({{.name = "a", .may_operate = true, .token_hash = {}}}, "__Host-driftd");
  require(sessions.of(request, 0).empty(), "a cookie is given before it is taken");
  const auto cookie = cookie_in(request.header("cookie"), "a");
  require(!cookie || cookie->find(';') == std::string_view::npos, "a cookie ends");
}

void check_login(const std::string& text) {
  if (const auto token = token_in(text))
    require(token->size() <= text.size(), "a token is part of what was said", text);
  try {
    for (const Login& login : parse_logins(text, "logins.yaml"))
      require(!login.name.empty(), "a login has a name", text);
  } catch (const config::ConfigError& error) {
    require(std::string_view(error.what()).starts_with("logins.yaml"), "a mistake has its file",
            text);
  }
}

void check_request(const std::string& bytes) {
  const auto request = read_request(bytes);
  if (!request) return;
  require(request->body.size() <= Server::kMostBodyBytes, "a body is bounded");
  check_session(*request);
  const auto stranger = refuse_request(*request, rules(), "");
  require(stranger || (!request->upgrade && request->path != kCommandPath),
          "who has not logged in sees and does nothing", bytes);
  const auto refused = refuse_request(*request, rules(), rules().token);
  if (refused) {
    require(refused->status >= 400 && refused->status < 600 && refused->body.size() > 10,
            "a refusal says why", bytes);
    return;
  }
  require(request->path.starts_with('/'), "what is asked for is a path", bytes);
  const Response file = serve_file({{"index.html", ""}}, request->path, *request);
  require(file.status == 200 || file.status == 404, "a file is there, or not", bytes);
  for (const Header& header : request->headers)
    require(times(*request, header.name) == 1, "a header is there once", bytes);
  const std::string host(request->header("host"));
  require(times(*request, "host") == 1 && !host.empty(), "a request says whom it asks", bytes);
  require(times(*request, "transfer-encoding") == 0, "a body says its length", bytes);
  if (request->method != "GET" && request->method != "HEAD")
    require(request->method == "POST" &&
                (request->path == kLoginPath ||
                 ((request->path == kCommandPath || request->path == kLogoutPath) &&
                  request->header("x-csrf-token") == rules().token)),
            "what acts has the token", bytes);
  if (request->upgrade || request->method == "POST") {
    const std::string origin = lower(request->header("origin"));
    require(origin == "http://" + lower(host) || origin == "https://" + lower(host),
            "what acts or streams is the page's own", bytes);
  }
}

void check_wish(const std::string& text) {
  Wants wants;
  if (!take_wants(text, wants) || !wants.region) return;
  Snapshot snapshot;
  snapshot.frame = {{"frame_id", 1}, {"width_px", 40}, {"height_px", 30}, {"bits", 12}};
  snapshot.pixels.resize(2U * 40 * 30);
  const auto image = image_message(snapshot, {wants.region});
  require(image.has_value() && image->size() < 2U * 40 * 30 + 2000, "a region lies in its frame",
          text);
}

void check_position(const std::string& text) {
  const auto sample = sample_of(text, nullptr);
  if (!sample) return;
  require(std::isfinite(sample->t_s), "a sample has its time", text);
  require(!nlohmann::json::parse(samples_message({*sample}, false).dump(), nullptr, false)
               .is_discarded(),
          "a sample can be told", text);
}

}  // namespace

void page(Bytes bytes) {
  const std::string text = text_of(bytes);
  check_request(text);
  const std::size_t end = text.find("\r\n\r\n");
  const std::string rest = end == std::string::npos ? text : text.substr(end + 4);
  check_wish(rest);
  check_login(rest);
  check_position(rest);
}

}  // namespace driftd::fuzz
