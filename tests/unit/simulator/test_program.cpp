// SPDX-License-Identifier: MIT
// The program driftd-sim itself: its ready line, its exit codes, a clean stop by signal.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/source_dir.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): not in every unistd.h

namespace {

/// A running driftd-sim whose standard output and error are read through one pipe.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), DRIFTD_SIM_PROGRAM);
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::array<int, 2> pipe_ends{};
    REQUIRE(pipe2(pipe_ends.data(), O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDERR_FILENO);
    REQUIRE(posix_spawn(&pid_, DRIFTD_SIM_PROGRAM, &actions, nullptr, argv.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_ends[1]);
    output_ = pipe_ends[0];
  }
  ~Program() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(output_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  std::string line() const {
    std::string text;
    char letter = 0;
    while (read(output_, &letter, 1) == 1 && letter != '\n') text += letter;
    return text;
  }
  std::string rest() const {
    std::string text;
    char letter = 0;
    while (read(output_, &letter, 1) == 1) text += letter;
    return text;
  }
  void stop(int signal) const { kill(pid_, signal); }
  /// Waits for the end. @return the exit code, or -1 when it was killed
  int exit_code() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("driftd-sim says when it is ready and stops cleanly on a signal") {
  const int signal = GENERATE(SIGTERM, SIGINT);
  const std::string scenario = driftd::test::source_dir() / "config/examples/scenario-demo.yaml";
  Program program(
      {"--scenario", scenario, "--address", "127.71.3.1", "--serial", "PROG1", "--rate", "50"});
  CHECK(program.line() == "driftd-sim ready: camera PROG1 at 127.71.3.1, 256x256 px, 50 frames/s");
  program.stop(signal);
  CHECK(contains(program.rest(), "0 frames sent"));
  CHECK(program.exit_code() == 0);
}

TEST_CASE("driftd-sim ends after its duration, and quietly when asked") {
  Program program({"--address", "127.71.3.2", "--duration", "0.2", "--quiet"});
  CHECK(contains(program.line(), "ready"));
  CHECK(program.rest().empty());
  CHECK(program.exit_code() == 0);
}

TEST_CASE("driftd-sim refuses what it cannot do with a sentence and an exit code") {
  SECTION("help is no mistake") {
    Program program({"--help"});
    CHECK(contains(program.rest(), "--scenario"));
    CHECK(program.exit_code() == 0);
  }
  SECTION("unknown option") {
    Program program({"--adress", "127.0.0.1"});
    CHECK(contains(program.rest(), "--adress"));
    CHECK(program.exit_code() == 2);
  }
  SECTION("two ways to move the stage") {
    Program program({"--stage", "ipc:///tmp/driftd-nobody", "--stage-input", "/tmp/driftd-none"});
    CHECK(contains(program.rest(), "only one of them"));
    CHECK(program.exit_code() == 2);
  }
  SECTION("a stage input that cannot be had") {
    Program program({"--address", "127.71.3.4", "--stage-input", "/nonexistent/stage"});
    CHECK(contains(program.rest(), "/nonexistent/stage"));
    CHECK(program.exit_code() == 1);
  }
  SECTION("no such scenario") {
    Program program({"--scenario", "/nonexistent.yaml"});
    CHECK(contains(program.rest(), "/nonexistent.yaml:1:1: cannot be opened"));
    CHECK(program.exit_code() == 2);
  }
  SECTION("an address that is not loopback") {
    Program program({"--address", "192.0.2.1"});
    CHECK(contains(program.rest(), "127.0.0.0/8"));
    CHECK(program.exit_code() == 2);
  }
  SECTION("an address that is taken") {
    Program first({"--address", "127.71.3.3"});
    CHECK(contains(first.line(), "ready"));
    Program second({"--address", "127.71.3.3"});
    CHECK(contains(second.rest(), "another simulator"));
    CHECK(second.exit_code() == 1);
  }
}
