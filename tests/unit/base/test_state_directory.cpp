// SPDX-License-Identifier: MIT
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/state_directory.hpp"
#include "support/catch.hpp"

using driftd::make_directory;
using driftd::state_directory;
namespace fs = std::filesystem;

namespace {

/// The three variables as a test sets them, and a folder of its own.
struct Place {
  fs::path folder = make_folder();

  Place() { set(nullptr, nullptr, nullptr); }
  ~Place() { fs::remove_all(folder); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  static void set(const char* systemd, const char* state, const char* home) {
    set_one("STATE_DIRECTORY", systemd);
    set_one("XDG_STATE_HOME", state);
    set_one("HOME", home);
  }

 private:
  static void set_one(const char* name, const char* value) {
    if (value != nullptr)
      REQUIRE(setenv(name, value, 1) == 0);
    else
      unsetenv(name);
  }
  static fs::path make_folder() {
    std::string name = (fs::temp_directory_path() / "driftd-state-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    return name;
  }
};

}  // namespace

TEST_CASE("systemd's folder goes first, then the user's, then the home's") {
  Place::set("/var/lib/driftd/left", "/s", "/h");
  CHECK(state_directory() == "/var/lib/driftd/left");
  Place::set(nullptr, "/s", "/h");
  CHECK(state_directory() == "/s/driftd");
  Place::set(nullptr, nullptr, "/h");
  CHECK(state_directory() == "/h/.local/state/driftd");
  Place::set(nullptr, nullptr, nullptr);
  CHECK(state_directory().empty());
}

TEST_CASE("A path that is not absolute is none") {
  Place::set("driftd", "", "/h");
  CHECK(state_directory() == "/h/.local/state/driftd");
  Place::set("", "state", "home");
  CHECK(state_directory().empty());
}

TEST_CASE("Of several folders that systemd gives, the first") {
  Place::set("/var/lib/driftd:/var/lib/more", nullptr, nullptr);
  CHECK(state_directory() == "/var/lib/driftd");
}

TEST_CASE("A folder is made with those on the way, for its owner and group") {
  const Place place;
  const mode_t before = umask(0);
  make_directory(place.folder / "a/b");
  umask(before);
  for (const char* made : {"a", "a/b"}) {
    struct stat about {};
    REQUIRE(stat((place.folder / made).c_str(), &about) == 0);
    CHECK((about.st_mode & 0777) == 0750);
  }
}

TEST_CASE("A folder that is there stays as it is") {
  const Place place;
  REQUIRE(chmod(place.folder.c_str(), 0700) == 0);
  make_directory(place.folder);
  struct stat about {};
  REQUIRE(stat(place.folder.c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0700);
}

TEST_CASE("What is in the way is named") {
  const Place place;
  std::ofstream(place.folder / "file") << "no folder";
  try {
    make_directory(place.folder / "file/deeper");
    FAIL("it was made");
  } catch (const fs::filesystem_error& error) {
    CHECK(error.path1() == place.folder / "file");
  }
}
