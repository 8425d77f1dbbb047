// SPDX-License-Identifier: MIT
// A program the demo starts: in a process group of its own (so that Ctrl-C reaches the demo alone,
// which then stops it in order), its output in a log file, and never outliving the demo. One
// thread, the one that lives as long as the demo: the kernel ends the child when that thread ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace driftd::clients {

class ChildProcess {
 public:
  /// @param log  standard output and error; overwritten
  /// @throws std::runtime_error when the log cannot be written or the program cannot be run
  ChildProcess(const std::filesystem::path& program, const std::vector<std::string>& arguments,
               const std::filesystem::path& log);
  /// stop()s.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// How it ended, in words ("exited with code 3", "killed by signal 11"); empty while it runs.
  std::optional<std::string> ended();
  /// SIGTERM, then SIGKILL if it is still there after `patience`. Returns whether it ended in time.
  bool stop(std::chrono::milliseconds patience = std::chrono::seconds(5));

  const std::string& name() const noexcept { return name_; }
  const std::filesystem::path& log() const noexcept { return log_; }
  /// True once a line of the log starts with `text`.
  bool log_has_line(const std::string& text) const;
  /// That line; empty when there is none.
  std::string log_line(const std::string& text) const;
  bool log_contains(const std::string& text) const;
  /// What follows `text` in the first line of the log that has it; empty while none does.
  std::string log_after(const std::string& text) const;
  /// Sends it a signal, if it still runs.
  void signal(int number);
  /// The last lines of the log.
  std::string log_tail(std::size_t lines) const;

 private:
  std::string name_;
  std::filesystem::path log_;
  pid_t pid_ = -1;
  std::optional<std::string> ended_;
};

}  // namespace driftd::clients
