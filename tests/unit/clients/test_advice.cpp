// SPDX-License-Identifier: MIT
// What is advised, by the status that a daemon tells.
#include <algorithm>
#include <string>
#include <vector>

#include "clients/common/measure/advice.hpp"
#include "support/catch.hpp"
#include "support/protocol_examples.hpp"

using driftd::clients::Advice;
using driftd::clients::advice_of;
using nlohmann::json;

namespace {

json axis(const char* name) {
  return {{"axis", name},
          {"learnt", true},
          {"surprise", 1.0},
          {"stage_gain", 1.0},
          {"stage_late_us", 100.0},
          {"lines", json::array()},
          {"forecast",
           {{"total_nm", 0.25},
            {"motion_nm", 0.10},
            {"markers_nm", 0.06},
            {"stage_nm", 0.22},
            {"lag_nm", 0.02}}}};
}

json locked() {
  return {{"state", "locked"},
          {"control",
           {{"law", "observer"}, {"reason", "configured"}, {"axes", {axis("x"), axis("y")}}}},
          {"residual", {{"out_of_loop", {{"sample_x_nm", 0.27}, {"sample_y_nm", 0.24}}}}}};
}

json with_line(double hz, double nm, double q) {
  json status = locked();
  status["control"]["axes"][0]["lines"] = {{{"frequency_hz", hz}, {"amplitude_nm", nm}, {"q", q}}};
  return status;
}

/// The texts of a code; joined where there are several.
std::string said(const json& status, const std::string& code, const std::string& of = "x") {
  std::string texts;
  for (const Advice& one : advice_of(status))
    if (one.code == code && one.axis == of) texts += one.text;
  return texts;
}

TEST_CASE("advice: of z by its own lock, whatever that of x and y does") {
  json status = locked();
  json z = status["control"];
  z["axes"] = {axis("z")};
  z["axes"][0].update({{"stage_gain", 1.5}, {"forecast", {{"total_nm", 0.6}, {"lag_nm", 0.5}}}});
  status["axial"] = {{"lock", {{"state", "holding"}, {"control", z}}}};
  CHECK(said(status, "forecast", "z").empty());
  status["axial"]["lock"]["state"] = "locked";
  CHECK_THAT(said(status, "forecast", "z"), contains("0.60 nm can be held"));
  CHECK_THAT(said(status, "lag", "z"), contains("axial.step_limit_nm"));
  CHECK_THAT(said(status, "stage_model", "z"), contains("axial.stage.gain"));
  CHECK_THAT(said(status, "forecast"), contains("0.25 nm can be held"));
  status["axial"]["lock"]["control"]["law"] = "pi";
  CHECK(said(status, "pi", "").empty());
  CHECK_FALSE(said(status, "pi", "z").empty());
  status["state"] = "lost";
  CHECK_THAT(said(status, "not_locked", ""), contains("of x and y while the state is lost"));
  CHECK(said(status, "forecast").empty());
  CHECK_FALSE(said(status, "forecast", "z").empty());
  status["axial"]["lock"] = nullptr;
  CHECK(advice_of(status).size() == 1);
}

TEST_CASE("advice: what can be held, and which part of it is worth something") {
  const json status = locked();
  CHECK_THAT(said(status, "forecast"), contains("0.25 nm can be held"));
  CHECK_THAT(said(status, "forecast", "y"), contains("the stage's 0.22"));
  CHECK_THAT(said(status, "stage_noise"), contains("0.22 of 0.25 nm"));
  CHECK_THAT(said(status, "markers"), contains("more light would not help"));
  CHECK(said(status, "motion").empty());
  CHECK(said(status, "lag").empty());
  CHECK(said(status, "more_than_forecast", "").empty());
}

TEST_CASE("advice: of the status that the protocol's page shows") {
  const json status = driftd::test::protocol_examples().at("status");
  for (const char* name : {"x", "y"}) {
    CHECK_THAT(said(status, "forecast", name), contains("0.25 nm can be held"));
    CHECK_THAT(said(status, "stage_noise", name), contains("0.20 of 0.25 nm"));
  }
  CHECK_THAT(said(status, "line"), contains("at 12.3 Hz (Q 3900)"));
}

TEST_CASE("advice: before a whole record was seen no noise is laid on the stage") {
  json status = locked();
  status["control"]["axes"][0]["forecast"]["stage_known_in_s"] = 12.3;
  CHECK_THAT(said(status, "learning"), contains("0.25 nm can be held") &&
                                           contains("markers and stage together 0.23") &&
                                           contains("in 13 s of lock"));
  for (const char* code : {"forecast", "stage_noise", "markers"}) CHECK(said(status, code).empty());
  CHECK_THAT(said(status, "stage_noise", "y"), contains("0.22 of 0.25 nm"));
}

TEST_CASE("advice: faint markers, a slow stage, a sample that moves too fast") {
  json status = locked();
  json& forecast = status["control"]["axes"][0]["forecast"];
  forecast = {{"total_nm", 0.5},
              {"motion_nm", 0.25},
              {"markers_nm", 0.3},
              {"stage_nm", 0.01},
              {"lag_nm", 0.31}};
  CHECK_THAT(said(status, "markers"), contains("would help: without their noise 0.40 nm"));
  CHECK_THAT(said(status, "motion"), contains("0.25 nm before a command"));
  CHECK_THAT(said(status, "lag"), contains("does not follow 0.31 nm"));
  CHECK(said(status, "stage_noise").empty());
}

TEST_CASE("advice: a line and what it may be") {
  CHECK_THAT(said(with_line(29.7, 1.84, 900), "line"),
             contains("a line of 1.8 nm at 29.7 Hz (Q 900): something that turns evenly"));
  CHECK_THAT(said(with_line(50.02, 0.6, 2000), "line"), contains("mains"));
  CHECK_THAT(said(with_line(119.9, 0.6, 2000), "line"), contains("mains"));
  CHECK_THAT(said(with_line(2.1, 2, 20), "line"), contains("table"));
  CHECK_THAT(said(with_line(180, 2, 10), "line"), contains("rings when it is knocked"));
  CHECK_THAT(said(with_line(51.5, 2, 100), "line"), contains("fan or a pump, or"));
  // A small line is no matter beside what is left anyhow.
  CHECK(said(with_line(29.7, 0.05, 900), "line").empty());
}

TEST_CASE("advice: a line that frames show where others are, too, is named with these") {
  json status = with_line(3, 1, 2000);
  json& line = status["control"]["axes"][0]["lines"][0];
  line["followed"] = true;
  line["look_alikes_hz"] = {97.0, 103.0, 197.0};
  CHECK_THAT(said(status, "line"),
             contains("a fan or a pump? Or it is 97, 103, 197 Hz, which look the same"));
  line["followed"] = false;
  line["look_alikes_hz"] = {27.0, 33.0, 57.0, 63.0};
  CHECK(said(status, "line").empty());
  CHECK_THAT(said(status, "alias"),
             contains("1.0 nm is seen at 3.0 Hz; it is that, or 27, 33, 57, 63 Hz") &&
                 contains("does not follow it: below 44 frames/s"));
  line["look_alikes_hz"] = json::array();
  line["verified"] = true;
  line["alias_of_hz"] = 97.0;
  CHECK_THAT(said(status, "alias"),
             contains("1.0 nm is seen at 3.0 Hz; it is an alias of 97.0 Hz"));
}

TEST_CASE("advice: a stage that is not as described, and a sample that changed its ways") {
  json status = locked();
  status["control"]["axes"][1]["stage_gain"] = 0.85;
  status["control"]["axes"][1]["surprise"] = 2.4;
  CHECK_THAT(said(status, "stage_model", "y"), contains("0.85 times as far"));
  CHECK(said(status, "stage_model").empty());
  CHECK_THAT(said(status, "surprise", "y"), contains("otherwise than it did"));
  status["control"]["axes"][0]["stage_late_us"] = -400.0;
  CHECK_THAT(said(status, "stage_model"), contains("0.4 ms sooner"));
  status["residual"]["out_of_loop"]["sample_x_nm"] = 0.6;
  CHECK_THAT(said(status, "more_than_forecast", ""), contains("show 0.46 nm where 0.25"));
}

TEST_CASE("advice: it always says something, and never what is not known") {
  json status = {{"state", "idle"}};
  REQUIRE(advice_of(status).size() == 1);
  CHECK_THAT(said(status, "not_locked", ""), contains("idle"));
  status = locked();
  status["control"]["axes"] = json::array();
  CHECK(advice_of(status)[0].code == "nothing_learnt");
  status["control"]["law"] = "pi";
  status["control"]["reason"] = "worse_than_pi";
  CHECK_THAT(said(status, "pi", ""), contains("the observer left more"));
  status["control"]["reason"] = "driver_too_slow";
  CHECK_THAT(said(status, "pi", ""), contains("a faster driver, or a slower camera"));
  status = locked();
  for (json& one : status["control"]["axes"]) one["forecast"] = nullptr;
  status["residual"]["out_of_loop"] = nullptr;
  CHECK(said(status, "forecast").empty());
  CHECK(said(status, "more_than_forecast", "").empty());
  status["control"]["axes"][0]["learnt"] = false;
  status["control"]["axes"][0]["frames_to_learn"] = 150;
  status["camera"]["rate_hz"] = 4.99;
  CHECK_THAT(said(status, "learning"), contains("not learnt yet") && contains("150 frames more") &&
                                           contains("31 s at 4.99 frames/s"));
  status.erase("camera");
  CHECK_THAT(said(status, "learning"), contains("150 frames more while locked"));
  status["control"]["axes"][0]["frames_to_learn"] = 0;
  CHECK_THAT(said(status, "learning"), contains("say no more than it knew before"));
  CHECK_FALSE(advice_of(json::object()).empty());
  CHECK_FALSE(advice_of({{"state", "locked"}, {"control", 3}}).empty());
}

}  // namespace
