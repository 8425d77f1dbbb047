// SPDX-License-Identifier: MIT
#include "config/access_rules.hpp"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "config/key_file.hpp"

namespace driftd::config {
namespace {

using std::filesystem::path;

constexpr std::size_t kMostClients = 1000;

[[noreturn]] void refuse(const path& file, const std::string& why) {
  throw ConfigError(file.string() + ": " + why);
}

/// Whoever may write it decides who is let in.
/// @param keeper  who has the daemon's secret key: the user that it runs as, or root
void check_not_public(const path& file, uid_t keeper) {
  struct stat about {};
  if (stat(file.c_str(), &about) != 0) refuse(file, std::generic_category().message(errno));
  if ((about.st_mode & S_IWOTH) != 0) {
    refuse(file, "found that everybody may write it; allowed its owner or group: chmod o-w " +
                     file.string());
  }
  if (about.st_uid != 0 && about.st_uid != geteuid() && about.st_uid != keeper) {
    refuse(file, "found that it belongs to user " + std::to_string(about.st_uid) +
                     "; allowed root or the user that driftd runs as: chown root " + file.string());
  }
}

/// Nor may everybody put another folder in its place.
void check_way_to(const path& folder) {
  std::error_code error;
  const path whole = std::filesystem::canonical(folder, error);
  if (error) refuse(folder, error.message());
  for (const path& way : {std::filesystem::absolute(folder), whole}) {  // with links, and without
    for (path above = way.parent_path(); above != above.root_path(); above = above.parent_path()) {
      struct stat about {};
      if (stat(above.c_str(), &about) != 0) refuse(above, std::generic_category().message(errno));
      if ((about.st_mode & S_IWOTH) != 0 && (about.st_mode & S_ISVTX) == 0) {
        refuse(folder, "found that everybody may write " + above.string() +
                           " above it; allowed its owner or group: chmod o-w " + above.string());
      }
    }
  }
}

/// Sorted, so that of two files with one key the same is named each time.
std::vector<path> files_in(const path& folder) {
  std::vector<path> files;
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  if (error) refuse(folder, error.message());
  for (; entries != std::filesystem::directory_iterator(); entries.increment(error))
    files.push_back(entries->path());
  if (error) refuse(folder, error.message());  // a mistake ends it, like the last file
  std::ranges::sort(files);
  return files;
}

Client client_of(const path& file, const KeyFile& keys) {
  const std::string name = file.stem().string();
  if (!is_client_name(name))
    refuse(file, "found a name of other characters; allowed letters, digits, - _ . @ and .key");
  const auto role = keys.metadata.find("role");
  if (role == keys.metadata.end())
    refuse(file, "metadata/role: found none; allowed " + std::string(kRolesAllowed));
  const auto roles = roles_named(role->second);
  if (!roles) {
    constexpr std::size_t kShown = 40;
    refuse(file, "metadata/role: found \"" + role->second.substr(0, kShown) + "\"; allowed " +
                     std::string(kRolesAllowed));
  }
  return {.name = name, .roles = *roles};
}

void read_clients(const path& folder, uid_t keeper, AccessRules& rules) {
  check_not_public(folder, keeper);
  check_way_to(folder);
  for (const path& file : files_in(folder)) {
    if (file.extension() == ".key_secret") {
      refuse(file,
             "found a secret key among public ones; allowed files NAME.key with a public "
             "key alone. Whoever read it is that client: make a new pair");
    }
    if (file.extension() != ".key" || file.filename().string().starts_with('.')) continue;
    check_not_public(file, keeper);
    const KeyFile keys = read_public_key_file(file);
    Client client = client_of(file, keys);
    if (keys.public_key == rules.server_public)
      refuse(file, "found the public key of this daemon; allowed a client's");
    const auto [before, first] = rules.clients.emplace(keys.public_key, std::move(client));
    if (!first)
      refuse(file, "found the key of " + before->second.name + ".key; allowed a key once");
    if (rules.clients.size() > kMostClients)
      refuse(folder, "found more than " + std::to_string(kMostClients) + " keys; allowed so many");
  }
}

/// What `ask` finds in the user database, which tells when an entry is larger than the buffer.
template <typename Entry, typename Ask>
Entry* look_up(Entry& entry, std::vector<char>& buffer, const Ask& ask) {
  constexpr std::size_t kLeast = 65'536;
  constexpr std::size_t kMost = std::size_t{16} << 20;  // a group of a million
  Entry* found = nullptr;
  for (buffer.resize(kLeast); buffer.size() <= kMost; buffer.resize(2 * buffer.size())) {
    if (ask(&entry, buffer.data(), buffer.size(), &found) != ERANGE) break;
  }
  return found;
}

struct Group {
  bool exists = false;
  gid_t gid = 0;
  std::set<std::string> members;
};

Group group_named(const std::string& name) {
  std::vector<char> buffer;
  group entry{};
  const group* found =
      look_up(entry, buffer, [&](auto... to) { return getgrnam_r(name.c_str(), to...); });
  if (found == nullptr) return {};
  Group result{.exists = true, .gid = found->gr_gid, .members = {}};
  for (char** member = found->gr_mem; *member != nullptr; ++member) result.members.insert(*member);
  return result;
}

void check_group(const char* key, const std::string& name) {
  if (name.empty() || group_named(name).exists) return;
  throw ConfigError(std::string(key) + ": found \"" + name +
                    "\", which no group of this computer is called; allowed a group, or nothing");
}

}  // namespace

AccessRules read_access(const Access& access) {
  check_group("access.observe_group", access.observe_group);
  check_group("access.stage_group", access.stage_group);
  check_group("access.command_group", access.command_group);
  AccessRules rules{.server_public = "",
                    .server_secret = "",
                    .clients = {},
                    .groups = {.observe = access.observe_group,
                               .stage = access.stage_group,
                               .command = access.command_group}};
  if (access.server_key.empty()) return rules;
  KeyFile own = read_secret_key_file(access.server_key, Readers::Group);
  rules.server_public = std::move(own.public_key);
  rules.server_secret = std::move(own.secret_key);
  struct stat key {};
  if (stat(access.server_key.c_str(), &key) != 0)
    refuse(access.server_key, std::generic_category().message(errno));
  read_clients(access.clients, key.st_uid, rules);
  return rules;
}

Roles roles_of_user(const RoleGroups& groups, uid_t uid, gid_t gid) {
  if (!groups.any() || uid == 0 || uid == geteuid()) return kAllRoles;
  std::vector<char> buffer;
  passwd entry{};
  const passwd* user = look_up(entry, buffer, [&](auto... to) { return getpwuid_r(uid, to...); });
  const auto is_in = [&](const std::string& name) {
    if (name.empty()) return false;
    const Group group = group_named(name);
    if (!group.exists) return false;
    if (group.gid == gid) return true;
    return user != nullptr && (user->pw_gid == group.gid || group.members.contains(user->pw_name));
  };
  return {.observe = is_in(groups.observe),
          .stage = is_in(groups.stage),
          .command = is_in(groups.command)};
}

}  // namespace driftd::config
