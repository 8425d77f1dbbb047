// SPDX-License-Identifier: MIT
// The driver with a stage that throws, blocks and is slow: what it carries out, and when.
#include "driver_bench.hpp"
#include "support/catch.hpp"

namespace driftd::stage {

TEST_CASE("connecting moves nothing, and a correction moves from there", "[stage]") {
  DriverBench bench;
  CHECK(bench.state() == "disconnected");
  bench.run(500);
  CHECK(bench.state() == "ready");
  CHECK(bench.nudges > 0);
  CHECK(bench.stage.targets.empty());
  bench.send(12, 12);
  REQUIRE(bench.stage.targets.size() == 1);
  CHECK(bench.stage.targets[0][0] == Approx(50'012));
  CHECK(bench.stage.targets[0][1] == Approx(60'000));
  const DriverState state = bench.board.state();
  CHECK(state.carried_out == 1);
  CHECK(state.session == "a");
  CHECK(state.lock_id == 1);
}

TEST_CASE("position and health are asked as often as configured", "[stage]") {
  DriverBench bench;
  bench.run(1);
  const int reads = bench.stage.reads;
  const int healths = bench.stage.healths;
  bench.run(1000);
  CHECK(bench.stage.reads - reads == 20);
  CHECK(bench.stage.healths - healths == 10);
}

TEST_CASE("a stage that answers slowly is asked less often, and moves have the rest", "[stage]") {
  DriverBench bench;
  bench.run(1);
  bench.stage.takes_ns = 5 * kMs;
  bench.stage.reads_ns = GENERATE(30, 200) * kMs;
  bench.stage.healths_ns = GENERATE(0, 30, 200) * kMs;
  bench.send(1, 1);
  bench.send(2, 1);
  const std::int64_t begin_ns = fake_now_ns;
  const int reads = bench.stage.reads;
  const int healths = bench.stage.healths;
  for (int i = 0; fake_now_ns - begin_ns < 60'000 * kMs; ++i) {
    bench.driver.turn();
    bench.send(i % 2, i % 2 == 0 ? -1 : 1);
  }
  const std::int64_t asked_ns = (bench.stage.reads - reads) * bench.stage.reads_ns +
                                (bench.stage.healths - healths) * bench.stage.healths_ns;
  CHECK(asked_ns <= (fake_now_ns - begin_ns) / 3);
  CHECK(bench.stage.reads - reads >= 40);
  CHECK(bench.stage.healths - healths >= 40);
}

TEST_CASE("a correction that waited too long moves nothing", "[stage]") {
  DriverBench bench;
  bench.run(10);
  bench.send(5, 5, 1, 21);
  CHECK(bench.stage.targets.empty());
  CHECK(bench.board.state().ignored == 1);
  correct(bench.driver, "garbage");
  correct(bench.driver, "correction {}");
  CHECK(bench.board.state().ignored == 3);
}

TEST_CASE("a correction that expires while the stage is asked for its place moves nothing",
          "[stage]") {
  struct SlowReads : FakeStage {
    void read(std::span<double> nm) override {
      fake_now_ns += 30 * kMs;
      FakeStage::read(nm);
    }
  } stage;
  fake_now_ns = 10'000 * kMs;
  Board board;
  Driver driver(
      stage, config(), std::array{&board}, [] {}, fake_clock);
  driver.turn();
  correct(driver, "correction {\"session\":\"a\",\"lock_id\":1,\"sent_ns\":1,\"expires_ns\":" +
                      std::to_string(fake_now_ns + 20 * kMs) +
                      ",\"total_x_nm\":1,\"total_y_nm\":1,\"delta_x_nm\":1,\"delta_y_nm\":1}");
  CHECK(stage.targets.empty());
  CHECK(board.state().ignored == 1);
}

TEST_CASE("where reading takes longer than a correction lives, the next one moves", "[stage]") {
  DriverBench bench;
  bench.run(10);
  bench.stage.reads_ns = 30 * kMs;
  bench.send(1, 1);
  CHECK(bench.stage.targets.empty());
  bench.send(2, 1);
  REQUIRE(bench.stage.targets.size() == 1);
  CHECK(bench.stage.targets[0][0] == Approx(50'001));  // what is new in it
  bench.send(3, 1, 2);  // a target went since: where it is now has to be asked
  CHECK(bench.stage.targets.size() == 1);
}

TEST_CASE("an answer that is owed is waited for before a correction is judged", "[stage]") {
  DriverBench bench;
  bench.run(10);
  bench.send(1, 1);
  bench.stage.owes_ns = 30 * kMs;
  bench.send(2, 1);
  CHECK(bench.stage.targets.size() == 1);
  CHECK(bench.board.state().ignored == 1);
}

TEST_CASE("a controller that owes an answer is waited for before the newest correction is chosen",
          "[stage]") {
  DriverBench bench;
  bench.run(10);
  bench.send(1, 1);
  bench.stage.owes_ns = 30 * kMs;
  bench.driver.turn();
  CHECK(bench.stage.owes_ns == 0);
  bench.send(2, 1);
  CHECK(bench.stage.targets.size() == 2);
  SECTION("and after one of which a part came too late") {
    struct Half : FakeStage {
      bool move_to(std::span<const double>) override { throw TooLate("late"); }
    } stage;
    Driver driver(
        stage, config(), std::array{&bench.board}, [] {}, fake_clock);
    driver.turn();
    correct(driver, "correction {\"session\":\"a\",\"lock_id\":1,\"sent_ns\":1,\"expires_ns\":" +
                        std::to_string(fake_now_ns + 20 * kMs) +
                        ",\"total_x_nm\":1,\"total_y_nm\":1,\"delta_x_nm\":1,\"delta_y_nm\":1}");
    stage.owes_ns = 30 * kMs;
    driver.turn();
    CHECK(stage.owes_ns == 0);
  }
}

TEST_CASE("a lost controller is told once, tried with growing pauses, and found again", "[stage]") {
  DriverBench bench;
  bench.run(10);
  bench.send(40, 40);
  bench.stage.away = true;
  const int nudges = bench.nudges;
  bench.send(45, 5);
  CHECK(bench.state() == "disconnected");
  CHECK(bench.text() == "the line is gone");
  CHECK(bench.stage.disconnects == 1);
  CHECK(bench.nudges == nudges + 1);
  CHECK_FALSE(bench.board.state().axes[0].position_nm.has_value());
  const int connects = bench.stage.connects;
  bench.run(3650);  // pauses of 200, 400, 800, 1000, 1000 ms
  CHECK(bench.stage.connects - connects == 5);
  CHECK(bench.text() == "nobody answers at tcp://127.0.0.1:1");
  bench.send(90, 5);
  CHECK(bench.board.state().ignored == 1);

  bench.stage.away = false;
  SECTION("where it was") {
    bench.run(1100);
    CHECK(bench.state() == "ready");
    bench.send(95, 5);
    CHECK(bench.stage.targets.back()[0] == Approx(50'095));
    bench.stage.away = true;  // again: the pauses begin anew
    bench.send(96, 1);
    const int attempts = bench.stage.connects;
    bench.run(250);
    CHECK(bench.stage.connects - attempts == 1);
  }
  SECTION("elsewhere") {
    bench.stage.position = {10'000, 60'000};
    bench.run(1100);
    bench.send(95, 5);
    CHECK(bench.stage.targets.back()[0] == Approx(10'005));
    CHECK(bench.board.state().total_nm.has_value());
  }
}

TEST_CASE("a controller that is not there at first is counted", "[stage]") {
  DriverBench bench;
  bench.stage.away = true;
  bench.run(1);
  CHECK(bench.board.state().failed_attempts == 1);
  CHECK_FALSE(bench.board.state().ever_connected);
  bench.stage.away = false;
  bench.run(250);
  CHECK(bench.board.state().ever_connected);
}

TEST_CASE("a controller that is starting is waited for, and its attempts are none that failed",
          "[stage]") {
  struct Slow : FakeStage {
    std::vector<Axis> connect() override {
      fake_now_ns += 500 * kMs;
      if (starts-- > 0) throw Starting("p: is starting, which may take 10000 ms");
      return FakeStage::connect();
    }
    int starts = 3;
  } stage;
  fake_now_ns = 0;
  Board board;
  Driver driver(
      stage, config(), std::array{&board}, [] {}, fake_clock);
  for (int call = 0; call < 3; ++call) {
    const std::int64_t next_ns = driver.turn();  // moves the clock on
    CHECK(next_ns <= fake_now_ns);               // at once again
    CHECK(board.state().trouble == "p: is starting, which may take 10000 ms");
  }
  CHECK(!board.state().connected);
  CHECK(board.state().failed_attempts == 0);
  CHECK(stage.disconnects == 0);
  driver.turn();
  CHECK(board.state().connected);
  // Again, where its servo was off meanwhile.
  stage.answer.condition = Condition::ServoOff;
  fake_now_ns += 200 * kMs;
  driver.turn();
  stage.answer.condition = Condition::Ready;
  stage.starts = 1;
  fake_now_ns += 200 * kMs;
  const std::int64_t next_ns = driver.turn();
  CHECK(next_ns <= fake_now_ns);
  CHECK(!board.state().connected);
  CHECK(stage.disconnects == 0);
  driver.turn();
  CHECK(board.state().connected);
}

TEST_CASE("a controller that blocks is seen to, and its latency counts", "[stage]") {
  DriverBench bench;
  bench.run(10);
  bench.stage.takes_ns = 100 * kMs;
  bench.send(10, 10);
  CHECK(bench.board.latency.summary().max_us == Approx(100'000));
  // Seen from the other thread while it waits.
  bench.board.waits_since_ns.store(fake_now_ns - 400 * kMs);
  CHECK(bench.state() == "error");
  bench.board.waits_since_ns.store(0);
  CHECK(bench.state() == "ready");
}

TEST_CASE("while another driver reports, this one moves nothing", "[stage]") {
  DriverBench bench;
  bench.run(10);
  bench.board.muted.store(true);
  bench.send(10, 10);
  CHECK(bench.stage.targets.empty());
  bench.board.muted.store(false);
  bench.send(15, 5);
  CHECK(bench.stage.targets.back()[0] == Approx(50'005));  // it had not seen the lock's first
}

TEST_CASE("moves keep to the highest rate", "[stage]") {
  DriverBench bench;
  bench.run(10);
  bench.send(1, 1);
  CHECK(bench.driver.next_move_ns() == fake_now_ns + kMs);  // motion.max_rate_hz: 1000
}

TEST_CASE("the achieved rate is that of the last second", "[stage]") {
  RateMeter rate;
  std::int64_t now_ns = 5'000 * kMs;
  for (int i = 0; i < 1000; ++i, now_ns += 2 * kMs) rate.record(now_ns);
  CHECK(rate.per_second(now_ns) == 500);
  CHECK(rate.per_second(now_ns + 500 * kMs) == 250);
  CHECK(rate.per_second(now_ns + 1100 * kMs) == 0);
  CHECK(rate.per_second(now_ns + 1'000'000 * kMs) == 0);
}

}  // namespace driftd::stage
