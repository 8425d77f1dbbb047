// SPDX-License-Identifier: MIT
// Two controllers of one axis each as one stage.
#include "clients/stage/interface/faults.hpp"
#include "clients/stage/joined_stage.hpp"
#include "driver_bench.hpp"
#include "support/catch.hpp"

namespace driftd::stage {
namespace {

std::vector<JoinedStage::Part> parts_of(std::unique_ptr<Stage> x, std::unique_ptr<Stage> y) {
  std::vector<JoinedStage::Part> parts;
  parts.push_back({std::move(x), "x"});
  parts.push_back({std::move(y), "y"});
  return parts;
}

}  // namespace

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
  JoinedStage stage(parts_of(std::move(x), std::move(y)), "xy");
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
  CHECK(stage.health().text == "y: off");
  CHECK_FALSE(stage.health().on_target);
  CHECK(health_part(stage.health(), 0, 1).condition == Condition::Ready);
  CHECK(health_part(stage.health(), 1, 1).text == "y: off");
  first.answer = {.condition = Condition::Error, .text = "7"};  // it may be a refusal
  CHECK(stage.health().of_axes.empty());
  first.answer = {};
  std::swap(first.answer, second.answer);
  CHECK(stage.health().condition == Condition::ServoOff);
  const Condition order[] = {Condition::Ready, Condition::Limit, Condition::Error,
                             Condition::ServoOff, Condition::Disconnected};
  for (std::size_t worse = 1; worse < std::size(order); ++worse) {
    for (std::size_t better = 1; better < worse; ++better) {
      first.answer = {.condition = order[better], .error = 3, .text = "better"};
      second.answer = {.condition = order[worse], .text = "worse"};
      CHECK(stage.health().condition == order[worse]);
      CHECK(stage.health().text == "y: worse; x: better");
      CHECK(stage.health().error == 3);
      std::swap(first.answer, second.answer);
      CHECK(stage.health().condition == order[worse]);
      CHECK(stage.health().text == "x: worse; y: better");
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
    void expires_at(std::int64_t expires_ns) override { told_ns = expires_ns; }
    double moved = 0;
    std::int64_t told_ns = 0;
  };
  auto x = std::make_unique<OneAxis>();
  auto y = std::make_unique<OneAxis>();
  OneAxis& first = *x;
  OneAxis& second = *y;
  fake_now_ns = 10'000 * kMs;
  JoinedStage stage(parts_of(std::move(x), std::move(y)), "xy", fake_clock);
  Board board;
  Driver driver(
      stage, config(), std::array{&board}, [] {}, fake_clock);
  driver.turn();
  const auto send = [&] {
    correct(driver, "correction {\"session\":\"a\",\"lock_id\":1,\"sent_ns\":1,\"expires_ns\":" +
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
  CHECK(first.told_ns == fake_now_ns - 10 * kMs);  // each may look at the time for itself
  CHECK(second.told_ns == first.told_ns);
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
