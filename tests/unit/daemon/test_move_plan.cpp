// SPDX-License-Identifier: MIT
// The command `move`: how a request is read, and what the limits make of it.
#include <cmath>
#include <limits>
#include <string>

#include "daemon/orders/move_plan.hpp"
#include "daemon/wire/answer.hpp"
#include "support/catch.hpp"

using namespace driftd::daemon;

using Catch::Matchers::WithinAbs;
using nlohmann::json;

namespace {

using Kind = MoveRequest::Kind;

std::string refused(const json& request) {
  try {
    read_move(request);
  } catch (const CommandRefused& error) {
    CHECK(error.code == Refusal::BadRequest);
    return error.text;
  }
  return "";
}

driftd::config::Config limited() {
  driftd::config::Config config = driftd::config::default_config();
  config.stage.image_to_stage = {{{0.5, 0}, {0, -2}}};
  config.control.step_limit_nm = 30;
  config.control.rate_limit_nm_per_s = 9000;
  config.control.range_limit_nm = 4000;
  config.control.travel_limit_nm = 6000;
  config.optics.pixel_size_nm = 100;
  return config;
}

LoopReport locked() {
  LoopReport loop;
  loop.frame_rate_hz = 500;
  return loop;
}

std::string refused_plan(const json& request, const driftd::config::Config& config,
                         const LoopReport& loop) {
  try {
    plan_move(read_move(request), config, loop);
  } catch (const CommandRefused& error) {
    CHECK(error.code == Refusal::Refused);
    return error.text;
  }
  return "";
}

TEST_CASE("each kind of request is read") {
  const MoveRequest to = read_move({{"x_nm", 12.5}, {"y_nm", -3}, {"speed_nm_per_s", 400}});
  CHECK(to.kind == Kind::To);
  REQUIRE(to.places.size() == 1);
  CHECK(to.places[0].place_nm.x == 12.5);
  CHECK(to.places[0].place_nm.y == -3);
  CHECK(to.places[0].speed_nm_per_s == 400);
  const MoveRequest by = read_move({{"dx_nm", -1}, {"dy_nm", 2}});
  CHECK(by.kind == Kind::By);
  CHECK(by.places[0].place_nm.x == -1);
  CHECK_FALSE(by.places[0].speed_nm_per_s.has_value());
  const MoveRequest home = read_move({{"home", true}, {"speed_nm_per_s", 7}});
  CHECK(home.kind == Kind::To);
  CHECK(home.places[0].place_nm.x == 0);
  CHECK(home.places[0].speed_nm_per_s == 7);
  CHECK(read_move(json::parse(R"({"stop": true})")).kind == Kind::Stop);
  const MoveRequest path = read_move(json::parse(R"({"speed_nm_per_s": 90, "repeat": 6, "path":
      [{"x_nm": 1, "y_nm": 2, "dwell_s": 0.5}, {"x_nm": 3, "y_nm": 4, "speed_nm_per_s": 20}]})"));
  REQUIRE(path.places.size() == 2);
  CHECK(path.repeats == 6);
  CHECK(path.places[0].dwell_s == 0.5);
  CHECK(path.places[0].speed_nm_per_s == 90);
  CHECK(path.places[1].place_nm.y == 4);
  CHECK(path.places[1].speed_nm_per_s == 20);
}

TEST_CASE("what makes no sense is refused in a sentence that says what does") {
  const json place = {{"x_nm", 1}, {"y_nm", 2}};
  CHECK_THAT(refused(json::object()), contains("`move` wants one of"));
  CHECK_THAT(refused({{"x_nm", 1}, {"y_nm", 2}, {"home", true}}), contains("one of"));
  CHECK_THAT(refused({{"home", false}}), contains("one of"));
  CHECK_THAT(refused({{"home", 1}}), contains("`home` is true or false"));
  CHECK(refused({{"x_nm", 1}}) == "`x_nm` and `y_nm` go together");
  CHECK(refused({{"dy_nm", 1}}) == "`dx_nm` and `dy_nm` go together");
  CHECK_THAT(refused({{"x_nm", "1"}, {"y_nm", 2}}),
             contains("`x_nm` is \"1\"; allowed is a number from"));
  CHECK_THAT(refused({{"x_nm", 1}, {"y_nm", 1e7}}),
             contains("`y_nm` is 10000000.0; allowed is a number from"));
  CHECK_THAT(refused({{"x_nm", 1}, {"y_nm", 2}, {"speed_nm_per_s", 0}}),
             contains("`speed_nm_per_s` is 0; allowed is a number from"));
  CHECK_THAT(refused({{"x_nm", 1}, {"y_nm", 2}, {"repeat", 2}}), contains("`path`"));
  CHECK_THAT(refused({{"x_nm", 1}, {"y_nm", 2}, {"dwell_s", 2}}), contains("`path`"));
  CHECK_THAT(refused({{"stop", true}, {"speed_nm_per_s", 2}}), contains("alone"));
  CHECK_THAT(refused({{"path", json::array()}}), contains("1 to 100 places"));
  CHECK_THAT(refused({{"path", std::vector<json>(101, place)}}),
             contains("`path` is a list of 101; allowed is a list of 1 to 100"));
  CHECK(refused({{"path", std::vector<json>(100, place)}}).empty());
  CHECK_THAT(refused({{"path", {place, 3}}}), contains("`path[1]` is an object"));
  CHECK_THAT(refused({{"path", {place, {{"x_nm", 3}}}}}),
             contains("`path[1].x_nm` and `path[1].y_nm` go together"));
  CHECK_THAT(refused({{"path", {{{"x_nm", 3}, {"y_nm", 4}, {"z_nm", 5}}}}}),
             contains("unknown field `path[0].z_nm`"));
  CHECK_THAT(refused({{"path", {{{"x_nm", 3}, {"y_nm", 4}, {"dwell_s", -1}}}}}),
             contains("`path[0].dwell_s` is -1; allowed is a number from 0"));
  for (const json& repeat : {json(0), json(-1), json(1.5), json(1'000'001), json("2")})
    CHECK_THAT(refused({{"path", {place}}, {"repeat", repeat}}),
               contains("`repeat` is a whole number from 1 to"));
}

TEST_CASE("a move is as fast as the limits allow along its way") {
  const auto config = limited();
  // The stage makes half of x: 0.75 * 9000 / 0.5; of y it makes twice as much.
  const MovePlan x = plan_move(read_move({{"x_nm", 600}, {"y_nm", 0}}), config, locked());
  CHECK(x.path.count == 1);
  CHECK_THAT(x.fastest_nm_per_s, WithinAbs(10'000, 1e-9));  // the usual one
  const MovePlan y = plan_move(read_move({{"x_nm", 0}, {"y_nm", -300}}), config, locked());
  CHECK_THAT(y.fastest_nm_per_s, WithinAbs(0.75 * 9000 / 2, 1e-9));
  CHECK_THAT(y.path.places[0].speed_nm_per_s, WithinAbs(0.75 * 9000 / 2, 1e-9));
  CHECK_THAT(y.duration_s, WithinAbs(300 / 3375.0 + 0.010 + 0.002, 1e-9));
  LoopReport slow = locked();
  slow.frame_rate_hz = 50;  // the step limit allows 30 nm * 50 Hz, and y takes two of the stage
  CHECK_THAT(plan_move(read_move({{"x_nm", 0}, {"y_nm", 9}}), config, slow).fastest_nm_per_s,
             WithinAbs(0.75 * 1500 / 2, 1e-9));
  CHECK_THAT(plan_move(read_move({{"x_nm", 9}, {"y_nm", 0}}), config, slow).fastest_nm_per_s,
             WithinAbs(0.75 * 1500 / 0.5, 1e-9));
  slow.frame_rate_hz = 20;  // one pixel of 100 nm a frame is less than 30 / 0.5 of them
  CHECK(plan_move(read_move({{"x_nm", 9}, {"y_nm", 0}}), config, slow).fastest_nm_per_s <= 2000);
}

TEST_CASE("a speed beyond the limits is refused, and the text says what they allow") {
  const auto config = limited();
  const json just = {{"x_nm", 0}, {"y_nm", 500}, {"speed_nm_per_s", 3375}};
  CHECK(refused_plan(just, config, locked()).empty());
  const json beyond = {{"x_nm", 0}, {"y_nm", 500}, {"speed_nm_per_s", 3376}};
  const std::string text = refused_plan(beyond, config, locked());
  CHECK_THAT(text, contains("3376 nm/s on the way to (x 0.0, y 500.0 nm) is too fast"));
  CHECK_THAT(text, contains("control.rate_limit_nm_per_s 9000"));
  CHECK_THAT(text, contains("allow 3375"));
  const json second = json::parse(R"({"path": [{"x_nm": 5, "y_nm": 0, "speed_nm_per_s": 9000},
      {"x_nm": 5, "y_nm": 5, "speed_nm_per_s": 9000}]})");
  CHECK_THAT(refused_plan(second, config, locked()), contains("(x 5.0, y 5.0 nm)"));
  // Run through again, the first place is reached another way.
  const json once = json::parse(R"({"path": [{"x_nm": 100, "y_nm": 0, "speed_nm_per_s": 9000},
      {"x_nm": 100, "y_nm": 10, "speed_nm_per_s": 3000}]})");
  CHECK(refused_plan(once, config, locked()).empty());
  json twice = once;
  twice["repeat"] = 2;
  CHECK_FALSE(refused_plan(twice, config, locked()).empty());
}

TEST_CASE("a place beyond the range or the travel is refused") {
  const auto config = limited();
  LoopReport loop = locked();
  loop.total_nm = {100, -400};
  loop.move.stage_nm = {40, -100};  // the lock itself has corrected 60 and -300
  loop.carried_nm = {0, -200};
  loop.travelled_nm = {2500, 0};
  const auto place = [](double x, double y) { return json{{"x_nm", x}, {"y_nm", y}}; };
  // x: 60 + x/2 + 2500 within 6000; y: -300 - 2 y - 200 within 4000.
  CHECK(refused_plan(place(6880, 0), config, loop).empty());
  const std::string x = refused_plan(place(6881, 0), config, loop);
  CHECK_THAT(x, contains("(x 6881.0, y 0.0 nm)"));
  CHECK_THAT(x, contains("its place at the first start in x"));
  CHECK_THAT(x, contains("control.travel_limit_nm is 6000"));
  CHECK(refused_plan(place(0, 1750), config, loop).empty());
  const std::string y = refused_plan(place(0, 1751), config, loop);
  CHECK_THAT(y, contains("-4002 nm from its place at lock in y"));
  CHECK_THAT(y, contains("control.range_limit_nm is 4000"));
  json path = json::object();
  path["path"] = {place(0, 0), place(0, 1751)};
  CHECK_FALSE(refused_plan(path, config, loop).empty());
}

TEST_CASE("a relative move counts from where the one before ends") {
  LoopReport loop = locked();
  loop.move.set_nm = {130, 5};
  loop.move.goal_nm = {500, -20};
  const MovePlan plan = plan_move(read_move({{"dx_nm", 10}, {"dy_nm", -30}}), limited(), loop);
  CHECK(plan.path.places[0].place_nm.x == 510);
  CHECK(plan.path.places[0].place_nm.y == -50);
  // ... and takes as long as from where the set-point is.
  CHECK(plan.duration_s > 380 / plan.fastest_nm_per_s);
}

TEST_CASE("where the set-point is already there is no way") {
  const MovePlan plan = plan_move(read_move(json::parse(R"({"home": true})")), limited(), locked());
  CHECK(plan.fastest_nm_per_s == 0);
  CHECK(plan.duration_s < 0.01);
  CHECK(plan.path.count == 1);
}

}  // namespace

TEST_CASE("z has a part of its own in a request, and limits and a curve of its own") {
  MoveRequests moves = read_moves({{"z_nm", 40}, {"speed_nm_per_s", 300}});
  CHECK_FALSE(moves.xy);
  REQUIRE(moves.z);
  CHECK(moves.z->places[0].place_nm.x == 40);
  CHECK(moves.z->places[0].speed_nm_per_s == 300);
  moves = read_moves({{"dx_nm", 1}, {"dy_nm", 2}, {"dz_nm", -3}});
  REQUIRE((moves.xy && moves.z));
  CHECK(moves.xy->kind == Kind::By);
  CHECK(moves.z->places[0].place_nm.x == -3);
  CHECK_FALSE(moves.of_any);
  moves = read_moves(json::parse(R"({"home": true, "axes": "z"})"));
  CHECK((moves.z && !moves.xy));
  CHECK(read_moves(json::parse(R"({"stop": true})")).of_any);
  for (const char* bad : {R"({"z_nm": 1, "dz_nm": 1})", R"({"z_nm": 1, "home": true})",
                          R"({"z_nm": 1, "dwell_s": 1})", R"({"z_nm": "up"})",
                          R"({"x_nm": 1, "y_nm": 1, "axes": "z"})"})
    CHECK_THROWS_AS(read_moves(json::parse(bad)), CommandRefused);

  driftd::config::Config config = limited();
  config.axial.method = driftd::control::AxialMethod::Astigmatic;
  config.axial_stage.gain = -2;
  config.axial.range_limit_nm = 1000;
  LoopReport loop = locked();
  loop.axial.valid = true;
  loop.axial.z_nm = 10;
  loop.axial.curve_below_nm = 400;
  loop.axial.curve_above_nm = 300;
  const auto refused_z = [&](double z_nm) {
    try {
      plan_move(*read_moves({{"z_nm", z_nm}}).z, config, loop, AxisGroup::Axial);
    } catch (const CommandRefused& refused) {
      return refused.text;
    }
    return std::string();
  };
  CHECK(refused_z(150).empty());   // 160 nm are left above
  CHECK(refused_z(-230).empty());  // and 160 below
  CHECK(refused_z(170).find("axial.curve") != std::string::npos);
  CHECK(refused_z(-250).find("axial.curve") != std::string::npos);
  CHECK_THAT(refused_z(400), contains("90 nm beyond the end of the curve"));
  loop.axial.curve_above_nm = 100;  // too near already: away from there it may go
  CHECK(refused_z(5).empty());
  CHECK_FALSE(refused_z(15).empty());
  config.axial.method = driftd::control::AxialMethod::Reflection;
  CHECK(refused_z(-501).find("axial.range_limit_nm") != std::string::npos);
  CHECK(refused_z(-499).empty());
}

TEST_CASE("z is not moved to where the reflected spot is out of its region") {
  driftd::config::Config config = limited();
  config.axial.method = driftd::control::AxialMethod::Reflection;
  config.axial.range_limit_nm = 5000;
  // 24 pixels from 117 to 140; a spot of 1.5 px is read 3 px inside.
  config.reflection = {.x_px = 128.5, .y_px = 40.5, .roi_px = 24, .nm_per_px = 30, .angle_deg = 0};
  LoopReport loop = locked();
  loop.axial.valid = true;
  loop.axial.z_nm = 60;  // by two pixels
  loop.spot_zero = {
      .along_px = 127, .across_px = 41, .variance_px2 = 0, .sigma_px = 1.5, .light = 1};
  const auto refused_z = [&](double z_nm) {
    try {
      plan_move(*read_moves({{"z_nm", z_nm}}).z, config, loop, AxisGroup::Axial);
    } catch (const CommandRefused& refused) {
      return refused.text;
    }
    return std::string();
  };
  // From 127 it is 7 px back to 120 and 10 on to 137; one pixel is left.
  CHECK(refused_z(-179).empty());
  CHECK_THAT(refused_z(-181), contains("axial.reflection"));
  CHECK(refused_z(269).empty());
  CHECK_THAT(refused_z(271), contains("29 nm from where the reflected spot is read"));
  CHECK_THAT(refused_z(400), contains("100 nm beyond where the reflected spot is read"));
  config.reflection.nm_per_px = -30;
  loop.axial.z_nm = -60;
  CHECK(refused_z(179).empty());
  CHECK_FALSE(refused_z(181).empty());
  CHECK(refused_z(-269).empty());
  CHECK_FALSE(refused_z(-271).empty());
  // Along the rows, x and y in exchange: 3 px from 41 to the edge at 49 less 3.
  config.reflection.nm_per_px = 30;
  config.reflection.angle_deg = 90;
  loop.axial.z_nm = 0;
  loop.spot_zero->along_px = 41;
  loop.spot_zero->across_px = -127;
  CHECK(refused_z(209).empty());
  CHECK_FALSE(refused_z(211).empty());
  loop.axial.valid = false;  // nothing is known
  CHECK(refused_z(2000).empty());
}
