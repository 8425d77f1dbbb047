// SPDX-License-Identifier: MIT
#include "base/state_directory.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

namespace driftd {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOwnersAndGroup = 0750;

/// Empty where it is not set to an absolute path.
std::string path_in(const char* variable) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nothing sets it
  return value != nullptr && *value == '/' ? value : "";
}

}  // namespace

fs::path state_directory() {
  if (const std::string systemd = path_in("STATE_DIRECTORY"); !systemd.empty())
    return systemd.substr(0, systemd.find(':'));  // the first of several
  if (const std::string state = path_in("XDG_STATE_HOME"); !state.empty())
    return fs::path(state) / "driftd";
  if (const std::string home = path_in("HOME"); !home.empty())
    return fs::path(home) / ".local/state/driftd";
  return {};
}

void make_directory(const fs::path& folder) {
  if (fs::is_directory(folder)) return;
  if (const fs::path parent = folder.parent_path(); !parent.empty() && parent != folder)
    make_directory(parent);
  if (mkdir(folder.c_str(), kOwnersAndGroup) == 0) return;
  const int error = errno;
  if (error == EEXIST && fs::is_directory(folder)) return;  // another process was faster
  throw fs::filesystem_error("cannot make the folder", folder,
                             std::error_code(error, std::generic_category()));
}

}  // namespace driftd
