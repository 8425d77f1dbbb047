// SPDX-License-Identifier: MIT
#include "clients/demo/child_process.hpp"

#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "support/catch.hpp"

using driftd::clients::ChildProcess;
using namespace std::chrono_literals;

namespace {

struct LogFile {
  std::string path = "/tmp/driftd-test-XXXXXX";
  LogFile() { close(mkstemp(path.data())); }
  ~LogFile() { unlink(path.c_str()); }
};

template <typename Condition>
bool wait_for(Condition condition) {
  for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(10ms);
  return condition();
}

}  // namespace

TEST_CASE("A program's end is told in words, its output is in the log") {
  const LogFile log;
  ChildProcess child("/bin/sh", {"-c", "echo one; echo two >&2; exit 3"}, log.path);
  REQUIRE(wait_for([&] { return child.ended().has_value(); }));
  CHECK(*child.ended() == "exited with code 3");
  CHECK(child.log_has_line("one"));
  CHECK(child.log_has_line("tw"));
  CHECK_FALSE(child.log_has_line("wo"));
  CHECK(child.log_tail(1) == "  two\n");
  CHECK(child.stop());
}

TEST_CASE("A program that runs is ended by stop") {
  const LogFile log;
  ChildProcess child("/bin/sleep", {"60"}, log.path);
  CHECK_FALSE(child.ended());
  CHECK(child.stop());
  CHECK(*child.ended() == "was killed by signal 15");
}

TEST_CASE("A program that will not end is killed") {
  const LogFile log;
  ChildProcess child("/bin/sh", {"-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"},
                     log.path);
  REQUIRE(wait_for([&] { return child.log_has_line("ready"); }));
  CHECK_FALSE(child.stop(100ms));
  CHECK(*child.ended() == "was killed by signal 9");
}

TEST_CASE("A program that is not there or a log that cannot be written is an error") {
  const LogFile log;
  CHECK_THROWS_AS(ChildProcess("/nonexistent/driftd", {}, log.path), std::runtime_error);
  CHECK_THROWS_AS(ChildProcess("/bin/true", {}, "/nonexistent/log"), std::runtime_error);
}
