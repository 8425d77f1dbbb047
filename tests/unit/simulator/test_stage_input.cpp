// SPDX-License-Identifier: MIT
#include "simulator/stage_input.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "simulator/live_simulation.hpp"
#include "simulator/sim_service.hpp"
#include "support/catch.hpp"

using namespace driftd::simulator;
using driftd::Vec2;

namespace {

/// A path that no other test has.
std::string path_of(const std::string& name) {
  return "/tmp/driftd-stage-input-" + std::to_string(getpid()) + "-" + name;
}

bool exists(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0;
}

/// A driver's end of the socket.
class Client {
 public:
  /// @param name  of its own address; empty: none
  Client(const std::string& server, std::string name) : name_(std::move(name)) {
    socket_ = socket(AF_UNIX, SOCK_DGRAM, 0);
    REQUIRE(socket_ >= 0);
    const timeval limit{2, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (!name_.empty()) {
      const sockaddr_un own = address(name_);
      REQUIRE(bind(socket_, reinterpret_cast<const sockaddr*>(&own), sizeof(own)) == 0);
    }
    const sockaddr_un peer = address(server);
    REQUIRE(connect(socket_, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)) == 0);
  }
  ~Client() {
    close(socket_);
    if (!name_.empty()) unlink(name_.c_str());
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void say(const std::string& text) const {
    REQUIRE(send(socket_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  }
  std::string ask(const std::string& text) const {
    say(text);
    std::array<char, 256> bytes{};
    const ssize_t length = recv(socket_, bytes.data(), bytes.size(), 0);
    return length < 0 ? "no answer" : std::string(bytes.data(), static_cast<std::size_t>(length));
  }

 private:
  static sockaddr_un address(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(static_cast<char*>(address.sun_path), path.data(), path.size());
    return address;
  }
  std::string name_;
  int socket_ = -1;
};

Scenario quick_stage() {
  Scenario scenario;
  scenario.camera.width_px = scenario.camera.height_px = 32;
  scenario.camera.rate_hz = 100;
  scenario.markers.positions_px = {{16, 16}};
  scenario.stage.noise_nm = 0;
  scenario.stage.quantisation_nm = 0;
  return scenario;
}

std::array<double, 4> numbers(const std::string& answer) {
  std::array<double, 4> values{};
  const int read = std::sscanf(answer.c_str(), "%lf %lf %lf %lf", &values[0], &values[1],
                               &values[2], &values[3]);
  INFO(answer);
  REQUIRE(read == 4);
  return values;
}

}  // namespace

TEST_CASE("A stage request is a move with two numbers or a read, and nothing else") {
  const StageRequest move = parse_stage_request("move 12.5 -3e1");
  CHECK(move.kind == StageRequest::Kind::Move);
  CHECK(move.target_nm.x == 12.5);
  CHECK(move.target_nm.y == -30);
  CHECK(parse_stage_request("read").kind == StageRequest::Kind::Read);
  for (const char* bad :
       {"", "move", "move 1", "move 1 2 3", "move 1 2 ", "move  1 2", "move 1,5 2", "move 1 2\n",
        "move nan 1", "move 1 inf", "move 1e10 0", "move 0x1 2", "move 1x 2", "MOVE 1 2", "read ",
        "Read", "readX", " read", "stop"}) {
    INFO(bad);
    const StageRequest request = parse_stage_request(bad);
    CHECK(request.kind == StageRequest::Kind::Mistake);
    CHECK_FALSE(request.mistake.empty());
  }
}

TEST_CASE("A stage with a focus drive takes a third number") {
  const StageRequest three = parse_stage_request("move 1 -2 3.5", true);
  CHECK(three.kind == StageRequest::Kind::Move);
  CHECK(three.target_nm.y == -2);
  CHECK(three.target_z_nm == 3.5);
  const StageRequest two = parse_stage_request("move 1 -2", true);
  CHECK(two.kind == StageRequest::Kind::Move);
  CHECK_FALSE(two.target_z_nm);
  const StageRequest alone = parse_stage_request("focus 3.5", true);
  CHECK(alone.kind == StageRequest::Kind::Focus);
  CHECK(alone.target_z_nm == 3.5);
  CHECK(parse_stage_request("focus 3.5").kind == StageRequest::Kind::Mistake);
  for (const char* bad : {"focus", "focus 1 2", "focus nan", "move 1", "move 1 2 3 4",
                          "move 1 2 3 ", "move 1 2 ", "move 1 2 nan"}) {
    INFO(bad);
    CHECK(parse_stage_request(bad, true).kind == StageRequest::Kind::Mistake);
  }

  Scenario scenario = quick_stage();
  scenario.focus_stage.emplace();
  scenario.focus_stage->actuator.noise_nm = 0;
  ServiceSettings settings;
  settings.identity = {"127.71.2.7", "FOCUS"};
  settings.stage_input = path_of("focus");
  const SimService service(scenario, settings);
  const Client driver(settings.stage_input, path_of("focus-driver"));
  driver.say("move 10 20 -300.5");
  double x = 0, y = 0, z = 0, cx = 0, cy = 0, cz = 0;
  for (int i = 0; i < 2000 && std::abs(z + 300.5) > 0.5; ++i) {
    const std::string answer = driver.ask("read");
    INFO(answer);
    REQUIRE(std::sscanf(answer.c_str(), "%lf %lf %lf %lf %lf %lf", &x, &y, &z, &cx, &cy, &cz) == 6);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(std::abs(z + 300.5) < 0.5);
  CHECK(cx == 10);
  CHECK(cz == -300.5);
  driver.say("focus 40");
  const std::string answer = driver.ask("read");
  REQUIRE(std::sscanf(answer.c_str(), "%lf %lf %lf %lf %lf %lf", &x, &y, &z, &cx, &cy, &cz) == 6);
  CHECK(cx == 10);
  CHECK(cy == 20);
  CHECK(cz == 40);
}

TEST_CASE("Where the stage will be is told without letting time pass") {
  Scenario scenario = quick_stage();
  scenario.stage.noise_nm = 0.5;
  scenario.stage.delay_jitter_ms = 0.2;
  Simulation simulation(scenario);
  Simulation other(scenario);
  for (Simulation* each : {&simulation, &other}) {
    each->command_stage(0, {100, -40});
    each->advance(1'000'000);
  }
  const Vec2 foreseen = simulation.stage_nm_at(4'000'000);
  CHECK(simulation.now_ns() == 1'000'000);
  other.advance(4'000'000);
  const Vec2 came = other.stage_nm_at(0);
  CHECK(foreseen.x == came.x);
  CHECK(foreseen.y == came.y);
  CHECK(std::abs(came.x) > 1);  // it was on its way
}

TEST_CASE("A driver moves the stage and asks where it is through --stage-input") {
  ServiceSettings settings;
  settings.identity = {"127.71.2.5", "INPUT"};
  settings.stage_input = path_of("service");
  {
    const SimService service(quick_stage(), settings);
    const Client driver(settings.stage_input, path_of("driver"));
    const auto before = numbers(driver.ask("read"));
    CHECK(std::abs(before[0]) < 0.01);
    CHECK(before[2] == 0);
    driver.say("move 80 -25.5");
    // It takes some milliseconds, or as long as the machine lets the service wait.
    auto after = numbers(driver.ask("read"));
    for (int i = 0; i < 2000 && std::abs(after[0] - 80) + std::abs(after[1] + 25.5) > 0.5; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      after = numbers(driver.ask("read"));
    }
    CHECK(after[2] == 80);
    CHECK(after[3] == -25.5);
    CHECK(std::abs(after[0] - 80) < 0.5);
    CHECK(std::abs(after[1] + 25.5) < 0.5);

    CHECK(driver.ask("move 1").rfind("error: ", 0) == 0);
    CHECK(driver.ask(std::string(300, 'x')).rfind("error: ", 0) == 0);
    const Client nameless(settings.stage_input, "");
    nameless.say("read");
    nameless.say("move 5 6");
    const auto last = numbers(driver.ask("read"));
    CHECK(last[2] == 5);
    CHECK(last[3] == 6);
  }
  CHECK_FALSE(exists(settings.stage_input));
}

TEST_CASE("A stage input takes a path only if nobody loses anything") {
  const std::string path = path_of("taken");
  SECTION("one that is listened at") {
    const StageInput first(path);
    CHECK_THROWS_WITH(StageInput(path), contains("another program listens"));
    CHECK(exists(path));
  }
  SECTION("a file") {
    std::ofstream(path) << "precious";
    CHECK_THROWS_WITH(StageInput(path), contains("is no socket"));
    CHECK(exists(path));
    unlink(path.c_str());
  }
  SECTION("a socket file whose program has gone") {
    const int left = socket(AF_UNIX, SOCK_DGRAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(static_cast<char*>(address.sun_path), path.data(), path.size());
    REQUIRE(bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    close(left);
    REQUIRE(exists(path));
    {
      const StageInput input(path);
      const Client driver(path, "");
      driver.say("read");
    }
    CHECK_FALSE(exists(path));
  }
  SECTION("one that another has taken since is left to it") {
    auto first = std::make_unique<StageInput>(path);
    unlink(path.c_str());
    const StageInput second(path);
    first.reset();
    CHECK(exists(path));
  }
  SECTION("too long a path, or none in a folder that is not there") {
    CHECK_THROWS_AS(StageInput(std::string(108, 'x')), std::runtime_error);
    CHECK_THROWS_AS(StageInput("/nonexistent/stage"), std::runtime_error);
  }
}

TEST_CASE("Corrections and a stage input do not both move the stage") {
  ServiceSettings settings;
  settings.identity = {"127.71.2.6", "BOTH"};
  settings.stage_endpoint = "ipc:///tmp/driftd-nobody";
  settings.stage_input = path_of("both");
  CHECK_THROWS_AS(SimService(quick_stage(), settings), std::invalid_argument);
  CHECK_FALSE(exists(settings.stage_input));
}
