// SPDX-License-Identifier: MIT
#include "clients/web/program.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/process/spawn.hpp"

namespace driftd::web {

Program::Program(const std::vector<std::string>& arguments) : name_(arguments.front()) {
  std::array<int, 2> to = {-1, -1};
  const auto fail = [&](int error) {
    for (const int fd : {from_[0], from_[1], to[0], to[1]})
      if (fd >= 0) close(fd);
    throw std::runtime_error("cannot start " + name_ + ": " +
                             std::generic_category().message(error));
  };
  for (std::size_t i = 0; i < from_.size(); ++i) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) fail(errno);
    from_[i] = ends[0];
    to[i] = ends[1];
    fcntl(from_[i], F_SETFL, O_NONBLOCK);
  }
  if (const int error = spawn({.arguments = arguments, .output = to[0], .errors = to[1]}, pid_))
    fail(error);
  for (const int fd : to) close(fd);
}

Program::~Program() {
  if (pid_ != 0) {
    kill(-pid_, SIGKILL);
    reap(pid_);
  }
  for (const int fd : from_) close(fd);
}

void Program::take(std::size_t which, std::string& into) {
  std::array<char, 65536> piece{};
  for (;;) {
    const ssize_t n = read(from_.at(which), piece.data(), piece.size());
    if (n <= 0) return;  // nothing more for now, or for ever
    into.append(piece.data(), static_cast<std::size_t>(n));
    if (into.size() > kMostBytes) return;
  }
}

bool Program::turn() {
  if (pid_ == 0) return true;
  const bool over = has_ended(pid_);  // before it is heard for the last time
  take(0, output_);
  take(1, errors_);
  if (errors_.size() > kKeptErrors) errors_.erase(0, errors_.size() - kKeptErrors);
  if (output_.size() > kMostBytes) {
    kill(-pid_, SIGKILL);
    failure_ = "wrote more than " + std::to_string(kMostBytes) + " bytes";
    reap(std::exchange(pid_, 0));
    return true;
  }
  if (!over) return false;
  kill(-pid_, SIGKILL);  // what it left behind
  failure_ = reap(std::exchange(pid_, 0));
  return true;
}

std::string Program::last_error() const {
  std::size_t end = errors_.rfind('\n');
  while (end != std::string::npos && end > 0) {
    const std::size_t before = errors_.rfind('\n', end - 1);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    if (end > begin) return errors_.substr(begin, end - begin);
    end = before;
  }
  return {};
}

std::string beside_this(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return name;
  const std::filesystem::path beside = self.parent_path() / name;
  return access(beside.c_str(), X_OK) == 0 ? beside.string() : name;
}

}  // namespace driftd::web
