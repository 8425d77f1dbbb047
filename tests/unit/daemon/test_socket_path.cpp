// SPDX-License-Identifier: MIT
#include "daemon/wire/socket_path.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "support/catch.hpp"

using driftd::daemon::obstacle;
using driftd::daemon::SocketLock;
using std::filesystem::path;

namespace {

/// A folder of the test's own, removed with all in it.
struct Folder {
  path folder;
  Folder() {
    std::string name = "/tmp/driftd-test-place-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    folder = name;
  }
  ~Folder() { std::filesystem::remove_all(folder); }
  path operator/(const std::string& name) const { return folder / name; }
};

void write(const path& file, const std::string& text) {
  std::ofstream(file) << text;
}

std::string read(const path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// What a daemon that was killed leaves: the file of a socket that nobody listens at.
void leave_socket(const path& file) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, file.c_str());  // NOLINT(clang-analyzer-security.*): a short name
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  close(fd);
}

/// Refused by the check and at the start, for this reason.
void require_refused(const path& file, const std::string& why) {
  const auto found = obstacle("ipc://" + file.string());
  REQUIRE(found);
  REQUIRE_THAT(*found, contains(why));
  REQUIRE_THROWS_WITH(SocketLock(file), contains(why));
}

}  // namespace

TEST_CASE("a socket's place: what is no socket is refused and stays") {
  Folder f;
  write(f / "data.csv", "precious");
  require_refused(f / "data.csv", "data.csv exists and is no socket");
  REQUIRE(read(f / "data.csv") == "precious");

  std::filesystem::create_directory(f / "directory");
  require_refused(f / "directory", "is no socket");

  leave_socket(f / "socket");
  std::filesystem::create_symlink(f / "socket", f / "link");
  require_refused(f / "link", "is no socket");
  REQUIRE(std::filesystem::is_symlink(f / "link"));

  REQUIRE(mkfifo((f / "fifo").c_str(), 0600) == 0);
  require_refused(f / "fifo", "is no socket");
  for (const auto& entry : std::filesystem::directory_iterator(f.folder))
    REQUIRE(entry.path().extension() != ".lock");
}

TEST_CASE("a socket's place: a .lock that no daemon wrote is refused and stays") {
  Folder f;
  for (const std::string text : {"a lock of something else\n", "12 34\n", "\n", "1234\n\n", "-1\n",
                                 "1234567890123456789012345678901234567890\n"}) {
    write(f / "data.csv.lock", text);
    require_refused(f / "data.csv", "data.csv.lock is no lock of a daemon's");
    REQUIRE(read(f / "data.csv.lock") == text);
  }
  REQUIRE(mkfifo((f / "fifo.lock").c_str(), 0600) == 0);  // to open it may mean to wait
  require_refused(f / "fifo", "fifo.lock is no lock of a daemon's");
  std::filesystem::create_directory(f / "directory.lock");
  require_refused(f / "directory", "directory.lock is no lock of a daemon's");
  write(f / "digits", "1234\n");
  std::filesystem::create_symlink(f / "digits", f / "link.lock");
  require_refused(f / "link", "link.lock is no lock of a daemon's");
  REQUIRE(read(f / "digits") == "1234\n");
}

TEST_CASE("a socket's place: what a dead daemon left is taken over") {
  Folder f;
  for (const std::string text : {"", "1234", "4194304\n"}) {
    leave_socket(f / "publish");
    write(f / "publish.lock", text);
    REQUIRE(obstacle("ipc://" + (f / "publish").string()) == std::nullopt);
    REQUIRE(read(f / "publish.lock") == text);
    {
      const SocketLock lock(f / "publish");
      REQUIRE(read(f / "publish.lock") == std::to_string(getpid()) + "\n");
      require_refused(f / "publish", "in use by process " + std::to_string(getpid()));
    }
    REQUIRE_FALSE(std::filesystem::exists(f / "publish.lock"));
    std::filesystem::remove(f / "publish");
  }
}

TEST_CASE("a named socket's place: a path too long, whatever folder it is in") {
  Folder f;
  const path deep = f / std::string(100 - f.folder.string().size() - 1, 'd');  // 100 bytes
  std::filesystem::create_directory(deep);
  REQUIRE(setenv("RUNTIME_DIRECTORY", deep.c_str(), 1) == 0);
  REQUIRE(obstacle("ipc://commas") == std::nullopt);  // 107 bytes, all that there is room for
  const auto found = obstacle("ipc://command");
  REQUIRE(found);
  REQUIRE_THAT(*found, contains(deep.string() + "/command is longer than 107 bytes"));
  // The same when the folder has to be made yet.
  std::filesystem::remove(deep);
  REQUIRE(obstacle("ipc://commas") == std::nullopt);
  REQUIRE(obstacle("ipc://command") == found);
  // A file where the folder ought to be; no folder to make it in.
  write(deep, "");
  REQUIRE(obstacle("ipc://x"));
  REQUIRE(setenv("RUNTIME_DIRECTORY", (f / "none/deeper").c_str(), 1) == 0);
  REQUIRE(obstacle("ipc://x"));
  unsetenv("RUNTIME_DIRECTORY");
}

TEST_CASE("an address that is none of this computer's is an obstacle, with any port, too") {
  CHECK(obstacle("tcp://192.0.2.1:9999"));  // for documents alone (RFC 5737)
  CHECK(obstacle("tcp://192.0.2.1:*"));
  CHECK_FALSE(obstacle("tcp://127.0.0.1:*"));
}
