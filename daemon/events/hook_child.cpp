// SPDX-License-Identifier: MIT
#include "daemon/events/hook_child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "base/counted.hpp"
#include "base/monotonic.hpp"
#include "base/process/spawn.hpp"
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
  const int error = spawn({.arguments = {run.program.string()},
                           .environment = run.environment,
                           .folder = "/",
                           .output = ends[1],
                           .errors = ends[1]},
                          pid);
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
  std::optional<std::string> how = reap(pid);
  if (limit.over() && limit.stopping()) return "was ended: driftd is stopping";
  if (limit.over())
    return fmt::format("was ended: it took longer than {} s",
                       std::chrono::duration<double>(run.time_limit).count());
  return how;
}

}  // namespace driftd::daemon
