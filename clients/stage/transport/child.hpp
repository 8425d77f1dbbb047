// SPDX-License-Identifier: MIT
// A program that this one starts to talk to it by its standard input and output, which are one
// socket; what it writes to its standard error goes to ours, the log. Owned by a backend; its
// thread calls it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clients/stage/transport/byte_stream.hpp"

namespace driftd::stage {

/// The words of a command between spaces; one with spaces in it stands in ' or ".
/// @throws std::invalid_argument
std::vector<std::string> command_words(std::string_view command);

class Child {
 public:
  /// Starts nothing. @throws std::invalid_argument
  Child(std::string command, int timeout_ms);
  /// Its input has ended, which tells it to end as well; what lives on after the timeout is killed.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// The line to a new one. @throws StageError, also while one that was killed has not ended yet:
  /// two of them would drive one stage
  ByteStream start();
  /// Ends it at once, with what it started.
  void kill() noexcept;
  /// How it ended, once its line has closed; nothing where it still runs.
  std::optional<std::string> how_it_ended();

 private:
  bool ends_within(int ms) const;

  std::string name_;
  std::vector<std::string> words_;
  int timeout_ms_;
  pid_t pid_ = 0;  ///< 0: there is none
};

}  // namespace driftd::stage
