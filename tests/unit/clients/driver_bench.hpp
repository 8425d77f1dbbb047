// SPDX-License-Identifier: MIT
// A driver of a fake stage, in time that is the test's own.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "clients/stage/driver.hpp"
#include "clients/stage/report.hpp"
#include "fake_stage.hpp"

namespace driftd::stage {

inline constexpr std::int64_t kMs = 1'000'000;

inline Config config() {
  return load_text(
      "controller: {driver: simulator, device: /fake}\n"
      "motion: {position_interval_ms: 50, health_interval_ms: 100}\n"
      "connection: {reconnect_min_ms: 200, reconnect_max_ms: 1000}\n",
      "test");
}

/// Messages come one at a time.
inline void correct(Driver& driver, const std::string& message) {
  driver.corrections(std::array{message});
}

/// A driver of a fake stage that somebody calls each millisecond.
struct DriverBench {
  DriverBench() { fake_now_ns = 10'000 * kMs; }
  void run(std::int64_t ms) {
    for (std::int64_t i = 0; i < ms; ++i) {
      driver.turn();
      fake_now_ns += kMs;
    }
  }
  void send(double total_x_nm, double delta_x_nm, int lock_id = 1, std::int64_t age_ms = 0) {
    correct(driver, "correction {\"session\":\"a\",\"lock_id\":" + std::to_string(lock_id) +
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
  Driver driver{stage, config(), std::array{&board}, [this] { ++nudges; }, fake_clock};
};

}  // namespace driftd::stage
