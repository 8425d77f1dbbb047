// SPDX-License-Identifier: MIT
// Programs that drive a stage: shell scripts, and what else a child may do.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>

#include "base/monotonic.hpp"
#include "clients/stage/interface/stage.hpp"
#include "clients/stage/transport/child.hpp"
#include "support/catch.hpp"

using namespace driftd::stage;

namespace {

constexpr int kSilentMs = 400;

/// A folder with a script, and what it leaves there.
class Script {
 public:
  explicit Script(const std::string& text) {
    std::string name = (std::filesystem::temp_directory_path() / "driftd-program-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    folder_ = name;
    std::ofstream(folder_ / "program.sh") << text;
  }
  ~Script() { std::filesystem::remove_all(folder_); }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  /// A limit that a loaded machine keeps; kSilentMs where the script stays silent.
  StageOptions options(int timeout_ms = 10'000) const {
    StageOptions options;
    options.driver = "program";
    options.command = "/bin/sh '" + (folder_ / "program.sh").string() + "' " + folder_.string();
    options.axes = {"1", "Piezo Y"};
    options.timeout_ms = timeout_ms;
    return options;
  }
  std::string text(const char* name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }
  pid_t pid() const {
    const std::string digits = text("pid");
    REQUIRE(!digits.empty());
    return static_cast<pid_t>(std::stol(digits));
  }
  /// A line of /proc/PID/status.
  std::string status(const std::string& key) const {
    std::ifstream file("/proc/" + std::to_string(pid()) + "/status");
    for (std::string line; std::getline(file, line);)
      if (line.starts_with(key)) return line.substr(key.size());
    return "";
  }

 private:
  std::filesystem::path folder_;
};

/// A stage that is at once where it is sent. `more` stands before the other cases and wins.
std::string stage(const std::string& more = "") {
  return R"(cd "$1"; echo $$ > pid; echo started >> starts
while read -r word a b rest; do
  echo "$word $a $b $rest" >> heard
  case $word in
)" + more +
         R"(
    hello) echo "hello 1 a stage, serial 7" ;;
    axis) echo "axis 0 100000 0.1 closed $a${b:+ $b}" ;;
    move) x=$a y=$b; echo ok ;;
    read) echo "place ${x:-1000} ${y:-2000.5}" ;;
    health) echo "health ready" ;;
  esac
done
echo over > over
)";
}

std::string failure(Stage& stage, const std::function<void(Stage&)>& call) {
  try {
    call(stage);
  } catch (const StageError& error) {
    return error.what();
  }
  return "";
}

bool comes_true(const std::function<bool()>& condition) {
  const std::int64_t end_ns = driftd::monotonic_ns() + 60 * driftd::kNanosecondsPerSecond;
  while (!condition()) {
    if (driftd::monotonic_ns() > end_ns) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

/// And is no zombie that waits for whom it was left to.
bool lives(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return false;
  const char state = line[line.rfind(')') + 2];
  return state != 'Z' && state != 'X';
}

/// As the driver does it, of a program whose answers a busy machine may delay beyond its limit.
bool connects(Stage& stage) {
  return comes_true([&] {
    try {
      stage.connect();
      return true;
    } catch (const Starting&) {
    } catch (const StageError&) {
      stage.disconnect();
    }
    return false;
  });
}

}  // namespace

TEST_CASE("a program tells its axes, moves, and says where it is and how it does") {
  const Script script(stage());
  {
    const auto stage = make_stage(script.options());
    CHECK(stage->description().empty());
    const std::vector<Axis> axes = stage->connect();
    CHECK(stage->description() == "a stage, serial 7");
    REQUIRE(axes.size() == 2);
    CHECK(axes[1].name == "Piezo Y");
    CHECK(axes[1].min_nm == 0);
    CHECK(axes[1].max_nm == 100'000);
    CHECK(axes[1].resolution_nm == 0.1);
    CHECK(axes[1].closed_loop);
    std::array<double, 2> place{};
    stage->read(place);
    CHECK(place == std::array{1000.0, 2000.5});
    CHECK(script.text("heard").find("move") == std::string::npos);  // connecting moves nothing
    stage->expires_at(123'456'789'012);
    CHECK(stage->move_to(std::array{-0.00001, 54321.98765}));
    stage->read(place);
    CHECK(place == std::array{0.0, 54321.9877});  // never "-0.0000"
    CHECK(script.text("heard").find("move 0.0000 54321.9877 123456789012\n") != std::string::npos);
    const Health health = stage->health();
    CHECK(health.condition == Condition::Ready);
    CHECK(!health.tells_on_target);
  }
  CHECK(script.text("over") == "over\n");  // by the end of its input
  CHECK(!lives(script.pid()));
}

TEST_CASE("a program tells what nobody knows of an axis by -, and another name of it") {
  const Script script(stage(R"(axis) echo "axis - - - open X of it" ;;)"));
  const auto stage = make_stage(script.options());
  const std::vector<Axis> axes = stage->connect();
  CHECK(axes[0].name == "X of it");
  CHECK(axes[0].min_nm == -kMetre_nm);
  CHECK(axes[0].max_nm == kMetre_nm);
  CHECK(axes[0].resolution_nm == 0);
  CHECK(!axes[0].closed_loop);
}

TEST_CASE("a program tells its health in words") {
  const auto [answer, condition, tells, on_target, error, text] =
      GENERATE(table<std::string, Condition, bool, bool, int, std::string>(
          {{"ready", Condition::Ready, false, false, 0, ""},
           {"ready yes", Condition::Ready, true, true, 0, ""},
           {"ready - 3 nothing of note", Condition::Ready, false, false, 3, ""},
           {"servo_off no 5 by its button", Condition::ServoOff, true, false, 5, "by its button"},
           {"not_referenced - -7 home it", Condition::NotReferenced, false, false, -7, "home it"},
           {"error - 2147942405 denied", Condition::Error, false, false, 0, "2147942405 denied"},
           {"error - -99999999999", Condition::Error, false, false, 0, "-99999999999"},
           {"limit", Condition::Limit, false, false, 0, "the program does not say why"},
           {"error - 0 zu\theiß", Condition::Error, false, false, 0, "zu?heiß"}}));
  INFO(answer);
  const Script script(stage("health) printf 'health %s\\n' '" + answer + "' ;;"));
  const auto stage = make_stage(script.options());
  stage->connect();
  const Health health = stage->health();
  CHECK(health.condition == condition);
  CHECK(health.tells_on_target == tells);
  CHECK(health.on_target == on_target);
  CHECK(health.error == error);
  CHECK(health.text == text);
}

TEST_CASE("a program that refuses a target is there, and told of once") {
  const auto [answer, error, text] = GENERATE(table<std::string, int, std::string>(
      {{"refused 7 out of limits", 7, "out of limits"},
       {"refused 2147942405 denied", 0, "2147942405 denied"},
       {"refused out of limits", 0, "out of limits"},
       {"refused", 0, "the program refused a target and does not say why"}}));
  const Script script(stage("move) echo " + answer + " ;;"));
  const auto stage = make_stage(script.options());
  stage->connect();
  CHECK(!stage->move_to(std::array{1.0, 2.0}));
  const Health health = stage->health();
  CHECK(health.condition == Condition::Error);
  CHECK(health.error == error);
  CHECK(health.text == text);
  CHECK(stage->health().condition == Condition::Ready);
  CHECK(script.text("starts") == "started\n");
}

TEST_CASE("a program is told which axis stays") {
  const Script script(stage());
  const auto stage = make_stage(script.options());
  stage->connect();
  CHECK(stage->move_to(std::array{kStays, 2.0}));
  CHECK(script.text("heard").find("move - 2.0000 ") != std::string::npos);
  CHECK_FALSE(stage->move_to(std::array{kStays, kStays}));
}

TEST_CASE("a program that gets a target too late says so") {
  const Script script(stage("move) echo late ;;"));
  const auto stage = make_stage(script.options());
  stage->connect();
  CHECK_THROWS_AS(stage->move_to(std::array{1.0, 2.0}), TooLate);
  CHECK(stage->health().condition == Condition::Ready);
}

TEST_CASE("a target that is no number is not sent") {
  const double wrong =
      GENERATE(-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity());
  const Script script(stage());
  const auto stage = make_stage(script.options());
  stage->connect();
  CHECK(!stage->move_to(std::array{1.0, wrong}));
  CHECK(stage->health().text == "a target is not a finite number");
  CHECK(script.text("heard").find("move") == std::string::npos);
}

TEST_CASE("what is no answer ends the connection, is told, and the next has another program") {
  const auto [more, text] = GENERATE(table<std::string, std::string>({
      {"read) echo place 1 ;;", "the answer to 'read\\n' is 'place 1', expected place and"},
      {"read) echo place 1 2 3 ;;", "is 'place 1 2 3'"},
      {"read) echo place 1 nan ;;", "is 'place 1 nan'"},
      {"read) echo place inf 1 ;;", "is 'place inf 1'"},
      {"read) echo place 1e99 1 ;;", "is 'place 1e99 1'"},
      {"read) echo ok ;;", "is 'ok'"},
      {"read) echo ;;", "is ''"},
      {"read) printf 'pl\\001\\377\\n' ;;", "is 'pl\\x01\\xff'"},
      {"move) echo place 1 2 ;;", "is 'place 1 2', expected ok, late, or refused CODE TEXT"},
      {"health) echo health fine ;;", "is 'health fine', expected health STATE"},
      {"health) echo health ready maybe ;;", "is 'health ready maybe'"},
      {"health) echo health error - x1 ;;", "is 'health error - x1'"},
      {"health) echo health error - 1,5 ;;", "is 'health error - 1,5'"},
      {"health) echo health error - - ;;", "is 'health error - -'"},
      {"read) echo place 1,5 2 ;;", "is 'place 1,5 2'"},
      {"read) printf 'place 1 2' ; sleep 60 ;;", "within 400 ms: found 'place 1 2', expected"},
      {"read) sleep 60 ;;", "no whole answer to 'read\\n' within 400 ms: found ''"},
      {"read) exec yes ;;", "is 'y'"},
      {"read) exec cat /dev/zero ;;", "the answer to 'read\\n' does not end: found"},
      {"read) printf 'place 1'; exit 3 ;;",
       "the other end closed the line, last asked 'read\\n', found 'place 1' before; the program "
       "ended with exit status 3"},
      {"read) kill -9 $$ ;;", "last asked 'read\\n'; the program was ended by signal 9"},
      {"read) exit ;;", "; the program ended with exit status 0"},
      {"read) printf 'place 1 2\\nplace 1 2\\n' ;;",
       "wrote 'place 1 2' unasked, expected nothing before the next request"},
  }));
  INFO(more);
  const Script script(stage(more));
  const bool silent = more.find("sleep") != std::string::npos;
  const auto stage = make_stage(script.options(silent ? kSilentMs : 10'000));
  REQUIRE(connects(*stage));
  const pid_t first = script.pid();
  CHECK_THAT(failure(*stage,
                     [](Stage& one) {
                       std::array<double, 2> place{};
                       one.health();
                       one.move_to(std::array{1.0, 2.0});
                       one.read(place);
                       ::poll(nullptr, 0, 20);
                       one.health();
                     }),
             contains(text));
  // Nothing is asked of it any more.
  CHECK_THAT(failure(*stage,
                     [](Stage& one) {
                       one.move_to(std::array{5.0, 5.0});
                     }),
             contains("expected to be connected again"));
  stage->disconnect();
  CHECK(!lives(first));
  CHECK_THAT(failure(*stage,
                     [](Stage& one) {
                       one.move_to(std::array{5.0, 5.0});
                     }),
             contains("not connected"));
  REQUIRE(connects(*stage));
  CHECK(script.pid() != first);
  CHECK(script.text("heard").find("move 5") == std::string::npos);
}

TEST_CASE("a program whose first answers make no sense is told") {
  const auto [more, text] = GENERATE(table<std::string, std::string>({
      {"hello) echo hello 2 from the future ;;", "is 'hello 2 from the future', expected hello 1"},
      {"hello) echo usage: program FILE ;;", "is 'usage: program FILE'"},
      {"axis) echo axis 0 ;;", "is 'axis 0', expected axis MIN MAX RESOLUTION"},
      {"axis) echo axis 5 5 1 closed ;;", "is 'axis 5 5 1 closed'"},
      {"axis) echo axis 5 nan 1 closed ;;", "is 'axis 5 nan 1 closed'"},
      {"axis) echo axis 0 5 -1 closed ;;", "is 'axis 0 5 -1 closed'"},
      {"axis) echo axis 0 5 1 shut ;;", "is 'axis 0 5 1 shut'"},
      {"axis) echo gone no axis $a ;;", ": no axis 1"},
  }));
  INFO(more);
  const Script script(stage(more));
  const auto stage = make_stage(script.options());
  CHECK_THAT(failure(*stage, [](Stage& one) { one.connect(); }), contains(text));
}

TEST_CASE("a program that says that its stage is gone goes on, and is asked hello again") {
  const Script script(stage(
      "health) if [ -e gone ]; then rm gone; echo gone pulled; else echo health ready; fi ;;"));
  const auto stage = make_stage(script.options());
  stage->connect();
  const pid_t first = script.pid();
  const std::string command = script.options().command;
  const std::ofstream gone(command.substr(command.rfind(' ') + 1) + "/gone");
  CHECK_THAT(failure(*stage, [](Stage& one) { one.health(); }), contains(": pulled"));
  stage->disconnect();
  CHECK(lives(first));
  stage->connect();
  CHECK(script.pid() == first);
  CHECK(stage->health().condition == Condition::Ready);
  CHECK(script.text("starts") == "started\n");
}

TEST_CASE("a program may take its time to start, within a limit of its own") {
  const Script script(stage("hello) sleep 1; echo hello 1 at last ;;"));
  StageOptions options = script.options(50);
  options.start_timeout_ms = 60'000;
  const auto slow = make_stage(options);
  int calls = 0;
  REQUIRE(comes_true([&] {
    ++calls;
    try {
      slow->connect();
      return true;
    } catch (const Starting& error) {
      CHECK_THAT(error.what(), contains("is starting, which may take 60000 ms"));
    } catch (const StageError&) {  // 50 ms are little on a busy machine
      slow->disconnect();
    }
    return false;
  }));
  CHECK(calls > 3);
  CHECK(slow->description() == "at last");
  options.start_timeout_ms = 100;
  const auto too_slow = make_stage(options);
  std::string text;
  while (text.empty()) {
    try {
      too_slow->connect();
    } catch (const Starting&) {
    } catch (const StageError& error) {
      text = error.what();
    }
  }
  CHECK_THAT(text, contains("no answer to 'hello 1' within 100 ms"));
}

TEST_CASE("a program that is starting yet is told by the end of its input, too") {
  const Script script(stage("hello) cat; echo over > over; exit ;;"));
  StageOptions options = script.options(2000);
  options.start_timeout_ms = 60'000;
  {
    const auto stage = make_stage(options);
    CHECK_THROWS_AS(stage->connect(), Starting);
  }
  CHECK(script.text("over") == "over\n");
}

TEST_CASE("a program that lives on without its input is killed, with what it started") {
  const Script script(
      stage("health) sleep 600 & echo $! > child; echo health ready; exec sleep 600 ;;"));
  {
    const auto stage = make_stage(script.options(2000));
    REQUIRE(connects(*stage));
    stage->health();
    CHECK(lives(script.pid()));
  }
  CHECK(!lives(script.pid()));
  const auto child = static_cast<pid_t>(std::stol(script.text("child")));
  CHECK(comes_true([&] { return !lives(child); }));
}

TEST_CASE("a program inherits no signal mask, no descriptor and no priority") {
  sigset_t mask;
  sigset_t before;
  sigemptyset(&mask);
  sigaddset(&mask, SIGTERM);
  REQUIRE(pthread_sigmask(SIG_BLOCK, &mask, &before) == 0);
  const Script script(stage("hello) ls /proc/$$/fd > open; echo hello 1 x ;;"));
  const int left = ::dup(0);  // without O_CLOEXEC
  const auto stage = make_stage(script.options());
  stage->connect();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::close(left);
  CHECK(script.status("SigBlk:") == "\t0000000000000000");
  const std::string open = '\n' + script.text("open");
  for (int number = 3; number < 10; ++number)  // the shell opens the script by a number above that
    CHECK_THAT(open, !contains("\n" + std::to_string(number) + "\n"));
  CHECK(::getsid(script.pid()) == script.pid());
}

TEST_CASE("what a program needs is checked before anything is started") {
  StageOptions options;
  options.driver = "program";
  options.axes = {"1", "2"};
  const auto refused = [](const StageOptions& given) {
    try {
      make_stage(given);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(refused(options), contains("needs its command, or the device unix:/PATH"));
  options.device = "/dev/ttyUSB0";
  CHECK_THAT(refused(options), contains("unix:/PATH"));
  options.command = "cat";
  CHECK_THAT(refused(options), contains("not both"));
  options.device = "unix:/run/stage";
  CHECK_THAT(refused(options), contains("not both"));
  options.command.clear();
  CHECK(refused(options).empty());
  options.device = "unix:stage";
  CHECK_THAT(refused(options), contains("is not unix:/PATH"));
  options.device = "unix:/" + std::string(120, 'x');
  CHECK_THAT(refused(options), contains("at most 107 bytes"));
  options.device.clear();
  options.command = "python3 'my stage.py";
  CHECK_THAT(refused(options), contains("command 'python3 'my stage.py' is none"));
  options.command = " ";
  CHECK_THAT(refused(options), contains("is none"));
  options.command = "cat";
  options.axes = {"1\nmove 5 5 9", "2"};
  CHECK_THAT(refused(options), contains("axis '1\\nmove 5 5 9' is no name of one line"));
}

TEST_CASE("the words of a command") {
  using Words = std::vector<std::string>;
  CHECK(command_words("a b") == Words{"a", "b"});
  CHECK(command_words("  a   b  ") == Words{"a", "b"});
  CHECK(command_words("'a b' \"c 'd'\" e'f g'h ''") == Words{"a b", "c 'd'", "ef gh", ""});
}

TEST_CASE("a program that is not there, or a socket at which nobody listens, is told") {
  StageOptions options;
  options.driver = "program";
  options.axes = {"1", "2"};
  options.command = "/driftd/none --serve";
  CHECK_THAT(failure(*make_stage(options), [](Stage& one) { one.connect(); }),
             contains("/driftd/none --serve: cannot be started (No such file or directory)"));
  options.command.clear();
  options.device = "unix:/driftd/none";
  CHECK_THAT(failure(*make_stage(options), [](Stage& one) { one.connect(); }),
             contains("unix:/driftd/none: cannot connect (No such file or directory)"));
}
