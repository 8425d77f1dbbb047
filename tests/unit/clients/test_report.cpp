// SPDX-License-Identifier: MIT
#include "clients/demo/report.hpp"

#include "support/catch.hpp"
#include "synthetic_recording.hpp"

using namespace driftd::clients;
using driftd::test::at;
using driftd::test::kExpected;
using driftd::test::kResidual_nm;
using driftd::test::MadeFrame;

namespace {

Report report_of(const std::function<void(MadeFrame&)>& change = {}) {
  return make_report(driftd::test::make_recording(change), driftd::test::phases(),
                     driftd::test::status(), kExpected);
}

/// The same of a demo that holds z, too.
Report deep_report(const std::function<void(MadeFrame&)>& change = {}) {
  driftd::clients::Expected expected = kExpected;
  expected.z_step_limit_nm = 10;
  const auto deep = [&change](MadeFrame& frame) {
    driftd::test::deep(frame);
    if (change) change(frame);
  };
  return make_report(driftd::test::make_recording(deep), driftd::test::phases(),
                     driftd::test::status(), expected);
}

bool judged(const MadeFrame& frame) {
  return (frame.t_s >= 11.3 && frame.t_s < 20) || (frame.t_s > 23.5 && frame.t_s < 30);
}

bool fails_with(const Report& report, const std::string& text) {
  INFO(to_json(report).dump(1));
  return report.failures.size() == 1 && report.failures[0].find(text) != std::string::npos;
}

std::string text_of(const Report& report) {
  std::string text;
  for (const Line& line : to_lines(report)) text += line.text + '\n';
  return text;
}

}  // namespace

TEST_CASE("A demo that went well is reported in its true figures") {
  const Report report = report_of();
  CHECK(report.failures.empty());
  CHECK(report.residual_rms_nm[kX] == Approx(kResidual_nm));
  CHECK(report.residual_rms_nm[kY] == Approx(kResidual_nm));
  CHECK(report.residual_max_nm[kX] == Approx(kResidual_nm));
  // Locked and settled from 11.2 to 20 s and from 23.5 to 30 s: 880 and 650 frames.
  CHECK(report.judged_frames == 1530);
  // Over the same frames a drift of 10 nm/s from 10.095 s on: the mean square of 10 (t - 10.095).
  const auto integral = [](double from_s, double to_s) {
    return 100 * (std::pow(to_s - 10.095, 3) - std::pow(from_s - 10.095, 3)) / 3;
  };
  const double rms_nm = std::sqrt((integral(11.2, 20) + integral(23.5, 30)) / 15.3);
  CHECK(report.unlocked_rms_nm[kX] == Approx(rms_nm).epsilon(1e-3));
  CHECK(report.unlocked_rms_nm[kY] == Approx(0.8 * rms_nm).epsilon(1e-3));
  // A ramp over 10 s about the mean of its first half second: 100 (t - 0.245) nm.
  CHECK(report.watched_unlocked_rms_nm[kX] ==
        Approx(10 * std::sqrt((std::pow(9.755, 3) + std::pow(0.245, 3)) / 30)).epsilon(1e-3));
  CHECK(report.frames == 2780);  // 29.8 s, the last 0.2 s may be under way, less 2 s of camera away
  CHECK(report.frames_lost == 0);
  CHECK(report.rate_hz == Approx(100).epsilon(1e-3));
  REQUIRE(report.reconnect_s);
  CHECK(*report.reconnect_s == Approx(2.5));
  CHECK(report.largest_step_nm == Approx(0.1));
}

TEST_CASE("z is judged as x and y are, by its own lock") {
  const Report report = deep_report();
  CHECK(report.failures.empty());
  REQUIRE(report.z);
  CHECK(report.z->residual_rms_nm == Approx(2 * kResidual_nm));
  CHECK(report.z->residual_max_nm == Approx(2 * kResidual_nm));
  CHECK(report.z->unlocked_rms_nm == Approx(0.6 * report.unlocked_rms_nm[kX]).epsilon(1e-3));
  CHECK(report.z->judged_frames == 1530);
  CHECK(report.z->largest_step_nm == Approx(0.2));
  CHECK(to_json(report)["z"]["residual_rms_nm"].get<double>() == Approx(2 * kResidual_nm));
  CHECK(to_lines(report)[0].text.ends_with("        x        y        z"));
  CHECK(report.residual_rms_nm[kX] == Approx(kResidual_nm));

  CHECK(fails_with(deep_report([](MadeFrame& frame) {
                     if (judged(frame)) frame.truth.sample_z_nm += frame.t_s > 15 ? 3 : -3;
                   }),
                   "nm rms in z; at most 2 nm"));
  CHECK(fails_with(deep_report([](MadeFrame& frame) {
                     if (frame.t_s == 15) frame.z_state = "holding";
                   }),
                   "The lock of z let go outside the fault (1 of 1530 frames)"));
  CHECK(fails_with(deep_report([](MadeFrame& frame) {
                     if (frame.t_s > 20) frame.z_state = "holding";
                   }),
                   "The lock of z did not come back"));
  CHECK(fails_with(deep_report([](MadeFrame& frame) { frame.truth.disturbance_z_nm = frame.t_s; }),
                   "in z only: there was too little"));
  const Report never = deep_report([](MadeFrame& frame) { frame.z_state = "idle"; });
  CHECK_FALSE(never.failures.empty());
  CHECK(never.z->judged_frames == 0);
}

TEST_CASE("The report file has the keys that are promised") {
  const nlohmann::json json = to_json(report_of());
  CHECK(json["residual_rms_nm"]["x"].get<double>() == Approx(kResidual_nm));
  CHECK(json["unlocked_rms_nm"]["y"].get<double>() > 20);
  CHECK(json["latency_us"]["p99_9"] == 120.0);
  CHECK(json["z"].is_null());
  CHECK(json["backend"] == "cpu");
  CHECK(json["frames"] == 2780);
  CHECK(json["frames_lost"] == 0);
  CHECK(json["rate_hz"].is_number());
  CHECK(json["reconnect_s"].is_number());
  CHECK(json["failures"].empty());
}

TEST_CASE("A sample that still moves is a failure, in either axis") {
  for (const std::size_t axis : {kX, kY}) {
    const Report report = report_of([&](MadeFrame& frame) {
      if (judged(frame)) frame.truth.sample_nm[axis] += 1.5;
    });
    CHECK(fails_with(report, axis == kX ? "nm rms in x" : "nm rms in y"));
  }
}

TEST_CASE("An offset from the reference counts as residual") {
  // Held perfectly still, in the wrong place: a standard deviation would not see it.
  const Report report = report_of([](MadeFrame& frame) {
    if (frame.state == "locked") frame.truth.sample_nm = {10 * 10.095 + 3, -8 * 10.095};
  });
  CHECK(report.residual_rms_nm[kX] == Approx(3));
  CHECK(fails_with(report, "nm rms in x"));
}

TEST_CASE("A NaN in the truth fails") {
  const Report report = report_of([](MadeFrame& frame) {
    if (frame.t_s == 15) frame.truth.sample_nm[kX] = std::nan("");
  });
  CHECK(fails_with(report, "nm rms in x"));
}

TEST_CASE("A sample that would have stayed still by itself proves nothing") {
  const Report report = report_of([](MadeFrame& frame) { frame.truth.disturbance_nm[kY] /= 20; });
  CHECK(fails_with(report, "too little to correct"));
}

TEST_CASE("What the fault does to the sample is not judged, until it has settled") {
  const auto push = [](double until_s) {
    return [until_s](MadeFrame& frame) {
      if (frame.t_s >= 20 && frame.t_s < until_s) frame.truth.sample_nm[kX] += 500;
    };
  };
  CHECK(report_of(push(23.5)).failures.empty());
  CHECK(fails_with(report_of(push(23.7)), "nm rms in x"));
}

TEST_CASE("A lock that lets go outside the fault is a failure") {
  const Report report = report_of([](MadeFrame& frame) {
    if (frame.t_s >= 15 && frame.t_s < 15.05) frame.state = "holding";
  });
  CHECK(report.judged_not_locked == 5);
  CHECK(fails_with(report, "let go outside the fault (5 of 1530 frames)"));
}

TEST_CASE("A computer too slow for the simulation is named beside the failure") {
  const auto said = [](double rate_hz) {
    Expected expected = kExpected;
    expected.rate_hz = rate_hz;
    return text_of(make_report(driftd::test::make_recording(), driftd::test::phases(),
                               driftd::test::status(), expected));
  };
  CHECK(said(100).find("busy") == std::string::npos);
  CHECK(said(500).find("100 of 500 frames a second: this computer is too busy") !=
        std::string::npos);
}

TEST_CASE("Frames without a position are lost, those of the fault are not counted") {
  const Report report = report_of([](MadeFrame& frame) {
    if (frame.t_s >= 5 && frame.t_s < 5.03) frame.state.clear();
    if (frame.t_s >= 22 && frame.t_s < 22.3) frame.state.clear();
  });
  CHECK(report.frames_lost == 3);
  CHECK(report.failures.empty());
}

TEST_CASE("A lock that does not come back is a failure") {
  const Report report = report_of([](MadeFrame& frame) {
    if (frame.t_s >= 22) frame.state = "holding";
  });
  CHECK_FALSE(report.reconnect_s);
  CHECK(to_json(report)["reconnect_s"].is_null());
  CHECK(fails_with(report, "did not come back"));
}

TEST_CASE("Positions from just before the camera went do not count as locked again") {
  // A frame that was under way when the camera went is published 30 ms later.
  Recording recording = driftd::test::make_recording();
  Phases phases = driftd::test::phases();
  phases.fault_ns = at(19.97);
  const auto relocked = relocked_ns(recording, phases);
  REQUIRE(relocked);
  CHECK(*relocked == at(22.5));
}

TEST_CASE("A correction above the step limit is a failure") {
  Recording recording = driftd::test::make_recording();
  const auto report = [&] {
    return make_report(recording, driftd::test::phases(), driftd::test::status(), kExpected);
  };
  recording.add(PublishedCorrection{at(22.6), {0, -20.0004}});  // the limit, rounded on the wire
  CHECK(report().failures.empty());
  CHECK(report().largest_step_after_reconnect_nm == Approx(20.0004));
  recording.add(PublishedCorrection{at(22.7), {0, -20.1}});
  CHECK(fails_with(report(), "the limit is 20.000 nm"));
}

TEST_CASE("A demo that never locked has nothing to show") {
  const Report report = report_of([](MadeFrame& frame) {
    if (!frame.state.empty()) frame.state = "idle";
  });
  CHECK(report.judged_frames == 0);
  CHECK_FALSE(report.failures.empty());
}

TEST_CASE("Messages that the demo missed are told, and many spoil its figures") {
  const auto report = [](std::uint64_t missed) {
    Recording recording = driftd::test::make_recording();
    Message message = *parse_message(R"(status {"v":1,"seq":9,"session":"a"})");
    message.lost = missed;
    recording.add(message);
    return make_report(recording, driftd::test::phases(), driftd::test::status(), kExpected);
  };
  CHECK(report(139).failures.empty());  // 5 % of 2,780 frames
  CHECK(text_of(report(139)).find("missed 139 messages") != std::string::npos);
  CHECK(fails_with(report(140), "missed 140 messages"));
}

TEST_CASE("A computer that stalled is told, and what the lock does about it is not judged") {
  const bool gone = GENERATE(true, false);  // the frames, or late
  // The sample is off from the stall's begin until 0.9 s after it.
  const auto stalled = [gone](MadeFrame& frame) {
    if (frame.t_s >= 15 && frame.t_s < 16.15) {
      frame.truth.sample_nm[kX] += 30;
      frame.truth.sample_z_nm += 30;
      if (!frame.state.empty()) frame.state = frame.z_state = "holding";
    }
    if (frame.t_s >= 15 && frame.t_s < 15.25) {
      if (gone)
        frame.state.clear();
      else
        frame.late_s = 0.06;
    }
  };
  const Report report = deep_report(stalled);
  INFO(text_of(report));
  CHECK(report.failures.empty());
  REQUIRE(report.stalls.size() == 1);
  CHECK(total_s(report.stalls) == Approx(0.26).margin(0.011));
  CHECK(report.residual_max_nm[kX] == Approx(kResidual_nm));
  CHECK(report.judged_frames == 1530 - 125);  // after 14.99 and before 16.25 s
  CHECK(report.z->judged_frames == report.judged_frames);
  CHECK(report.judged_s == Approx(15.3 - 1.26).margin(0.05));
  CHECK(text_of(report).find("stalls of this computer while locked: 1, of 0.3 s") !=
        std::string::npos);
  CHECK(to_json(report)["stalls"] == 1);

  SECTION("what lasts longer is judged, by a larger limit") {
    const auto off_by = [&](double nm) {
      return deep_report([&stalled, nm](MadeFrame& frame) {
        stalled(frame);
        if (frame.t_s >= 16 && frame.t_s < 17) frame.truth.sample_nm[kX] += nm;
      });
    };
    // 75 of 1405 frames are judged
    CHECK(off_by(12).failures.empty());
    CHECK(fails_with(off_by(14), "nm rms in x; at most 3 nm"));
  }
  SECTION("a lock that holds beside a load is told, and is bad where it holds often") {
    const auto held_s = [&](double seconds) {
      return deep_report([&stalled, seconds](MadeFrame& frame) {
        stalled(frame);
        if (frame.t_s >= 16.3 && frame.t_s < 16.295 + seconds) frame.state = "holding";
      });
    };
    CHECK(held_s(0.05).judged_not_locked == 5);
    CHECK(held_s(0.05).failures.empty());
    CHECK(text_of(held_s(0.05)).find("for 5 frames") != std::string::npos);
    CHECK(held_s(3.5).failures.empty());
    CHECK(fails_with(held_s(3.6), "let go outside the fault (360 of 1405 frames)"));
  }
  SECTION("frames that are late by less than the daemon bears are no stall") {
    const Report little = deep_report([&](MadeFrame& frame) {
      frame.late_s = 0.045;
      if (frame.t_s >= 15 && frame.t_s < 15.03) frame.state.clear();
    });
    CHECK(little.stalls.empty());
    CHECK(little.failures.empty());
  }
}

TEST_CASE("A computer that stalls all the time can tell nothing, and says so") {
  const Report report = deep_report([](MadeFrame& frame) {
    if (frame.t_s > 10.5 && std::fmod(frame.t_s, 1.0) < 0.1) frame.state.clear();
  });
  CHECK(report.judged_s < kLeastJudged_s);
  CHECK(fails_with(report, "This computer was too busy to tell: 16 stalls"));
}

TEST_CASE("z is recorded where there is one, and nothing of it without") {
  Recording recording;
  for (const char* text :
       {R"(truth {"seq":1,"camera_time_ns":7,"time_ns":8,"sample_x_nm":1.5,"sample_y_nm":-2,)"
        R"("disturbance_x_nm":3,"disturbance_y_nm":4,"sent":true,"sample_z_nm":5,)"
        R"("disturbance_z_nm":6})",
        R"(position {"seq":1,"session":"a","camera_time_ns":7,"arrival_ns":9,"state":"locked",)"
        R"("z_state":"holding"})",
        R"(axial {"seq":1,"session":"a","sent_ns":10,"delta_z_nm":-0.5})",
        R"(position {"seq":2,"session":"a","camera_time_ns":8,"arrival_ns":9,"state":"locked",)"
        R"("z_state":null})"}) {
    recording.add(*parse_message(text));
  }
  const Recording z = recording.axial();
  CHECK(z.truth()[0].sample_nm == PerAxis{5, 0});
  CHECK(z.truth()[0].disturbance_nm == PerAxis{6, 0});
  CHECK(z.position_of(z.truth()[0])->state == "holding");
  CHECK(z.positions()[1].state.empty());
  REQUIRE(z.corrections().size() == 1);
  CHECK(z.corrections()[0].delta_nm == PerAxis{-0.5, 0});
  CHECK(recording.corrections().empty());
}

TEST_CASE("Messages are recorded by their topic") {
  Recording recording;
  for (const char* text :
       {R"(truth {"seq":1,"camera_time_ns":7,"time_ns":8,"sample_x_nm":1.5,"sample_y_nm":-2,)"
        R"("disturbance_x_nm":3,"disturbance_y_nm":4,"sent":true})",
        R"(position {"seq":1,"session":"a","camera_time_ns":7,"arrival_ns":9,"state":"locked"})",
        R"(correction {"seq":1,"session":"a","sent_ns":10,"delta_x_nm":0.5,"delta_y_nm":0.25})",
        R"(event {"seq":1,"session":"a"})"}) {
    recording.add(*parse_message(text));
  }
  REQUIRE(recording.truth().size() == 1);
  CHECK(recording.truth()[0].sample_nm == PerAxis{1.5, -2});
  CHECK(recording.truth()[0].disturbance_nm == PerAxis{3, 4});
  REQUIRE(recording.position_of(recording.truth()[0]) != nullptr);
  CHECK(recording.position_of(recording.truth()[0])->state == "locked");
  REQUIRE(recording.corrections().size() == 1);
  CHECK(recording.corrections()[0].delta_nm == PerAxis{0.5, 0.25});
}
