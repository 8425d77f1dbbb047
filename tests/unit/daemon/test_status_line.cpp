// SPDX-License-Identifier: MIT
#include <nlohmann/json.hpp>

#include "daemon/status/status_line.hpp"
#include "support/catch.hpp"

using driftd::daemon::status_line;
using nlohmann::json;

namespace {

json locked() {
  return {{"state", "locked"},
          {"reason", "reference_taken"},
          {"held_for", "none"},
          {"held_first", "none"},
          {"camera", {{"connected", true}, {"problem", ""}, {"rate_hz", 499.8}}},
          {"markers", {{"tracking", 13}, {"used", 12}}},
          {"drift", {{"rms_x_nm", 0.52}, {"rms_y_nm", 0.36}}},
          {"record", {{"recording", false}, {"problem", ""}}}};
}

}  // namespace

TEST_CASE("systemd's status says state, markers, drift and rate") {
  REQUIRE(status_line(locked()) ==
          "locked (reference taken): 12 of 13 markers, drift 0.5 / 0.4 nm rms, 500 frames/s");
}

TEST_CASE("Unlocked, systemd's status has no residual") {
  json status = locked();
  status["state"] = "idle";
  status["reason"] = "none";
  REQUIRE(status_line(status) == "idle: 12 of 13 markers, 500 frames/s");
  status["markers"] = {{"tracking", 0}, {"used", 0}};
  REQUIRE(status_line(status) == "idle: no markers, 500 frames/s");
}

TEST_CASE("systemd's status says what is missing before all else") {
  json status = locked();
  status["state"] = "holding";
  status["reason"] = "no_frames";
  status["camera"]["rate_hz"] = nullptr;
  status["markers"]["used"] = nullptr;
  status["drift"] = {{"rms_x_nm", nullptr}, {"rms_y_nm", nullptr}};
  REQUIRE(status_line(status) == "holding (no frames): no frames come from the camera");
  status["camera"]["connected"] = false;
  REQUIRE(status_line(status) == "holding (no frames): no camera");
  status["camera"]["problem"] = "192.168.10.2 does not answer";
  REQUIRE(status_line(status) == "holding (no frames): no camera, 192.168.10.2 does not answer");
}

TEST_CASE("systemd's status says what a lost lock was held for") {
  json status = locked();
  status["state"] = "lost";
  status["reason"] = "held_too_long";
  status["held_for"] = "stage_not_following";
  REQUIRE(status_line(status) ==
          "lost (held too long: stage not following): 12 of 13 markers, 500 frames/s");
  status["held_first"] = "no_frames";
  REQUIRE(status_line(status) ==
          "lost (held too long: stage not following, at first no frames): 12 of 13 markers, 500 "
          "frames/s");
}

TEST_CASE("systemd's status says that it records, and why it does not any more") {
  json status = locked();
  const std::string line = status_line(status);
  status["record"]["recording"] = true;
  REQUIRE(status_line(status) == line + ", recording");
  status["record"] = {{"recording", false}, {"problem", "No space left on device"}};
  REQUIRE(status_line(status) == line + ", nothing is recorded: No space left on device");
  status["camera"]["connected"] = false;
  REQUIRE(status_line(status) ==
          "locked (reference taken): no camera, nothing is recorded: No space left on device");
}
