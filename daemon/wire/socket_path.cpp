// SPDX-License-Identifier: MIT
#include "daemon/wire/socket_path.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <zmq.hpp>

#include "config/local_sockets.hpp"

namespace driftd::daemon {
namespace {

using std::filesystem::path;

constexpr std::size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr mode_t kOwnersAndGroup = 0750;
constexpr mode_t kOwnerOnly = 0700;

std::string reason(int error) {
  return std::error_code(error, std::generic_category()).message();
}

path lock_file_of(const path& socket_file) {
  return socket_file.string() + ".lock";
}

/// What a lock file says, up to a few characters more than a process number and a newline.
std::string content(int fd) {
  std::array<char, 32> text{};
  const ssize_t size = pread(fd, text.data(), text.size(), 0);
  return {text.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

/// "process 1234", from a lock file.
std::string holder(int fd) {
  const std::string pid = content(fd);
  return "process " + (pid.empty() ? "(not known)" : pid.substr(0, pid.find('\n')));
}

/// Whether a daemon may have made it: a file that is empty or holds a process number.
bool is_daemons_lock(int fd) {
  struct stat about {};
  if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) return false;
  constexpr std::size_t kMostDigits = 20;
  std::string text = content(fd);
  if (text.empty()) return true;
  if (text.ends_with('\n')) text.pop_back();
  return !text.empty() && text.size() <= kMostDigits &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

/// ": it belongs to user 1000", when it is not this user's.
std::string whose(const path& file) {
  struct stat about {};
  if (lstat(file.c_str(), &about) != 0 || about.st_uid == geteuid()) return "";
  return ": it belongs to user " + std::to_string(about.st_uid) +
         ", who may remove it if no daemon of theirs runs";
}

/// The file of a lock, if it is there. O_NONBLOCK: to open a FIFO would wait.
/// @throws SocketError when it is no lock of a daemon's or cannot be had; it is not changed
int open_lock(const path& file) {
  const int fd = open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 && errno == ENOENT) return -1;
  const bool other_kind = fd < 0 && (errno == ELOOP || errno == EISDIR || errno == ENXIO);
  if (fd < 0 && !other_kind) throw SocketError(file.string() + ": " + reason(errno) + whose(file));
  if (fd >= 0 && is_daemons_lock(fd)) return fd;
  if (fd >= 0) close(fd);
  throw SocketError(file.string() + " is no lock of a daemon's: remove it, or choose another path");
}

/// Why libzmq, which replaces whatever is there, must not bind this file.
std::optional<std::string> in_the_way(const path& socket_file) {
  const std::string name = socket_file.string();
  if (name.size() > kLongestPath) {
    return name + " is longer than " + std::to_string(kLongestPath) + " bytes";
  }
  struct stat about {};
  if (lstat(name.c_str(), &about) != 0) return std::nullopt;
  if (!S_ISSOCK(about.st_mode)) return name + " exists and is no socket";
  struct stat folder {};
  const bool sticky = stat(socket_file.parent_path().c_str(), &folder) == 0 &&
                      (folder.st_mode & S_ISVTX) != 0 && folder.st_uid != geteuid();
  if (sticky && geteuid() != 0 && about.st_uid != geteuid()) return name + whose(socket_file);
  return std::nullopt;
}

/// True when the descriptor is still the file of that name: its last owner removes it.
bool is_file(int fd, const path& file) {
  struct stat opened {};
  struct stat named {};
  return fstat(fd, &opened) == 0 && stat(file.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

/// Who has the socket, by listening or by the lock. @throws SocketError as open_lock() does
std::optional<std::string> taken_by(const path& socket_file) {
  const config::Listener other = config::probe("ipc://" + socket_file.string());
  if (other.state == config::Listener::State::Listening) {
    return "it is in use by process " + std::to_string(other.pid);
  }
  const int fd = open_lock(lock_file_of(socket_file));
  if (fd < 0) return std::nullopt;
  const bool locked = flock(fd, LOCK_SH | LOCK_NB) != 0;
  const std::string who = holder(fd);
  close(fd);
  return locked ? std::optional("it is in use by " + who) : std::nullopt;
}

bool is_writable(const path& folder) {
  return access(folder.c_str(), W_OK | X_OK) == 0;
}

std::optional<std::string> obstacle_to_file(const path& socket_file) {
  const path folder = socket_file.parent_path();
  if (access(folder.c_str(), F_OK) != 0) return "folder " + folder.string() + ": " + reason(errno);
  if (!is_writable(folder)) return "folder " + folder.string() + ": " + reason(errno);
  try {
    if (auto found = in_the_way(socket_file)) return found;
    return taken_by(socket_file);
  } catch (const SocketError& error) {
    return error.what();
  }
}

std::optional<std::string> obstacle_to_tcp(const std::string& endpoint) {
  const bool any_port = endpoint.ends_with(":*");
  if (!any_port && config::probe(endpoint).state == config::Listener::State::Listening) {
    return "something listens there already";
  }
  try {
    zmq::context_t context;
    zmq::socket_t(context, zmq::socket_type::pub).bind(endpoint);
    return std::nullopt;
  } catch (const zmq::error_t& error) {
    return error.what();
  }
}

/// Makes /run/driftd as systemd would: for the daemon's group, where there is one.
bool make_system_directory(const path& folder) {
  if (mkdir(folder.c_str(), kOwnersAndGroup) != 0) return errno == EEXIST;
  std::array<char, 4096> buffer;
  group entry{};
  group* found = nullptr;
  getgrnam_r("driftd", &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) return true;
  // If that is refused, nobody but root reaches the sockets.
  [[maybe_unused]] const int refused = chown(folder.c_str(), static_cast<uid_t>(-1), found->gr_gid);
  return true;
}

bool can_have(const path& folder) {
  if (folder == "/run/driftd") return make_system_directory(folder) && is_writable(folder);
  if (mkdir(folder.c_str(), kOwnerOnly) != 0 && errno != EEXIST) return false;
  if (folder == config::fallback_directory()) return config::is_private(folder);
  return is_writable(folder);
}

}  // namespace

path make_runtime_directory() {
  const auto folders = config::runtime_directories();
  for (const path& folder : folders) {
    if (can_have(folder)) return folder;
  }
  std::string text = "no folder for sockets: ";
  for (const path& folder : folders) text += folder.string() + " ";
  throw SocketError(text +
                    "cannot be made, or belong to somebody else (see docs/reference/protocol.md)");
}

std::optional<std::string> obstacle(const std::string& endpoint) {
  if (const auto file = config::socket_file(endpoint)) return obstacle_to_file(*file);
  if (!config::is_named(endpoint)) return obstacle_to_tcp(endpoint);
  for (const path& folder : config::runtime_directories()) {
    const path file = *config::socket_file(config::endpoint_in(folder, endpoint));
    if (access(folder.c_str(), F_OK) != 0) {
      if (is_writable(folder.parent_path())) return in_the_way(file);
    } else if (folder == config::fallback_directory() ? config::is_private(folder)
                                                      : is_writable(folder)) {
      return obstacle_to_file(file);
    }
  }
  return "there is no folder for it";
}

std::optional<std::string> obstacle_to_bind_anew(const std::string& endpoint) {
  const auto file = config::socket_file(endpoint);
  return file ? in_the_way(*file) : std::nullopt;
}

SocketLock::SocketLock(const path& socket_file) : file_(lock_file_of(socket_file)) {
  if (const auto found = in_the_way(socket_file)) throw SocketError(*found);
  constexpr mode_t kReadByGroup = 0640;
  for (;;) {
    fd_ = open_lock(file_);
    if (fd_ < 0) fd_ = open(file_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kReadByGroup);
    if (fd_ < 0 && errno == EEXIST) continue;  // another daemon's, this moment
    if (fd_ < 0) throw SocketError(file_.string() + ": " + reason(errno));
    if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      const std::string who = holder(fd_);
      close(fd_);
      throw SocketError("it is in use by " + who + ", which holds " + file_.string());
    }
    if (is_file(fd_, file_)) break;
    close(fd_);
  }
  const std::string pid = std::to_string(getpid()) + "\n";
  const bool written = ftruncate(fd_, 0) == 0 && pwrite(fd_, pid.data(), pid.size(), 0) > 0;
  const config::Listener other = config::probe("ipc://" + socket_file.string());
  if (written && other.state != config::Listener::State::Listening) return;
  release();
  throw SocketError(written ? "it is in use by process " + std::to_string(other.pid)
                            : file_.string() + ": cannot be written");
}

SocketLock::~SocketLock() {
  if (fd_ >= 0) release();
}

void SocketLock::release() noexcept {
  unlink(file_.c_str());  // while it is held: nobody else can have locked this file
  close(fd_);
}

SocketLock::SocketLock(SocketLock&& other) noexcept
    : file_(std::move(other.file_)), fd_(std::exchange(other.fd_, -1)) {}

}  // namespace driftd::daemon
