// SPDX-License-Identifier: MIT
// Who is let in to which socket, and who it is that speaks there: the rules in force, asked by the
// thread that admits peers and by housekeeping, which also replaces them. A peer is known by a user
// id: that of its key, or of its local user. A lock guards it; the loop and the publisher never
// come here.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/access_rules.hpp"

namespace driftd::daemon {

/// What libzmq asks of a peer that wants in (ZeroMQ's RFC 27).
struct Applicant {
  std::string_view domain;     ///< "publish", "corrections" or "commands"
  std::string_view address;    ///< "192.168.1.7", or "localhost:UID:GID:PID"
  std::string_view mechanism;  ///< "NULL" or "CURVE"
  std::string public_key;      ///< Z85, of CURVE
};

struct Verdict {
  bool admitted = false;
  std::string user_id;  ///< set where the peer is let in
  std::string peer;     ///< for people: "192.168.1.7" or "user 1000"
  std::string why;      ///< it is not let in, for people
};

/// "user 1000" and its user id, of "localhost:1000:1000:4711"; nothing of another address.
struct LocalUser {
  uid_t uid = 0;
  gid_t gid = 0;
  std::string user_id() const;
  std::string peer() const;
};
std::optional<LocalUser> local_user(std::string_view address);
/// The id of a peer by what libzmq attaches to its message: "User-Id", which peers with a key have,
/// and "Peer-Address".
std::string user_id_of(const char* user_id, const char* peer_address);

class AccessBook {
 public:
  /// Asks the system's user database.
  using RolesOf = std::function<config::Roles(const config::RoleGroups&, uid_t, gid_t)>;
  explicit AccessBook(config::AccessRules rules, RolesOf roles_of = config::roles_of_user)
      : rules_(std::move(rules)), roles_of_(std::move(roles_of)) {}

  /// Takes long where the user database does.
  Verdict judge(const Applicant& applicant);
  /// Nothing when it is no longer let in.
  std::optional<config::Client> client(const std::string& user_id) const;
  /// Whether it may stay at a socket.
  bool may_stay(const std::string& user_id, std::string_view domain) const;
  bool has_keys() const;

  /// What a replacement changed, by names: who came, and who lost what it had; whoever comes by tcp
  /// without a key among them.
  struct Change {
    std::vector<std::string> added, revoked, changed;
    bool fewer() const { return !revoked.empty() || !changed.empty(); }
  };
  Change replace(config::AccessRules rules);

 private:
  void know(const LocalUser& user);
  std::optional<config::Client> find(std::string_view user_id) const;

  std::mutex asking_;  ///< one asks for users' roles at a time: by the rules that then hold
  mutable std::mutex mutex_;
  config::AccessRules rules_;
  RolesOf roles_of_;
  std::map<std::string, config::Client, std::less<>>
      users_;  ///< local ones that were asked for, by user id
};

/// Whether somebody with these roles may connect to a socket of that domain.
bool may_connect(const config::Roles& roles, std::string_view domain);

}  // namespace driftd::daemon
