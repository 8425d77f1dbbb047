// SPDX-License-Identifier: MIT
// What `driftctl measure` says of motions whose drift, noise and vibrations the test has made.
#include <cmath>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "clients/common/measure/measurement.hpp"
#include "support/catch.hpp"

namespace driftd::clients {
namespace {

using nlohmann::json;

constexpr double kRate = 400;

struct Motion {
  double drift_nm_per_s = 0, noise_nm = 0;
  std::vector<VibrationLine> lines;
};

std::vector<double> places(const Motion& motion, std::size_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> nm;
  for (std::size_t i = 0; i < count; ++i) {
    const double t = static_cast<double>(i) / kRate;
    double place = 30 + motion.drift_nm_per_s * t + motion.noise_nm * normal(random);
    for (const VibrationLine& line : motion.lines)
      place += line.amplitude_nm * std::sin(2 * std::numbers::pi * line.frequency_hz * t + 0.7);
    nm.push_back(place);
  }
  return nm;
}

json position(std::uint64_t frame_id, double x_nm, double y_nm) {
  const auto since_ns =
      static_cast<std::int64_t>(1e9 / kRate) * static_cast<std::int64_t>(frame_id);
  return {{"session", "a"},
          {"state", "idle"},
          {"valid", true},
          {"frame_id", frame_id},
          {"frame_x_nm", x_nm},
          {"frame_y_nm", y_nm},
          {"x_sd_nm", 0.3},
          {"y_sd_nm", 0.2},
          {"camera_time_ns", 3'000'000 + since_ns},
          {"arrival_ns", 7'000'000 + since_ns}};
}

TEST_CASE("drift, noise and vibrations are those that were made") {
  const AxisReport r =
      analyse_axis(places({-4, 0.4, {{1.7, 0.6}, {49.9, 0.2}}}, 24'000), kRate);  // a minute
  // The line at 1.7 Hz alone makes up to 1 nm/min of slope in a minute, and 10 in an eighth of it.
  CHECK(r.drift_nm_per_min == Approx(-240).margin(1));
  CHECK(r.drift_sd_nm_per_min > 0);
  CHECK(r.drift_sd_nm_per_min < 5);
  CHECK(r.frame_noise_nm == Approx(0.4).epsilon(0.03));
  CHECK(r.about_line_nm == Approx(std::sqrt(0.16 + 0.18 + 0.02)).epsilon(0.02));
  REQUIRE(r.lines.size() == 2);
  CHECK(r.lines[0].frequency_hz == Approx(1.7).margin(0.03));
  CHECK(r.lines[0].amplitude_nm == Approx(0.6).epsilon(0.05));
  CHECK(r.lines[1].frequency_hz == Approx(49.9).margin(0.03));
  CHECK(r.lines[1].amplitude_nm == Approx(0.2).epsilon(0.1));
}

TEST_CASE("a fast drift hides no slow vibration") {
  const AxisReport r = analyse_axis(places({90, 0.4, {{0.45, 0.6}}}, 24'000), kRate);
  REQUIRE(r.lines.size() == 1);
  CHECK(r.lines[0].frequency_hz == Approx(0.45).margin(0.03));
  CHECK(r.lines[0].amplitude_nm == Approx(0.6).epsilon(0.1));
}

TEST_CASE("the drift's uncertainty is right where the sample walks at random") {
  double squares = 0;
  constexpr unsigned kRuns = 400;
  for (unsigned seed = 1; seed <= kRuns; ++seed) {
    std::vector<double> walk = places({0, 1, {}}, 2'000, seed);
    for (std::size_t i = 1; i < walk.size(); ++i) walk[i] += walk[i - 1] - 30;
    const AxisReport r = analyse_axis(walk, kRate);
    squares += std::pow(r.drift_nm_per_min / r.drift_sd_nm_per_min, 2);
  }
  // Student's t with 7 degrees of freedom has an rms of sqrt(7 / 5).
  CHECK(std::sqrt(squares / kRuns) == Approx(1.18).epsilon(0.15));
}

TEST_CASE("noise alone has no vibrations, whatever the time") {
  for (const std::size_t count : {64u, 500u, 4'000u, 40'000u})
    for (unsigned seed = 1; seed <= 20; ++seed) {
      INFO(count << " places, seed " << seed);
      CHECK(analyse_axis(places({3, 0.5, {}}, count, seed), kRate).lines.empty());
    }
}

TEST_CASE("the Allan deviation of noise falls with the root of the time, that of drift rises") {
  const AxisReport noise = analyse_axis(places({0, 0.5, {}}, 32'768), kRate);
  REQUIRE(noise.allan.size() == 14);  // up to a quarter of the time
  CHECK(noise.allan[13].averaged_s == Approx(8192 / kRate));
  for (std::size_t i = 0; i < 9; ++i) {
    CHECK(noise.allan[i].averaged_s == Approx(std::pow(2, i) / kRate));
    CHECK(noise.allan[i].deviation_nm ==
          Approx(0.5 / std::pow(2, 0.5 * static_cast<double>(i))).epsilon(0.2));
  }
  const AxisReport drift = analyse_axis(places({2, 0, {}}, 4'096), kRate);
  for (const AllanPoint& p : drift.allan)
    CHECK(p.deviation_nm == Approx(2 * p.averaged_s / std::numbers::sqrt2));
}

TEST_CASE("frames without a position are bridged and counted") {
  Measurement measurement;
  for (std::uint64_t id = 10; id <= 410; ++id) {
    const double t = static_cast<double>(id) / kRate;
    json frame = position(id, 3 * t, -5 * t);
    if (id % 20 == 7) frame["valid"] = false;
    if (id % 20 == 8) continue;  // lost
    measurement.add_position(frame);
  }
  const MeasurementReport r = measurement.report();
  CHECK(r.state == "idle");
  CHECK(r.rate_hz == Approx(kRate));
  CHECK(r.seconds == Approx(1));
  CHECK(r.frames == 361);
  CHECK(r.missing_share == Approx(40 / 401.0));
  CHECK(r.axes[0].drift_nm_per_min == Approx(180));
  CHECK(r.axes[1].drift_nm_per_min == Approx(-300));
  CHECK(r.axes[0].about_line_nm < 1e-6);
  CHECK(r.axes[0].promised_noise_nm == Approx(0.3));
  CHECK(r.axes[1].promised_noise_nm == Approx(0.2));
}

TEST_CASE("frames that a camera left out without counting them take their time all the same") {
  Measurement measurement;
  std::uint64_t id = 0;
  for (int k = 0; k < 8000; ++k) {
    const double t = k / kRate;
    if (k / 40 % 5 == 4) continue;  // a fifth of the time
    json frame = position(++id, 3 * t + 0.5 * std::sin(2 * std::numbers::pi * 12.3 * t), -t);
    frame["camera_time_ns"] = 3'000'000 + static_cast<std::int64_t>(1e9 * t);
    frame["arrival_ns"] = 7'000'000 + static_cast<std::int64_t>(1e9 * t);
    measurement.add_position(frame);
  }
  const MeasurementReport r = measurement.report();
  CHECK(r.rate_hz == Approx(kRate).epsilon(0.002));
  CHECK(r.missing_share == Approx(0.2).margin(0.01));
  CHECK(r.axes[0].drift_nm_per_min == Approx(180).margin(1));
  REQUIRE(!r.axes[0].lines.empty());
  CHECK(r.axes[0].lines[0].frequency_hz == Approx(12.3).margin(0.03));
}

TEST_CASE("and so they do where most places follow on a frame that was left out") {
  Measurement measurement;
  std::uint64_t id = 0;
  for (int k = 0; k < 8000; ++k) {
    if (k % 5 == 2 || k % 5 == 4) continue;
    json frame = position(++id, 3 * k / kRate, 0);
    frame["camera_time_ns"] = 3'000'000 + static_cast<std::int64_t>(1e9 * k / kRate);
    frame["arrival_ns"] = 7'000'000 + static_cast<std::int64_t>(1e9 * k / kRate);
    measurement.add_position(frame);
  }
  CHECK(measurement.report().missing_share == Approx(0.4).margin(0.01));
}

TEST_CASE("a busy computer, which takes frames late and several at once, changes nothing") {
  const bool clock = GENERATE(true, false);
  Measurement measurement;
  for (std::uint64_t id = 1; id <= 8000; ++id) {
    const double t = static_cast<double>(id) / kRate;
    json frame = position(id, 5 * t + 0.5 * std::sin(2 * std::numbers::pi * 12.3 * t), -t);
    double arrival_s = std::ceil(t / 0.004) * 0.004;  // on a grid of 4 ms, two at once
    if (t > 10 && t < 10.4) arrival_s = 10.4;         // and once the computer stood still
    frame["arrival_ns"] =
        static_cast<std::int64_t>(1e9 * arrival_s + 100 * static_cast<double>(id));
    if (!clock) frame["camera_time_ns"] = nullptr;
    measurement.add_position(frame);
  }
  const MeasurementReport r = measurement.report();
  CHECK(r.rate_hz == Approx(kRate).epsilon(0.001));
  CHECK(r.missing_share == Approx(0).margin(1e-9));
  CHECK(r.axes[0].drift_nm_per_min == Approx(300).margin(1));
  CHECK(r.axes[0].lines[0].frequency_hz == Approx(12.3).margin(0.03));
}

TEST_CASE("frequencies are the camera's where the first or last frames arrive late") {
  const double late_s = GENERATE(0.8, -0.8);  // the last 50 frames; the first 50
  const bool clock = GENERATE(true, false);   // of nanoseconds
  Measurement measurement;
  for (std::uint64_t id = 1; id <= 2000; ++id) {
    const double t = static_cast<double>(id) / kRate;
    json frame = position(id, 3 * t + 0.5 * std::sin(2 * std::numbers::pi * 27 * t), -t);
    double arrival_s = 1 + t;
    if (late_s > 0 && id > 1950) arrival_s += late_s;
    if (late_s < 0) arrival_s = std::max(arrival_s, 1 + 50 / kRate - late_s + 1e-6 * t);
    frame["arrival_ns"] = static_cast<std::int64_t>(1e9 * arrival_s);
    if (!clock) frame["camera_time_ns"] = 1'000'000 + 10 * id;
    measurement.add_position(frame);
  }
  const MeasurementReport r = measurement.report();
  REQUIRE(!r.axes[0].lines.empty());
  const double told_hz = r.axes[0].lines[0].frequency_hz;
  if (clock) {
    CHECK(r.rate_hz == Approx(kRate));
    CHECK(r.seconds == Approx(1999 / kRate));
    CHECK(told_hz == Approx(27).margin(0.05));
    CHECK(r.axes[0].drift_nm_per_min == Approx(180).margin(3));
  } else {  // a clock that counts something else is none
    CHECK(std::abs(told_hz - 27) > 1);
    CHECK(r.seconds == Approx(1999 / kRate + late_s).margin(0.13));
  }
}

TEST_CASE("a camera of one frame in ten seconds is measured, too") {
  Measurement measurement;
  for (std::uint64_t id = 1; id <= 80; ++id) {
    json frame = position(id, 0.5 * static_cast<double>(id), 0);
    frame["arrival_ns"] = 10'000'000'000 * id;
    frame["camera_time_ns"] = 10'000'000'000 * id;
    measurement.add_position(frame);
  }
  const MeasurementReport r = measurement.report();
  CHECK(r.rate_hz == Approx(0.1));
  CHECK(r.axes[0].drift_nm_per_min == Approx(3));
}

TEST_CASE("a vibration up to the highest frequency is seen") {
  for (const double frequency_hz : {198.5, 199.9}) {
    const AxisReport r = analyse_axis(places({0, 0.3, {{frequency_hz, 2}}}, 24'000), kRate);
    REQUIRE(r.lines.size() == 1);
    CHECK(r.lines[0].frequency_hz == Approx(frequency_hz).margin(0.15));
  }
}

TEST_CASE("where most frames have no position nothing is measured") {
  Measurement measurement;
  for (std::uint64_t id = 1; id <= 200; ++id)
    if (id % 10 < 4) measurement.add_position(position(id, 0, 0));
  CHECK_THROWS_WITH(measurement.report(), contains("only 80 of 200 frames"));
}

TEST_CASE("what changes meanwhile makes it no measurement, and is said") {
  Measurement measurement;
  measurement.add_position(position(1, 0, 0));
  CHECK(measurement.problem().empty());
  json other = position(2, 0, 0);
  SECTION("session") {
    other["session"] = "b";
    measurement.add_position(other);
    CHECK(measurement.problem() == "driftd was restarted meanwhile");
  }
  SECTION("ids") {
    other["frame_id"] = 1;
    measurement.add_position(other);
    CHECK(measurement.problem() == "frame 1 came after frame 1");
  }
  SECTION("a gap") {
    other["frame_id"] = 2'000'002;
    measurement.add_position(other);
    CHECK(measurement.problem() == "no frame has a position from 1 to 2000002");
  }
  SECTION("markers") {
    measurement.add_event({{"code", "marker_health"}});
    CHECK(measurement.problem().empty());
    measurement.add_event({{"code", "markers_found"}});
    CHECK(measurement.problem() == "other markers were found meanwhile");
  }
  SECTION("state") {
    other["state"] = "referencing";
    measurement.add_position(other);
    CHECK(measurement.problem() == "the lock changed from idle to referencing meanwhile");
  }
  SECTION("state of z") {
    other["z_state"] = "locked";
    Measurement held;
    held.add_position(other);
    CHECK(held.problem().empty());
    other["frame_id"] = 3;
    other["z_state"] = "holding";
    held.add_position(other);
    CHECK(held.problem() == "the lock of z changed from locked to holding meanwhile");
  }
}

TEST_CASE("too few frames are refused with what may be missing") {
  Measurement measurement;
  for (std::uint64_t id = 1; id < 64; ++id) measurement.add_position(position(id, 0, 0));
  CHECK_THROWS_WITH(measurement.report(), contains("63 frames with a position came, and 64"));
  measurement.add_position(position(64, 0, 0));
  CHECK(measurement.report().frames == 64);
}

/// Five markers of other uncertainties, the fourth a witness; what each does is the test's.
class Field {
 public:
  Field() {
    for (std::uint64_t id = 1; id <= 100; ++id) measurement_.add_position(position(id, 0, 0));
  }
  MeasurementReport report(int messages) {
    std::mt19937 random(5);
    std::normal_distribution<double> normal;
    for (int k = 0; k < messages; ++k) {
      json markers = json::array();
      for (std::size_t i = 0; i < 5; ++i) {
        const double x_sd = 0.8 + 0.1 * static_cast<double>(i);
        const double y_sd = 1.5 * x_sd;
        const bool good = !(i == blinks && k % 3 == 0);
        const double step = i == wanders ? 0.02 * k : 0;
        markers.push_back({{"id", i + 1},
                           {"role", i == 3 ? "witness" : "tracking"},
                           {"health", good ? "good" : "outlier"},
                           {"residual_x_nm", x_sd * normal(random)},
                           {"residual_y_nm", y_sd * (i == noisy ? 2 : 1) * normal(random) + step},
                           {"x_sd_nm", x_sd},
                           {"y_sd_nm", y_sd}});
        if (!good) markers.back()["residual_x_nm"] = 50;
      }
      measurement_.add_markers({{"markers", markers}});
    }
    return measurement_.report();
  }
  static constexpr std::size_t kNone = 9;
  std::size_t noisy = kNone, wanders = kNone, blinks = kNone;

 private:
  Measurement measurement_;
};

TEST_CASE("markers that keep what their fits promise have no remark") {
  const MeasurementReport r = Field().report(400);
  REQUIRE(r.markers.size() == 5);
  double weights = 0;
  for (const MarkerReport& m : r.markers) {
    INFO(m.id << ": " << m.remark);
    CHECK(m.remark.empty());
    CHECK(m.witness == (m.id == 4));
    CHECK(m.good_share == 1);
    CHECK(m.fit_sd_nm[0] == Approx(0.7 + 0.1 * m.id));
    CHECK(m.fit_sd_nm[1] == Approx(1.5 * m.fit_sd_nm[0]));
    CHECK(m.scatter_nm[0] == Approx(m.fit_sd_nm[0]).epsilon(0.15));
    CHECK(m.scatter_nm[1] == Approx(m.fit_sd_nm[1]).epsilon(0.15));
    if (!m.witness) weights += std::pow(m.fit_sd_nm[0], -2);
  }
  CHECK(r.markers_allow_nm[0] == Approx(1 / std::sqrt(weights)));
  CHECK(r.markers_allow_nm[1] == Approx(1.5 / std::sqrt(weights)));
  // A tracking marker is part of the mean that it is compared with, a witness is not.
  CHECK(r.markers[0].expected_nm[0] == Approx(std::sqrt(0.64 - 1 / weights)));
  CHECK(r.markers[3].expected_nm[0] == Approx(std::sqrt(1.21 + 1 / weights)));
}

TEST_CASE("a marker that hurts is named with how") {
  Field field;
  field.noisy = 1;
  field.wanders = 2;
  field.blinks = 4;
  const MeasurementReport r = field.report(400);
  CHECK(r.markers[0].remark.empty());
  CHECK_THAT(r.markers[1].remark, contains("times as much in y as its fits say"));
  CHECK(r.markers[1].scatter_nm[1] == Approx(2 * r.markers[1].fit_sd_nm[1]).epsilon(0.15));
  // A ramp of 8 nm has an rms of 8 / sqrt(12).
  CHECK(r.markers[2].wander_nm[1] == Approx(8 / std::sqrt(12)).epsilon(0.1));
  CHECK_THAT(r.markers[2].remark, contains("wanders by 2.") && contains("in y"));
  CHECK(r.markers[3].remark.empty());
  CHECK(r.markers[4].remark == "good only in 66 % of the time");
  CHECK(r.markers[4].good_share == Approx(266 / 400.0));
  CHECK(r.markers[4].scatter_nm[0] < 2);
}

TEST_CASE(
    "a marker that is the mean itself is not accused, one that was hardly there allows nothing") {
  Measurement measurement;
  for (std::uint64_t id = 1; id <= 100; ++id) measurement.add_position(position(id, 0, 0));
  for (int k = 0; k < 100; ++k) {
    const auto marker = [&](int id, double sd) {
      return json{{"id", id},
                  {"role", "tracking"},
                  {"health", "good"},
                  {"residual_x_nm", 1e-9 * (k % 3)},
                  {"residual_y_nm", 1e-9 * (k % 2)},
                  {"x_sd_nm", sd},
                  {"y_sd_nm", sd}};
    };
    json markers = json::array({marker(1, 0.5)});
    if (k == 30) markers.push_back(marker(2, 0.01));
    measurement.add_markers({{"markers", markers}});
  }
  const MeasurementReport r = measurement.report();
  CHECK(r.markers_allow_nm[0] == Approx(0.5));
  CHECK(r.markers[0].remark.empty());
  CHECK(r.markers[1].remark == "good only in 1 % of the time");
}

TEST_CASE("a position whose numbers are none is none") {
  Measurement measurement;
  for (std::uint64_t id = 1; id <= 100; ++id) {
    json frame = position(id, 0, 0);
    if (id % 10 == 0) frame[id % 20 == 0 ? "frame_y_nm" : "x_sd_nm"] = nullptr;
    measurement.add_position(frame);
  }
  CHECK(measurement.report().frames == 90);
}

TEST_CASE("vibrations of a slow camera are named with what would look the same") {
  CHECK(look_alikes_text(3, 30) == ", or 27, 33, 57, 63 Hz");
  CHECK(look_alikes_text(12.3, 500).empty());
  MeasurementReport r;
  r.rate_hz = 30;
  r.axes[0].lines = {{3, 1}, {12, 0.5}};
  std::string all;
  for (const std::string& line : to_lines(r)) {
    CHECK(line.size() <= 80);
    all += line + '\n';
  }
  CHECK_THAT(all, contains("1.00 nm 3.00 Hz, or 27, 33, 57, 63 Hz\n") &&
                      contains("0.50 nm 12.00 Hz, or 18, 42, 48, 72 Hz\n"));
  CHECK(to_json(r).at("x").at("lines")[0].at("look_alikes_hz")[1] == 33.0);
}

TEST_CASE("a few messages accuse no marker") {
  Field field;
  field.noisy = 1;
  for (const MarkerReport& m : field.report(49).markers) CHECK(m.remark.empty());
}

TEST_CASE("whether z was held is said, and of which state it is") {
  for (const char* state : {"locked", "idle"}) {
    Measurement measurement;
    for (std::uint64_t id = 1; id <= 64; ++id) {
      json position = driftd::clients::position(id, 0.1, 0.2);
      position.update(
          {{"state", "locked"}, {"z_state", state}, {"frame_z_nm", 1.0}, {"z_sd_nm", 2.0}});
      measurement.add_position(position);
    }
    const MeasurementReport report = measurement.report();
    CHECK(to_json(report).at("z_state") == state);
    std::string all;
    for (const std::string& line : to_lines(report)) all += line + '\n';
    CHECK_THAT(all, contains(state == std::string("locked")
                                 ? "\nz locked: what its lock leaves, as it sees it itself\n"
                                 : "\nz idle: not corrected, the sample's own motion\n"));
  }
}

/// A position with z, of which each seventh frame has none where `gaps`.
json deep_position(std::uint64_t frame_id, double z_nm, bool gaps) {
  json position = driftd::clients::position(frame_id, 0.1, 0.2);
  const bool none = gaps && frame_id % 7 == 3;
  position["z_nm"] = position["frame_z_nm"] = none ? json() : json(z_nm);
  position["z_sd_nm"] = none ? json() : json(2.5);
  return position;
}

TEST_CASE("z is measured as x and y are, by a validity of its own") {
  for (const bool gaps : {false, true}) {
    CAPTURE(gaps);
    Measurement measurement;
    const std::vector<double> z_nm = places({-40, 2, {{3.1, 5}}}, 8'000);
    for (std::size_t k = 0; k < z_nm.size(); ++k)
      measurement.add_position(deep_position(k + 1, z_nm[k], gaps));
    std::mt19937 random(3);
    std::normal_distribution<double> normal;
    for (int k = 0; k < 200; ++k) {
      json markers = json::array();
      for (int id = 1; id <= 4; ++id)
        markers.push_back({{"id", id},
                           {"role", id == 4 ? "witness" : "tracking"},
                           {"health", "good"},
                           {"residual_x_nm", normal(random)},
                           {"residual_y_nm", normal(random)},
                           {"x_sd_nm", 1.0},
                           {"y_sd_nm", 1.0},
                           {"z_sd_nm", id == 3 ? json() : json(4.0)},
                           {"residual_z_nm", id == 3 ? json() : json(4 * normal(random))}});
      measurement.add_markers({{"markers", markers}});
    }
    const MeasurementReport r = measurement.report();
    REQUIRE(r.z);
    CHECK(r.z_missing_share == Approx(gaps ? 1 / 7.0 : 0.0).margin(1e-3));
    CHECK(r.z->drift_nm_per_min == Approx(-2400).epsilon(0.02));
    CHECK(r.z->promised_noise_nm == 2.5);
    if (!gaps) CHECK(r.z->frame_noise_nm == Approx(2).epsilon(0.05));
    REQUIRE_FALSE(r.z->lines.empty());
    CHECK(r.z->lines[0].frequency_hz == Approx(3.1).epsilon(0.03));
    CHECK(r.z->lines[0].amplitude_nm == Approx(5).epsilon(0.1));
    CHECK(r.markers_allow_z_nm == Approx(4 / std::sqrt(2)));  // two tracking ones have a z
    REQUIRE(r.markers[0].z);
    CHECK(r.markers[0].z->fit_sd_nm == 4);
    CHECK(r.markers[0].z->scatter_nm == Approx(4).epsilon(0.2));
    CHECK(r.markers[0].z->expected_nm == Approx(std::sqrt(16 - 8)));
    CHECK(r.markers[3].z->expected_nm == Approx(std::sqrt(16 + 8)));
    CHECK_FALSE(r.markers[2].z);
    std::string all;
    for (const std::string& line : to_lines(r)) {
      INFO(line);
      CHECK(line.size() <= 80);
      all += line + '\n';
    }
    CHECK_THAT(all, contains("x        y        z\n") && contains("\nvibrations in z") &&
                        contains("   3 tracking   its z was not measured\n"));
    CHECK((all.find("% of these without z") != std::string::npos) == gaps);
    const json j = to_json(r);
    CHECK(j.at("z").at("promised_noise_nm") == 2.5);
    CHECK(j.at("markers")[2].at("z").is_null());
    CHECK(j.at("markers")[0].at("z").at("fit_sd_nm") == 4.0);
  }
}

TEST_CASE(
    "where z is not measured, or seldom, nothing is told of it, and the text is the flat one") {
  std::vector<std::string> flat;
  for (const std::uint64_t each : {0U, 0U, 3U}) {
    Measurement measurement;
    for (std::uint64_t id = 1; id <= 300; ++id) {
      json frame = position(id, 0.1, 0.2);
      if (!flat.empty())
        for (const char* key : {"z_nm", "frame_z_nm", "z_sd_nm"})
          frame[key] = each > 0 && id % each == 0 ? json(1.0) : json();
      measurement.add_position(frame);
    }
    const MeasurementReport r = measurement.report();
    CHECK_FALSE(r.z);
    CHECK(to_json(r).at("z").is_null());
    CHECK(to_json(r).at("z_missing_share").is_null());
    CHECK(to_json(r).at("markers_allow_z_nm").is_null());
    if (flat.empty()) flat = to_lines(r);
    CHECK(to_lines(r) == flat);
  }
}

TEST_CASE("the text says what was measured, in 80 columns, and JSON has all of it") {
  Field field;
  field.wanders = 2;
  const MeasurementReport r = field.report(400);
  std::string all;
  for (const std::string& line : to_lines(r)) {
    INFO(line);
    CHECK(line.size() <= 80);
    all += line + '\n';
  }
  CHECK_THAT(all, contains("0.2 s, 100 frames at 400.0 Hz, 0.00 % without a position") &&
                      contains("idle: not corrected") && contains("none stands out") &&
                      contains("Allan dev.") && contains("wanders by"));
  const json j = to_json(r);
  CHECK(j.at("markers").size() == 5);
  CHECK(j.at("markers")[3].at("role") == "witness");
  CHECK(j.at("x").at("allan_s_nm").size() == r.axes[0].allan.size());
  CHECK(j.at("y").at("drift_nm_per_min") == r.axes[1].drift_nm_per_min);
}

}  // namespace
}  // namespace driftd::clients
