// SPDX-License-Identifier: MIT
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/status/cure.hpp"
#include "daemon/status/status_messages.hpp"
#include "support/catch.hpp"

using namespace driftd::daemon;
using nlohmann::json;

namespace {

/// A daemon with a camera of 4 frames/s that is locked and measures.
struct Measuring {
  LoopReport loop;
  MarkersReport markers;
  driftd::camera::SourceInfo source;
  driftd::camera::SourceCounters counters;
  driftd::RealTimeReport realtime;
  std::int64_t time_ns = 60'000'000'000;
  json pattern = nullptr;
  driftd::LatencySummary latency{
      .count = 3, .p50_us = 11, .p99_us = 12, .p99_9_us = 13, .max_us = 14};

  Measuring() {
    source.description = "a camera";
    source.format = driftd::camera::PixelFormat::Mono12;
    source.width_px = 320;
    source.height_px = 200;
    counters.connected = true;
    source.camera_notes = {{.key = "ReverseX", .asked = "false", .got = "false", .text = "a note"}};
    realtime.notes = {"a note"};
    loop.lock = {.state = driftd::control::LockState::Locked, .since_ns = 20'000'000'000};
    loop.lock_id = 2;
    loop.frame_rate_hz = 4;
    loop.frame_ns = loop.tracked_ns = 59'900'000'000;
    loop.valid = 9;
    loop.drift.valid = true;
    loop.drift.drift_nm = {0.5, -0.25};
    loop.drift.covariance_nm2 = {0.04, 0, 0.09};
    loop.drift.markers_used = 7;
    loop.rms_x_nm = 0.75;
    loop.rms_y_nm = 0.625;
    loop.gate = {.in_lock = true,
                 .reason = driftd::control::GateReason::InLock,
                 .since_ns = 30'000'000'000,
                 .closed = 2,
                 .residual_nm = {0.25, 0.375},
                 .tolerance_nm = 1.5};
    loop.total_nm = {-18, 7};
  }
  json status() const {
    return status_json({.time_ns = time_ns,
                        .start_ns = 10'000'000'000,
                        .loop = loop,
                        .markers = markers,
                        .source = source,
                        .counters = counters,
                        .realtime = realtime,
                        .fitter_description = "cpu (AVX3)",
                        .fitter_reason = {},
                        .estimator = {},
                        .estimator_reason = {},
                        .pattern = pattern,
                        .total = latency,
                        .cut = {},
                        .fit = {},
                        .control = {},
                        .publish = {}});
  }
};

const std::vector<std::string> kOfFrames = {
    "/camera/rate_hz",     "/drift/x_nm",        "/drift/y_nm",     "/drift/x_sd_nm",
    "/drift/y_sd_nm",      "/drift/rms_x_nm",    "/drift/rms_y_nm", "/markers/used",
    "/gate/residual_x_nm", "/gate/residual_y_nm"};

std::vector<std::string> nulls(const json& status) {
  std::vector<std::string> nulls;
  const json flat = status.flatten();
  for (const auto& [key, value] : flat.items()) {
    if (value.is_null()) nulls.push_back(key);
  }
  std::sort(nulls.begin(), nulls.end());
  return nulls;
}

std::vector<std::string> with(std::vector<std::string> keys, const std::vector<std::string>& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  std::sort(keys.begin(), keys.end());
  return keys;
}

const std::vector<std::string> kNotMeasured = {"/camera/temperature_c",  // it tells none
                                               "/fitter/spot_sigma_px",  // given
                                               "/stage_driver",          // none reports
                                               "/acquaintance",          // told elsewhere
                                               "/axial",                 // without a method
                                               "/interrupted",           // no lock was
                                               "/move",                  // told elsewhere
                                               "/pattern",               // no markers here
                                               "/control/axes",          // not locked: empty
                                               "/control/left_nm",
                                               "/control/pi_left_nm",
                                               "/residual/in_loop/allan",  // not locked: empty
                                               "/residual/in_loop/mean_x_nm",
                                               "/residual/in_loop/mean_y_nm",
                                               "/residual/in_loop/noise_x_nm",
                                               "/residual/in_loop/noise_y_nm",
                                               "/residual/in_loop/rms_x_nm",
                                               "/residual/in_loop/rms_y_nm",
                                               "/residual/out_of_loop/allan",
                                               "/residual/out_of_loop/mean_x_nm",
                                               "/residual/out_of_loop/mean_y_nm",
                                               "/residual/out_of_loop/noise_x_nm",
                                               "/residual/out_of_loop/noise_y_nm",
                                               "/residual/out_of_loop/rms_x_nm",
                                               "/residual/out_of_loop/rms_y_nm",
                                               "/residual/out_of_loop/sample_x_nm",
                                               "/residual/out_of_loop/sample_y_nm",
                                               "/raw_frames",
                                               "/record",  // nothing is told of it here
                                               "/latency_us/control/max",
                                               "/latency_us/control/p50",
                                               "/latency_us/control/p99",
                                               "/latency_us/control/p99_9",
                                               "/latency_us/cut/max",
                                               "/latency_us/cut/p50",
                                               "/latency_us/cut/p99",
                                               "/latency_us/cut/p99_9",
                                               "/latency_us/fit/max",
                                               "/latency_us/fit/p50",
                                               "/latency_us/fit/p99",
                                               "/latency_us/fit/p99_9",
                                               "/latency_us/publish/max",
                                               "/latency_us/publish/p50",
                                               "/latency_us/publish/p99",
                                               "/latency_us/publish/p99_9"};

}  // namespace

TEST_CASE("A status tells what the camera took otherwise") {
  Measuring measuring;
  using Severity = driftd::camera::CameraNote::Severity;
  measuring.source.camera_notes = {{"region_width_px", "250", "248", Severity::Warning, "a text"},
                                   {"ReverseX", "false", "false", Severity::Info, "another"}};
  const json notes = measuring.status()["camera"]["notes"];
  REQUIRE(notes.size() == 2);
  CHECK(notes[0] == json{{"key", "region_width_px"},
                         {"asked", "250"},
                         {"got", "248"},
                         {"severity", "warning"},
                         {"text", "a text"}});
  CHECK(notes[1]["severity"] == "info");
}

TEST_CASE("A status tells what is measured now") {
  const json status = Measuring().status();
  CHECK(nulls(status) == with({}, kNotMeasured));  // no frame was timed but by `total`
  CHECK(status["uptime_s"] == 50.0);
  CHECK(status["state_since_ns"] == 20'000'000'000);
  CHECK(status["camera"]["pixel_format"] == "Mono12");
  CHECK(status["camera"]["width_px"] == 320);
  CHECK(status["camera"]["height_px"] == 200);
  CHECK(status["camera"]["rate_hz"] == 4.0);
  CHECK(status["drift"]["x_nm"] == 0.5);
  CHECK(status["gate"] == json{{"in_lock", true},
                               {"reason", "in_lock"},
                               {"since_ns", 30'000'000'000},
                               {"residual_x_nm", 0.25},
                               {"residual_y_nm", 0.375},
                               {"tolerance_nm", 1.5},
                               {"closed", 2}});
  CHECK(status["drift"]["rms_y_nm"] == 0.625);
  CHECK(status["drift"]["total_y_nm"] == 7.0);
  CHECK(status["markers"]["used"] == 7);
  CHECK(status["latency_us"]["total"]["p50"] == 11.0);
  CHECK(status["latency_us"]["total"]["max"] == 14.0);
  CHECK(status["latency_us"]["cut"]["n"] == 0);
}

TEST_CASE("A status tells the law and what the observer has found while it is locked") {
  Measuring m;
  m.loop.law = {.observer = true,
                .reason = driftd::control::LawReason::TriedAgain,
                .changes = 3,
                .left_nm = 0.5,
                .pi_left_nm = 0.75};
  m.loop.motion[1].sd_nm = m.loop.motion[0].sd_nm = 0.25;
  m.loop.motion[1].tuned = true;
  auto& model = m.loop.motion[1].model;
  model = {.walk_nm2_per_s = 4, .noise_nm2 = 0.25};
  model.lines[0] = {.frequency_hz = 17, .fade_per_s = 0.5, .kick_nm2_per_s = 1};
  model.line_count = 1;
  m.loop.motion[1].amplitudes_nm[0] = 1.5;
  m.loop.motion[1].stage = {.gain = 0.875, .late_s = 0.0005};
  m.loop.lock.state = driftd::control::LockState::Locked;
  const json control = m.status()["control"];
  CHECK(control["law"] == "observer");
  CHECK(control["reason"] == "tried_again");
  CHECK(control["left_nm"] == 0.5);
  CHECK(control["pi_left_nm"] == 0.75);
  REQUIRE(control["axes"].size() == 2);
  // What was not learnt has only the values that the observer begins with.
  const json x = control["axes"][0];
  CHECK(x["learnt"] == false);
  CHECK(x["lines"].empty());
  for (const char* key :
       {"walk_nm_per_sqrt_s", "noise_nm", "sd_nm", "surprise", "stage_gain", "stage_late_us"})
    CHECK(x[key].is_null());
  const json y = control["axes"][1];
  CHECK(y["axis"] == "y");
  CHECK(y["walk_nm_per_sqrt_s"] == 2.0);
  CHECK(y["noise_nm"] == 0.5);
  CHECK(y["stage_gain"] == 0.875);
  CHECK(y["stage_late_us"] == 500.0);
  REQUIRE(y["lines"].size() == 1);
  CHECK(y["lines"][0]["frequency_hz"] == 17.0);
  CHECK(y["lines"][0]["amplitude_nm"] == 1.5);
  CHECK(y["lines"][0]["followed"] == true);
  CHECK(y["lines"][0]["look_alikes_hz"].empty());
  CHECK(y["lines"][0]["verified"] == false);
  CHECK(y["lines"][0]["alias_of_hz"].is_null());
  m.loop.motion[1].period_s = 1.0 / 30;
  model.lines[0].frequency_hz = 3;
  model.lines[0].followed = false;
  const json slow = m.status()["control"]["axes"][1]["lines"][0];
  CHECK(slow["followed"] == false);
  REQUIRE(slow["look_alikes_hz"].size() == 4);
  CHECK(slow["look_alikes_hz"][0].get<double>() == Approx(27));
  CHECK(slow["look_alikes_hz"][3].get<double>() == Approx(63));
  model.lines[0].frequency_hz = 57;
  model.lines[0].origin = driftd::control::LineOrigin::Alias;
  const json alias = m.status()["control"]["axes"][1]["lines"][0];
  CHECK(alias["frequency_hz"].get<double>() == Approx(3));
  CHECK(alias["verified"] == true);
  CHECK(alias["alias_of_hz"] == 57.0);
  CHECK(alias["look_alikes_hz"].empty());
  model.lines[0].origin = driftd::control::LineOrigin::Own;
  CHECK(m.status()["control"]["axes"][1]["lines"][0]["alias_of_hz"].is_null());
  model.lines[0].origin = driftd::control::LineOrigin::Unknown;
  model.lines[0].frequency_hz = 17;
  m.loop.motion[1].period_s = 0;
  CHECK(y["forecast"]["total_nm"].is_null());
  m.loop.forecast[1] = {
      .motion_nm2 = 0.04, .markers_nm2 = 0.01, .stage_nm2 = 0.16, .lag_nm2 = 0.04};
  const json forecast = m.status()["control"]["axes"][1]["forecast"];
  CHECK(forecast["total_nm"].get<double>() == Approx(0.5));
  CHECK(forecast["motion_nm"].get<double>() == Approx(0.2));
  CHECK(forecast["markers_nm"].get<double>() == Approx(0.1));
  CHECK(forecast["stage_nm"].get<double>() == Approx(0.4));
  CHECK(forecast["lag_nm"].get<double>() == Approx(0.2));
  CHECK(m.status()["control"]["axes"][0]["forecast"]["lag_nm"].is_null());
  // While PI rests the observer it goes on to see and to learn; else there is nothing to tell.
  using driftd::control::LawReason;
  for (const auto& [reason, told] : {std::pair{LawReason::WorseThanPi, true},
                                     {LawReason::DriverTooSlow, true},
                                     {LawReason::Configured, false},
                                     {LawReason::NotReady, false}}) {
    m.loop.law.observer = false;
    m.loop.law.reason = reason;
    CHECK(m.status()["control"]["axes"].empty() != told);
  }
  m.loop.law.observer = true;
  m.loop.lock.state = driftd::control::LockState::Idle;
  CHECK(m.status()["control"]["axes"].empty());
  CHECK(m.status()["control"]["left_nm"].is_null());  // it was another lock's
  CHECK(m.status()["control"]["law"] == "");          // none holds anything
}

TEST_CASE("A status has the camera's temperature while it is there") {
  Measuring m;
  m.counters.temperature_c = 41.5;
  CHECK(m.status()["camera"]["temperature_c"] == 41.5);
  m.counters.connected = false;
  CHECK(m.status()["camera"]["temperature_c"].is_null());
}

TEST_CASE("A status has how many frames took at most so long") {
  Measuring m;
  m.latency.sum_us = 600;
  m.latency.at_most[3] = 17;
  const json status = m.status();
  CHECK(status["latency_us"]["total"]["sum"] == 600.0);
  CHECK(status["latency_us"]["total"]["at_most"][3] == 17);
  CHECK(status["latency_edges_us"][3] == 50);
  CHECK(status["latency_us"]["cut"]["at_most"].size() == status["latency_edges_us"].size());
}

TEST_CASE("While the camera is away a status has none of the values of its frames") {
  Measuring m;
  m.counters.connected = false;
  CHECK(nulls(m.status()) == with(kOfFrames, kNotMeasured));
  CHECK(m.status()["drift"]["total_x_nm"] == -18.0);  // the stage was told so
  CHECK(m.status()["gate"]["in_lock"] == false);
  CHECK(m.status()["gate"]["reason"] == "no_frames");
  CHECK(m.status()["gate"]["since_ns"] == m.loop.tracked_ns);
  CHECK(m.status()["camera"]["description"] == "a camera");
}

TEST_CASE("Values of a frame are told for three periods and at least half a second") {
  Measuring m;
  m.time_ns = m.loop.tracked_ns + 750'000'000;
  CHECK(nulls(m.status()) == with({}, kNotMeasured));
  m.time_ns += 1;
  CHECK(nulls(m.status()) == with(kOfFrames, kNotMeasured));
  m.loop.frame_rate_hz = 1000;
  m.time_ns = m.loop.tracked_ns + 500'000'000;
  CHECK(nulls(m.status()) == with({}, kNotMeasured));
  m.time_ns += 1;
  CHECK(nulls(m.status()) == with(kOfFrames, kNotMeasured));
}

TEST_CASE("Frames that are all too old leave the camera's rate alone") {
  Measuring m;
  m.time_ns += 5'000'000'000;
  m.loop.frame_ns = m.time_ns - 1'000'000;
  const json status = m.status();
  CHECK(status["camera"]["rate_hz"] == 4.0);
  CHECK(status["drift"]["x_nm"].is_null());
  CHECK(status["markers"]["used"].is_null());
}

TEST_CASE("Before the first camera a status knows nothing of one, and idle began with the daemon") {
  Measuring m;
  m.loop = {};
  m.source = {};
  m.counters = {};
  m.latency = {};
  const json status = m.status();
  CHECK(
      nulls(status) ==
      with(with(kOfFrames, kNotMeasured),
           {"/camera/notes",  // empty, which flattens to null
            "/camera/description", "/camera/pixel_format", "/camera/width_px", "/camera/height_px",
            "/gate/tolerance_nm", "/drift/total_x_nm", "/drift/total_y_nm", "/latency_us/total/max",
            "/latency_us/total/p50", "/latency_us/total/p99", "/latency_us/total/p99_9"}));
  CHECK(status["state_since_ns"] == 10'000'000'000);
}

TEST_CASE("A status tells the residual in the loop and out of it") {
  Measuring m;
  m.loop.residual.in_loop = {.frames = 40,
                             .rms_nm = {0.5, 0.25},
                             .mean_nm = {0.01, -0.02},
                             .noise_nm = {0.3, 0.2},
                             .allan = {}};
  m.loop.residual.in_loop.allan[0] = {.differences = 39, .variance_nm2 = {0.25, 0.0625}};
  m.loop.residual.in_loop.allan[2] = {.differences = 4, .variance_nm2 = {0.04, 0.01}};
  m.loop.residual.in_loop.allan[3] = {.differences = 3, .variance_nm2 = {1, 1}};
  json status = m.status();
  CHECK(status["residual"]["out_of_loop"]["frames"] == 0);  // no witness
  CHECK(status["residual"]["out_of_loop"]["sample_x_nm"].is_null());
  const json& in_loop = status["residual"]["in_loop"];
  CHECK(in_loop["frames"] == 40);
  CHECK(in_loop["rms_y_nm"] == 0.25);
  CHECK(in_loop["mean_y_nm"] == -0.02);
  CHECK(in_loop["noise_x_nm"] == 0.3);
  REQUIRE(in_loop["allan"].size() == 2);  // of three differences nothing is told
  CHECK(in_loop["allan"][0] ==
        json{{"tau_s", 0.25}, {"x_nm", 0.5}, {"y_nm", 0.25}, {"differences", 39}});
  CHECK(in_loop["allan"][1] ==
        json{{"tau_s", 1.0}, {"x_nm", 0.2}, {"y_nm", 0.1}, {"differences", 4}});

  m.loop.residual.out_of_loop = {
      .frames = 7, .rms_nm = {0.5, 0.3}, .mean_nm = {}, .noise_nm = {0.3, 0.4}};
  status = m.status();
  CHECK(status["residual"]["out_of_loop"]["frames"] == 7);
  CHECK(status["residual"]["out_of_loop"]["sample_x_nm"].get<double>() == Approx(0.4));
  CHECK(status["residual"]["out_of_loop"]["sample_y_nm"] == 0.0);  // less than its own noise
  m.time_ns += 60'000'000'000;                                     // no frames come
  CHECK(m.status()["residual"]["in_loop"]["frames"] == 0);
  CHECK(m.status()["residual"]["in_loop"]["rms_x_nm"].is_null());
  CHECK(m.status()["residual"]["out_of_loop"]["sample_x_nm"].is_null());
}

TEST_CASE("A marker shows what it is worth by its past, and why") {
  MarkersReport report;
  report.count = 2;
  report.entries[0].observation.fitted = true;
  report.entries[0].result.health = driftd::control::MarkerHealth::Good;
  report.entries[0].standing = {.reputation = 0.25,
                                .reason = driftd::control::StandingReason::Moved,
                                .excluded = true,
                                .good_share = 0.875,
                                .chi_square = 1.5,
                                .moved_nm = {0.5, -0.75},
                                .walk_nm_per_min = {1.5, -2}};
  report.entries[1] = report.entries[0];
  report.entries[1].standing = {};
  const json markers = markers_json(report, 100)["markers"];
  CHECK(markers[0]["reputation"] == 0.25);
  CHECK(markers[0]["reputation_reason"] == "moved");
  CHECK(markers[0]["excluded"] == true);
  CHECK(markers[0]["good_share"] == 0.875);
  CHECK(markers[0]["chi_square"] == 1.5);
  CHECK(markers[0]["moved_x_nm"] == 0.5);
  CHECK(markers[0]["moved_y_nm"] == -0.75);
  CHECK(markers[0]["walk_x_nm_per_min"] == 1.5);
  CHECK(markers[0]["walk_y_nm_per_min"] == -2);
  CHECK(markers[1]["reputation"] == 1);
  CHECK(markers[1]["reputation_reason"] == "good");
  CHECK(markers[1]["walk_x_nm_per_min"].is_null());  // not known yet
}

TEST_CASE("A marker without a fit shows null, not zero") {
  MarkersReport report;
  report.count = 2;
  report.entries[0].marker = {7, driftd::control::MarkerRole::Witness, 1, 2};
  report.entries[0].observation = {
      .fitted = true, .x_px = 10.5, .x_sd_px = 0.01f, .sigma_px = 1.3f};
  report.entries[0].result.health = driftd::control::MarkerHealth::Good;
  report.entries[0].result.displacement_nm = {3, 4};
  report.entries[1].result.health = driftd::control::MarkerHealth::FitFailed;
  const json markers = markers_json(report, 100)["markers"];
  REQUIRE(markers[0]["id"] == 7);
  REQUIRE(markers[0]["role"] == "witness");
  REQUIRE(markers[0]["x_px"] == 10.5);
  REQUIRE(markers[0]["x_sd_nm"].get<double>() == Approx(1.0));
  REQUIRE(markers[0]["dx_nm"] == 3);
  REQUIRE(markers[1]["x_px"].is_null());
  REQUIRE(markers[1]["dx_nm"].is_null());
  REQUIRE(markers[1]["health"] == "fit_failed");
}

TEST_CASE("each hold, loss and refusal of the lock comes with what to do", "[messages]") {
  using namespace driftd::control;
  const auto cure = [](LockState state, LockReason reason, StageLooks looks = StageLooks::Following,
                       bool driver = true) {
    return cure_of({.lock = {.state = state, .reason = reason},
                    .stage = looks,
                    .driver_reports = driver,
                    .jumped_nm = {30, -40},
                    .max_jump_nm = 12.5});
  };
  for (const LockReason reason :
       {LockReason::TooFewMarkers, LockReason::StaleFrame, LockReason::NoFrames,
        LockReason::ImplausibleJump, LockReason::RangeExceeded, LockReason::CorrectionsNotSent,
        LockReason::StageNotFollowing, LockReason::StageError, LockReason::StageLimit,
        LockReason::StageSilent}) {
    INFO(driftd::control::name_of(reason));
    CHECK_FALSE(cure(LockState::Holding, reason).empty());
    CHECK_FALSE(cure(LockState::Lost, reason).empty());
    CHECK(cure(LockState::Locked, reason).empty());
  }
  CHECK_THAT(cure(LockState::Holding, LockReason::ImplausibleJump),
             contains("50.0 nm from") && contains("lock.max_jump_nm is 12.5"));
  CHECK_THAT(cure(LockState::Holding, LockReason::StageNotFollowing, StageLooks::Stuck, false),
             contains("no driver is connected"));
  CHECK_THAT(cure(LockState::Holding, LockReason::StageNotFollowing, StageLooks::Stuck),
             !contains("no driver") && contains("servo"));
  CHECK_THAT(cure(LockState::Holding, LockReason::StageNotFollowing, StageLooks::Reversed),
             contains("the stage looks reversed") && contains("calibrate --write"));
  CHECK_THAT(cure(LockState::Holding, LockReason::StageNotFollowing, StageLooks::WrongGain),
             contains("the stage answers farther") && contains("calibrate --write"));
  CHECK_THAT(cure(LockState::Idle, LockReason::ReferenceTimeout),
             contains("lock.reference_timeout_s"));
  CHECK_THAT(cure_of({.lock = {.state = LockState::Idle, .reason = LockReason::ReferenceTimeout},
                      .resumed = true}),
             contains("gives the place up") && contains("lock.max_jump_nm"));
  // Lost for what it was held for; the way back is told once.
  for (const bool offered : {true, false}) {
    const std::string lost = cure_of({.lock = {.state = LockState::Lost,
                                               .reason = LockReason::HeldTooLong,
                                               .held_for = LockReason::StageNotFollowing},
                                      .stage = StageLooks::Reversed,
                                      .driver_reports = true,
                                      .offered = offered});
    CHECK_THAT(lost, contains("driftctl calibrate --write"));
    CHECK((lost.find("lock --resume") == std::string::npos) == offered);
  }
  CHECK_THAT(cure_of({.lock = {.state = LockState::Lost,
                               .reason = LockReason::HeldTooLong,
                               .held_for = LockReason::ImplausibleJump},
                      .jumped_nm = {30, -40},
                      .max_jump_nm = 12.5}),
             contains("50.0 nm from") && !contains("goes on when"));
  // Without frames nothing is known of light and focus.
  for (const bool resumed : {false, true})
    CHECK_THAT(cure_of({.lock = {.state = LockState::Idle,
                                 .reason = LockReason::ReferenceTimeout,
                                 .held_for = LockReason::NoFrames},
                        .resumed = resumed}),
               contains("driftctl cameras") && !contains("light"));
  // What is over is not to be mended any more, where that is known.
  const auto lost = [](LockReason reason, LockTrouble more) {
    const Lock lock{
        .state = LockState::Lost, .reason = LockReason::HeldTooLong, .held_for = reason};
    return cure_of({.lock = lock,
                    .driver_ready = more.driver_ready,
                    .has_frames = more.has_frames,
                    .sees_markers = more.sees_markers});
  };
  CHECK_THAT(lost(LockReason::NoFrames, {.lock = {}, .has_frames = true}),
             contains("frames come again") && !contains("driftctl cameras"));
  CHECK_THAT(lost(LockReason::TooFewMarkers, {.lock = {}, .has_frames = true}), contains("light"));
  CHECK_THAT(lost(LockReason::TooFewMarkers, {.lock = {}, .sees_markers = true}),
             contains("seen again") && !contains("light"));
  for (const LockReason reason :
       {LockReason::StageError, LockReason::StageLimit, LockReason::StageSilent})
    CHECK_THAT(lost(reason, {.lock = {}, .driver_ready = true}),
               contains("driver is ready again") && !contains("mend") && !contains("end of its"));
  CHECK_THAT(cure_of({.lock = {.state = LockState::Idle,
                               .reason = LockReason::ReferenceTimeout,
                               .held_for = LockReason::NoFrames},
                      .has_frames = true}),
             contains("light") && !contains("driftctl cameras"));
  // The driver's own words are what has to be mended.
  for (const LockReason reason : {LockReason::StageError, LockReason::StageLimit})
    CHECK_THAT(cure_of({.lock = {.state = LockState::Holding, .reason = reason},
                        .driver_reports = true,
                        .driver_says = "E-727: servo off"}),
               contains("(E-727: servo off)"));
  // What good frames do not end is left to do when what came after it is over.
  CHECK_THAT(cure_of({.lock = {.state = LockState::Holding,
                               .reason = LockReason::NoFrames,
                               .at_first = LockReason::RangeExceeded}}),
             contains("driftctl cameras") && contains(". Then: the correction is at its limit"));
  CHECK_THAT(cure_of({.lock = {.state = LockState::Holding,
                               .reason = LockReason::NoFrames,
                               .at_first = LockReason::TooFewMarkers}}),
             contains("driftctl cameras") && !contains("light"));
  CHECK(cure(LockState::Idle, LockReason::UnlockCommanded).empty());
  CHECK(cure_of({.lock = {}, .at_start = "no markers are known yet"}) ==
        "lock.at_start waits: no markers are known yet");
  CHECK_THAT(cure(LockState::Fault, LockReason::InternalFault), contains("driftctl reset"));
}

TEST_CASE("what is advised of the lock of z names commands and options of z", "[messages]") {
  using namespace driftd::control;
  const auto cure = [](LockState state, LockReason reason) {
    return cure_of({.lock = {.state = state, .reason = reason},
                    .driver_reports = true,
                    .jumped_nm = {30, 0},
                    .max_jump_nm = 12.5,
                    .of_z = true});
  };
  CHECK_THAT(cure(LockState::Fault, LockReason::InternalFault),
             contains("the log says what failed; `driftctl reset`, then `driftctl lock --axes z`"));
  CHECK_THAT(cure(LockState::Holding, LockReason::StageLimit),
             contains("at the end of its travel: `driftctl unlock --axes z`, bring it to the "
                      "middle, `driftctl lock --axes z`"));
  CHECK_THAT(cure(LockState::Holding, LockReason::RangeExceeded),
             contains("(axial.range_limit_nm or travel_limit_nm): `driftctl unlock --axes z`"));
  CHECK_THAT(cure(LockState::Holding, LockReason::ImplausibleJump),
             contains("axial.max_jump_nm is 12.5") && contains("`lock --axes z`"));
  CHECK_THAT(cure(LockState::Lost, LockReason::HeldTooLong), contains("`driftctl lock --axes z`"));
}

TEST_CASE("the markers' pattern is told while frames show it") {
  Measuring m;
  CHECK(m.status()["pattern"].is_null());
  m.pattern = {{"rotation_mrad", 0.25}};
  CHECK(m.status()["pattern"]["rotation_mrad"] == 0.25);
  m.time_ns += 3'000'000'000;  // of 4 frames/s
  CHECK(m.status()["pattern"].is_null());
}
