// SPDX-License-Identifier: MIT
// What driftctl reads out of a calibration's result, says of it, proposes and draws.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "clients/common/calibration/stage_calibration.hpp"
#include "clients/driftctl/stage/step_plot.hpp"
#include "support/catch.hpp"

namespace driftd::clients {
namespace {

using nlohmann::json;

json matrix_json(double degrees, double factor, bool mirrored = false) {
  const double c = factor * std::cos(degrees * std::numbers::pi / 180);
  const double s = factor * std::sin(degrees * std::numbers::pi / 180);
  const double hand = mirrored ? -1 : 1;
  return {{c, -s * hand}, {s, c * hand}};
}

json result(const json& matrix) {
  return {
      {"image_to_stage", matrix},
      {"image_to_stage_sd", {{0.001, 0.001}, {0.001, 0.001}}},
      {"delay_us", 3104.4},
      {"delay_sd_us", 40},
      {"time_constant_us", 1200},
      {"time_constant_sd_us", 50},
      {"present",
       {{"image_to_stage", {{1, 0}, {0, 1}}},
        {"delay_us", 3030},
        {"time_constant_us", 1000},
        {"integral", 0.3},
        {"proportional", 0},
        {"residual_nm", 2.125}}},
      {"proposal",
       {{"stage", {{"image_to_stage", matrix}, {"delay_us", 3104.4}, {"time_constant_us", 1200}}},
        {"control", {{"integral", 0.35049}, {"proportional", -0.0}}},
        {"residual_nm", 0.5}}},
      {"pixel_size", {{"configured_nm", 100}, {"ratio", 1}, {"ratio_sd", 0.001}}}};
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    CHECK(line.size() <= 80);
    CHECK((line.empty() || line.back() != ' '));
    text += line + '\n';
  }
  return text;
}

std::string value_of(const std::vector<std::pair<std::string, std::string>>& values,
                     const std::string& key) {
  const auto found = std::ranges::find(values, key, &std::pair<std::string, std::string>::first);
  return found == values.end() ? "none" : found->second;
}

TEST_CASE("what was measured stands beside what is configured") {
  const std::string text = joined(findings(read_calibration(result(matrix_json(30, 1, true)))));
  CHECK_THAT(text, contains("[1][0]         0.5000      0.0010      0.0000   differs"));
  CHECK_THAT(text,
             contains("dead time                    3104 us       40 us     3030 us   agrees"));
  CHECK_THAT(text,
             contains("time constant                1200 us       50 us     1000 us   differs"));
  CHECK_THAT(text, contains("axes in the image: turned by 30.00 degrees, mirrored."));
  CHECK_THAT(text, contains("as configured:               turned by 0.00 degrees, not mirrored."));
}

TEST_CASE("what was measured of a second order stands beside what is configured, if that has one") {
  json r = result(matrix_json(0, 1));
  CHECK_THAT(joined(findings(read_calibration(r))), !contains("resonance"));
  r.update({{"order", 2}, {"time_constant_us", nullptr}, {"time_constant_sd_us", nullptr}});
  r.update({{"resonance_hz", 12.34}, {"resonance_sd_hz", 0.2}});
  r.update({{"damping", 0.651}, {"damping_sd", 0.02}});
  std::string text = joined(findings(read_calibration(r)));
  CHECK_THAT(text, contains("resonance                    12.3 Hz      0.2 Hz\n"));
  CHECK_THAT(text, contains("damping                        0.651       0.020\n"));
  CHECK_THAT(text, contains("The stage responds in the second order.\n"));
  r["present"].update({{"resonance_hz", 12.5}, {"damping", 0.8}});
  text = joined(findings(read_calibration(r)));
  CHECK_THAT(text,
             contains("resonance                    12.3 Hz      0.2 Hz     12.5 Hz   agrees"));
  CHECK_THAT(text,
             contains("damping                        0.651       0.020       0.800   differs"));
  CHECK_THAT(text, !contains("time constant"));
}

TEST_CASE(
    "a stage of second order is proposed with its frequency and damping, and a former one is "
    "ended") {
  json r = result(matrix_json(0, 1));
  CHECK(value_of(proposed_values(read_calibration(r), {}), "stage.resonance_hz") == "none");
  r["present"].update({{"resonance_hz", 0}, {"damping", 0.7}});
  r["proposal"]["stage"].update({{"resonance_hz", 7.854}, {"damping", 0.6512}});
  auto values = proposed_values(read_calibration(r), {});
  CHECK(value_of(values, "stage.resonance_hz") == "7.854");
  CHECK(value_of(values, "stage.damping") == "0.651");
  CHECK(value_of(values, "stage.time_constant_us") == "none");
  r["present"]["resonance_hz"] = 12;
  r["proposal"]["stage"]["resonance_hz"] = 0;
  values = proposed_values(read_calibration(r), {});
  CHECK(value_of(values, "stage.resonance_hz") == "0");
  CHECK(value_of(values, "stage.damping") == "none");
  CHECK(value_of(values, "stage.time_constant_us") == "1200");
}

TEST_CASE("what is configured is compared with what means the same") {
  json r = result(matrix_json(0, 1));
  r["delay_us"] = 4104.4;
  r["waiting_us"] = 1000;  // of the delay; stage.delay_us is without it
  CHECK_THAT(joined(findings(read_calibration(r))),
             contains("dead time                    3104 us       40 us     3030 us   agrees"));
  r["order"] = 2;  // the configuration's are of a first order
  const std::string text = joined(findings(read_calibration(r)));
  CHECK_THAT(text, contains("dead time                    3104 us       40 us     3030 us\n"));
  CHECK_THAT(text, contains("time constant                1200 us       50 us     1000 us\n"));
}

TEST_CASE("the way that axes lie is that of the matrix") {
  for (const double degrees : {-170.0, -90.0, -7.0, 0.0, 45.0, 135.0}) {
    for (const bool mirrored : {false, true}) {
      // The image shows the stage's turn, and the matrix turns it back; a mirrored turn is its own
      // inverse.
      const json r = result(matrix_json(mirrored ? degrees : -degrees, 1.3, mirrored));
      CHECK_THAT(joined(findings(read_calibration(r))),
                 contains("image: turned by " + std::to_string(static_cast<int>(degrees)) +
                          ".00 degrees, " + (mirrored ? "mirrored" : "not mirrored")));
    }
  }
}

TEST_CASE("nothing known is said without a number") {
  const StageCalibration c = read_calibration(json::object());
  CHECK_THAT(joined(findings(c)), contains("dead time                          -           -\n"));
  CHECK(proposed_values(c, std::nullopt).empty());
  CHECK(joined(proposal_lines(c, {})) == "Nothing is proposed.\n");
  CHECK_FALSE(pixel_size_question(c));
  json half = result({{1, nullptr}, {0, 1}});
  half["markers"] = {{{"id", 1}, {"noise_nm", nullptr}}, {{"id", 2}, {"noise_nm", 0.5}}};
  half["spectrum"] = {{"frequency_hz", {0, 1}}, {"x_nm2_per_hz", {nullptr, 1}}};
  const StageCalibration known = read_calibration(half);
  CHECK_FALSE(known.image_to_stage);
  CHECK(known.markers.size() == 1);
  CHECK(value_of(proposed_values(known, std::nullopt), "stage.image_to_stage") == "none");
  joined(findings(known));
}

TEST_CASE("what is no result is refused") {
  for (const char* const field : {"image_to_stage", "delay_us", "markers", "mirrored", "scale"}) {
    json r = result(matrix_json(0, 1));
    r[field] = "fast";
    CHECK_THROWS_AS(read_calibration(r), json::exception);
  }
  json r = result(matrix_json(0, 1));
  r["scale"] = {1};
  CHECK_THROWS_AS(read_calibration(r), json::exception);
}

TEST_CASE("vibrations are found in the spectrum at their place, wherever it begins") {
  for (const int first : {0, 1, 8}) {
    json r = result(matrix_json(0, 1));
    json frequency = json::array(), x = json::array(), y = json::array();
    for (int i = first; i < 400; ++i) {
      frequency.push_back(0.25 * i);
      x.push_back(i == 200 ? 2 * 0.36 : 1e-4);  // 0.6 nm: A^2 / 2 over a bin of 0.25 Hz
      y.push_back(1e-4);
    }
    r["spectrum"] = {{"frequency_hz", frequency}, {"x_nm2_per_hz", x}, {"y_nm2_per_hz", y}};
    const std::string text = joined(findings(read_calibration(r)));
    CHECK_THAT(text, contains("vibrations in x         0.60 nm 50.00 Hz\n"));
    CHECK_THAT(text, contains("vibrations in y         none stands out\n"));
  }
}

TEST_CASE("the noisiest markers come first") {
  json r = result(matrix_json(0, 1));
  r["markers"] = {{{"id", 1}, {"noise_nm", 0.5}},
                  {{"id", 2}, {"noise_nm", 3.0}},
                  {{"id", 3}, {"noise_nm", 1.0}}};
  CHECK_THAT(joined(findings(read_calibration(r))),
             contains("2: 3.00, 3: 1.00, 1: 0.50 nm; median of 3: 1.00"));
}

TEST_CASE("values are proposed as the configuration takes them") {
  const StageCalibration c = read_calibration(result(matrix_json(90, 1)));
  const auto values = proposed_values(c, std::nullopt);
  CHECK(value_of(values, "stage.image_to_stage") == "[[0, -1], [1, 0]]");
  CHECK(value_of(values, "stage.delay_us") == "3104");
  CHECK(value_of(values, "control.integral") == "0.35");
  CHECK(value_of(values, "control.proportional") == "0");
  CHECK(value_of(values, "optics.pixel_size_nm") == "none");
  const std::string text = joined(proposal_lines(c, values));
  CHECK_THAT(
      text,
      contains("stage.image_to_stage:   [[0, -1], [1, 0]]        instead of [[1, 0], [0, 1]]"));
  CHECK_THAT(text, contains("control.proportional:   0  (as it is)"));
  CHECK_THAT(text, contains("leave: 0.50 nm; as configured now: 2.12 nm."));
}

TEST_CASE("what would not hold, or hold worse, is not proposed") {
  const auto proposed = [](const json& residual_nm, const json& present_nm) {
    json r = result(matrix_json(90, 1));
    r["proposal"]["residual_nm"] = residual_nm;
    r["present"]["residual_nm"] = present_nm;
    const StageCalibration c = read_calibration(r);
    const auto values = proposed_values(c, std::nullopt);
    CHECK(values.empty() == !why_not_proposed(c).empty());
    if (values.empty())
      CHECK_THAT(joined(proposal_lines(c, values)), contains("Nothing is proposed: "));
    return !values.empty();
  };
  CHECK(proposed(2.5, 2.125));
  CHECK(proposed(2.5, nullptr));
  CHECK(proposed(99, 1e9));
  CHECK_FALSE(proposed(2.6, 2.125));
  CHECK_FALSE(proposed(nullptr, 2.125));
  CHECK_FALSE(proposed(101, nullptr));
  CHECK_FALSE(proposed(101, 1e9));
}

TEST_CASE("the noise of the stage stands in the column of x") {
  json r = result(matrix_json(0, 1));
  r["noise_nm"] = {0.4, 0.41};
  r["stage_noise_nm"] = 0.21;
  const std::string text = joined(findings(read_calibration(r)));
  CHECK_THAT(text, contains("noise of a frame               0.400       0.410 nm\n"));
  CHECK_THAT(text, contains("noise of the stage             0.210 nm\n"));
}

TEST_CASE("a factor common to all lengths may be the pixel's") {
  for (const bool mirrored : {false, true}) {
    const StageCalibration c = read_calibration(result(matrix_json(20, 1.03, mirrored)));
    const auto question = pixel_size_question(c);
    REQUIRE(question);
    // The stage went 103 nm where the image, in pixels of 100 nm, shows 100: a pixel is 103 nm.
    CHECK(question->pixel_nm == Approx(103));
    CHECK(question->stage_moves_by == Approx(1 / 1.03));
    const auto values = proposed_values(c, question);
    CHECK(value_of(values, "optics.pixel_size_nm") == "103");
    CHECK(value_of(values, "stage.image_to_stage") ==
          (mirrored ? "[[0.93969, 0.34202], [0.34202, -0.93969]]"
                    : "[[0.93969, -0.34202], [0.34202, 0.93969]]"));
    CHECK_THAT(joined(question_lines(*question)),
               contains("a pixel is 103.000 nm instead of 100 nm"));
  }
}

TEST_CASE("no question where the matrix does not raise it") {
  const auto asks = [](const json& matrix) {
    return pixel_size_question(read_calibration(result(matrix))).has_value();
  };
  CHECK_FALSE(asks(matrix_json(20, 1.004)));     // too little
  CHECK_FALSE(asks({{1.03, 0}, {0, 1.08}}));     // axes that differ
  CHECK_FALSE(asks({{1.03, 0.05}, {0, 1.03}}));  // axes that are not square
  CHECK_FALSE(asks({{0, 0}, {0, 0}}));
  CHECK(asks({{1.03, 0.005}, {0.005, 1.035}}));
  json uncertain = result(matrix_json(20, 1.03));
  uncertain["pixel_size"]["ratio_sd"] = 0.02;
  CHECK_FALSE(pixel_size_question(read_calibration(uncertain)));
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST_CASE("a picture has the curves where their values are") {
  const double nan = std::nan("");
  const StepResponse response{
      .time_ms = {0, 5, 10}, .x = {0, 1, 1}, .y = {0, nan, 1}, .model = {0, 0.5, 1.1}};
  const std::string svg = draw_step_response(response, "R & D <1 ms>\x01");
  // The frame is 770 px wide from 75; values from -0.1 to 1.1 over 396 px up from 450.
  CHECK_THAT(svg, contains("<path d=\"M75.0 417.0L460.0 87.0L845.0 87.0\""));
  CHECK_THAT(svg, contains("<path d=\"M75.0 417.0M845.0 87.0\""));
  CHECK(count(svg, "<path ") == 3);
  CHECK_THAT(svg, contains("R &amp; D &lt;1 ms&gt; <"));
  CHECK_THAT(svg, contains("time since the command (ms)"));
  CHECK_THAT(svg, contains(">10</text>"));
  CHECK(count(svg, ">0.4</text>") == 1);
  CHECK(svg.find("nan") == std::string::npos);
}

TEST_CASE("what cannot be drawn is said") {
  CHECK_THROWS_WITH(draw_step_response({}, ""), contains("no step response"));
  CHECK_THROWS_WITH(draw_step_response({.time_ms = {1, 1}, .x = {0, 1}, .y = {}, .model = {}}, ""),
                    contains("no step response"));
  CHECK_THROWS_WITH(draw_step_response({.time_ms = {1, 2}, .x = {0}, .y = {}, .model = {}}, ""),
                    contains("different lengths"));
  const std::string one =
      draw_step_response({.time_ms = {1, 2}, .x = {0, 400}, .y = {}, .model = {}}, "");
  CHECK(count(one, "<path ") == 1);
}

}  // namespace
}  // namespace driftd::clients
