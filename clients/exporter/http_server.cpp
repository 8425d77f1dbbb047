// SPDX-License-Identifier: MIT
#include "clients/exporter/http_server.hpp"

#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <vector>

#include "base/monotonic.hpp"

namespace driftd::exporter {
namespace {

constexpr int kTurnMs = 100;

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Internal Server Error";
  }
}

std::string written(const Page& page, bool with_body) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}"
      "Connection: close\r\nCache-Control: no-store\r\n\r\n{}",
      page.status, reason_of(page.status), page.type, page.body.size(),
      page.status == 405 ? "Allow: GET, HEAD\r\n" : "", with_body ? page.body : "");
}

/// The next line of `text` without its end, which is taken off.
std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool is_header(std::string_view line, std::string_view lower_case_name) {
  return line.size() > lower_case_name.size() && line[lower_case_name.size()] == ':' &&
         std::equal(lower_case_name.begin(), lower_case_name.end(), line.begin(),
                    [](char wanted, char c) {
                      return wanted == std::tolower(static_cast<unsigned char>(c));
                    });
}

bool is_complete(std::string_view request) {
  return request.find("\r\n\r\n") != std::string_view::npos ||
         request.find("\n\n") != std::string_view::npos;
}

}  // namespace

HttpServer::HttpServer(const std::string& listen, std::function<Page(const HttpRequest&)> serve)
    : serve_(std::move(serve)) {
  const clients::Addresses to = clients::addresses_of(listen);
  if (to == nullptr)
    throw ListenError("cannot listen on \"" + listen +
                      "\": allowed is ADDRESS:PORT, such as 127.0.0.1:19539 or [::1]:19539, by "
                      "number");
  listener_ = clients::listen_on_tcp(*to, listen);
  address_ = clients::name_of_socket(listener_);
}

HttpServer::~HttpServer() {
  for (const Connection& connection : connections_) close(connection.descriptor);
  close(listener_);
}

void HttpServer::run() {
  while (!stop_) turn();
}

void HttpServer::turn() {
  std::vector<pollfd> polled{{.fd = listener_, .events = POLLIN, .revents = 0}};
  for (const Connection& c : connections_) {
    const bool sends = !c.answer.empty() && !c.answered;
    polled.push_back(
        {.fd = c.descriptor, .events = static_cast<short>(sends ? POLLOUT : POLLIN), .revents = 0});
  }
  poll(polled.data(), polled.size(), kTurnMs);
  const std::int64_t now_ns = monotonic_ns();
  std::size_t at = 1;
  for (auto c = connections_.begin(); c != connections_.end(); ++at) {
    const short events = polled[at].revents;
    if (now_ns < c->end_ns && (events == 0 || serve(*c, events))) {
      ++c;
      continue;
    }
    close(c->descriptor);
    c = connections_.erase(c);
  }
  if (polled.front().revents != 0) accept_all();
}

void HttpServer::accept_all() {
  for (;;) {
    const int descriptor = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    const bool none_left = descriptor < 0 && (errno == EMFILE || errno == ENFILE);
    if (descriptor < 0 && !none_left) return;
    if ((none_left || connections_.size() == kMostConnections) && !connections_.empty()) {
      close(connections_.front().descriptor);
      connections_.pop_front();
    }
    if (none_left) return;
    Connection connection;
    connection.descriptor = descriptor;
    connection.end_ns = monotonic_ns() + kMostSeconds * kNanosecondsPerSecond;
    connections_.push_back(std::move(connection));
  }
}

bool HttpServer::serve(Connection& connection, short events) {
  if (connection.answer.empty() || connection.answered) {
    if (!read_some(connection)) return false;
    if (connection.answered) return true;
    if (connection.received.size() <= kMostRequestBytes && !is_complete(connection.received))
      return true;
    answer(connection);
  } else if ((events & (POLLERR | POLLHUP)) != 0) {
    return false;
  }
  const std::string_view rest = std::string_view(connection.answer).substr(connection.sent);
  const ssize_t count = send(connection.descriptor, rest.data(), rest.size(), MSG_NOSIGNAL);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  connection.sent += static_cast<std::size_t>(count);
  if (connection.sent < connection.answer.size()) return true;
  // To close with bytes unread would take the answer away again: the peer closes first, or the time
  // is over.
  connection.answered = true;
  shutdown(connection.descriptor, SHUT_WR);
  return true;
}

/// False at the connection's end.
bool HttpServer::read_some(Connection& connection) {
  std::array<char, 4096> bytes{};
  const ssize_t count = recv(connection.descriptor, bytes.data(), bytes.size(), 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  if (!connection.answered)
    connection.received.append(bytes.data(), static_cast<std::size_t>(count));
  return true;
}

void HttpServer::answer(Connection& connection) {
  std::string_view text = connection.received;
  if (!is_complete(text)) {
    connection.answer = written(
        {.status = 431, .body = fmt::format("a request has at most {} bytes\n", kMostRequestBytes)},
        true);
    return;
  }
  std::string_view line = next_line(text);
  const std::size_t space = line.find(' ');
  const std::size_t second = line.find(' ', space == std::string_view::npos ? space : space + 1);
  if (second == std::string_view::npos || !line.substr(second + 1).starts_with("HTTP/1.") ||
      line[space + 1] != '/') {
    connection.answer = written({.status = 400, .body = "this is not a request of HTTP/1\n"}, true);
    return;
  }
  const std::string_view method = line.substr(0, space);
  const std::string_view target = line.substr(space + 1, second - space - 1);
  HttpRequest request{.path = target.substr(0, target.find('?')), .accept = {}};
  for (std::string_view header = next_line(text); !header.empty(); header = next_line(text)) {
    constexpr std::string_view kAccept = "accept";
    if (is_header(header, kAccept)) request.accept = header.substr(kAccept.size() + 1);
  }
  if (method != "GET" && method != "HEAD") {
    connection.answer = written({.status = 405, .body = "only GET and HEAD are answered\n"}, true);
    return;
  }
  connection.answer = written(serve_(request), method == "GET");
}

}  // namespace driftd::exporter
