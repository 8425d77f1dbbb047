// SPDX-License-Identifier: MIT
// What the driver tells of targets that are refused, held back or ignored.
#include <cmath>

#include "driver_bench.hpp"
#include "support/catch.hpp"

namespace driftd::stage {

TEST_CASE("what the controller refuses is told with its reason, and tried on", "[stage]") {
  DriverBench bench;
  bench.run(10);
  bench.stage.refuses = true;
  for (int i = 0; i < 5; ++i) bench.send(10, 10);
  CHECK(bench.state() == "error");
  CHECK(bench.text() == "7: out of limits");
  CHECK(bench.board.state().refused == 5);
  CHECK(bench.board.state().carried_out == 0);
  bench.stage.refuses = false;
  bench.stage.answer = {};
  bench.send(10, 10);
  CHECK(bench.stage.targets.size() == 1);
  bench.run(110);
  CHECK(bench.state() == "ready");
}

TEST_CASE("a refusal that comes with the answer before the next target is one", "[stage]") {
  DriverBench bench;
  bench.run(10);
  bench.send(0, 0);
  bench.stage.refuses_late = true;
  for (int i = 1; i <= 12; ++i) {
    bench.run(10);
    bench.send(90 * i, 90);
    if (i > 1) CHECK(bench.board.state().refuses);
  }
  CHECK(bench.state() == "error");
  CHECK(bench.text() == "7: out of limits");
  CHECK(bench.board.state().refused == 11);
  CHECK(bench.board.state().carried_out == 2);  // nobody knows yet of the last one
  bench.stage.refuses_late = false;
  bench.stage.answer = {};
  bench.run(10);
  bench.send(90 * 13, 90);
  CHECK(bench.board.state().refused == 12);
  REQUIRE(bench.stage.targets.size() == 2);
  CHECK(std::abs(bench.stage.targets[1][0] - 50'000) <= 100);
  bench.stage.answer = {};
  CHECK(bench.state() == "error");  // whether that one was taken is told by its answer
  bench.run(110);
  CHECK(bench.state() == "ready");
  bench.send(90 * 13, 0);
  CHECK(bench.board.state().carried_out == 3);
  SECTION("one after a rest is no move, nor an offset of the sensor") {
    bench.run(1000);
    const double there_nm = bench.stage.targets.back()[0];
    bench.stage.refuses_late = true;
    bench.send(1000, 0);
    bench.run(1000);
    bench.stage.refuses_late = false;
    bench.stage.answer = {};
    bench.send(1000, 0);
    CHECK(bench.board.state().refused == 13);
    CHECK(std::abs(bench.stage.targets.back()[0] - there_nm) <= 100);
  }
  SECTION("with a servo that is off nothing is sent") {
    bench.stage.refuses_late = true;
    bench.send(90 * 13, 0);
    bench.stage.refuses_late = false;
    const std::size_t sent = bench.stage.targets.size();
    bench.stage.late_condition = Condition::ServoOff;
    bench.send(90 * 13, 0);
    CHECK(bench.stage.targets.size() == sent);
    CHECK(bench.state() == "servo_off");
  }
}

TEST_CASE("a refusal that comes while the servo is off is one afterwards", "[stage]") {
  DriverBench bench;
  bench.run(10);
  bench.send(0, 0);
  bench.run(1000);
  bench.stage.refuses_late = true;
  bench.send(100, 100);
  bench.stage.answer = {.condition = Condition::ServoOff, .text = "axis 1: the servo is off"};
  bench.run(300);
  bench.stage.refuses_late = false;
  bench.stage.late_condition = Condition::Ready;
  bench.stage.answer = {};
  bench.run(300);
  CHECK(bench.board.state().axes[0].target_nm == Approx(50'000));
  CHECK(bench.board.state().carried_out == 1);
  bench.send(200, 100);
  CHECK(bench.stage.targets.back()[0] == Approx(50'100));
}

TEST_CASE("a refusal is told with its reason until it is over", "[stage]") {
  DriverBench bench;
  bench.run(10);
  const auto refused_once = [&] {
    bench.stage.refuses = true;
    bench.send(10, 10);
    bench.stage.refuses = false;
    bench.stage.answer = {};
    bench.run(110);  // the controller says no more of it
    CHECK(bench.state() == "error");
    CHECK(bench.text() == "7: out of limits");
  };
  SECTION("by the daemon's word") {
    bench.board.lock_is_over.store(true);  // of the lock before
    refused_once();
    bench.run(500);
    CHECK(bench.state() == "error");
    bench.board.lock_is_over.store(true);
    bench.run(10);
    CHECK(bench.state() == "ready");
  }
  SECTION("by the daemon's word, after which it lasts no longer than at first") {
    for (int i = 0; i < 3; ++i) {
      refused_once();
      bench.run(500);
      bench.board.lock_is_over.store(true);
      bench.run(10);
      CHECK(bench.state() == "ready");
    }
    refused_once();
    bench.run(1000);
    CHECK(bench.state() == "ready");
  }
  SECTION("by time, which doubles") {
    for (const int seconds : {1, 2, 4, 8, 16, 30, 30}) {
      refused_once();
      bench.run(seconds * 1000 - 210);
      CHECK(bench.state() == "error");
      bench.run(200);
      CHECK(bench.state() == "ready");
    }
    bench.send(10, 10);  // taken: it begins anew
    refused_once();
    bench.run(1000);
    CHECK(bench.state() == "ready");
  }
}

TEST_CASE("a stage that stays where it is wherever it is sent is told", "[stage]") {
  struct Stuck : FakeStage {
    bool move_to(std::span<const double>) override { return true; }
  } stage;
  DriverBench bench;
  Driver driver(
      stage, config(), std::array{&bench.board}, [] {}, fake_clock);
  for (int i = 0; i < 1200; ++i) {
    driver.turn();
    if (i % 400 == 0)
      correct(driver, "correction {\"session\":\"a\",\"lock_id\":1,\"sent_ns\":1,\"expires_ns\":" +
                          std::to_string(fake_now_ns + 20 * kMs) +
                          ",\"total_x_nm\":" + std::to_string(50 * (i / 400 + 1)) +
                          ",\"total_y_nm\":0,\"delta_x_nm\":50,\"delta_y_nm\":0}");
    fake_now_ns += kMs;
  }
  CHECK(bench.state() == "error");
  CHECK(bench.text() == "x stays at 50000.0 nm wherever it is sent");
}

TEST_CASE("a stage that stays where it is is not ready because it takes targets", "[stage]") {
  struct Stuck : FakeStage {
    bool move_to(std::span<const double> nm) override { return stuck || FakeStage::move_to(nm); }
    bool stuck = true;
  } stage;
  DriverBench bench;
  Driver driver(
      stage, config(), std::array{&bench.board}, [] {}, fake_clock);
  int sent = 0;
  const auto send = [&] {
    ++sent;
    correct(driver, "correction {\"session\":\"a\",\"lock_id\":1,\"sent_ns\":1,\"expires_ns\":" +
                        std::to_string(fake_now_ns + 20 * kMs) +
                        ",\"total_x_nm\":" + std::to_string(50 * sent) +
                        ",\"total_y_nm\":0,\"delta_x_nm\":50,\"delta_y_nm\":0}");
  };
  const auto run = [&](int ms) {
    for (int i = 0; i < ms; ++i) {
      driver.turn();
      fake_now_ns += kMs;
    }
  };
  run(1);
  for (int i = 0; i < 3; ++i, run(400)) send();
  CHECK(bench.state() == "error");
  send();
  run(10);
  CHECK(bench.state() == "error");
  run(1000);  // told again at that rest
  CHECK(bench.state() == "error");
  run(1200);
  CHECK(bench.state() == "ready");
  SECTION("it is when it goes") {
    send();
    run(400);
    CHECK(bench.state() == "error");
    stage.stuck = false;
    for (int i = 0; i < 2; ++i, run(400)) send();
    CHECK(bench.state() == "ready");
  }
}

TEST_CASE("a range limit is told until the lock is over", "[stage]") {
  DriverBench bench;
  bench.stage.position = {99'950, 60'000};
  bench.run(10);
  bench.send(80, 80);
  CHECK(bench.stage.targets.back()[0] == Approx(100'000));
  CHECK(bench.state() == "limit");
  CHECK(bench.text() == "x is at the end of its range, 100000.0 nm on axis 1");
  bench.run(100);
  CHECK(bench.state() == "limit");
  SECTION("by a correction within it") {
    bench.send(20, 0);
    CHECK(bench.state() == "ready");
  }
  SECTION("by the daemon's word") {
    bench.board.lock_is_over.store(true);
    const int nudges = bench.nudges;
    bench.run(300);  // it may be about the lock before
    CHECK(bench.state() == "limit");
    bench.run(300);
    CHECK(bench.state() == "ready");
    CHECK(bench.nudges == nudges + 1);
    bench.send(80, 0);
    CHECK(bench.state() == "limit");
  }
}

}  // namespace driftd::stage
