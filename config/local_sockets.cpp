// SPDX-License-Identifier: MIT
#include "config/local_sockets.hpp"

#include <grp.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace driftd::config {
namespace {

constexpr std::string_view kIpc = "ipc://";
constexpr std::string_view kTcp = "tcp://";
constexpr timeval kPatience{1, 0};  // for a loopback connection; a full backlog lets it wait

/// Name of the group that a file, or the folder in the way to it, belongs to.
std::string group_of(const std::filesystem::path& file) {
  struct stat about {};
  if (stat(file.c_str(), &about) != 0 && stat(file.parent_path().c_str(), &about) != 0) return "";
  std::array<char, 4096> buffer;
  group entry{};
  group* found = nullptr;
  getgrgid_r(about.st_gid, &entry, buffer.data(), buffer.size(), &found);
  return found != nullptr ? found->gr_name : std::to_string(about.st_gid);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

Listener::State state_after_connect(int result) {
  if (result == 0 || errno == EAGAIN || errno == EINPROGRESS) return Listener::State::Listening;
  if (errno == EACCES || errno == EPERM) return Listener::State::NoPermission;
  return Listener::State::Nobody;
}

Listener probe_file(const std::filesystem::path& file) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (file.string().size() >= sizeof(address.sun_path)) return {};
  std::memcpy(address.sun_path, file.c_str(), file.string().size());
  const Descriptor peer(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  Listener listener;
  listener.state = state_after_connect(
      connect(peer.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (listener.state == Listener::State::Listening &&
      getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0) {
    listener.pid = credentials.pid;
  }
  if (listener.state == Listener::State::NoPermission) listener.group = group_of(file);
  return listener;
}

Listener probe_tcp(std::string_view host_and_port) {
  const std::size_t colon = host_and_port.rfind(':');
  if (colon == std::string_view::npos) return {};
  const std::string host(host_and_port.substr(0, colon));
  const std::string port(host_and_port.substr(colon + 1));
  addrinfo wanted{};
  wanted.ai_family = AF_INET;  // as ZeroMQ has it unless told otherwise
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &wanted, &found) != 0) return {};
  const Descriptor peer(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  setsockopt(peer.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));
  const auto state = state_after_connect(connect(peer.get(), found->ai_addr, found->ai_addrlen));
  freeaddrinfo(found);
  return {state, 0, ""};
}

const char* environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing sets it
  return value != nullptr && *value == '/' ? value : nullptr;
}

}  // namespace

std::vector<std::filesystem::path> runtime_directories() {
  if (const char* systemd = environment("RUNTIME_DIRECTORY")) {
    return {std::string(systemd).substr(0, std::string_view(systemd).find(':'))};
  }
  std::vector<std::filesystem::path> folders = {"/run/driftd"};
  if (const char* session = environment("XDG_RUNTIME_DIR")) {
    folders.push_back(std::filesystem::path(session) / "driftd");
  }
  folders.push_back(fallback_directory());
  return folders;
}

std::filesystem::path fallback_directory() {
  return "/tmp/driftd-" + std::to_string(geteuid());
}

bool is_private(const std::filesystem::path& folder) {
  struct stat about {};
  return lstat(folder.c_str(), &about) == 0 && S_ISDIR(about.st_mode) &&
         about.st_uid == geteuid() && (about.st_mode & 077) == 0;
}

bool is_named(const std::string& endpoint) {
  return endpoint.starts_with(kIpc) && endpoint.size() > kIpc.size() &&
         endpoint[kIpc.size()] != '/';
}

std::string endpoint_in(const std::filesystem::path& folder, const std::string& endpoint) {
  if (!is_named(endpoint)) return endpoint;
  return std::string(kIpc) + (folder / endpoint.substr(kIpc.size())).string();
}

std::optional<std::filesystem::path> socket_file(const std::string& endpoint) {
  if (!endpoint.starts_with("ipc:///")) return std::nullopt;
  return endpoint.substr(kIpc.size());
}

Listener probe(const std::string& endpoint) {
  if (const auto file = socket_file(endpoint)) return probe_file(*file);
  if (endpoint.starts_with(kTcp)) return probe_tcp(std::string_view(endpoint).substr(kTcp.size()));
  return {};
}

}  // namespace driftd::config
