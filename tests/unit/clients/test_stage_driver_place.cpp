// SPDX-License-Identifier: MIT
// Where the driver takes its stage to be: lines lost, servos off, wrong readings.
#include <spdlog/fmt/fmt.h>

#include <limits>

#include "driver_bench.hpp"
#include "support/catch.hpp"

namespace driftd::stage {

TEST_CASE("a servo switched on after the connection brings the sensor back", "[stage]") {
  DriverBench bench;
  bench.stage.closed_loop = false;
  bench.stage.answer = {.condition = Condition::ServoOff, .text = "axis 1: the servo is off"};
  bench.run(10);
  CHECK_FALSE(bench.board.state().axes[0].axis.closed_loop);
  bench.stage.answer = {};
  bench.stage.closed_loop = true;
  bench.run(200);
  CHECK(bench.board.state().axes[0].axis.closed_loop);
  bench.send(4, 4);
  bench.run(1000);
  bench.stage.position = {70'000, 60'000};
  bench.run(1000);
  bench.send(0, 0, 2);
  CHECK(bench.stage.targets.back()[0] == Approx(70'000));
}

TEST_CASE("an axis that is open loop for good stays so after a servo was off", "[stage]") {
  DriverBench bench;
  bench.stage.closed_loop = false;
  bench.run(10);
  bench.send(40, 40);
  bench.run(1000);
  bench.stage.position[0] += 400;  // as it reads, without a sensor
  bench.run(200);
  bench.stage.answer = {.condition = Condition::ServoOff, .text = "axis 2: the servo is off"};
  bench.run(200);
  bench.stage.starts = GENERATE(0, 3);  // as a program that tells its axes late
  bench.stage.answer = {};
  bench.run(200);
  CHECK(bench.state() == "ready");
  CHECK_FALSE(bench.board.state().axes[0].axis.closed_loop);
  bench.send(50, 10);
  CHECK(bench.stage.targets.back()[0] == Approx(50'050));
}

TEST_CASE("a line that broke in a move leaves no longer step", "[stage]") {
  DriverBench bench;
  bench.run(10);
  bench.send(0, 0);
  bench.run(1000);
  bench.stage.breaks_in_move = true;
  bench.send(90, 90);
  CHECK(bench.state() == "disconnected");
  bench.stage.breaks_in_move = false;
  bench.run(1000);
  bench.send(-100, -190);
  CHECK(bench.stage.targets.back()[0] == Approx(49'990));
}

TEST_CASE("a lock that is resumed after a rest asks where the stage is", "[stage]") {
  FakeStage stage;
  DriverBench bench;
  Config rarely = config();
  rarely.motion.position_interval_ms = 10'000;
  Driver driver(
      stage, rarely, std::array{&bench.board}, [] {}, fake_clock);
  const auto send = [&](double total_nm) {
    correct(driver, "correction {\"session\":\"a\",\"lock_id\":1,\"sent_ns\":1,\"expires_ns\":" +
                        std::to_string(fake_now_ns + 20 * kMs) +
                        ",\"total_x_nm\":" + std::to_string(total_nm) +
                        ",\"total_y_nm\":0,\"delta_x_nm\":1,\"delta_y_nm\":0}");
  };
  driver.turn();
  send(1);
  const int reads = stage.reads;
  fake_now_ns += 2 * kMs;
  send(2);
  CHECK(stage.reads == reads);
  for (int i = 0; i < 400; ++i) {  // at rest it is looked at twice
    fake_now_ns += kMs;
    driver.turn();
  }
  CHECK(stage.reads == reads + 2);
  fake_now_ns += 3000 * kMs;
  stage.position[0] = 20'000;
  send(3);
  CHECK(stage.targets.back()[0] == Approx(20'001));
}

TEST_CASE("one wrong reading is no stage that was moved", "[stage]") {
  struct Glitches : FakeStage {
    void read(std::span<double> nm) override {
      FakeStage::read(nm);
      nm[0] += std::exchange(wrong_nm, 0);
      wrong_nm = std::exchange(next_wrong_nm, 0);
    }
    double wrong_nm = 0, next_wrong_nm = 0;
  } stage;
  DriverBench bench;
  Driver driver(
      stage, config(), std::array{&bench.board}, [] {}, fake_clock);
  const auto run = [&](int ms) {
    for (int i = 0; i < ms; ++i) {
      driver.turn();
      fake_now_ns += kMs;
    }
  };
  const auto send = [&](int lock_id, int total_nm = 1) {
    correct(driver, "correction {\"session\":\"a\",\"lock_id\":" + std::to_string(lock_id) +
                        ",\"sent_ns\":1,\"expires_ns\":" + std::to_string(fake_now_ns + 20 * kMs) +
                        ",\"total_x_nm\":" + std::to_string(total_nm) +
                        ",\"total_y_nm\":0,\"delta_x_nm\":1,\"delta_y_nm\":0}");
  };
  SECTION("at the first correction") {
    run(10);
    stage.wrong_nm = 20'000;
    send(1);
    CHECK(stage.targets.back()[0] == Approx(50'001));
  }
  SECTION("at the connection") {
    stage.wrong_nm = 20'000;
    run(10);
    send(1);
    CHECK(stage.targets.back()[0] == Approx(50'001));
  }
  SECTION("at a connection in mid-lock") {
    run(10);
    send(1);
    stage.away = true;
    run(60);
    stage.away = false;
    stage.wrong_nm = 20'000;
    run(300);
    send(1, 40);  // what was missed meanwhile comes with the rest
    CHECK(stage.targets.back()[0] == Approx(50'040));
  }
  SECTION("at a new lock, nor are two") {
    run(10);
    send(1);
    run(1000);
    stage.wrong_nm = 20'000;
    stage.next_wrong_nm = GENERATE(0, -3000);
    send(2);
    CHECK(stage.targets.back()[0] == Approx(50'002));
  }
  SECTION("when one of them is at rest for the first time") {
    run(10);
    send(1);
    for (int i = 0; i < 500; ++i) {
      if (i == 201) stage.wrong_nm = 900;
      run(1);
    }
    send(2);
    CHECK(stage.targets.back()[0] == Approx(50'002));
  }
}

TEST_CASE("a stage with its servo off is told nothing, and gets a new zero afterwards", "[stage]") {
  DriverBench bench;
  bench.run(10);
  bench.send(40, 40);
  bench.stage.answer = {.condition = Condition::ServoOff, .text = "axis 1: the servo is off"};
  bench.run(95);
  CHECK(bench.state() == "servo_off");
  CHECK(bench.text() == "axis 1: the servo is off");
  // Without its servo it sags, by less than a stage may be behind that was told to go just now.
  bench.stage.position = {49'740, 60'000};
  bench.send(60, 20);
  CHECK(bench.stage.targets.size() == 1);
  bench.stage.answer = {};
  bench.run(100);
  CHECK(bench.state() == "ready");
  bench.send(70, 10);
  REQUIRE(bench.stage.targets.size() == 2);
  CHECK(bench.stage.targets[1][0] == Approx(49'750));
}

TEST_CASE("a place where no stage can be is a broken connection", "[stage]") {
  const std::size_t axis = GENERATE(0U, 1U);
  const double place_nm = GENERATE(std::numeric_limits<double>::quiet_NaN(), 1e9, -1e12);
  DriverBench bench;
  bench.run(10);
  bench.stage.position[axis] = place_nm;
  bench.run(60);
  CHECK(bench.state() == "disconnected");
  CHECK(bench.text().starts_with("the stage is said to be at "));
  CHECK(bench.text().ends_with(axis == 0 ? ", 60000 nm" : fmt::format("50000, {} nm", place_nm)));
}

}  // namespace driftd::stage
