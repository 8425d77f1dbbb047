// SPDX-License-Identifier: MIT
#include "daemon/wire/access_book.hpp"

#include <array>
#include <charconv>
#include <utility>

namespace driftd::daemon {
namespace {

constexpr std::string_view kKey = "key ";
constexpr std::string_view kUser = "user ";
constexpr std::string_view kLoopback = "loopback";  ///< whoever connects to tcp without keys

std::optional<LocalUser> numbers(std::string_view uid_and_gid, char between) {
  std::array<unsigned, 2> values{};
  const char* at = uid_and_gid.data();
  const char* const end = at + uid_and_gid.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto [stop, error] = std::from_chars(at, end, values[i]);
    if (error != std::errc{}) return std::nullopt;
    at = stop;
    if (i == 0 && (at == end || *at++ != between)) return std::nullopt;
  }
  return LocalUser{.uid = values[0], .gid = values[1]};
}

}  // namespace

std::string LocalUser::user_id() const {
  return std::string(kUser) + std::to_string(uid) + ' ' + std::to_string(gid);
}

std::string LocalUser::peer() const {
  return std::string(kUser) + std::to_string(uid);
}

std::optional<LocalUser> local_user(std::string_view address) {
  constexpr std::string_view kLocal = "localhost:";
  if (!address.starts_with(kLocal)) return std::nullopt;
  return numbers(address.substr(kLocal.size()), ':');
}

std::string user_id_of(const char* user_id, const char* peer_address) {
  if (user_id != nullptr && *user_id != '\0') return user_id;
  const auto user = local_user(peer_address != nullptr ? peer_address : "");
  return user ? user->user_id() : std::string(kLoopback);
}

bool may_connect(const config::Roles& roles, std::string_view domain) {
  if (domain == "corrections") return roles.stage || roles.command;
  return (domain == "publish" || domain == "commands") && roles.any();
}

Verdict AccessBook::judge(const Applicant& applicant) {
  Verdict verdict;
  verdict.peer = applicant.address;
  std::string user_id;
  if (applicant.mechanism == "CURVE") {
    user_id = std::string(kKey) + applicant.public_key;
  } else if (const auto user = local_user(applicant.address)) {
    user_id = user->user_id();
    verdict.peer = user->peer();
    know(*user);
  } else if (applicant.mechanism == "NULL") {
    user_id = kLoopback;
  } else {
    verdict.why = "it came with another mechanism than keys";
    return verdict;
  }
  const std::scoped_lock lock(mutex_);
  const auto client = find(user_id);
  if (!client) {
    verdict.why = applicant.public_key.empty()
                      ? "it came without a key to where keys are needed"
                      : "its key " + applicant.public_key + " is not among the allowed ones";
  } else if (!may_connect(client->roles, applicant.domain)) {
    verdict.why = client->name + " has the role " + config::text_of(client->roles) +
                  ", which does not connect here";
  } else {
    verdict.admitted = true;
    verdict.user_id = std::move(user_id);
  }
  return verdict;
}

/// Asks for a local user's roles, once until the rules change.
void AccessBook::know(const LocalUser& user) {
  const std::scoped_lock asking(asking_);
  config::RoleGroups groups;
  {
    const std::scoped_lock lock(mutex_);
    if (users_.contains(user.user_id())) return;
    groups = rules_.groups;
  }
  const config::Roles roles = roles_of_(groups, user.uid, user.gid);
  const std::scoped_lock lock(mutex_);
  users_.emplace(user.user_id(), config::Client{.name = user.peer(), .roles = roles});
}

std::optional<config::Client> AccessBook::find(std::string_view user_id) const {
  if (user_id == kLoopback) {
    if (!rules_.server_secret.empty() || rules_.groups.any()) return std::nullopt;
    return config::Client{.name = "a program of this computer", .roles = config::kAllRoles};
  }
  if (user_id.starts_with(kKey)) {
    const auto found = rules_.clients.find(user_id.substr(kKey.size()));
    if (found == rules_.clients.end()) return std::nullopt;
    return found->second;
  }
  const auto found = users_.find(user_id);
  if (found == users_.end()) return std::nullopt;
  return found->second;
}

std::optional<config::Client> AccessBook::client(const std::string& user_id) const {
  const std::scoped_lock lock(mutex_);
  return find(user_id);
}

bool AccessBook::may_stay(const std::string& user_id, std::string_view domain) const {
  const auto found = client(user_id);
  return found && may_connect(found->roles, domain);
}

bool AccessBook::has_keys() const {
  const std::scoped_lock lock(mutex_);
  return !rules_.server_secret.empty();
}

AccessBook::Change AccessBook::replace(config::AccessRules rules) {
  const std::scoped_lock asking(asking_);
  Change change;
  std::map<std::string, config::Client, std::less<>> users;
  {
    const std::scoped_lock lock(mutex_);
    users = users_;
  }
  const auto before = users;
  for (auto& [user_id, client] : users) {  // without the lock: it may take long
    const auto user = numbers(std::string_view(user_id).substr(kUser.size()), ' ');
    client.roles = roles_of_(rules.groups, user->uid, user->gid);
    const config::Client& was = before.at(user_id);
    if (client.roles != was.roles)
      (client.roles.any() ? change.changed : change.revoked).push_back(client.name);
  }
  const std::scoped_lock lock(mutex_);
  for (const auto& [key, client] : rules.clients) {
    const auto was = rules_.clients.find(key);
    if (was == rules_.clients.end())
      change.added.push_back(client.name);
    else if (was->second != client)
      change.changed.push_back(client.name);
  }
  for (const auto& [key, client] : rules_.clients) {
    if (!rules.clients.contains(key)) change.revoked.push_back(client.name);
  }
  const bool was_open = find(kLoopback).has_value();
  // The daemon's own keys hold for its sockets' lifetime.
  rules.server_public = rules_.server_public;
  rules.server_secret = rules_.server_secret;
  rules_ = std::move(rules);
  users_ = std::move(users);
  if (const bool is_open = find(kLoopback).has_value(); is_open != was_open)
    (is_open ? change.added : change.revoked).emplace_back("tcp without a key");
  return change;
}

}  // namespace driftd::daemon
