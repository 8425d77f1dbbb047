// SPDX-License-Identifier: MIT
// What the tracking loop makes of frames that are late, missing or empty, of fits that fail, of a
// recording, and of a publisher that does not get rid of what it is handed.
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "unit/daemon/tracking_bench.hpp"

using namespace driftd;
using namespace driftd::daemon;
using camera::PopStatus;
using control::LockReason;
using control::LockState;
using driftd::daemon::test::Bench;
using driftd::daemon::test::kHeightPx;
using driftd::daemon::test::kWidthPx;
using driftd::daemon::test::publisher_held;
using driftd::daemon::test::publisher_stands;
using driftd::daemon::test::scripted_ns;
using driftd::daemon::test::ScriptedCamera;

namespace {

constexpr std::int64_t kMs = 1'000'000;

}  // namespace

TEST_CASE("a correction that left late counts from when it left") {
  Bench bench;
  bench.stage_obeys = false;
  bench.config.control.rate_limit_nm_per_s = 1000;  // 2 nm from frame to frame
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.frames(4, {.drift_nm = {40, 0}});
  bench.at_here([] { driftd::daemon::test::publisher_late_ns = kMs; });  // half a frame
  bench.frames(4, {.drift_nm = {40, 0}});
  bench.run();
  driftd::daemon::test::publisher_late_ns = 0;
  const auto corrections = bench.of("correction");
  REQUIRE(corrections.size() >= 8);
  const auto step_nm = [&](std::size_t back) {
    return std::abs(corrections[corrections.size() - back].at("delta_x_nm").get<double>());
  };
  CHECK(step_nm(6) == Approx(2));
  CHECK(step_nm(4) == Approx(2));  // the one before it was in time
  CHECK(step_nm(2) == Approx(1));
  CHECK(step_nm(1) == Approx(1));
}

TEST_CASE("a frame's age counts from when it was due by the camera's clock") {
  for (const int delayed_ms : {49, 51}) {  // of 50
    Bench bench;
    bench.frames(300);  // 0.6 s: the clock is trusted
    bench.frames(1, {.delayed_ns = delayed_ms * kMs});
    const LoopReport report = bench.run();
    CHECK(report.clock_trust == ClockTrust::Trusted);
    CHECK(report.stale == (delayed_ms > 50 ? 1 : 0));
    CHECK(report.fitted == (delayed_ms > 50 ? 300 : 301));
  }
}

TEST_CASE("the camera is asked for the rate of its clock when frames get late, and believed") {
  for (const double slow : {0.0, 0.02}) {
    for (const bool answers : {false, true}) {
      CAPTURE(slow, answers);
      Bench bench;
      bench.camera.slow = slow;
      if (answers)
        bench.camera.told_rate = {.slow = static_cast<float>(slow), .uncertainty = 0.001F};
      bench.frames(1000);  // 2 s
      const LoopReport report = bench.run();
      const bool found_out = slow > 0 && answers;
      CHECK(report.clock_trust == (found_out ? ClockTrust::Unusable : ClockTrust::Trusted));
      CHECK(report.clock_slow == Approx(found_out ? 0.02 : 0));
      CHECK((bench.camera.rate_wanted > 0) == (slow > 0));
    }
  }
}

TEST_CASE(
    "a silence holds the lock once it is longer than the stall timeout since the last frame") {
  for (const int timeouts : {8, 9}) {  // of 5 ms
    Bench bench;
    bench.config.camera.stall_timeout_ms = 40;
    bench.command_here(LoopCommand::Kind::Lock);
    bench.frames(40);
    bench.frames(timeouts, {.status = PopStatus::Timeout});
    const LoopReport report = bench.run();
    CHECK(report.lock.state == (timeouts > 8 ? LockState::Holding : LockState::Locked));
    CHECK(report.lock.reason == (timeouts > 8 ? LockReason::NoFrames : LockReason::ReferenceTaken));
    CHECK(report.turns == static_cast<std::uint64_t>(40 + timeouts + 1));
  }
}

TEST_CASE("an average over frames starts anew after an absence, and goes on over a time-out") {
  for (const PopStatus status : {PopStatus::Disconnected, PopStatus::Timeout}) {
    Bench bench;
    bench.config.drift.average_frames = 4;
    bench.frames(10);
    bench.frames(1, {.status = status});
    bench.frames(1, {.drift_nm = {20, -12}});
    const LoopReport report = bench.run();
    const double share = status == PopStatus::Disconnected ? 1 : 0.25;
    CHECK(report.drift.drift_nm.x == Approx(20 * share).margin(0.2));
    CHECK(report.drift.drift_nm.y == Approx(-12 * share).margin(0.2));
  }
}

TEST_CASE("a hidden marker's ROI follows the frame's drift, not the average's") {
  control::RoiOrigin rois[2];
  for (int frames = 1; frames <= 2; ++frames) {
    Bench bench;
    bench.config.drift.average_frames = 20;
    bench.frames(20);
    bench.frames(frames, {.drift_nm = {310, -420}, .hidden = 1});
    bench.run();
    bench.ports.markers.refresh();
    rois[frames - 1] = bench.ports.markers.reading().entries[0].roi;
  }
  CHECK(rois[1].x_px == rois[0].x_px + 3);
  CHECK(rois[1].y_px == rois[0].y_px - 4);
}

TEST_CASE("a frame that comes while the last one is being sent is tracked as any other") {
  std::vector<nlohmann::json> positions[2];
  control::RoiOrigin rois[2];
  for (const bool hurries : {false, true}) {
    Bench bench;
    bench.camera.hurries = hurries;
    for (int i = 0; i < 40; ++i)  // the ROIs follow by pixels
      bench.frames(1, {.drift_nm = {12.0 * i, -17.0 * i}});
    const LoopReport report = bench.run();
    CHECK(report.turns == 40 + (hurries ? 0 : 1));
    CHECK(report.fitted == 40);
    positions[hurries ? 1 : 0] = bench.of("position");
    bench.ports.markers.refresh();
    CHECK(bench.ports.markers.reading().frame_id == 40);
    rois[hurries ? 1 : 0] = bench.ports.markers.reading().entries[0].roi;
  }
  REQUIRE(positions[0].size() == 40);
  REQUIRE(positions[1].size() == 40);
  for (std::size_t i = 0; i < 40; ++i) {
    CHECK(positions[0][i]["x_nm"] == positions[1][i]["x_nm"]);
    CHECK(positions[0][i]["y_nm"] == positions[1][i]["y_nm"]);
  }
  CHECK(rois[0].x_px == rois[1].x_px);
  CHECK(rois[0].y_px == rois[1].y_px);
}

TEST_CASE("markers are reported with what was fitted, in the ROI that it was fitted in") {
  Bench bench;
  bench.frames(10);
  bench.frames(1, {.drift_nm = {250, -310}});  // the next frame's ROIs are others
  bench.run();
  bench.ports.markers.refresh();
  const MarkersReport& report = bench.ports.markers.reading();
  CHECK(report.frame_id == 11);
  const auto listed = ScriptedCamera::markers();
  REQUIRE(report.count == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    const auto& e = report.entries[i];
    const fitter::Localization& fit = bench.fitter->answers[i];
    CHECK(e.marker.id == listed[i].id);
    CHECK(e.roi.x_px == std::lround(listed[i].x_px) - 6);
    CHECK(e.roi.y_px == std::lround(listed[i].y_px) - 6);
    CHECK(e.observation.fitted);
    CHECK(e.observation.inside_frame);
    CHECK(e.observation.x_px == e.roi.x_px + static_cast<double>(fit.x_px));
    CHECK(e.observation.y_px == e.roi.y_px + static_cast<double>(fit.y_px));
    CHECK(fit.x_sd_px != fit.y_sd_px);
    CHECK(e.observation.x_sd_px == fit.x_sd_px);
    CHECK(e.observation.y_sd_px == fit.y_sd_px);
    CHECK(e.observation.sigma_px == fit.sigma_x_px);
    CHECK(e.observation.amplitude_adu == fit.amplitude_adu);
    CHECK(e.observation.background_adu == fit.background_adu);
  }
}

TEST_CASE("nothing is fitted of a ROI that has left the frame") {
  Bench bench;
  bench.frames(5);
  for (int i = 1; i <= 90; ++i) bench.frames(1, {.drift_nm = {-25.0 * i, 0}});
  bench.run();
  bench.ports.markers.refresh();
  const MarkersReport& report = bench.ports.markers.reading();
  for (const std::size_t gone : {0U, 3U}) {  // the two at the left
    CHECK_FALSE(report.entries[gone].observation.inside_frame);
    CHECK_FALSE(report.entries[gone].observation.fitted);
    CHECK(bench.fitter->answers[gone].status == fitter::FitStatus::BadInput);
  }
  CHECK(report.entries[1].observation.fitted);
  CHECK(bench.of("position").back()["markers_used"] == 3);
}

TEST_CASE("markers that the fitter gives no answer for are not where they were before") {
  Bench bench;
  bench.frames(5);
  bench.frames(1, {.fits_answered = 4});
  bench.frames(1, {.fits_answered = 0});
  const LoopReport report = bench.run();
  const auto positions = bench.of("position");
  CHECK(positions[4]["markers_used"] == 5);
  CHECK(positions[5]["markers_used"] == 4);
  CHECK(positions[6]["markers_used"] == 0);
  CHECK(positions[6]["valid"] == false);
  CHECK(report.fitted == 7);
  CHECK(report.valid == 6);
}

TEST_CASE("the rms is the drift's of the last 5 s, its frames without a drift left out") {
  Bench bench;
  bench.stage_obeys = false;
  bench.config.camera.frame_rate_hz = 500;
  bench.frames(1);
  for (int i = 0; i < 300; ++i)
    bench.frames(1, {.drift_nm = {i % 2 == 0 ? 6.0 : -6.0, i % 2 == 0 ? -20.0 : 20.0}});
  bench.frames(100, {.markers_shown = false});
  const LoopReport report = bench.run();
  const double share = 1 - std::pow(1 - 0.002 / 5, 300);
  CHECK(report.rms_x_nm == Approx(6 * std::sqrt(share)).epsilon(0.01));
  CHECK(report.rms_y_nm == Approx(20 * std::sqrt(share)).epsilon(0.01));
  CHECK(report.frame_rate_hz == Approx(500));
}

TEST_CASE("the rms starts anew at a new zero, and the frame rate is measured") {
  Bench bench;
  bench.camera.period_ns = 4 * kMs;
  bench.config.camera.frame_rate_hz = 0;
  bench.stage_obeys = false;
  bench.frames(1);
  bench.frames(300, {.drift_nm = {30, -45}});
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(11, {.drift_nm = {30, -45}});
  const LoopReport report = bench.run();
  CHECK(report.lock.state == LockState::Locked);
  CHECK(report.rms_x_nm < 0.1);
  CHECK(report.rms_y_nm < 0.1);
  CHECK(report.frame_rate_hz == Approx(250).epsilon(1e-3));
}

TEST_CASE("corrections that leave too late hold the lock, each counted once") {
  for (const int late_frames : {3, 4}) {
    Bench bench;
    bench.config.lock.bad_frames_to_hold = 4;
    bench.command_here(LoopCommand::Kind::Lock);
    bench.frames(30);
    bench.frames(late_frames, {.fit_ns = 55 * kMs});  // 50 ms are allowed
    bench.frames(1);
    const LoopReport report = bench.run();
    CHECK(report.lock.state == (late_frames > 3 ? LockState::Holding : LockState::Locked));
    if (late_frames > 3) CHECK(report.lock.reason == LockReason::CorrectionsNotSent);
    CHECK(report.corrections == bench.of("correction").size() + bench.publisher.expired());
    CHECK(report.stale == 0);
  }
}

TEST_CASE("a correction that the publisher refused is a fault, once") {
  Bench bench;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.at_here([&] {
    FrameResult record;
    record.expires_ns = scripted_ns + 1000 * kMs;
    record.has_correction = true;
    record.lock_id = bench.lock_id;
    record.chain = bench.publisher.broken();
    record.correction.total_nm = {70, 0};  // its limits are 0
    bench.hand_over(record);
    bench.await_publisher();
  });
  bench.frames(5);
  LoopReport in_fault;
  bench.at_here([&] { in_fault = bench.newest_report(); });
  bench.command_here(LoopCommand::Kind::Reset);
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  const LoopReport report = bench.run();
  CHECK(bench.publisher.refused() == 1);
  CHECK(in_fault.lock.state == LockState::Fault);
  CHECK(in_fault.lock.reason == LockReason::InternalFault);
  CHECK(report.lock.state == LockState::Locked);
  CHECK(report.lock_id == 2);
}

namespace {

/// Holds the publisher up in its first send, until so many frames were popped or all are done with.
struct HeldPublisher {
  HeldPublisher(Bench& bench, std::size_t until_popped) {
    bench.wait_for_sent = false;
    publisher_held = true;
    release_ = std::thread([&bench, until_popped] {
      while (bench.camera.popped.load() < until_popped && !bench.ports.stop.load())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      publisher_held = false;
    });
  }
  ~HeldPublisher() { release_.join(); }

 private:
  std::thread release_;
};

/// Housekeeping's part, played where the loop, waiting, has just looked for commands.
Bench* searching = nullptr;
std::int64_t time_of_search() noexcept {
  if (searching != nullptr && searching->ports.frame_copy.search.take()) {
    searching->send_markers(ScriptedCamera::markers());
    searching->ports.markers_settled = true;
  }
  return driftd::daemon::test::scripted_time();
}

}  // namespace

TEST_CASE("records that the publisher has no room for are left out and counted, or waited for") {
  constexpr int kFrames = 80;
  for (const bool lossless : {false, true}) {
    Bench bench;
    bench.lossless = lossless;
    bench.ports.markers_settled = true;
    bench.frames(1);
    bench.at_here([] {
      while (!publisher_stands.load()) std::this_thread::sleep_for(std::chrono::microseconds(50));
    });
    bench.frames(kFrames - 1);
    // One in the publisher's hands, 64 in its queue: a recording waits at the 66th.
    const HeldPublisher held(bench, lossless ? 66 : kFrames + 1);
    const LoopReport report = bench.run();
    CHECK(report.fitted == kFrames);
    CHECK(report.queue_dropped == (lossless ? 0 : kFrames - 65));
    CHECK(bench.of("position").size() == (lossless ? kFrames : 65));
  }
}

TEST_CASE("a recording's frames are used whatever their age, and its end is told") {
  Bench bench;
  bench.lossless = true;
  bench.ports.markers_settled = true;
  bench.frames(10);
  bench.frames(10, {.late_ns = 200 * kMs});
  bench.frames(1, {.status = PopStatus::EndOfStream});
  bench.frames(5);
  const LoopReport report = bench.run();
  CHECK(report.ended);
  CHECK(report.fitted == 20);
  CHECK(report.stale == 0);
  CHECK(bench.camera.popped == 21);
}

TEST_CASE("a recording's first frame waits for its markers, and may be searched meanwhile") {
  Bench bench;
  bench.lossless = true;
  bench.first_markers.clear();
  std::unique_ptr<FrameImage> searched;
  std::uint64_t taken = 0;
  std::thread housekeeping;
  // Housekeeping's part, on a thread of its own while the loop's waits.
  const auto patiently = [](const std::function<bool()>& done) {
    for (int i = 0; i < 5000 && !done(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  bench.at_here([&] {
    bench.ports.frame_copy.search.ask(kWidthPx * kHeightPx);
    housekeeping = std::thread([&] {
      patiently([&] { return (searched = bench.ports.frame_copy.search.take()) != nullptr; });
      bench.send_markers(ScriptedCamera::markers());
      patiently([&] { return (taken = bench.newest_report().commands_taken) > 0; });
      bench.ports.markers_settled = true;
    });
  });
  bench.frames(1);
  bench.at_here([&] { housekeeping.join(); });
  bench.frames(9);
  const LoopReport report = bench.run();
  REQUIRE(searched != nullptr);
  CHECK(searched->frame.id == 1);
  CHECK(searched->fits);
  CHECK(taken == 1);
  CHECK(report.fitted == 10);
}

TEST_CASE("a recording's first frame is measured though its markers come at the last moment") {
  Bench bench;
  bench.lossless = true;
  bench.first_markers.clear();
  bench.at_here([&] {
    searching = &bench;
    bench.ports.frame_copy.search.ask(kWidthPx * kHeightPx);
    bench.ports.clock = time_of_search;
  });
  bench.frames(10);
  const LoopReport report = bench.run();
  searching = nullptr;
  CHECK(report.fitted == 10);
}

TEST_CASE("a frame is copied once the publisher has had time to send, and while no other waits") {
  for (const bool hurries : {false, true}) {
    Bench bench;
    bench.frames(10);
    bench.at_here([&] { bench.ports.frame_copy.snapshot.ask(kWidthPx * kHeightPx); });
    std::size_t asked = 0;
    bench.at_here([&] {
      asked = bench.camera.popped.load();
      bench.camera.hurries = hurries;
    });
    bench.frames(FrameCopy::kMostTries + 10);
    bench.run();
    const auto image = bench.ports.frame_copy.snapshot.take();
    REQUIRE(image != nullptr);
    CHECK(image->fits);
    CHECK(bench.camera.rests == (hurries ? FrameCopy::kMostTries + 1 : 1));
    CHECK(image->frame.id == asked + (hurries ? FrameCopy::kMostTries + 1 : 1));
  }
}
