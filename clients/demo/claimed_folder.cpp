// SPDX-License-Identifier: MIT
#include "clients/demo/claimed_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

namespace driftd::clients {

ClaimedFolder::ClaimedFolder(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  descriptor_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // A file system that knows no locks has no claims.
  if (descriptor_ < 0 || flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  close(descriptor_);
  throw std::runtime_error("Another demo is running and writes into " + folder.string() +
                           ": wait for its end, or give this one a folder of its own (--output).");
}

ClaimedFolder::~ClaimedFolder() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace driftd::clients
