// SPDX-License-Identifier: MIT
// Who may look and who may command, where a login is asked for: the file that names tokens and
// certificates, the sessions of those who showed one, and how often one may err. One thread; pure,
// but for read_logins().
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clients/web/server.hpp"

namespace driftd::web {

struct Login {
  std::string name;  ///< of a certificate: its subject's common name
  bool may_operate = false;
  std::string token_hash;  ///< SHA-256; empty: it is a certificate's

  bool operator==(const Login&) const = default;
};

/// The file's. @throws config::ConfigError, which names all mistakes and shows no token
std::vector<Login> read_logins(const std::filesystem::path& file);
/// Of the file's text. @param file  for what the error says
std::vector<Login> parse_logins(const std::string& text, const std::string& file);

/// The value of `name` in a header Cookie. Nothing where it is not there, or is there twice.
std::optional<std::string_view> cookie_in(std::string_view header, std::string_view name);
/// Of the body of a login, {"token":"..."}; nothing where it is none.
std::optional<std::string> token_in(std::string_view body);

/// 128 random bits in hexadecimal.
std::string random_token();

/// How often each peer may still try a token: wrong ones are few, and then seldom.
class Attempts {
 public:
  static constexpr double kAtOnce = 5;
  static constexpr std::int64_t kEachNs = 10'000'000'000;  ///< and one more after so long
  static constexpr std::size_t kMostPeers = 4096;          ///< that are remembered

  bool may_try(const std::string& peer, std::int64_t now_ns);
  void was_wrong(const std::string& peer, std::int64_t now_ns);
  std::uint64_t wrong() const noexcept { return wrong_; }

 private:
  struct Peer {
    double left = kAtOnce;
    std::int64_t at_ns = 0;
  };
  Peer& refilled(const std::string& peer, std::int64_t now_ns);
  std::map<std::string, Peer> peers_;
  std::uint64_t wrong_ = 0;
};

struct Session {
  Login login;
  std::string csrf;          ///< that its commands bring
  std::int64_t used_ns = 0;  ///< last
};

class Sessions {
 public:
  static constexpr std::size_t kMost = 200;  ///< the one that was not used for longest ends
  static constexpr std::int64_t kIdleNs = std::int64_t{86400} * 1'000'000'000;

  /// @param cookie  its name; browsers send it to all ports of a computer
  Sessions(std::vector<Login> logins, std::string cookie);

  /// Others are let in from now on; sessions of a login that is not among them as it was end.
  void set(std::vector<Login> logins);
  /// The id of the session that a request is of, by its cookie or its certificate; "": of none.
  std::string of(const Request& request, std::int64_t now_ns);
  /// Null where it is over.
  const Session* find(const std::string& id) const;
  /// It is used, by a stream.
  void use(const std::string& id, std::int64_t now_ns);
  /// Null: the token is nobody's. Otherwise the header Set-Cookie of a new session.
  std::optional<Header> log_in(std::string_view token, std::int64_t now_ns);
  /// The header that takes the cookie away.
  Header log_out(const std::string& id);
  /// Those that were not used for a day end.
  void end_idle(std::int64_t now_ns);

 private:
  std::vector<Login> logins_;
  std::string cookie_;
  std::map<std::string, Session> sessions_;  ///< by id
};

}  // namespace driftd::web
