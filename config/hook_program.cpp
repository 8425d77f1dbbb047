// SPDX-License-Identifier: MIT
#include "config/hook_program.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <system_error>

namespace driftd::config {

std::string hook_problem(const std::filesystem::path& program) {
  if (program.empty()) return {};
  const std::string& name = program.native();
  struct stat file {};
  if (stat(name.c_str(), &file) != 0) return name + ": " + std::generic_category().message(errno);
  if (!S_ISREG(file.st_mode)) return name + " is no file";
  if ((file.st_mode & S_IWOTH) != 0)
    return name + " may be written by everybody: chmod o-w " + name;
  if ((file.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) == 0)
    return name + " may not be run: chmod +x " + name;
  return {};
}

}  // namespace driftd::config
