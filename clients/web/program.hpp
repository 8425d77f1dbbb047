// SPDX-License-Identifier: MIT
// A program that is started, heard and ended without ever waiting for it. One thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace driftd::web {

class Program {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{4} * 1024 * 1024;  ///< that it may write
  static constexpr std::size_t kKeptErrors = 4096;                         ///< bytes, the last ones

  /// @throws std::runtime_error where it cannot be started
  explicit Program(const std::vector<std::string>& arguments);
  /// Ends it at once, with what it started.
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Takes what it has written. True: it has ended, or wrote more than it may.
  bool turn();
  const std::string& output() const noexcept { return output_; }
  /// Of its standard error the last line that is whole; "" where there is none.
  std::string last_error() const;
  /// Why it ended otherwise than well; nothing while it runs, or where it did not.
  const std::optional<std::string>& failure() const noexcept { return failure_; }

 private:
  void take(std::size_t which, std::string& into);

  std::string name_;
  pid_t pid_ = 0;                       ///< 0: it has ended
  std::array<int, 2> from_ = {-1, -1};  ///< its standard output and error
  std::string output_, errors_;
  std::optional<std::string> failure_;
};

/// A program that is installed beside this one; found by PATH where it is not.
std::string beside_this(const std::string& name);

}  // namespace driftd::web
