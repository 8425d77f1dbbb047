// SPDX-License-Identifier: MIT
// The bytes to and from one controller, by TCP or a serial line (open_stream.hpp): whole writes,
// answers read up to a terminator or by length, each against one deadline. Whatever is not a whole
// answer ends in a StageError that says what was asked, where, what was found and what was
// expected. After one, question and answer may be out of step: it takes nothing more until
// discard_input(), and closing drops what the controller has not got yet. Owned by a backend; its
// thread calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "clients/stage/interface/stage.hpp"

namespace driftd::stage {

/// Bytes as a person reads them in an error: printable ASCII as it is, others as \r, \n or \x55; at
/// most 120 characters, then "...".
std::string printable(std::string_view bytes);

/// An answer did not come, or not whole, in time; the line itself is still there.
struct NoAnswer : StageError {
  using StageError::StageError;
};

/// The other end closed the line, or the line is gone.
struct Closed : StageError {
  using StageError::StageError;
};

class ByteStream {
 public:
  enum class Kind : std::uint8_t { Socket, Terminal };

  /// Takes `fd`, non-blocking, and closes it. `name` is where it leads, for people.
  ByteStream(int fd, Kind kind, std::string name, int timeout_ms);
  ~ByteStream();
  ByteStream(ByteStream&& other) noexcept;
  ByteStream& operator=(ByteStream&& other) noexcept;

  /// Writes all of `bytes`. @throws StageError
  void write(std::string_view bytes);
  /// Returns when a serial line has passed on what was written, reckoned from its speed: what comes
  /// then is sent at once, and does not queue behind older targets in the kernel. At once by TCP.
  void wait_until_sent() const;
  /// The next line without its terminator `end` (a '\r' before a '\n' is taken off as well).
  /// `expected` is for the error. @throws NoAnswer, StageError
  std::string read_line(char end, std::string_view expected);
  /// @throws NoAnswer, StageError
  std::string read_exactly(std::size_t count, std::string_view expected);
  /// Whether a byte could be read at once, or comes in that time. @throws StageError
  bool input_waiting(int within_ms = 0);
  /// Drops what came and was not read. @throws StageError
  void discard_input();
  /// Closes it; nothing that was written reaches the controller any more.
  void drop() noexcept;
  /// Drops what comes until `quiet_ms` have passed without a byte, at most a second.
  void discard_until_quiet(int quiet_ms);

  /// An answer that makes no sense: "NAME: the answer to 'W X' is 'abc', expected ':A 1234.5'".
  [[noreturn]] void refuse(std::string_view found, std::string_view expected) const;

  /// 0: writing takes no time worth waiting for.
  void set_bytes_per_second(double rate) { bytes_per_second_ = rate; }

  const std::string& name() const { return name_; }
  int timeout_ms() const { return timeout_ms_; }
  int descriptor() const { return fd_; }
  /// What could not be set up at this line and slows it; empty when nothing.
  const std::string& remark() const { return remark_; }
  void set_remark(std::string remark) { remark_ = std::move(remark); }

 private:
  bool wait_for(short events, std::int64_t deadline_ns) const;
  bool receive(std::int64_t deadline_ns);
  void acknowledge_at_once() const;
  [[noreturn]] void fail_closed(std::string_view what, int error) const;
  [[noreturn]] void fail_late(std::string_view expected) const;
  [[noreturn]] void fail(const std::string& text) const;
  void drop_unsent() const noexcept;
  void close() noexcept;

  int fd_ = -1;
  Kind kind_ = Kind::Socket;
  std::string name_;
  std::string remark_;
  int timeout_ms_ = 500;
  double bytes_per_second_ = 0;
  std::int64_t sent_ns_ = 0;          ///< when the last byte written will have left
  mutable bool out_of_step_ = false;  ///< an error was thrown and the input not discarded since
  std::string asked_;                 ///< the last bytes written, for errors
  std::string input_;
};

}  // namespace driftd::stage
