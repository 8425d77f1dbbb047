// SPDX-License-Identifier: MIT
// What a person is shown of a daemon that answers.
#include <string>

#include "unit/clients/axial_example.hpp"
#include "unit/clients/shown_examples.hpp"

using namespace driftd::test;

TEST_CASE("A frame that came in part counts once among those lost") {
  json status = driftd::test::protocol_examples().at("status");
  status["camera"]["lost"] = 3U;  // incomplete ones included
  status["camera"]["incomplete"] = 2U;
  status["camera"]["underruns"] = 1U;
  DaemonView view;
  view.update(message("status", status), kNow_ns);
  const Line frames = line_of(view.summary(kNow_ns), "frames");
  CHECK(contains(frames, "lost 3 "));
  CHECK(frames.tone == Tone::Warning);
}

TEST_CASE("The summary shows the documented example in at most 80 columns") {
  const std::vector<Line> lines = view_of_examples().summary(kNow_ns);
  const Line state = line_of(lines, "state");
  CHECK(state.tone == Tone::Good);
  CHECK(contains(state, "locked for 0:00:00 (reference taken)   lock 1"));
  CHECK(contains(line_of(lines, "camera"), "SIM01 127.0.0.1, 256 x 256 Mono12"));
  const Line note = line_of(lines, "            region_width_px");
  CHECK(note.text == "            region_width_px: asked 250, has 248");
  CHECK(note.tone == Tone::Warning);
  CHECK(contains(line_of(lines, "frames"), "6001   500.1 Hz   lost 0"));
  CHECK(contains(line_of(lines, "markers"), "12 of 13 used, 3 witnesses"));
  CHECK(contains(line_of(lines, "drift "), "+0.412     -0.093 nm   sd 0.171 / 0.169"));
  CHECK(contains(line_of(lines, "drift rms"), "0.520      0.490 nm"));
  const Line in_loop = line_of(lines, "in loop rms"), witnesses = line_of(lines, "out of loop");
  CHECK(contains(in_loop, "0.500      0.480 nm   noise 0.21"));
  CHECK_FALSE(contains(in_loop, "Allan"));  // no octave is near a second
  CHECK(contains(witnesses, "0.620      0.600 nm   noise 0.45"));
  CHECK(contains(line_of(lines, "            beyond the witnesses"), "moved 0.43 / 0.41 nm rms"));
  CHECK(contains(line_of(lines, "correction"), "-18.204     +7.770 nm"));
  CHECK(contains(line_of(lines, "latency"), "p50 41   p99 66   p99.9 120   max 240 us"));
  CHECK(contains(line_of(lines, "fitter"), "cpu (AVX3), 13 x 13 px"));
  CHECK(contains(line_of(lines, "            p99"), "p99 of 16 fits: cpu 9.8 us, cuda 14.2 us"));
  CHECK(contains(line_of(lines, "            poisson"), "p99 of 16 fits 31.5 us, within 200 us"));
  for (const Line& line : lines) {
    INFO(line.text);
    CHECK(line.text.size() <= 80);
  }
}

TEST_CASE("The residual is shown in the loop and out of it, where there is one") {
  json status = driftd::test::protocol_examples().at("status");
  const auto lines_of = [&status] {
    DaemonView view;
    view.set_status(status, kNow_ns);
    return view.summary(kNow_ns);
  };
  status["residual"]["in_loop"]["allan"] = {
      {{"tau_s", 0.512}, {"x_nm", 9.0}, {"y_nm", 9.0}, {"differences", 400}},
      {{"tau_s", 1.024}, {"x_nm", 0.03}, {"y_nm", 0.04}, {"differences", 200}},
      {{"tau_s", 16.384}, {"x_nm", 0.002}, {"y_nm", 0.002}, {"differences", 12}}};
  CHECK(contains(line_of(lines_of(), "in loop rms"), "   Allan 1 s 0.035   Allan 16 s 0.002"));
  for (auto& [key, value] : status["residual"]["out_of_loop"].items())
    if (key.ends_with("_nm")) value = nullptr;
  CHECK(line_of(lines_of(), "out of loop").text.empty());  // no witness
  CHECK(line_of(lines_of(), "            beyond").text.empty());
  status["residual"]["in_loop"]["allan"] = 5;  // not of this protocol: no reason to end
  CHECK_NOTHROW(lines_of());
  status["residual"] = nullptr;
  CHECK(line_of(lines_of(), "in loop rms").text.empty());
}

TEST_CASE("A lock that is lost is shown with what it was held for, and no law while none holds") {
  json status = driftd::test::protocol_examples().at("status");
  const auto lines_of = [&status] {
    DaemonView view;
    view.set_status(status, kNow_ns);
    return view.summary(kNow_ns);
  };
  CHECK(contains(line_of(lines_of(), "law"), "observer"));
  status["state"] = "lost";
  status["reason"] = "held_too_long";
  status["held_for"] = "stage_not_following";
  status["control"]["law"] = "";
  status["control"]["axes"] = json::array();
  const auto lines = lines_of();
  CHECK(contains(line_of(lines, "state"), "(held too long: stage not following)"));
  CHECK(line_of(lines, "law").text.empty());
  status["held_first"] = "no_frames";
  CHECK(contains(line_of(lines_of(), "state"),
                 "(held too long: stage not following, at first no frames)"));
  status.erase("held_first");
  status.erase("held_for");  // as an older daemon sends it
  CHECK(contains(line_of(lines_of(), "state"), "(held too long)"));
}

TEST_CASE("Before markers are known none are counted") {
  json status = driftd::test::protocol_examples().at("status");
  const auto line = [&status] {
    DaemonView view;
    view.set_status(status, kNow_ns);
    return line_of(view.summary(kNow_ns), "markers").text;
  };
  CHECK(line() == "markers     12 of 13 used, 3 witnesses");
  status["markers"]["used"] = nullptr;
  status["markers"]["tracking"] = 0;
  CHECK(line() == "markers     - of 0 used, 3 witnesses");
  status["markers"]["witness"] = 0;
  CHECK(line() == "markers     none are known yet");
}

TEST_CASE("What is foretold tells stage and markers apart once a whole record was seen") {
  json status = driftd::test::protocol_examples().at("status");
  const auto line = [&status] {
    DaemonView view;
    view.set_status(status, kNow_ns);
    return line_of(view.summary(kNow_ns), "  stage x:  0.25");
  };
  CHECK(contains(line(), "motion 0.12 markers 0.07 stage 0.20 lag 0.02"));
  status["control"]["axes"][0]["forecast"]["stage_known_in_s"] = 3.5;
  CHECK(contains(line(), "motion 0.12 noise 0.21 lag 0.02"));
}

TEST_CASE("A line is told with what would look the same, and whether it is followed") {
  json status = driftd::test::protocol_examples().at("status");
  json& found = status["control"]["axes"][0]["lines"][0];
  const auto line = [&status] {
    DaemonView view;
    view.set_status(status, kNow_ns);
    return line_of(view.summary(kNow_ns), "  stage x:  12.3 Hz").text;
  };
  CHECK(line() == "  stage x:  12.3 Hz 0.25 nm (verified)");
  found["verified"] = false;
  CHECK(line() == "  stage x:  12.3 Hz 0.25 nm");
  found["look_alikes_hz"] = {17.7, 42.3};
  CHECK(line() == "  stage x:  12.3 Hz 0.25 nm (or 17.7, 42.3 Hz)");
  found["followed"] = false;
  CHECK(line() == "  stage x:  12.3 Hz 0.25 nm (or 17.7, 42.3 Hz: not followed)");
  found["look_alikes_hz"] = json::array();
  found["verified"] = true;
  found["alias_of_hz"] = 87.7;
  CHECK(line() == "  stage x:  12.3 Hz 0.25 nm (an alias of 87.7 Hz: not followed)");
}

TEST_CASE("A marker is shown with what it is worth, and why that is less") {
  json markers = driftd::test::protocol_examples().at("markers");
  const auto table_of = [&markers] {
    DaemonView view;
    view.set_markers(markers);
    return view.marker_table(10);
  };
  CHECK(contains(table_of()[1], "good           1.00   101.20"));
  CHECK(table_of()[1].tone == Tone::Good);
  markers["markers"][0]["reputation"] = 0.4;
  markers["markers"][0]["reputation_reason"] = "seldom_seen";
  CHECK(table_of()[1].text.ends_with("  seldom seen"));
  CHECK(table_of()[1].tone == Tone::Warning);
  markers["markers"][0]["excluded"] = true;
  CHECK(table_of()[1].text.ends_with("  excluded: seldom seen"));
}

TEST_CASE("Why images may not be taken is told with the numbers and their key") {
  json status = driftd::test::protocol_examples().at("status");
  const auto gate_line = [&](const char* reason) {
    status["gate"]["in_lock"] = false;
    status["gate"]["reason"] = reason;
    DaemonView view;
    view.set_status(status, kNow_ns);
    const Line line = line_of(view.summary(kNow_ns), "in lock");
    CHECK(line.text.size() <= 80);
    return line.text;
  };
  status["gate"]["residual_x_nm"] = 0.9;
  status["gate"]["residual_y_nm"] = 1.43;
  status["gate"]["tolerance_nm"] = 1.0;
  CHECK(gate_line("residual") ==
        "in lock     no: residual 1.43 nm rms, tolerance 1 nm (gate.tolerance_nm)");
  CHECK(gate_line("settling") ==
        "in lock     no: settling at 1.43 nm rms, tolerance 1 nm (gate.tolerance_nm)");
  CHECK(gate_line("moved") ==
        "in lock     no: a frame was off by 1.43 nm, tolerance 1 nm (gate.tolerance_nm)");
  CHECK(gate_line("not_locked") == "in lock     no: not locked");
  status["gate"]["residual_x_nm"] = nullptr;
  CHECK(gate_line("residual") == "in lock     no: residual");
}

TEST_CASE("A sample that was moved shows what is left beside the set-point") {
  json status = driftd::test::protocol_examples().at("status");
  const auto lines_of = [&status] {
    DaemonView view;
    view.set_status(status, kNow_ns);
    return view.summary(kNow_ns);
  };
  CHECK(contains(line_of(lines_of(), "drift "), "+0.41"));
  CHECK(line_of(lines_of(), "residual").text.empty());
  status["move"]["x_nm"] = 400.0;
  status["move"]["y_nm"] = -20.0;
  status["drift"]["x_nm"] = 400.25;
  status["drift"]["y_nm"] = -20.5;
  const auto lines = lines_of();
  CHECK(contains(line_of(lines, "residual"), "     +0.250     -0.500 nm   sd 0.170 / 0.170"));
  CHECK(contains(line_of(lines, "set-point"), "     +400.0      -20.0 nm"));
  CHECK(line_of(lines, "drift ").text.starts_with("drift rms"));
  status["move"]["x_nm"] = nullptr;
  CHECK(contains(line_of(lines_of(), "residual"), "          -     -0.500 nm"));
}

TEST_CASE("What is to be done is shown below the state that it is of") {
  json status = driftd::test::protocol_examples().at("status");
  status["state"] = "holding";
  status["cure"] = "see light and focus";
  DaemonView view;
  view.set_status(status, kNow_ns);
  CHECK(line_of(view.summary(kNow_ns), "            see light and focus").tone == Tone::Warning);
  view.update(message("position", {{"state", "locked"}}), kNow_ns);
  CHECK(line_of(view.summary(kNow_ns), "            see light and focus").text.empty());
}

TEST_CASE("A stage that looks stuck while no driver reports has none") {
  const auto examples = driftd::test::protocol_examples();
  json status = examples.at("status");
  const auto stage_line = [&status] {
    DaemonView view;
    view.set_status(status, kNow_ns);
    return line_of(view.summary(kNow_ns), "stage").text;
  };
  status["stage"] = "stuck";
  CHECK(stage_line() == "stage       no driver is connected");
  status["stage"] = "reversed";  // somebody moves it
  CHECK(stage_line() == "stage       looks reversed");
  status["stage"] = "stuck";
  status["stage_driver"] = examples.at("stage_driver");
  CHECK(stage_line() == "stage       looks stuck");
}

TEST_CASE("Why a fitter or a law was taken is told whole and in words") {
  json status = driftd::test::protocol_examples().at("status");
  status["fitter"]["reason"] =
      "CUDA: loading the kernels on device 0 (H200, compute capability 9.0): no kernel image is "
      "available";
  status["control"]["reason"] = "worse_than_pi";
  status["control"]["law"] = "pi";
  DaemonView view;
  view.set_status(status, kNow_ns);
  const auto lines = view.summary(kNow_ns);
  CHECK_FALSE(line_of(lines, "            9.0): no kernel image is available").text.empty());
  CHECK(line_of(lines, "law")
            .text.starts_with("law         pi (the observer left more, and is tried again later)"));
  status["control"]["reason"] = "driver_too_slow";
  view.set_status(status, kNow_ns);
  const Line law = line_of(view.summary(kNow_ns), "law");
  CHECK(law.text.starts_with(
      "law         pi (the stage's driver takes too few corrections for the observer)"));
  CHECK(law.tone == Tone::Warning);
}

TEST_CASE("What the stage's driver tells is shown, and nothing of one that only subscribes") {
  const auto examples = driftd::test::protocol_examples();
  json status = examples.at("status");
  const auto lines_of = [&status] {
    DaemonView view;
    view.set_status(status, kNow_ns);
    return view.summary(kNow_ns);
  };
  CHECK(line_of(lines_of(), "stage").text.empty());
  status["stage_driver"] = examples.at("stage_driver");
  auto lines = lines_of();
  CHECK(line_of(lines, "stage").text == "stage       pi_gcs2: ready");
  CHECK(line_of(lines, "stage").tone == Tone::Plain);
  CHECK(contains(line_of(lines, "            at x"), "at x 50012.3 nm   off 0.4 nm"));
  CHECK(
      contains(line_of(lines, "            499"), "499 moves/s   p50 92   p99 410 us   refused 0"));
  status["stage_driver"]["state"] = "servo_off";
  status["stage_driver"]["text"] = "axis 1: servo is off (error 5)";
  lines = lines_of();
  CHECK(line_of(lines, "stage").text == "stage       pi_gcs2: servo off");
  CHECK(line_of(lines, "stage").tone == Tone::Bad);
  CHECK(line_of(lines, "            axis 1").tone == Tone::Bad);
  status["stage"] = "reversed";
  CHECK(line_of(lines_of(), "stage").text == "stage       looks reversed");
  status["stage_driver"]["axes"] = 5;  // not of this protocol: no reason to end
  status["stage_driver"]["latency_us"] = nullptr;
  CHECK_NOTHROW(lines_of());
}

TEST_CASE("A recording is shown, and what ended it") {
  json status = driftd::test::protocol_examples().at("status");
  const auto lines_of = [&status] {
    DaemonView view;
    view.set_status(status, kNow_ns);
    const std::vector<Line> lines = view.summary(kNow_ns);
    for (const Line& line : lines) CHECK(line.text.size() <= 80);
    return lines;
  };
  CHECK(line_of(lines_of(), "record").text.empty());  // there is none, and was none
  CHECK(line_of(lines_of(), "raw frames").text.empty());
  const std::string file = "/var/lib/driftd/records/driftd_20261123T094712.123Z_001.h5";
  status["record"] = {{"recording", true},     {"by", "lock"},       {"file", file},
                      {"seconds", 754.2},      {"frames", 377'000U}, {"not_recorded", 0U},
                      {"bytes", 123'400'000U}, {"problem", ""}};
  const Line runs = line_of(lines_of(), "record");
  CHECK(runs.text == "record      of the lock, for 0:12:34: 377000 frames, 123.4 MB");
  CHECK(runs.tone == Tone::Plain);
  CHECK(line_of(lines_of(), "            " + file).tone == Tone::Plain);
  status["record"]["by"] = "command";
  status["record"]["not_recorded"] = 17U;
  const Line lacks = line_of(lines_of(), "record");
  CHECK(
      contains(lacks, "record      by command, for 0:12:34: 377000 frames, 123.4 MB, 17 left out"));
  CHECK(lacks.tone == Tone::Warning);
  // As it was ordered.
  status["record"]["recording"] = false;
  status["record"]["by"] = status["record"]["seconds"] = nullptr;
  CHECK(line_of(lines_of(), "record").text.empty());
  status["record"]["problem"] =
      "/var/lib/driftd/records has 99 MB left, and record.keep_free_mb keeps 1000 MB";
  const Line ended = line_of(lines_of(), "record");
  CHECK(ended.text == "record      has ended, and nothing is recorded:");
  CHECK(ended.tone == Tone::Bad);
  CHECK(line_of(lines_of(), "            /var/lib/driftd/records has 99 MB left").tone ==
        Tone::Bad);
  status["record"]["file"] = nullptr;
  CHECK(line_of(lines_of(), "record").text == "record      could not begin:");
  status["raw_frames"]["saving"] = true;
  CHECK(line_of(lines_of(), "raw frames").text == "raw frames  being saved");
  status["raw_frames"]["saving"] = false;
  status["raw_frames"]["problem"] = "No space left on device";
  CHECK(line_of(lines_of(), "raw frames").tone == Tone::Bad);
  CHECK(line_of(lines_of(), "            No space left").tone == Tone::Bad);
}

TEST_CASE("Limits that hold the correction back are named") {
  DaemonView view = view_of_examples();
  json correction = driftd::test::protocol_examples().at("correction");
  correction["limited"] = {"step", "range"};
  view.update(message("correction", correction), kNow_ns);
  CHECK(contains(line_of(view.summary(kNow_ns), "correction"), "limited: step range"));
}

TEST_CASE("A lock that was interrupted is said with the ways there are") {
  DaemonView view;
  json status = driftd::test::protocol_examples().at("status");
  status["interrupted"] = driftd::test::protocol_examples().at("interrupted");
  view.set_status(status, kNow_ns);
  std::string said;
  for (const Line& line : view.summary(kNow_ns)) {
    if (line.tone == Tone::Warning && line.text.starts_with("            "))
      said += line.text.substr(12) + ' ';
  }
  CHECK(said.find("the sample is 24.0 nm") != std::string::npos);
  CHECK(said.find("`driftctl lock --resume` goes back there") != std::string::npos);
}

TEST_CASE("Markers come a line each, and as many as there is room for") {
  json markers = driftd::test::protocol_examples().at("markers");
  const json one = markers["markers"][0];
  for (int id = 2; id <= 6; ++id) {
    markers["markers"].push_back(one);
    markers["markers"].back()["id"] = id;
  }
  markers["markers"][1]["health"] = "fit_failed";
  markers["markers"][1]["x_px"] = nullptr;
  DaemonView view;
  view.update(message("markers", markers), kNow_ns);

  const std::vector<Line> all = view.marker_table(100);
  REQUIRE(all.size() == 7);  // a heading and six markers
  CHECK(contains(all[1], "1  tracking good           1.00   101.20    55.93     +0.09     -0.11"));
  CHECK(all[1].tone == Tone::Good);
  CHECK(contains(all[2], "fit failed     1.00        -"));
  CHECK(all[2].tone == Tone::Bad);
  CHECK(view.marker_table(7).size() == 7);

  const std::vector<Line> some = view.marker_table(4);
  REQUIRE(some.size() == 4);
  CHECK(contains(some[3], "and 4 more"));
  CHECK(view.marker_table(0).empty());
}

TEST_CASE("z is shown where it is measured, live, with what it is worth") {
  json status = driftd::test::protocol_examples().at("status");
  status["axial"] = driftd::test::axial_example();
  DaemonView view;
  view.update(message("status", status), kNow_ns);
  CHECK(contains(line_of(view.summary(kNow_ns), "z "),
                 "    -31.250 nm   sd 1.500   11 of 13 markers, +42 nm from focus"));
  json position = driftd::test::protocol_examples().at("position");
  position["z_nm"] = -30.0;
  position["z_sd_nm"] = 1.25;
  position["witness_z_nm"] = 2.5;
  view.update(message("position", position), kNow_ns);
  const auto lines = view.summary(kNow_ns);
  CHECK(contains(line_of(lines, "z "), "    -30.000 nm   sd 1.250   11 of 13 markers"));
  status["axial"]["method"] = "reflection";
  view.update(message("status", status), kNow_ns);
  CHECK(contains(line_of(view.summary(kNow_ns), "z "), "   sd 1.250   by the reflected spot"));
  CHECK(contains(line_of(lines, "witnesses"), "nm   z +2.500 nm"));
  CHECK(view.one_line(kNow_ns).find("nm  z   -30.00 nm  rms") != std::string::npos);
  status["axial"]["warning"] = "the markers are 310 nm from where both widths are equal";
  view.update(message("status", status), kNow_ns);
  const Line warning = line_of(view.summary(kNow_ns), "            the markers are 310");
  CHECK(warning.tone == Tone::Warning);
  for (const Line& line : view.summary(kNow_ns)) {
    INFO(line.text);
    CHECK(line.text.size() <= 80);
  }
}

TEST_CASE("The lock of z is shown beside that of x and y, and does not stand for it") {
  json status = driftd::test::protocol_examples().at("status");
  status["axial"] = driftd::test::axial_held_example();
  status["axial"]["lock"]["lock_id"] = 2U;
  status["gate"].update({{"in_lock", false}, {"reason", "axial"}});
  DaemonView view;
  view.set_status(status, kNow_ns);
  auto lines = view.summary(kNow_ns);
  CHECK(line_of(lines, "z lock").text ==
        "z lock      locked for 0:00:00 (reference taken)   lock 2");
  CHECK(line_of(lines, "z lock").tone == Tone::Good);
  CHECK(line_of(lines, "z in lock").text ==
        "z in lock   no: residual 7.25 nm rms, tolerance 5 nm (gate.z_tolerance_nm)");
  CHECK(line_of(lines, "in lock").text == "in lock     no: z does not lie still, or is not held");
  CHECK(contains(line_of(lines, "z set-point"), "      +50.0 nm"));
  CHECK(
      contains(line_of(lines, "z law"), "observer   leaves 1.50 nm with its noise, PI would 2.50"));
  CHECK(contains(line_of(lines, "  stage z:"), "0.61 nm foretold: motion 0.30 markers 0.45"));
  CHECK(line_of(lines, "z stage at").text == "z stage at      -18.250 nm");
  CHECK(line_of(lines, "z stage     sim").text == "z stage     simulator: ready");
  CHECK(view.one_line(kNow_ns).find(" locked  rms") != std::string::npos);
  view.update(message("axial", {{"total_z_nm", -20.5}, {"limited", {"step"}}}), kNow_ns);
  CHECK(line_of(view.summary(kNow_ns), "z stage at").text ==
        "z stage at      -20.500 nm   limited: step");
  // Its event names a state, which is not that of x and y.
  view.update(message("event", {{"code", "axial_state_changed"}, {"state", "lost"}, {"text", ""}}),
              kNow_ns);
  CHECK(view.state() == "locked");
  json& lock = status["axial"]["lock"];
  lock.update({{"state", "holding"},
               {"reason", "z_not_measured"},
               {"cure", "see the light"},
               {"stage", "reversed"},
               {"stage_driver", nullptr}});
  view.set_status(status, kNow_ns);
  lines = view.summary(kNow_ns + 1'500'000'000);
  CHECK(line_of(lines, "z lock").text ==
        "z lock      holding for 0:00:02 (z not measured)   lock 2");
  CHECK(line_of(lines, "z lock").tone == Tone::Warning);
  CHECK(line_of(lines, "            see the light").tone == Tone::Warning);
  CHECK(contains(line_of(lines, "z stage     "), "looks reversed"));
  CHECK(contains(line_of(lines, "state"), "locked for"));
  for (const Line& line : lines) {
    INFO(line.text);
    CHECK(line.text.size() <= 80);
  }
  lock.update({{"state", "idle"}, {"reason", "none"}, {"cure", ""}});
  view.set_status(status, kNow_ns);
  CHECK(line_of(view.summary(kNow_ns), "z lock").text.starts_with("z lock      idle"));
  CHECK(line_of(view.summary(kNow_ns), "z in lock").text.empty());
  status["axial"]["lock"] = nullptr;  // measured, and never held
  view.set_status(status, kNow_ns);
  CHECK(line_of(view.summary(kNow_ns), "z lock").text.empty());
}

TEST_CASE("Where z is not measured the reason is shown, and no number") {
  json status = driftd::test::protocol_examples().at("status");
  status["axial"] = driftd::test::no_axial_example();
  json position = driftd::test::protocol_examples().at("position");
  position["z_nm"] = position["z_sd_nm"] = position["witness_z_nm"] = nullptr;
  DaemonView view;
  view.update(message("status", status), kNow_ns);
  view.update(message("position", position), kNow_ns);
  const auto lines = view.summary(kNow_ns);
  CHECK(line_of(lines, "z ").text == "z           not measured");
  CHECK(line_of(lines, "z ").tone == Tone::Warning);
  CHECK(contains(line_of(lines, "            z of 1"), "z of 1 of 13 tracking markers is read"));
  CHECK_FALSE(contains(line_of(lines, "witnesses"), " z "));
  CHECK(view.one_line(kNow_ns).find("nm  z        - nm") != std::string::npos);
  status["axial"]["text"] = "";  // of the reason alone
  view.update(message("status", status), kNow_ns);
  CHECK_FALSE(line_of(view.summary(kNow_ns), "            out of range").text.empty());
}

TEST_CASE("A daemon without z shows nothing of it") {
  json status = driftd::test::protocol_examples().at("status");
  json position = driftd::test::without_z(driftd::test::protocol_examples().at("position"));
  json markers = driftd::test::protocol_examples().at("markers");
  markers["markers"][0] = driftd::test::without_z(markers["markers"][0]);
  status["axial"] = nullptr;
  std::vector<std::string> without, with;
  for (std::vector<std::string>* shown : {&without, &with}) {
    DaemonView view;
    for (const auto& [topic, body] :
         {std::pair{"status", status}, {"position", position}, {"markers", markers}})
      view.update(message(topic, body), kNow_ns);
    for (const Line& line : view.summary(kNow_ns)) shown->push_back(line.text);
    for (const Line& line : view.marker_table(9)) shown->push_back(line.text);
    shown->push_back(view.one_line(kNow_ns));
    status.erase("axial");  // a daemon from before there was z
    for (const char* key : {"z_nm", "z_sd_nm", "frame_z_nm", "frame_z_sd_nm", "witness_z_nm"})
      position.erase(key);
    for (const char* key : {"sigma_y_px", "z_nm", "z_sd_nm", "residual_z_nm"})
      markers["markers"][0].erase(key);
  }
  CHECK(without == with);
  for (const std::string& line : with) {
    INFO(line);
    CHECK((line.find("z nm") == std::string::npos && !line.starts_with("z ")));
  }
}

TEST_CASE("How the markers' pattern lies is shown, with its tilt where z is measured") {
  json status = driftd::test::protocol_examples().at("status");
  const auto lines_of = [&status] {
    DaemonView view;
    view.set_status(status, kNow_ns);
    return view.summary(kNow_ns);
  };
  status["pattern"] = driftd::test::pattern_example();
  CHECK(line_of(lines_of(), "pattern").text ==
        "pattern     turned +0.0123 +-0.0041 mrad, grown -3.2 +-4.1 ppm");
  CHECK(line_of(lines_of(), "  tilted").text ==
        "  tilted    x +0.250 +-0.080 mrad, y -0.500 +-0.090 mrad");
  for (const char* key : {"tilt_x_mrad", "tilt_x_sd_mrad", "tilt_y_mrad", "tilt_y_sd_mrad"})
    status["pattern"][key] = nullptr;
  CHECK(line_of(lines_of(), "  tilted").text.empty());
  status["pattern"] = nullptr;
  CHECK(line_of(lines_of(), "pattern").text.empty());
  status.erase("pattern");  // as an older daemon sends it
  CHECK(line_of(lines_of(), "pattern").text.empty());
}

TEST_CASE("The table of markers has z where it is measured") {
  json markers = driftd::test::protocol_examples().at("markers");
  const json flat = driftd::test::without_z(markers["markers"][0]);
  markers["markers"].push_back(flat);
  json& first = markers["markers"][0];
  first["sigma_y_px"] = 1.5;
  first["z_nm"] = 12.34;
  first["residual_z_nm"] = -5.67;
  DaemonView view;
  view.set_markers(markers);
  const auto table = view.marker_table(9);
  CHECK(table[0].text.ends_with("sigma     z nm  res z nm"));
  CHECK(table[1].text.ends_with("1.31    +12.3      -5.7"));
  CHECK(table[2].text.ends_with("1.31        -         -"));
}
