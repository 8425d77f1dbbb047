// SPDX-License-Identifier: MIT
// The hook on events, with programs of the test's own: what a child inherits, what it is told, how
// it is ended, and which events it is run for.
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "config/hook_program.hpp"
#include "daemon/events/hook_runner.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

std::int64_t fake_now_ns = 0;
std::int64_t fake_clock() noexcept {
  return fake_now_ns;
}

class Folder {
 public:
  Folder() {
    std::string name = fs::temp_directory_path() / "driftd-hook-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  fs::path operator/(const std::string& name) const { return path_ / name; }
  fs::path script(const std::string& text, mode_t mode = 0755) const {
    const fs::path file = path_ / "hook";
    std::ofstream(file) << "#!/bin/sh\n" << text;
    chmod(file.c_str(), mode);
    return file;
  }
  std::string text(const std::string& name) const {
    std::ifstream in(path_ / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  fs::path path_;
};

struct Run {
  std::optional<std::string> failure;
  std::vector<std::string> lines;
  std::string all() const {
    std::string text;
    for (const std::string& line : lines) text += line + '\n';
    return text;
  }
};

Run run(const fs::path& program, std::vector<std::string> environment = {},
        std::chrono::milliseconds limit = 60s, const std::stop_token& stop = {}) {
  Run result;
  result.failure = run_child({.program = program,
                              .environment = std::move(environment),
                              .time_limit = limit,
                              .line = [&](const std::string& l) { result.lines.push_back(l); }},
                             stop);
  return result;
}

/// Events as they were told, and a hook on them with a clock of the test's.
class Rig {
 public:
  explicit Rig(const fs::path& program)
      : hook{.on_event = program,
             .level = config::EventLevel::Warning,
             .time_limit_s = 60,
             .per_minute = 3},
        events([this](const TextMessage& message) {
          told += message.fields + '\n';
          return true;
        }) {
    fake_now_ns = 1'000'000'000'000;
    runner.emplace(hook, "driftd.yaml", events, fake_clock);
  }
  void raise(const std::string& code, const std::string& text = "",
             EventLog::Level level = EventLog::Level::Warning) {
    events.raise(level, code, text);
  }
  void turn_until(const std::function<bool()>& over) {
    for (int i = 0; i < 3000 && !over(); ++i) {
      runner->turn();
      std::this_thread::sleep_for(10ms);
    }
    CHECK(over());
  }

  config::Hook hook;
  std::string told;
  EventLog events;
  std::optional<HookRunner> runner;
};

std::size_t lines_in(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("a child inherits nothing but the user, the umask and the limits", "[hook]") {
  const Folder folder;
  // As a thread of the daemon's may be: descriptors that are not close-on-exec, signals blocked.
  const int leaked = open("/dev/null", O_RDONLY);  // NOLINT(android-cloexec-open)
  setenv("DRIFTD_TEST_SECRET", "1", 1);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c)
  const Run got =
      run(folder.script("env | sort; pwd; umask; grep -E '^Sig(Blk|Ign)' /proc/self/status\n"
                        "ls /proc/self/fd; cat; cut -d' ' -f 41 /proc/self/stat\n"
                        "grep VmLck /proc/self/status; ps -o sid= -p $$ | tr -d ' '; echo $$\n"),
          {"A=b", "PATH=/usr/bin:/bin"});
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  signal(SIGPIPE, SIG_DFL);  // NOLINT(cert-err33-c)
  unsetenv("DRIFTD_TEST_SECRET");
  close(leaked);
  INFO(got.all());
  CHECK_FALSE(got.failure);
  const mode_t mask = umask(0);
  umask(mask);
  REQUIRE(got.lines.size() == 15);
  CHECK(got.lines[0] == "A=b");
  CHECK(got.lines[1] == "PATH=/usr/bin:/bin");
  CHECK(got.lines[2] == "PWD=/");  // the shell's own
  CHECK(got.lines[3] == "/");
  CHECK(std::stoul(got.lines[4], nullptr, 8) == mask);
  CHECK(got.lines[5] == "SigBlk:\t0000000000000000");
  // Signals 32 and 33 are glibc's own.
  CHECK((std::stoull(got.lines[6].substr(8), nullptr, 16) & ~0x180000000ULL) == 0);
  CHECK(got.lines[7] + got.lines[8] + got.lines[9] == "012");
  CHECK(got.lines[10] == "3");  // ls reading the folder
  CHECK(got.lines[11] == "0");  // SCHED_OTHER
  CHECK_THAT(got.lines[12], contains(" 0 kB"));
  CHECK(got.lines[13] == got.lines[14]);  // a session of its own
}

TEST_CASE("a child of a real-time thread has ordinary scheduling", "[hook]") {
  const Folder folder;
  const fs::path program = folder.script("cut -d' ' -f 41 /proc/self/stat\n");
  bool scheduled = false;
  Run got;
  std::thread([&] {
    sched_param parameters{};
    parameters.sched_priority = 1;
    scheduled = pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters) == 0;
    got = run(program);
  }).join();
  if (!scheduled) {
    WARN("SKIPPED: no right to real-time scheduling");
    return;
  }
  CHECK(got.all() == "0\n");
}

TEST_CASE("how a child ended is told", "[hook]") {
  const Folder folder;
  CHECK_FALSE(run(folder.script("exit 0")).failure);
  CHECK(run(folder.script("exit 3")).failure == "ended with exit status 3");
  CHECK(run(folder.script("kill -11 $$")).failure == "was ended by signal 11");
  CHECK_THAT(*run(folder / "absent").failure, contains("was not run") && contains("No such file"));
  CHECK_THAT(*run(folder.script("", 0644)).failure, contains("may not be run: chmod +x"));
  CHECK_THAT(*run(folder.script("", 0757)).failure, contains("written by everybody"));
  CHECK_THAT(*run(folder / "").failure, contains("is no file"));
  std::ofstream(folder / "hook") << "no program\n";
  chmod((folder / "hook").c_str(), 0755);
  CHECK_THAT(*run(folder / "hook").failure, contains("could not be started: Exec format error"));
  CHECK(config::hook_problem({}).empty());
}

TEST_CASE("a child that takes too long is ended with what it started", "[hook]") {
  const Folder folder;
  const auto begin = std::chrono::steady_clock::now();
  const Run got =
      run(folder.script("trap '' TERM\nsleep 600 &\necho $!\nsleep 601\nsleep 602\n"), {}, 300ms);
  CHECK(std::chrono::steady_clock::now() - begin < 60s);
  CHECK(got.failure == "was ended: it took longer than 0.3 s");
  REQUIRE(got.lines.size() == 1);
  // Killed children of children are reaped by init, or stay zombies where there is none.
  const auto gone = [&] {
    std::ifstream status("/proc/" + got.lines[0] + "/status");
    const std::string text(std::istreambuf_iterator<char>(status), {});
    return text.empty() || text.find("State:\tZ") != std::string::npos;
  };
  for (int i = 0; i < 500 && !gone(); ++i) std::this_thread::sleep_for(10ms);
  CHECK(gone());
}

TEST_CASE("what a child leaves running does not keep its run open", "[hook]") {
  const Folder folder;
  const auto begin = std::chrono::steady_clock::now();
  const Run got = run(folder.script("sleep 600 &\nexit 0\n"));
  CHECK_FALSE(got.failure);
  CHECK(std::chrono::steady_clock::now() - begin < 60s);
}

TEST_CASE("a daemon that stops waits for a child a moment only", "[hook]") {
  const Folder folder;
  std::stop_source stop;
  std::jthread later([&] {
    std::this_thread::sleep_for(200ms);
    stop.request_stop();
  });
  const auto begin = std::chrono::steady_clock::now();
  const Run got =
      run(folder.script("trap '' TERM\nsleep 600; sleep 601\n"), {}, 600s, stop.get_token());
  CHECK(std::chrono::steady_clock::now() - begin < 60s);
  CHECK(got.failure == "was ended: driftd is stopping");
}

TEST_CASE("output is cut to what a journal can hold", "[hook]") {
  const Folder folder;
  const Run got =
      run(folder.script("printf '\\033[2Jx\\tyz\\200\\n'; head -c 100000 /dev/zero | tr '\\0' "
                        "a; echo; yes | head -n 100000; printf end\n"));
  CHECK_FALSE(got.failure);
  REQUIRE(got.lines.size() == 51);
  CHECK(got.lines[0] == "?[2Jx\tyz\200");
  CHECK(got.lines[1] == std::string(400, 'a'));
  CHECK(got.lines[50] == "(99953 more lines)");
}

TEST_CASE("texts arrive unharmed", "[hook]") {
  const Folder folder;
  const std::string text = "a \"b\" 'c' $(touch x) `touch y` \\ ; & | \n second line \xc3\xa9";
  const nlohmann::json event = {{"code", "camera_note"}, {"level", "warning"}, {"text", text}};
  const auto environment = hook_environment(event, 4, "/etc/driftd/driftd.yaml");
  const Run got =
      run(folder.script("printf '%s|' \"$DRIFTD_TEXT\" \"$DRIFTD_LEFT_OUT\" \"$DRIFTD_CONFIG\" > " +
                        (folder / "out").string() + "\nprintf %s \"$DRIFTD_JSON\" > " +
                        (folder / "json").string() + "\n"),
          environment);
  CHECK_FALSE(got.failure);
  CHECK(folder.text("out") == text + "|4|/etc/driftd/driftd.yaml|");
  CHECK(nlohmann::json::parse(folder.text("json")) == event);
  // What no environment can hold.
  for (const std::string& variable : hook_environment(
           {{"code", "c"}, {"level", "info"}, {"text", std::string("a\0b", 3)}}, 0, ""))
    CHECK(variable.find('\0') == std::string::npos);
  const auto large = hook_environment(
      {{"code", "c"}, {"level", "info"}, {"text", std::string(200'000, 't')}}, 0, "");
  CHECK_FALSE(run(folder.script("exit 0"), large).failure);
}

TEST_CASE("the hook is run for events of its level", "[hook]") {
  const Folder folder;
  Rig rig(folder.script("echo \"$DRIFTD_EVENT\" >> " + (folder / "out").string() + "\n"));
  rig.raise("first", "", EventLog::Level::Info);
  rig.raise("second", "", EventLog::Level::Warning);
  rig.raise("third", "", EventLog::Level::Error);
  rig.turn_until([&] { return lines_in(folder.text("out")) == 2; });
  CHECK(folder.text("out") == "second\nthird\n");
  rig.hook.level = config::EventLevel::Error;  // by a reload
  rig.raise("fourth", "", EventLog::Level::Warning);
  rig.raise("fifth", "", EventLog::Level::Error);
  rig.turn_until([&] { return lines_in(folder.text("out")) == 3; });
  CHECK(folder.text("out") == "second\nthird\nfifth\n");
}

TEST_CASE("of many events of a code the last one is run for", "[hook]") {
  const Folder folder;
  Rig rig(folder.script("echo \"$DRIFTD_TEXT $DRIFTD_LEFT_OUT\" >> " + (folder / "out").string() +
                        "\n"));
  for (int i = 0; i < 8; ++i) rig.raise("flood", std::to_string(i));
  rig.raise("other", "x");
  rig.turn_until([&] { return lines_in(folder.text("out")) == 4; });
  CHECK(folder.text("out") == "0 0\n1 0\n2 0\nx 0\n");
  fake_now_ns += 59'000'000'000;
  rig.raise("flood", "8");
  rig.runner->turn();
  fake_now_ns += 2'000'000'000;
  rig.turn_until([&] { return lines_in(folder.text("out")) == 5; });
  // 3 to 7 were left out before the last.
  CHECK(folder.text("out") == "0 0\n1 0\n2 0\nx 0\n8 5\n");
}

TEST_CASE("a hook that fails is told once, and is not run for that", "[hook]") {
  const Folder folder;
  Rig rig(folder.script("echo x >> " + (folder / "out").string() + "\nexit 7\n"));
  rig.raise("trouble");
  rig.turn_until([&] { return rig.told.find("hook_failed") != std::string::npos; });
  CHECK_THAT(rig.told, contains("hook.on_event for trouble ended with exit status 7"));
  CHECK_THAT(rig.told, contains("\"event\":\"trouble\""));
  for (int i = 0; i < 10; ++i) {
    rig.runner->turn();
    std::this_thread::sleep_for(10ms);
  }
  CHECK(lines_in(folder.text("out")) == 1);
  CHECK(lines_in(rig.told) == 2);
}

TEST_CASE("a program that is not there is told at the start, and lets the rest go on", "[hook]") {
  const Folder folder;
  Rig rig(folder / "absent");
  rig.runner->turn();
  rig.runner->turn();
  CHECK_THAT(rig.told, contains("hook.on_event will not be run"));
  CHECK(lines_in(rig.told) == 1);
}

TEST_CASE("a slow hook delays neither events nor the end", "[hook]") {
  const Folder folder;
  const auto begin = std::chrono::steady_clock::now();
  {
    Rig rig(folder.script("echo x >> " + (folder / "out").string() + "\nsleep 600\n"));
    rig.raise("event0");
    rig.turn_until([&] { return !folder.text("out").empty(); });
    for (int i = 0; i < 200; ++i) rig.raise("event" + std::to_string(i));
    rig.runner->turn();
    CHECK(lines_in(rig.told) == 201);
  }
  CHECK(std::chrono::steady_clock::now() - begin < 60s);
  CHECK(lines_in(folder.text("out")) == 1);
}
