// SPDX-License-Identifier: MIT
// The driver with a stage that throws, blocks, refuses and moves by itself.
#include <cmath>
#include <limits>

#include "clients/stage/driver.hpp"
#include "clients/stage/joined_stage.hpp"
#include "clients/stage/report.hpp"
#include "fake_stage.hpp"
#include "support/catch.hpp"

namespace driftd::stage {
namespace {

constexpr std::int64_t kMs = 1'000'000;

Config config() {
  return load_text(
      "controller: {driver: simulator, device: /fake}\n"
      "motion: {position_interval_ms: 50, health_interval_ms: 100}\n"
      "connection: {reconnect_min_ms: 200, reconnect_max_ms: 1000}\n",
      "test");
}

struct Bench {
  Bench() { fake_now_ns = 10'000 * kMs; }
  void run(std::int64_t ms) {
    for (std::int64_t i = 0; i < ms; ++i) {
      driver.turn();
      fake_now_ns += kMs;
    }
  }
  void send(double total_x_nm, double delta_x_nm, int lock_id = 1, std::int64_t age_ms = 0) {
    driver.correction("correction {\"session\":\"a\",\"lock_id\":" + std::to_string(lock_id) +
                      ",\"sent_ns\":" + std::to_string(fake_now_ns - age_ms * kMs) +
                      ",\"expires_ns\":" + std::to_string(fake_now_ns + 20 * kMs - age_ms * kMs) +
                      ",\"total_x_nm\":" + std::to_string(total_x_nm) +
                      ",\"total_y_nm\":0,\"delta_x_nm\":" + std::to_string(delta_x_nm) +
                      ",\"delta_y_nm\":0}");
  }
  std::string_view state() const {
    const std::int64_t since_ns = board.waits_since_ns.load();
    return standing(board.state(), since_ns == 0 ? 0 : fake_now_ns - since_ns).state;
  }
  std::string text() const { return standing(board.state(), 0).text; }

  FakeStage stage;
  Board board;
  int nudges = 0;
  Driver driver{stage, config(), board, [this] { ++nudges; }, fake_clock};
};

}  // namespace

TEST_CASE("connecting moves nothing, and a correction moves from there", "[stage]") {
  Bench bench;
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
  CHECK(bench.stage.stops == 0);
}

TEST_CASE("position and health are asked as often as configured", "[stage]") {
  Bench bench;
  bench.run(1);
  const int reads = bench.stage.reads;
  const int healths = bench.stage.healths;
  bench.run(1000);
  CHECK(bench.stage.reads - reads == 20);
  CHECK(bench.stage.healths - healths == 10);
}

TEST_CASE("a correction that waited too long moves nothing", "[stage]") {
  Bench bench;
  bench.run(10);
  bench.send(5, 5, 1, 21);
  CHECK(bench.stage.targets.empty());
  CHECK(bench.board.state().ignored == 1);
  bench.driver.correction("garbage");
  bench.driver.correction("correction {}");
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
      stage, config(), board, [] {}, fake_clock);
  driver.turn();
  driver.correction("correction {\"session\":\"a\",\"lock_id\":1,\"sent_ns\":1,\"expires_ns\":" +
                    std::to_string(fake_now_ns + 20 * kMs) +
                    ",\"total_x_nm\":1,\"total_y_nm\":1,\"delta_x_nm\":1,\"delta_y_nm\":1}");
  CHECK(stage.targets.empty());
  CHECK(board.state().ignored == 1);
}

TEST_CASE("where reading takes longer than a correction lives, the next one moves", "[stage]") {
  Bench bench;
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
  Bench bench;
  bench.run(10);
  bench.send(1, 1);
  bench.stage.owes_ns = 30 * kMs;
  bench.send(2, 1);
  CHECK(bench.stage.targets.size() == 1);
  CHECK(bench.board.state().ignored == 1);
}

TEST_CASE("a controller that owes an answer is waited for before the newest correction is chosen",
          "[stage]") {
  Bench bench;
  bench.run(10);
  bench.send(1, 1);
  bench.stage.owes_ns = 30 * kMs;
  bench.driver.turn();
  CHECK(bench.stage.owes_ns == 0);
  bench.send(2, 1);
  CHECK(bench.stage.targets.size() == 2);
  SECTION("and after one of which a part came too late") {
    struct Half : FakeStage {
      bool move_to(std::span<const double>) override { throw TooLate(); }
    } stage;
    Driver driver(
        stage, config(), bench.board, [] {}, fake_clock);
    driver.turn();
    driver.correction("correction {\"session\":\"a\",\"lock_id\":1,\"sent_ns\":1,\"expires_ns\":" +
                      std::to_string(fake_now_ns + 20 * kMs) +
                      ",\"total_x_nm\":1,\"total_y_nm\":1,\"delta_x_nm\":1,\"delta_y_nm\":1}");
    stage.owes_ns = 30 * kMs;
    driver.turn();
    CHECK(stage.owes_ns == 0);
  }
}

TEST_CASE("a servo switched on after the connection brings the sensor back", "[stage]") {
  Bench bench;
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
  Bench bench;
  bench.stage.closed_loop = false;
  bench.run(10);
  bench.send(40, 40);
  bench.run(1000);
  bench.stage.position[0] += 400;  // as it reads, without a sensor
  bench.run(200);
  bench.stage.answer = {.condition = Condition::ServoOff, .text = "axis 2: the servo is off"};
  bench.run(200);
  bench.stage.answer = {};
  bench.run(200);
  CHECK(bench.state() == "ready");
  CHECK_FALSE(bench.board.state().axes[0].axis.closed_loop);
  bench.send(50, 10);
  CHECK(bench.stage.targets.back()[0] == Approx(50'050));
}

TEST_CASE("a line that broke in a move leaves no longer step", "[stage]") {
  Bench bench;
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
  Bench bench;
  Config rarely = config();
  rarely.motion.position_interval_ms = 10'000;
  Driver driver(
      stage, rarely, bench.board, [] {}, fake_clock);
  const auto send = [&](double total_nm) {
    driver.correction("correction {\"session\":\"a\",\"lock_id\":1,\"sent_ns\":1,\"expires_ns\":" +
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
  Bench bench;
  Driver driver(
      stage, config(), bench.board, [] {}, fake_clock);
  const auto run = [&](int ms) {
    for (int i = 0; i < ms; ++i) {
      driver.turn();
      fake_now_ns += kMs;
    }
  };
  const auto send = [&](int lock_id) {
    driver.correction("correction {\"session\":\"a\",\"lock_id\":" + std::to_string(lock_id) +
                      ",\"sent_ns\":1,\"expires_ns\":" + std::to_string(fake_now_ns + 20 * kMs) +
                      ",\"total_x_nm\":1,\"total_y_nm\":0,\"delta_x_nm\":1,\"delta_y_nm\":0}");
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

TEST_CASE("a stage that stays where it is wherever it is sent is told", "[stage]") {
  struct Stuck : FakeStage {
    bool move_to(std::span<const double>) override { return true; }
  } stage;
  Bench bench;
  Driver driver(
      stage, config(), bench.board, [] {}, fake_clock);
  for (int i = 0; i < 1200; ++i) {
    driver.turn();
    if (i % 400 == 0)
      driver.correction(
          "correction {\"session\":\"a\",\"lock_id\":1,\"sent_ns\":1,\"expires_ns\":" +
          std::to_string(fake_now_ns + 20 * kMs) +
          ",\"total_x_nm\":" + std::to_string(50 * (i / 400 + 1)) +
          ",\"total_y_nm\":0,\"delta_x_nm\":50,\"delta_y_nm\":0}");
    fake_now_ns += kMs;
  }
  CHECK(bench.state() == "error");
  CHECK(bench.text() == "x stays at 50000.0 nm wherever it is sent");
}

TEST_CASE("a lost controller is told once, tried with growing pauses, and found again", "[stage]") {
  Bench bench;
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
  Bench bench;
  bench.stage.away = true;
  bench.run(1);
  CHECK(bench.board.state().failed_attempts == 1);
  CHECK_FALSE(bench.board.state().ever_connected);
  bench.stage.away = false;
  bench.run(250);
  CHECK(bench.board.state().ever_connected);
}

TEST_CASE("a stage with its servo off is told nothing, and gets a new zero afterwards", "[stage]") {
  Bench bench;
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

TEST_CASE("what the controller refuses is told with its reason, and tried on", "[stage]") {
  Bench bench;
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
  Bench bench;
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
  Bench bench;
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
  Bench bench;
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

TEST_CASE("a controller that blocks is seen to, and its latency counts", "[stage]") {
  Bench bench;
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

TEST_CASE("a range limit is told until the lock is over", "[stage]") {
  Bench bench;
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

TEST_CASE("while another driver reports, this one moves nothing", "[stage]") {
  Bench bench;
  bench.run(10);
  bench.board.muted.store(true);
  bench.send(10, 10);
  CHECK(bench.stage.targets.empty());
  bench.board.muted.store(false);
  bench.send(15, 5);
  CHECK(bench.stage.targets.back()[0] == Approx(50'005));  // it had not seen the lock's first
}

TEST_CASE("a place that is no number is a broken connection", "[stage]") {
  Bench bench;
  bench.run(10);
  bench.stage.position[1] = std::numeric_limits<double>::quiet_NaN();
  bench.run(60);
  CHECK(bench.state() == "disconnected");
  CHECK(bench.text() == "the stage is said to be at 50000, nan nm");
}

TEST_CASE("moves keep to the highest rate", "[stage]") {
  Bench bench;
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

TEST_CASE("two controllers of one axis each are one stage", "[stage]") {
  struct OneAxis : FakeStage {
    std::vector<Axis> connect() override { return {FakeStage::connect().front()}; }
    bool move_to(std::span<const double> nm) override {
      moved = nm[0];
      REQUIRE(nm.size() == 1);
      return !refuses;
    }
    void read(std::span<double> nm) override { nm[0] = position[0]; }
    double moved = 0;
  };
  auto x = std::make_unique<OneAxis>();
  auto y = std::make_unique<OneAxis>();
  OneAxis& first = *x;
  OneAxis& second = *y;
  second.position[0] = 7;
  JoinedStage stage(std::move(x), std::move(y));
  CHECK(stage.connect().size() == 2);
  PerAxis place{};
  stage.read(place);
  CHECK(place == PerAxis{50'000, 7});
  CHECK(stage.move_to(PerAxis{1, 2}));
  CHECK(first.moved == 1);
  CHECK(second.moved == 2);
  second.refuses = true;
  CHECK_FALSE(stage.move_to(PerAxis{1, 2}));
  CHECK(stage.prepare());
  first.owes_refusal = second.owes_refusal = true;
  CHECK_FALSE(stage.prepare());
  CHECK(stage.prepare());  // both were asked
  second.owes_refusal = true;
  CHECK_FALSE(stage.prepare());
  stage.disconnect();
  CHECK(first.disconnects == 1);
  CHECK(second.disconnects == 1);
  first.answer = second.answer = {};
  first.answer.on_target = first.answer.tells_on_target = true;
  second.answer = first.answer;
  CHECK(stage.health().on_target);
  second.answer = {.condition = Condition::ServoOff, .tells_on_target = true, .text = "off"};
  CHECK(stage.health().condition == Condition::ServoOff);
  CHECK(stage.health().text == "off");
  CHECK_FALSE(stage.health().on_target);
  std::swap(first.answer, second.answer);
  CHECK(stage.health().condition == Condition::ServoOff);
  const Condition order[] = {Condition::Ready, Condition::Limit, Condition::Error,
                             Condition::ServoOff, Condition::Disconnected};
  for (std::size_t worse = 1; worse < std::size(order); ++worse) {
    for (std::size_t better = 1; better < worse; ++better) {
      first.answer = {.condition = order[better], .error = 3, .text = "better"};
      second.answer = {.condition = order[worse], .text = "worse"};
      CHECK(stage.health().condition == order[worse]);
      CHECK(stage.health().text == "worse; better");
      CHECK(stage.health().error == 3);
      std::swap(first.answer, second.answer);
      CHECK(stage.health().condition == order[worse]);
      CHECK(stage.health().text == "worse; better");
    }
  }
}

TEST_CASE("of two controllers the second is told nothing after a correction's time", "[stage]") {
  struct OneAxis : FakeStage {
    std::vector<Axis> connect() override { return {FakeStage::connect().front()}; }
    bool move_to(std::span<const double> nm) override {
      fake_now_ns += takes_ns;
      moved = nm[0];
      return true;
    }
    void read(std::span<double> nm) override { nm[0] = position[0]; }
    double moved = 0;
  };
  auto x = std::make_unique<OneAxis>();
  auto y = std::make_unique<OneAxis>();
  OneAxis& first = *x;
  OneAxis& second = *y;
  fake_now_ns = 10'000 * kMs;
  JoinedStage stage(std::move(x), std::move(y), fake_clock);
  Board board;
  Driver driver(
      stage, config(), board, [] {}, fake_clock);
  driver.turn();
  const auto send = [&] {
    driver.correction("correction {\"session\":\"a\",\"lock_id\":1,\"sent_ns\":1,\"expires_ns\":" +
                      std::to_string(fake_now_ns + 20 * kMs) +
                      ",\"total_x_nm\":1,\"total_y_nm\":1,\"delta_x_nm\":1,\"delta_y_nm\":1}");
  };
  second.owes_ns = 15 * kMs;
  first.owes_ns = 10 * kMs;
  send();
  CHECK(first.moved == 0);  // both owed an answer for too long
  first.owes_ns = second.owes_ns = 0;
  first.takes_ns = 30 * kMs;
  send();
  CHECK(first.moved != 0);
  CHECK(second.moved == 0);
  CHECK(board.state().ignored == 2);
  CHECK(board.state().refused == 0);
  CHECK(standing(board.state(), 0).state == "ready");
  for (int i = 0; i < 3; ++i) send();
  CHECK(standing(board.state(), 0).state == "ready");  // a host is late now and then
  send();
  CHECK(board.state().refused == 1);
  CHECK(standing(board.state(), 0).state == "error");
  CHECK(standing(board.state(), 0).text ==
        "the controller of x takes longer than a correction lives, and y is not told");
  first.takes_ns = 0;
  send();
  driver.turn();
  CHECK(second.moved != 0);
  CHECK(standing(board.state(), 0).state == "ready");
  first.takes_ns = 30 * kMs;
  send();  // counted anew
  CHECK(standing(board.state(), 0).state == "ready");
}

}  // namespace driftd::stage
