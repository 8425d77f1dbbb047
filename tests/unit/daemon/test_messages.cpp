// SPDX-License-Identifier: MIT
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "daemon/loop/messages.hpp"
#include "records_for_tests.hpp"
#include "support/catch.hpp"

using namespace driftd::daemon;
using driftd::daemon::test::record_with_correction;
using nlohmann::json;

namespace {

json object_of(std::string_view message, std::string_view topic) {
  REQUIRE(message.substr(0, topic.size() + 1) == std::string(topic) + " ");
  return json::parse(message.substr(topic.size() + 1));
}

}  // namespace

TEST_CASE("A position says what was measured") {
  MessageBuffer buffer;
  const FrameResult record = record_with_correction(1);
  const json p = object_of(format_position(buffer, 12, "00ff", record), "position");
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
  FrameResult still = record;
  still.in_lock = true;
  REQUIRE(object_of(format_position(buffer, 12, "00ff", still), "position")["in_lock"] == true);
  REQUIRE(object_of(format_correction(buffer, 1, "00ff", still, 77), "correction")["in_lock"] ==
          true);
}

TEST_CASE("A position says where moves have the sample, and a correction what part is theirs") {
  MessageBuffer buffer;
  FrameResult record = record_with_correction(1);
  record.moved_nm = {250.5, -7.25};
  record.moving = true;
  record.correction.move_nm = {-249, 8.5};
  json p = object_of(format_position(buffer, 12, "00ff", record), "position");
  CHECK(p["set_x_nm"] == 250.5);
  CHECK(p["set_y_nm"] == -7.25);
  CHECK(p["moving"] == true);
  const json c = object_of(format_correction(buffer, 1, "00ff", record, 77), "correction");
  CHECK(c["move_x_nm"] == -249.0);
  CHECK(c["move_y_nm"] == 8.5);
  for (const auto state : {driftd::control::LockState::Holding, driftd::control::LockState::Idle,
                           driftd::control::LockState::Lost}) {
    record.state = state;
    p = object_of(format_position(buffer, 12, "00ff", record), "position");
    CHECK(p["set_x_nm"].is_null() == (state != driftd::control::LockState::Holding));
    CHECK(p["set_y_nm"].is_null() == (state != driftd::control::LockState::Holding));
  }
}

TEST_CASE("What does not exist or is not finite is null") {
  MessageBuffer buffer;
  FrameResult record = record_with_correction(1);
  record.drift.valid = false;
  record.drift.witness_valid = false;
  json p = object_of(format_position(buffer, 0, "00ff", record), "position");
  for (const char* key : {"x_nm", "y_nm", "x_sd_nm", "y_sd_nm", "xy_cov_nm2", "frame_x_nm",
                          "frame_y_nm", "witness_x_nm", "witness_y_nm"}) {
    REQUIRE(p[key].is_null());
  }
  record.drift.valid = true;
  record.drift.drift_nm = {std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()};
  record.drift.covariance_nm2.xx = -1;
  p = object_of(format_position(buffer, 0, "00ff", record), "position");
  for (const char* key : {"x_nm", "y_nm", "x_sd_nm"}) REQUIRE(p[key].is_null());
}

TEST_CASE("A correction names its limits") {
  MessageBuffer buffer;
  FrameResult record = record_with_correction(4);
  json c = object_of(format_correction(buffer, 1, "00ff", record, 77), "correction");
  REQUIRE(c["lock_id"] == 4);
  REQUIRE(c["sent_ns"] == 77);
  REQUIRE(c["delta_x_nm"] == -0.125);
  REQUIRE(c["limited"] == json::array());
  record.correction.limited = driftd::control::kLimitStep | driftd::control::kLimitRange;
  c = object_of(format_correction(buffer, 1, "00ff", record, 77), "correction");
  REQUIRE(c["limited"] == json({"step", "range"}));
}

TEST_CASE("The longest messages fit their buffer") {
  MessageBuffer buffer;
  FrameResult record = record_with_correction(std::numeric_limits<std::uint64_t>::max());
  record.frame_id = std::numeric_limits<std::uint64_t>::max();
  record.camera_time_ns = record.arrival_ns = std::numeric_limits<std::int64_t>::min();
  record.state = driftd::control::LockState::Referencing;
  for (auto* v : {&record.drift.drift_nm, &record.drift.frame_drift_nm, &record.drift.witness_nm,
                  &record.correction.total_nm, &record.correction.delta_nm}) {
    *v = {-1e12, -1e12};  // a kilometre
  }
  record.drift.covariance_nm2 = {1e24, -1e24, 1e24};
  record.drift.markers_used = record.drift.markers_total = record.drift.witnesses_used = -100000;
  record.correction.limited = 7;
  const std::string session = "0123456789abcdef";
  const auto seq = std::numeric_limits<std::uint64_t>::max();
  REQUIRE_NOTHROW(object_of(format_position(buffer, seq, session, record), "position"));
  REQUIRE_NOTHROW(object_of(
      format_correction(buffer, seq, session, record, std::numeric_limits<std::int64_t>::min()),
      "correction"));
}
