// SPDX-License-Identifier: MIT
#include "clients/stage/transport/byte_stream.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/monotonic.hpp"

namespace driftd::stage {

namespace {

constexpr std::size_t kLongestAnswer = 4096;
constexpr std::int64_t kNsPerMs = 1'000'000;

std::string reason(int error) {
  return std::system_category().message(error);
}

}  // namespace

std::string printable(std::string_view bytes) {
  constexpr std::size_t kLongest = 120;
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    if (text.size() > kLongest) return text + "...";
    const auto value = static_cast<unsigned char>(c);
    if (c == '\n') {
      text += "\\n";
    } else if (c == '\r') {
      text += "\\r";
    } else if (value >= 0x20 && value < 0x7f) {
      text += c;
    } else {
      text += "\\x";
      text += kHex[value >> 4U];
      text += kHex[value & 0x0fU];
    }
  }
  return text;
}

ByteStream::ByteStream(int fd, Kind kind, std::string name, int timeout_ms)
    : fd_(fd), kind_(kind), name_(std::move(name)), timeout_ms_(timeout_ms) {}

ByteStream::~ByteStream() {
  close();
}

ByteStream::ByteStream(ByteStream&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      kind_(other.kind_),
      name_(std::move(other.name_)),
      remark_(std::move(other.remark_)),
      timeout_ms_(other.timeout_ms_),
      bytes_per_second_(other.bytes_per_second_),
      sent_ns_(other.sent_ns_),
      out_of_step_(other.out_of_step_),
      asked_(std::move(other.asked_)),
      input_(std::move(other.input_)) {}

ByteStream& ByteStream::operator=(ByteStream&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
    kind_ = other.kind_;
    name_ = std::move(other.name_);
    remark_ = std::move(other.remark_);
    timeout_ms_ = other.timeout_ms_;
    bytes_per_second_ = other.bytes_per_second_;
    sent_ns_ = other.sent_ns_;
    out_of_step_ = other.out_of_step_;
    asked_ = std::move(other.asked_);
    input_ = std::move(other.input_);
  }
  return *this;
}

/// A target that has not left by now is too old: the line may be back when the lock is long over.
/// Half of it may have left. What is asked next then follows it on the same line, which the
/// controller refuses; a terminator sent before that would make a short number a target.
void ByteStream::drop_unsent() const noexcept {
  if (fd_ >= 0 && kind_ == Kind::Terminal) ::tcflush(fd_, TCOFLUSH);
}

/// After an error nothing that was written may reach the controller any more.
void ByteStream::close() noexcept {
  if (fd_ >= 0 && out_of_step_ && kind_ == Kind::Terminal) ::tcflush(fd_, TCIOFLUSH);
  if (fd_ >= 0 && out_of_step_ && kind_ == Kind::Socket) {
    const linger reset{.l_onoff = 1, .l_linger = 0};  // else TCP sends the rest for minutes
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  }
  // Where another program has a pseudo-terminal open, it would stay exclusive.
  if (fd_ >= 0 && kind_ == Kind::Terminal) ::ioctl(fd_, TIOCNXCL);
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void ByteStream::drop() noexcept {
  out_of_step_ = true;
  close();
}

bool ByteStream::wait_for(short events, std::int64_t deadline_ns) const {
  while (true) {
    const std::int64_t left_ns = std::max<std::int64_t>(0, deadline_ns - monotonic_ns());
    const timespec left = to_timespec(left_ns);
    pollfd watched{.fd = fd_, .events = events, .revents = 0};
    const int ready = ::ppoll(&watched, 1, &left, nullptr);
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) fail_closed("waiting for it failed", errno);
  }
}

void ByteStream::write(std::string_view bytes) {
  if (out_of_step_)
    throw StageError(name_ + ": an answer went wrong before; expected to be connected again");
  asked_.assign(bytes);
  const std::int64_t now_ns = monotonic_ns();
  if (bytes_per_second_ > 0) {
    const double seconds = static_cast<double>(bytes.size()) / bytes_per_second_;
    sent_ns_ = std::max(now_ns, sent_ns_) +
               static_cast<std::int64_t>(seconds * static_cast<double>(kNanosecondsPerSecond));
  }
  const std::int64_t deadline_ns = now_ns + timeout_ms_ * kNsPerMs;
  while (!bytes.empty()) {
    const ssize_t written = kind_ == Kind::Socket
                                ? ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL)
                                : ::write(fd_, bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
      fail_closed("writing failed", errno);
    if (!wait_for(POLLOUT, deadline_ns)) {
      fail(name_ + ": does not take '" + printable(asked_) + "' within " +
           std::to_string(timeout_ms_) + " ms, " + std::to_string(bytes.size()) + " of " +
           std::to_string(asked_.size()) + " bytes are left");
    }
  }
}

void ByteStream::wait_until_sent() const {
  if (sent_ns_ <= monotonic_ns()) return;
  const timespec until = to_timespec(sent_ns_);
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

/// A controller that waits for an acknowledgement before the rest of its answer (Nagle) would get
/// it after 40 ms. The kernel forgets the wish after some packets, so it is told each time.
void ByteStream::acknowledge_at_once() const {
  const int on = 1;
  if (kind_ == Kind::Socket) ::setsockopt(fd_, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
}

/// Takes what is there, waiting until the deadline for the first byte. False: nothing came.
bool ByteStream::receive(std::int64_t deadline_ns) {
  std::array<char, 1024> chunk;
  while (true) {
    const ssize_t count = ::read(fd_, chunk.data(), chunk.size());
    if (count > 0) {
      input_.append(chunk.data(), static_cast<std::size_t>(count));
      return true;
    }
    if (count == 0) fail_closed("the other end closed the line", 0);
    if (errno == EINTR) continue;
    // EIO: a pty whose other end is closed, or a USB adapter that was pulled.
    if (errno != EAGAIN && errno != EWOULDBLOCK) fail_closed("the line is gone", errno);
    acknowledge_at_once();
    if (!wait_for(POLLIN, deadline_ns)) return false;
  }
}

std::string ByteStream::read_line(char end, std::string_view expected) {
  const std::int64_t deadline_ns = monotonic_ns() + timeout_ms_ * kNsPerMs;
  std::size_t searched = 0;
  while (true) {
    const std::size_t at = input_.find(end, searched);
    if (at != std::string::npos) {
      std::string line = input_.substr(0, at);
      input_.erase(0, at + 1);
      if (end == '\n' && !line.empty() && line.back() == '\r') line.pop_back();
      return line;
    }
    searched = input_.size();
    if (searched > kLongestAnswer) {
      fail(name_ + ": the answer to '" + printable(asked_) + "' does not end: found " +
           std::to_string(searched) + " bytes '" + printable(input_) + "', expected " +
           std::string(expected));
    }
    if (!receive(deadline_ns)) fail_late(expected);
  }
}

std::string ByteStream::read_exactly(std::size_t count, std::string_view expected) {
  const std::int64_t deadline_ns = monotonic_ns() + timeout_ms_ * kNsPerMs;
  while (input_.size() < count) {
    if (!receive(deadline_ns)) fail_late(expected);
  }
  std::string bytes = input_.substr(0, count);
  input_.erase(0, count);
  return bytes;
}

bool ByteStream::input_waiting(int within_ms) {
  return !input_.empty() || receive(monotonic_ns() + within_ms * kNsPerMs);
}

void ByteStream::discard_input() {
  out_of_step_ = false;
  input_.clear();
  // A peer that never stops talking ends this after a while; what follows then finds garbage.
  for (int i = 0; i < 64 && receive(0); ++i) input_.clear();
  input_.clear();
}

void ByteStream::discard_until_quiet(int quiet_ms) {
  const std::int64_t end_ns = monotonic_ns() + kNanosecondsPerSecond;
  out_of_step_ = false;
  do {
    input_.clear();
  } while (monotonic_ns() < end_ns && receive(monotonic_ns() + quiet_ms * kNsPerMs));
  input_.clear();
}

void ByteStream::refuse(std::string_view found, std::string_view expected) const {
  fail(name_ + ": the answer to '" + printable(asked_) + "' is '" + printable(found) +
       "', expected " + std::string(expected));
}

void ByteStream::fail(const std::string& text) const {
  out_of_step_ = true;
  drop_unsent();
  throw StageError(text);
}

void ByteStream::fail_closed(std::string_view what, int error) const {
  std::string text = name_ + ": " + std::string(what);
  if (error != 0) text += " (" + reason(error) + ")";
  if (!asked_.empty()) text += ", last asked '" + printable(asked_) + "'";
  if (!input_.empty()) text += ", found '" + printable(input_) + "' before";
  out_of_step_ = true;
  drop_unsent();
  throw Closed(text);
}

void ByteStream::fail_late(std::string_view expected) const {
  out_of_step_ = true;
  drop_unsent();
  throw NoAnswer(name_ + ": no whole answer to '" + printable(asked_) + "' within " +
                 std::to_string(timeout_ms_) + " ms: found '" + printable(input_) + "', expected " +
                 std::string(expected));
}

}  // namespace driftd::stage
