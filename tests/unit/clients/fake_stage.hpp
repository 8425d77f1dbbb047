// SPDX-License-Identifier: MIT
// A stage for tests of its driver: it goes at once where it is told, and has every fault on demand.
// Time is the test's own.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "clients/stage/correction.hpp"
#include "clients/stage/interface/stage.hpp"

namespace driftd::stage {

/// The time that the driver reads; the fake stage's answers take some of it.
inline std::int64_t fake_now_ns = 0;
inline std::int64_t fake_clock() noexcept {
  return fake_now_ns;
}

class FakeStage : public Stage {
 public:
  std::vector<Axis> connect() override {
    ++connects;
    owes_refusal = false;
    fake_now_ns += takes_ns;
    if (away) throw StageError("nobody answers at tcp://127.0.0.1:1");
    if (starts > 0 && starts-- > 0) throw Starting("is starting");
    Axis axis{.name = "1", .min_nm = 0, .max_nm = 100'000, .resolution_nm = 0.1};
    axis.closed_loop = closed_loop;
    Axis other = axis;
    other.name = "2";
    return {axis, other};
  }
  void disconnect() noexcept override { ++disconnects; }
  std::string description() const override { return "fake"; }
  bool move_to(std::span<const double> nm) override {
    fake_now_ns += takes_ns;
    if (away) throw StageError("the line is gone");
    if (breaks_in_move) {
      position = {nm[0], nm[1]};
      throw StageError("no answer");
    }
    if (refuses) {
      answer = {.condition = Condition::Error, .error = 7, .text = "7: out of limits"};
      return false;
    }
    if (refuses_late) {
      owes_refusal = true;
      return true;
    }
    position = {nm[0], nm[1]};
    targets.push_back(position);
    return true;
  }
  bool prepare() override {
    fake_now_ns += std::exchange(owes_ns, 0);
    if (!owes_refusal) return true;
    owes_refusal = false;
    answer = {.condition = late_condition, .error = 7, .text = "7: out of limits"};
    return false;
  }
  void read(std::span<double> nm) override {
    ++reads;
    fake_now_ns += reads_ns;
    if (away) throw StageError("the line is gone");
    nm[0] = position[0];
    nm[1] = position[1];
  }
  Health health() override {
    ++healths;
    fake_now_ns += healths_ns;
    if (away) throw StageError("the line is gone");
    return answer;
  }

  PerAxis position = {50'000, 60'000};
  std::vector<PerAxis> targets;
  Health answer;
  Condition late_condition = Condition::Error;
  bool refuses_late = false, owes_refusal = false;  ///< told by prepare()
  bool away = false, refuses = false, breaks_in_move = false, closed_loop = true;
  std::int64_t takes_ns = 0, reads_ns = 0, healths_ns = 0, owes_ns = 0;
  int starts = 0;  ///< calls of connect() that need longer
  int connects = 0, disconnects = 0, reads = 0, healths = 0;
};

}  // namespace driftd::stage
