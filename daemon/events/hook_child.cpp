// SPDX-License-Identifier: MIT
#include "daemon/events/hook_child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <spdlog/fmt/fmt.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "base/counted.hpp"
#include "base/monotonic.hpp"
#include "config/hook_program.hpp"

namespace driftd::daemon {
namespace {

constexpr int kLookMs = 20;
constexpr std::int64_t kGraceNs = kNanosecondsPerSecond;
constexpr int kMostLines = 50;
constexpr std::size_t kMostBytes = 400;  // of a line

std::string text_of(int error) {
  return std::generic_category().message(error);
}

/// What a child prints, cut into lines that a journal can hold.
class Output {
 public:
  Output(int descriptor, const std::function<void(const std::string&)>& line)
      : descriptor_(descriptor), line_(line) {}

  /// Waits for some, at most kLookMs, and takes what is there.
  void take(int wait_ms) {
    pollfd wait{.fd = descriptor_, .events = POLLIN, .revents = 0};  // -1: waits only
    poll(&wait, 1, wait_ms);
    std::array<char, 4096> bytes{};
    // Bounded: a child that prints without an end is not to keep its time limit from being seen.
    for (int i = 0; i < 16 && descriptor_ >= 0; ++i) {
      const ssize_t count = read(descriptor_, bytes.data(), bytes.size());
      if (count < 0) return;  // nothing more now
      if (count == 0) descriptor_ = -1;
      for (ssize_t j = 0; j < count; ++j) add(bytes[static_cast<std::size_t>(j)]);
    }
  }
  void finish() {
    if (!text_.empty()) end_line();
    if (lines_ > kMostLines) line_(fmt::format("({})", counted(lines_ - kMostLines, "more line")));
  }

 private:
  void add(char c) {
    if (c == '\n') return end_line();
    const bool control = static_cast<unsigned char>(c) < ' ' || c == 127;
    if (text_.size() < kMostBytes) text_ += control && c != '\t' ? '?' : c;
  }
  void end_line() {
    if (++lines_ <= kMostLines) line_(text_);
    text_.clear();
  }

  int descriptor_;
  const std::function<void(const std::string&)>& line_;
  std::string text_;
  int lines_ = 0;
};

/// @returns 0 or why it could not be started
int spawn(const ChildRun& run, int output, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawn_file_actions_addchdir_np(&actions, "/");
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  const sched_param ordinary{};
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setschedpolicy(&attributes, SCHED_OTHER);
  posix_spawnattr_setschedparam(&attributes, &ordinary);
  constexpr int kFlags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSCHEDULER |
                         POSIX_SPAWN_SETSID;
  posix_spawnattr_setflags(&attributes, static_cast<short>(kFlags));
  std::string program = run.program.string();
  std::vector<std::string> environment = run.environment;
  std::vector<char*> variables;
  variables.reserve(environment.size() + 1);
  for (std::string& variable : environment) variables.push_back(variable.data());
  variables.push_back(nullptr);
  std::array<char*, 2> arguments{program.data(), nullptr};
  const int error =
      posix_spawn(&pid, program.c_str(), &actions, &attributes, arguments.data(), variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/// Whether it has ended; it stays to be reaped, so that its number is not another's yet.
bool has_ended(pid_t pid) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid == pid;
}

/// Asks it to end after a time, and ends it when it does not.
class TimeLimit {
 public:
  TimeLimit(pid_t pid, std::chrono::milliseconds limit)
      : pid_(pid), end_ns_(monotonic_ns() + std::chrono::nanoseconds(limit).count()) {}

  void look(bool stop) {
    const std::int64_t now_ns = monotonic_ns();
    if (stop && !stopping_) {
      stopping_ = true;
      end_ns_ = std::min(end_ns_, now_ns + kGraceNs);
    }
    if (now_ns < end_ns_) return;
    kill(-pid_, over_ ? SIGKILL : SIGTERM);
    over_ = true;
    end_ns_ = now_ns + kGraceNs;
  }
  bool over() const noexcept { return over_; }
  bool stopping() const noexcept { return stopping_; }

 private:
  pid_t pid_;
  std::int64_t end_ns_;
  bool stopping_ = false;
  bool over_ = false;
};

std::optional<std::string> verdict(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0)
    return fmt::format("ended with exit status {}", WEXITSTATUS(status));
  return std::nullopt;
}

}  // namespace

std::optional<std::string> run_child(const ChildRun& run, const std::stop_token& stop) {
  if (const std::string problem = config::hook_problem(run.program); !problem.empty())
    return "was not run: " + problem;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    return "was not run: no pipe: " + text_of(errno);
  // The child's end waits like any program's output.
  fcntl(ends[1], F_SETFL, 0);
  pid_t pid = 0;
  const int error = spawn(run, ends[1], pid);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    return "could not be started: " + text_of(error);
  }
  Output output(ends[0], run.line);
  TimeLimit limit(pid, run.time_limit);
  while (!has_ended(pid)) {
    output.take(kLookMs);
    limit.look(stop.stop_requested());
  }
  kill(-pid, SIGKILL);  // what it left behind
  output.take(0);
  output.finish();
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  if (limit.over() && limit.stopping()) return "was ended: driftd is stopping";
  if (limit.over())
    return fmt::format("was ended: it took longer than {} s",
                       std::chrono::duration<double>(run.time_limit).count());
  return verdict(status);
}

}  // namespace driftd::daemon
