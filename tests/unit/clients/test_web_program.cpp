// SPDX-License-Identifier: MIT
// Programs that driftd-web starts.
#include <chrono>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "clients/web/program.hpp"
#include "support/catch.hpp"

using driftd::web::Program;

namespace {

void wait_for(Program& program) {
  while (!program.turn()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

TEST_CASE("web program: what it says and how it ends") {
  Program program({"/bin/sh", "-c", "echo '{}'; echo one >&2; echo two >&2; printf half >&2"});
  wait_for(program);
  CHECK(program.output() == "{}\n");
  CHECK(program.last_error() == "two");
  CHECK_FALSE(program.failure());
  CHECK(program.turn());  // it stays over

  Program failing({"/bin/sh", "-c", "exit 3"});
  wait_for(failing);
  CHECK(failing.failure() == "ended with exit status 3");
  CHECK(failing.last_error().empty());
  CHECK_THROWS_WITH(Program({"/nonexistent/driftctl"}),
                    contains("cannot start /nonexistent/driftctl"));
}

TEST_CASE("web program: more than a pipe holds comes whole, and what has no end is ended") {
  Program much({"/bin/sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x"});
  wait_for(much);
  CHECK(much.output().size() == 1000000);
  CHECK_FALSE(much.failure());
  Program endless({"/bin/sh", "-c", "yes"});
  wait_for(endless);
  CHECK_THAT(*endless.failure(), contains("wrote more than"));
}

/// Not even as one that nobody has reaped yet.
bool is_running(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text;
  return std::getline(file, text) && text.find(") Z ") == std::string::npos;
}

TEST_CASE("web program: it ends with its owner, with what it started") {
  std::string pid;
  {
    Program program({"/bin/sh", "-c", "sleep 1000 & echo $!; wait"});
    while (program.output().find('\n') == std::string::npos) program.turn();
    pid = program.output();
    pid.pop_back();
    CHECK(is_running(pid));
  }
  while (is_running(pid)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

}  // namespace
