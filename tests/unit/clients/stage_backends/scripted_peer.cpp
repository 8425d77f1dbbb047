// SPDX-License-Identifier: MIT
#include "unit/clients/stage_backends/scripted_peer.hpp"

#include <arpa/inet.h>
#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <stdexcept>

#include "clients/stage/transport/byte_stream.hpp"

namespace driftd::stage::test {

namespace {

constexpr int kPatienceMs = 10'000;
constexpr int kLastBytesMs = 500;  ///< a pseudo-terminal passes bytes on when the kernel has time

}  // namespace

std::string hex(std::string_view digits) {
  std::string bytes;
  std::string pair;
  for (const char c : digits) {
    if (c == ' ') continue;
    pair += c;
    if (pair.size() < 2) continue;
    bytes += static_cast<char>(std::stoi(pair, nullptr, 16));
    pair.clear();
  }
  return bytes;
}

ScriptedPeer::ScriptedPeer(Over over, std::vector<Script> scripts,
                           std::vector<std::string> passed_over)
    : over_(over), scripts_(std::move(scripts)), passed_over_(std::move(passed_over)) {
  listen();
  thread_ = std::thread([this] { serve(); });
}

ScriptedPeer::~ScriptedPeer() {
  problem();
  if (fd_ >= 0) ::close(fd_);
}

void ScriptedPeer::listen() {
  if (over_ == Over::Pty) {
    fd_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    termios2 line{};  // what is sent before the program has set the line must not come back
    ::ioctl(fd_, TCGETS2, &line);
    line.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    ::ioctl(fd_, TCSETS2, &line);
    std::array<char, 64> name{};
    if (fd_ < 0 || ::grantpt(fd_) != 0 || ::unlockpt(fd_) != 0 ||
        ::ptsname_r(fd_, name.data(), name.size()) != 0) {
      throw std::runtime_error("no pseudo-terminal");
    }
    device_ = name.data();
    return;
  }
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  auto* generic = reinterpret_cast<sockaddr*>(&at);
  if (::bind(fd_, generic, size) != 0 || ::listen(fd_, 4) != 0 ||
      ::getsockname(fd_, generic, &size) != 0) {
    throw std::runtime_error("no port");
  }
  device_ = "tcp://127.0.0.1:" + std::to_string(ntohs(at.sin_port));
}

std::string ScriptedPeer::problem() {
  // The last bytes that the stage sent may still be on their way.
  if (thread_.joinable()) std::this_thread::sleep_for(std::chrono::milliseconds(30));
  ended_ = true;
  if (thread_.joinable()) thread_.join();
  return problem_;
}

unsigned ScriptedPeer::baud() const {
  termios2 line{};
  ::ioctl(fd_, TCGETS2, &line);
  return line.c_ospeed;
}

void ScriptedPeer::note(const std::string& text) {
  if (problem_.empty()) problem_ = text;
}

/// -1: the peer ends.
int ScriptedPeer::wait_for_client() {
  while (!ended_) {
    if (over_ == Over::Tcp) {
      const int client = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (client >= 0) return client;
    } else {
      pollfd watched{.fd = fd_, .events = POLLIN, .revents = 0};
      ::poll(&watched, 1, 0);
      if ((watched.revents & POLLHUP) == 0) return fd_;  // the other side is open
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return -1;
}

void ScriptedPeer::serve() {
  for (std::size_t i = 0; i < scripts_.size(); ++i) {
    const int client = wait_for_client();
    if (client < 0) {
      if (!scripts_[i].empty()) note("connection " + std::to_string(i) + " did not come");
      return;
    }
    const bool go_on = play(client, scripts_[i]);
    if (over_ == Over::Tcp) ::close(client);
    if (!go_on) return;
  }
}

/// 1: a byte came; 0: none in time; -1: the line was closed.
int ScriptedPeer::next_byte(int fd, int wait_ms, char& byte) {
  for (int waited = 0; waited <= wait_ms; ++waited) {
    const ssize_t count = ::read(fd, &byte, 1);
    if (count == 1) return 1;
    if (count == 0 || (errno != EAGAIN && errno != EINTR)) return -1;
    pollfd watched{.fd = fd, .events = POLLIN, .revents = 0};
    ::poll(&watched, 1, 1);
  }
  return 0;
}

bool ScriptedPeer::begins_passed_over(const std::string& found) const {
  return std::any_of(passed_over_.begin(), passed_over_.end(),
                     [&](const std::string& message) { return message.starts_with(found); });
}

bool ScriptedPeer::expect(int fd, const std::string& bytes) {
  std::string found;
  while (found.size() < bytes.size()) {
    char byte = 0;
    const int came = ended_ ? next_byte(fd, kLastBytesMs, byte) : next_byte(fd, kPatienceMs, byte);
    if (came != 1) {
      note("found '" + printable(found) + "' and no more, expected '" + printable(bytes) + "'");
      return false;
    }
    found += byte;
    if (bytes.starts_with(found)) continue;
    if (std::find(passed_over_.begin(), passed_over_.end(), found) != passed_over_.end()) {
      found.clear();
    } else if (!begins_passed_over(found)) {
      note("found '" + printable(found) + "', expected '" + printable(bytes) + "'");
      return false;
    }
  }
  return true;
}

bool ScriptedPeer::send(int fd, const Step& step) {
  for (const char byte : step.answer) {
    if (step.gap_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(step.gap_ms));
    const ssize_t sent =
        over_ == Over::Tcp ? ::send(fd, &byte, 1, MSG_NOSIGNAL) : ::write(fd, &byte, 1);
    if (sent != 1) return false;
  }
  return true;
}

bool ScriptedPeer::play(int fd, const Script& script) {
  for (const Step& step : script) {
    if (!step.expect.empty() && !expect(fd, step.expect)) return false;
    if (!send(fd, step)) return true;
    if (step.hang_up) {
      if (over_ == Over::Pty) {  // an unplugged adapter: its other side is gone for good
        ::close(fd_);
        fd_ = -1;
        return false;
      }
      return true;
    }
  }
  std::string more;
  while (true) {  // until it is closed, nothing more may come
    char byte = 0;
    const bool last = ended_;
    const int came = next_byte(fd, 1, byte);
    if (came == 1) {
      more += byte;
      if (std::find(passed_over_.begin(), passed_over_.end(), more) != passed_over_.end()) {
        more.clear();
      } else if (!begins_passed_over(more)) {
        note("found '" + printable(more) + "' after the end of the script");
      }
    }
    if (came < 0) return true;
    if (came == 0 && last) return false;
  }
}

}  // namespace driftd::stage::test
