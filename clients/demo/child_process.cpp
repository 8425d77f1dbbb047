// SPDX-License-Identifier: MIT
#include "clients/demo/child_process.hpp"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <deque>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace driftd::clients {
namespace {

std::string how_it_ended(int status) {
  if (WIFEXITED(status)) return fmt::format("exited with code {}", WEXITSTATUS(status));
  return fmt::format("was killed by signal {}", WTERMSIG(status));
}

/// Runs in the child, between fork and exec: only async-signal-safe calls. Never returns.
[[noreturn]] void become(char* const* arguments, int log_descriptor, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(0);  // the parent was gone before the line above
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  // The demo blocks what it reads by signalfd.
  sigprocmask(SIG_SETMASK, &none, nullptr);  // NOLINT(concurrency-mt-unsafe): one thread after fork
  dup2(log_descriptor, STDOUT_FILENO);
  dup2(log_descriptor, STDERR_FILENO);
  execv(arguments[0], arguments);
  _exit(127);
}

}  // namespace

ChildProcess::ChildProcess(const std::filesystem::path& program,
                           const std::vector<std::string>& arguments,
                           const std::filesystem::path& log)
    : name_(program.filename().string()), log_(log) {
  if (access(program.c_str(), X_OK) != 0) {
    throw std::runtime_error(
        fmt::format("cannot run {}: {}", program.string(), std::generic_category().message(errno)));
  }
  const int descriptor = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    throw std::runtime_error(
        fmt::format("cannot write {}: {}", log.string(), std::generic_category().message(errno)));
  }
  std::string path = program.string();
  std::vector<std::string> copies = arguments;
  std::vector<char*> pointers{path.data()};
  for (std::string& argument : copies) pointers.push_back(argument.data());
  pointers.push_back(nullptr);

  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) become(pointers.data(), descriptor, parent);
  const int fork_error = errno;
  close(descriptor);
  if (pid_ < 0) {
    throw std::runtime_error(
        fmt::format("cannot start {}: {}", name_, std::generic_category().message(fork_error)));
  }
}

ChildProcess::~ChildProcess() {
  stop();
}

std::optional<std::string> ChildProcess::ended() {
  if (!ended_) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) ended_ = how_it_ended(status);
  }
  return ended_;
}

bool ChildProcess::stop(std::chrono::milliseconds patience) {
  if (ended()) return true;
  kill(pid_, SIGTERM);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (std::chrono::steady_clock::now() < deadline) {
    if (ended()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(pid_, SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
  ended_ = how_it_ended(status);
  return false;
}

std::string ChildProcess::log_line(const std::string& text) const {
  std::ifstream file(log_);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(text)) return line;
  }
  return {};
}

bool ChildProcess::log_has_line(const std::string& text) const {
  return !log_line(text).empty();
}

bool ChildProcess::log_contains(const std::string& text) const {
  std::ifstream file(log_);
  for (std::string line; std::getline(file, line);) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

std::string ChildProcess::log_after(const std::string& text) const {
  std::ifstream file(log_);
  for (std::string line; std::getline(file, line);) {
    if (const std::size_t at = line.find(text); at != std::string::npos)
      return line.substr(at + text.size());
  }
  return {};
}

void ChildProcess::signal(int number) {
  if (!ended()) kill(pid_, number);
}

std::string ChildProcess::log_tail(std::size_t lines) const {
  std::ifstream file(log_);
  std::deque<std::string> last;
  for (std::string line; std::getline(file, line);) {
    last.push_back(line);
    if (last.size() > lines) last.pop_front();
  }
  std::string text;
  for (const std::string& line : last) text += "  " + line + '\n';
  return text;
}

}  // namespace driftd::clients
