// SPDX-License-Identifier: MIT
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "daemon/loop/messages.hpp"
#include "results_for_tests.hpp"
#include "support/catch.hpp"

using namespace driftd::daemon;
using driftd::daemon::test::result_with_correction;
using nlohmann::json;

namespace {

json object_of(std::string_view message, std::string_view topic) {
  REQUIRE(message.substr(0, topic.size() + 1) == std::string(topic) + " ");
  return json::parse(message.substr(topic.size() + 1));
}

}  // namespace

TEST_CASE("A position says what was measured") {
  MessageBuffer buffer;
  const FrameResult result = result_with_correction(1);
  const json p = object_of(format_position(buffer, 12, "00ff", result), "position");
  REQUIRE(p["v"] == 1);
  REQUIRE(p["seq"] == 12);
  REQUIRE(p["frame_id"] == 813);
  REQUIRE(p["state"] == "locked");
  REQUIRE(p["valid"] == true);
  REQUIRE(p["x_nm"] == 0.5);
  REQUIRE(p["x_sd_nm"] == Approx(0.2));
  REQUIRE(p["y_sd_nm"] == Approx(0.3));
  REQUIRE(p["witness_x_nm"] == 0.3);
  REQUIRE(p["witnesses_used"] == 3);
  REQUIRE(p["in_lock"] == false);
  REQUIRE(p["moving"] == false);
  FrameResult still = result;
  still.in_lock = true;
  REQUIRE(object_of(format_position(buffer, 12, "00ff", still), "position")["in_lock"] == true);
  REQUIRE(object_of(format_correction(buffer, 1, "00ff", still, 77), "correction")["in_lock"] ==
          true);
}

TEST_CASE("A position says where moves have the sample, and a correction what part is theirs") {
  MessageBuffer buffer;
  FrameResult result = result_with_correction(1);
  result.moved_nm = {250.5, -7.25};
  result.moving = true;
  result.correction.move_nm = {-249, 8.5};
  json p = object_of(format_position(buffer, 12, "00ff", result), "position");
  CHECK(p["set_x_nm"] == 250.5);
  CHECK(p["set_y_nm"] == -7.25);
  CHECK(p["moving"] == true);
  const json c = object_of(format_correction(buffer, 1, "00ff", result, 77), "correction");
  CHECK(c["move_x_nm"] == -249.0);
  CHECK(c["move_y_nm"] == 8.5);
  for (const auto state : {driftd::control::LockState::Holding, driftd::control::LockState::Idle,
                           driftd::control::LockState::Lost}) {
    result.state = state;
    p = object_of(format_position(buffer, 12, "00ff", result), "position");
    CHECK(p["set_x_nm"].is_null() == (state != driftd::control::LockState::Holding));
    CHECK(p["set_y_nm"].is_null() == (state != driftd::control::LockState::Holding));
  }
}

TEST_CASE("What does not exist or is not finite is null") {
  MessageBuffer buffer;
  FrameResult result = result_with_correction(1);
  result.drift.valid = false;
  result.drift.witness_valid = false;
  json p = object_of(format_position(buffer, 0, "00ff", result), "position");
  for (const char* key : {"x_nm", "y_nm", "x_sd_nm", "y_sd_nm", "xy_cov_nm2", "frame_x_nm",
                          "frame_y_nm", "witness_x_nm", "witness_y_nm"}) {
    REQUIRE(p[key].is_null());
  }
  result.drift.valid = true;
  result.drift.drift_nm = {std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()};
  result.drift.covariance_nm2.xx = -1;
  p = object_of(format_position(buffer, 0, "00ff", result), "position");
  for (const char* key : {"x_nm", "y_nm", "x_sd_nm"}) REQUIRE(p[key].is_null());
}

TEST_CASE("A correction names its limits") {
  MessageBuffer buffer;
  FrameResult result = result_with_correction(4);
  json c = object_of(format_correction(buffer, 1, "00ff", result, 77), "correction");
  REQUIRE(c["lock_id"] == 4);
  REQUIRE(c["sent_ns"] == 77);
  REQUIRE(c["delta_x_nm"] == -0.125);
  REQUIRE(c["limited"] == json::array());
  result.correction.limited = driftd::control::kLimitStep | driftd::control::kLimitRange;
  c = object_of(format_correction(buffer, 1, "00ff", result, 77), "correction");
  REQUIRE(c["limited"] == json({"step", "range"}));
}

TEST_CASE("The longest messages fit their buffer") {
  MessageBuffer buffer;
  FrameResult result = result_with_correction(std::numeric_limits<std::uint64_t>::max());
  result.frame_id = std::numeric_limits<std::uint64_t>::max();
  result.camera_time_ns = result.arrival_ns = std::numeric_limits<std::int64_t>::min();
  result.state = driftd::control::LockState::Referencing;
  for (auto* v : {&result.drift.drift_nm, &result.drift.frame_drift_nm, &result.drift.witness_nm,
                  &result.correction.total_nm, &result.correction.delta_nm}) {
    *v = {-1e12, -1e12};  // a kilometre
  }
  result.drift.covariance_nm2 = {1e24, -1e24, 1e24};
  result.drift.markers_used = result.drift.markers_total = result.drift.witnesses_used = -100000;
  result.correction.limited = 7;
  result.axial = {.valid = true,
                  .z_nm = -1e12,
                  .variance_nm2 = 1e24,
                  .frame_z_nm = -1e12,
                  .frame_variance_nm2 = 1e24,
                  .witness_valid = true,
                  .witness_z_nm = -1e12};
  const std::string session = "0123456789abcdef";
  const auto seq = std::numeric_limits<std::uint64_t>::max();
  REQUIRE_NOTHROW(object_of(format_position(buffer, seq, session, result), "position"));
  REQUIRE_NOTHROW(object_of(
      format_correction(buffer, seq, session, result, std::numeric_limits<std::int64_t>::min()),
      "correction"));
}

TEST_CASE("a correction of z has a topic and a number of its own") {
  MessageBuffer buffer;
  FrameResult result = result_with_correction(1);
  result.measures_z = true;
  result.z.state = driftd::control::LockState::Locked;
  result.z.lock_id = 2;
  result.z.in_lock = true;
  result.z.correction = {{-18.204, 0}, {-0.104, 0}, driftd::control::kLimitStep, {3, 0}};
  const json c = object_of(format_axial(buffer, 7, "00ff", result, 77), "axial");
  CHECK(c["v"] == 1);
  CHECK(c["seq"] == 7);
  CHECK(c["lock_id"] == 2);
  CHECK(c["frame_id"] == 813);
  CHECK(c["sent_ns"] == 77);
  CHECK(c["expires_ns"] == result.expires_ns);
  CHECK(c["total_z_nm"] == -18.204);
  CHECK(c["delta_z_nm"] == -0.104);
  CHECK(c["move_z_nm"] == 3);
  CHECK(c["limited"] == json::array({"step"}));
  CHECK(c["in_lock"] == true);
  CHECK(c["probe"] == false);
  CHECK(c["coasting"] == false);
}

TEST_CASE("in_lock is of every lock that is engaged") {
  using driftd::control::LockState;
  MessageBuffer buffer;
  FrameResult result = result_with_correction(1);
  result.measures_z = true;
  const auto in_lock = [&](bool xy, LockState z_state, bool z) {
    result.in_lock = xy;
    result.z.state = z_state;
    result.z.in_lock = z;
    const json p = object_of(format_position(buffer, 1, "00ff", result), "position");
    CHECK(p["in_lock_z"] == z);
    CHECK(p["z_state"] == driftd::control::name_of(z_state));
    return p["in_lock"].get<bool>();
  };
  CHECK(in_lock(true, LockState::Idle, false));
  CHECK(in_lock(true, LockState::Locked, true));
  result.z_missing = true;
  CHECK_FALSE(in_lock(true, LockState::Idle, false));
  result.z_missing = false;
  CHECK_FALSE(in_lock(true, LockState::Locked, false));
  CHECK_FALSE(in_lock(true, LockState::Holding, false));
  CHECK_FALSE(in_lock(false, LockState::Locked, true));
  result.state = LockState::Idle;
  CHECK(in_lock(false, LockState::Locked, true));
  CHECK_FALSE(in_lock(false, LockState::Idle, false));
  result.measures_z = false;
  const json p = object_of(format_position(buffer, 1, "00ff", result), "position");
  CHECK(p["z_state"].is_null());
}
