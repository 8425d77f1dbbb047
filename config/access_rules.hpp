// SPDX-License-Identifier: MIT
// Who may connect, and in which role: the keys and groups that section `access` names, read from
// the file system. All or nothing: a mistake anywhere is an error, since what is left out might be
// a key that was taken back. Made by the thread that loads; then a value.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "config/config.hpp"
#include "config/roles.hpp"

namespace driftd::config {

/// Who speaks, for people, and what it may do.
struct Client {
  std::string name;  ///< of its file without .key, or "user 1000"
  Roles roles;
  bool operator==(const Client&) const = default;
};

/// Groups whose members have a role. Where no group is named, whoever may connect has all roles.
struct RoleGroups {
  std::string observe, stage, command;  ///< empty: nobody

  bool any() const { return !observe.empty() || !stage.empty() || !command.empty(); }
};

struct AccessRules {
  std::string server_public, server_secret;            ///< empty: no keys
  std::map<std::string, Client, std::less<>> clients;  ///< by public key
  RoleGroups groups;
};

/// @throws ConfigError, one sentence
AccessRules read_access(const Access& access);

/// What a local user may do: the groups of `gid` and those that list the user count. Asks the
/// system's user database, which may take long where that is on a network.
Roles roles_of_user(const RoleGroups& groups, uid_t uid, gid_t gid);

}  // namespace driftd::config
