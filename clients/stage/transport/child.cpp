// SPDX-License-Identifier: MIT
#include "clients/stage/transport/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/monotonic.hpp"
#include "base/process/spawn.hpp"

namespace driftd::stage {

namespace {

/// A process that was killed, or has closed its line, is gone by then, unless its device holds it.
constexpr int kSoonMs = 200;

}  // namespace

std::vector<std::string> command_words(std::string_view command) {
  std::vector<std::string> words;
  std::string word;
  bool within = false;
  char quote = 0;
  for (const char c : command) {
    if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
      within = true;
    } else if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && c == ' ') {
      if (std::exchange(within, false)) words.push_back(std::exchange(word, {}));
    } else {
      word += c;
      within = true;
    }
  }
  if (within) words.push_back(word);
  const bool has_zero = command.find('\0') != std::string_view::npos;
  if (quote != 0 || has_zero || words.empty() || words.front().empty()) {
    throw std::invalid_argument("command '" + printable(command) +
                                "' is none, expected a program and its arguments, one that has "
                                "spaces between quotation marks");
  }
  return words;
}

Child::Child(std::string command, int timeout_ms)
    : name_(std::move(command)), words_(command_words(name_)), timeout_ms_(timeout_ms) {}

Child::~Child() {
  if (pid_ != 0) ends_within(timeout_ms_);
  kill();
}

bool Child::ends_within(int ms) const {
  const std::int64_t end_ns = monotonic_ns() + ms * std::int64_t{1'000'000};
  while (!has_ended(pid_)) {
    if (monotonic_ns() > end_ns) return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

ByteStream Child::start() {
  kill();
  if (pid_ != 0)
    throw StageError(name_ + ": was killed and has not ended yet, expected that before the next");
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw StageError(name_ + ": no line to it (" + std::system_category().message(errno) + ")");
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  ByteStream stream(ends[0], ByteStream::Kind::Socket, name_, timeout_ms_);
  const int error = spawn({.arguments = words_, .input = ends[1], .output = ends[1]}, pid_);
  ::close(ends[1]);
  if (error != 0) {
    pid_ = 0;
    throw StageError(name_ + ": cannot be started (" + std::system_category().message(error) + ")");
  }
  return stream;
}

void Child::kill() noexcept {
  if (pid_ == 0) return;
  ::kill(-pid_, SIGKILL);
  if (!ends_within(kSoonMs)) return;
  ::kill(-pid_, SIGKILL);  // what it left behind
  reap(pid_);
  pid_ = 0;
}

std::optional<std::string> Child::how_it_ended() {
  if (pid_ == 0 || !ends_within(kSoonMs)) return std::nullopt;
  ::kill(-pid_, SIGKILL);
  return reap(std::exchange(pid_, 0)).value_or("ended with exit status 0");
}

}  // namespace driftd::stage
