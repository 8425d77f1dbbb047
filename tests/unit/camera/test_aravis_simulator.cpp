// SPDX-License-Identifier: MIT
// The Aravis source on the simulated GigE Vision camera: what Aravis' own fake camera cannot do
// (resend, packed formats, refusal of a second controller). Each case has an address of its own.
#include <cmath>
#include <string>
#include <thread>

#include "camera/cameras.hpp"
#include "support/catch.hpp"
#include "support/uniform_camera.hpp"

using driftd::kNanosecondsPerSecond;
using driftd::monotonic_ns;
using namespace driftd::camera;
using namespace driftd::test;
using namespace std::chrono_literals;

namespace {

std::string error_of(const AravisSettings& settings) {
  try {
    make_aravis_source(settings)->start();
  } catch (const CameraError& error) {
    return error.what();
  }
  return "no error";
}

/// What the camera exposes with once a frame has come.
driftd::simulator::SensorSettings sensor_of(const Simulator& simulator, FrameSource& source) {
  Frame frame;
  REQUIRE(pop_until(source, PopStatus::Frame, frame));
  return simulator.frames.sensor();
}

}  // namespace

TEST_CASE("every pixel format comes over the wire whole") {
  Simulator simulator("127.0.41.1");
  Frame frame;
  for (const PixelFormat format : kPixelFormats) {
    INFO(name_of(format));
    AravisSettings settings = settings_for("127.0.41.1");
    settings.format = format;
    const auto source = make_aravis_source(settings);
    source->start();
    CHECK(source->info().format == format);
    CHECK(source->info().width_px == 128);
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK(frame.format == format);
    CHECK(is_uniform(frame));
  }
}

TEST_CASE("a frame tells its place on the sensor, its size and its times") {
  Simulator simulator("127.0.41.11");
  const auto source = make_aravis_source(settings_for("127.0.41.11"));
  source->start();
  Frame frame;
  std::int64_t before_ns = 0;
  for (int i = 0; i < 5; ++i) {
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK(frame.offset_x_px == 32);
    CHECK(frame.offset_y_px == 16);
    CHECK(frame.width_px == 128);
    CHECK(frame.height_px == 64);
    // The simulated camera's clock is the host's; a busy machine may deliver late.
    CHECK(frame.camera_time_ns > before_ns);
    CHECK(frame.camera_time_ns <= frame.arrival_ns);
    CHECK(frame.arrival_ns - frame.camera_time_ns < 10 * kNanosecondsPerSecond);
    before_ns = frame.camera_time_ns;
  }
}

TEST_CASE("a region of size 0 goes from its corner to the sensor's edges, without a note") {
  Simulator simulator("127.0.41.12");
  AravisSettings settings = settings_for("127.0.41.12");
  settings.region_x_px = 30;  // the camera's columns go in steps of 4
  settings.region_width_px = settings.region_height_px = 0;
  const auto source = make_aravis_source(settings);
  source->start();
  const SourceInfo info = source->info();
  CHECK(info.offset_x_px == 28);
  CHECK(info.offset_y_px == 16);
  CHECK(info.width_px == 288);  // of 290
  CHECK(info.height_px == 200 - 16);
  CHECK(note_of(info, "region_width_px").text.empty());
  CHECK(note_of(info, "region_height_px").text.empty());
}

TEST_CASE("a rate that is not set is the camera's own, and told") {
  Simulator simulator("127.0.41.13");
  AravisSettings settings = settings_for("127.0.41.13");
  settings.frame_rate_hz = 0;
  const auto source = make_aravis_source(settings);
  source->start();
  CHECK(source->info().frame_rate_hz == Approx(camera_model().rate_hz));
}

TEST_CASE("what alters pixels is switched off and said") {
  Simulator simulator("127.0.41.2");
  const auto source = make_aravis_source(settings_for("127.0.41.2"));
  source->start();
  const SourceInfo info = source->info();
  for (const std::string feature : {"ExposureAuto", "GainAuto", "GammaEnable", "SharpnessEnable",
                                    "DefectCorrectStaticEnable"}) {
    INFO(feature);
    const CameraNote note = note_of(info, feature);
    const bool automatic = feature.ends_with("Auto");
    CHECK(note.severity == CameraNote::Severity::Info);
    CHECK(note.got == (automatic ? "Off" : "false"));
    CHECK(note.text == feature + " was " + (automatic ? "Continuous" : "true") + "; set to " +
                           (automatic ? "Off" : "false"));
  }
  CHECK(note_of(info, "Gamma").text.empty());  // it was 1
  CHECK(info.exposure_us == Approx(1500));
  CHECK(info.frame_rate_hz == Approx(200));
}

TEST_CASE("lost packets are sent again and no frame is lost by them") {
  Simulator simulator("127.0.41.3");
  simulator.frames.packet_loss = 0.05;
  AravisSettings settings = settings_for("127.0.41.3");
  settings.packet_size_bytes = 1000;      // 9 packets a frame and the leader and trailer
  settings.frame_retention_us = 200'000;  // a busy machine may answer late
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  // 200 frames of 11 packets, 5 % lost: none of them losing any has a chance of 1e-49.
  for (int i = 0; i < 200; ++i) {
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK(is_uniform(frame));
  }
  std::this_thread::sleep_for(300ms);  // Aravis' statistics are read at intervals
  const SourceCounters counters = source->counters();
  CHECK(counters.resent_packets > 0);
  CHECK(counters.resent_packets <= simulator.camera.resent_packets());
  CHECK(counters.disconnects == 0);
}

TEST_CASE("without resend the same loss costs frames") {
  Simulator simulator("127.0.41.4");
  simulator.frames.packet_loss = 0.05;
  AravisSettings settings = settings_for("127.0.41.4");
  settings.packet_size_bytes = 1000;
  settings.resend = Resend::Never;
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  for (int i = 0; i < 100; ++i) {
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK(is_uniform(frame));
  }
  const SourceCounters counters = source->counters();
  CHECK(counters.resent_packets == 0);
  CHECK(counters.incomplete > 0);
  CHECK(counters.lost > 0);
}

TEST_CASE("a frame that no resend completes never passes") {
  Simulator simulator("127.0.41.5");
  simulator.frames.corrupt_every = 4;
  const auto source = make_aravis_source(settings_for("127.0.41.5"));
  source->start();
  Frame frame;
  for (int i = 0; i < 60; ++i) {
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK(is_uniform(frame));
  }
  CHECK(source->counters().incomplete > 0);
  CHECK(source->counters().lost > 0);
}

TEST_CASE("a camera taken by another source is refused at once and free after it") {
  Simulator simulator("127.0.41.7");
  const auto first = make_aravis_source(settings_for("127.0.41.7"));
  first->start();
  const auto second = make_aravis_source(settings_for("127.0.41.7"));
  std::string error;
  try {
    second->start();
  } catch (const CameraError& thrown) {
    error = thrown.what();
  }
  INFO(error);
  CHECK(error.find("is controlled by another program") != std::string::npos);
  first->stop();
  const auto third = make_aravis_source(settings_for("127.0.41.7"));
  third->start();
  Frame frame;
  CHECK(pop_until(*third, PopStatus::Frame, frame));
}

TEST_CASE("a camera that is not there is told with those that are") {
  Simulator simulator("127.0.41.8");
  for (const char* wrong : {"127.0.41.250", "Basler-21876543"}) {
    const std::string error = error_of(settings_for(wrong));
    INFO(error);
    CHECK_THAT(error, contains(std::string("camera ") + wrong + " cannot be opened") &&
                          contains("; there are: ") && contains(" (127.0.41.8)"));
  }
  const auto cameras = list_cameras();
  const ListedCamera* found = camera_named(cameras, "127.0.41.8");
  REQUIRE(found != nullptr);
  CHECK(found->vendor == "driftd");
  CHECK(camera_named(cameras, found->id) != nullptr);
  CHECK(camera_named(cameras, "127.0.41.250") == nullptr);
}

TEST_CASE("a slow camera is not taken for a dead one") {
  Simulator simulator("127.0.41.9");
  AravisSettings settings = settings_for("127.0.41.9");
  settings.frame_rate_hz = 4;
  settings.stall_timeout_ms = 100;  // shorter than a frame
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  for (int i = 0; i < 4; ++i) REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  CHECK(source->counters().disconnects == 0);
  for (const CameraNote& note : source->info().camera_notes) {
    if (note.key != "stall_timeout_ms") continue;
    CHECK(note.severity == CameraNote::Severity::Info);  // nobody need do anything
    CHECK(note.text ==
          "frames come only every 250 ms: a silence is a loss of the camera from 1000 ms "
          "on (stall_timeout_ms is 100)");
  }
}

TEST_CASE(
    "a silent camera is lost after its time-out, and the silence counts from its last frame") {
  Simulator simulator("127.0.41.14");
  const auto source = make_aravis_source(settings_for("127.0.41.14"));
  source->start();
  Frame frame;
  const std::int64_t end_ns = monotonic_ns() + 3 * kNanosecondsPerSecond / 2;  // beyond it
  while (monotonic_ns() < end_ns) REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  CHECK(source->counters().disconnects == 0);
  CHECK(source->counters().reconnects == 0);
  CHECK(source->info().connection == 1);
  CHECK(source->take_events().size() == 1);
  CHECK(source->take_events().empty());  // each is told once
}

TEST_CASE("a camera that waits for less than a second for its daemon stays with a live one") {
  Simulator simulator("127.0.41.15");
  AravisSettings settings = settings_for("127.0.41.15");
  settings.heartbeat_timeout_ms = 900;  // Aravis by itself is heard once a second
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  const std::int64_t end_ns = monotonic_ns() + 5 * kNanosecondsPerSecond / 2;
  while (monotonic_ns() < end_ns) REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  CHECK(source->counters().disconnects == 0);
}

TEST_CASE("a slow camera that waits for less than a second stays, too") {
  Simulator simulator("127.0.41.16");
  AravisSettings settings = settings_for("127.0.41.16");
  settings.heartbeat_timeout_ms = 900;
  settings.frame_rate_hz = 1;
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  for (int i = 0; i < 3; ++i) REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  CHECK(source->counters().disconnects == 0);
}

TEST_CASE("that the daemon lives is not told to a camera that does not answer") {
  Simulator simulator("127.0.41.17");
  AravisSettings settings = settings_for("127.0.41.17");
  settings.heartbeat_timeout_ms = 500;  // it is due several times before the loss after 1 s
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  simulator.frames.away = true;
  const std::int64_t away_ns = monotonic_ns();
  REQUIRE(pop_until(*source, PopStatus::Disconnected, frame));
  CHECK(monotonic_ns() - away_ns < 2'400'000'000);  // Aravis waits for 2.5 s
  simulator.frames.away = false;                    // a source without its camera stops slowly
  CHECK(pop_until(*source, PopStatus::Frame, frame));
}

TEST_CASE("a slow loop gets the newest frame, and the others are counted") {
  Simulator simulator("127.0.41.10");
  AravisSettings settings = settings_for("127.0.41.10");
  settings.frame_rate_hz = 50;  // a busy machine may be late to give buffers back
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  const std::uint64_t first_id = frame.id;
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(400ms);  // 20 frames, more than there are buffers
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  }
  const SourceCounters counters = source->counters();
  CHECK(counters.superseded > 0);
  CHECK(counters.underruns == 0);
  CHECK(frame.id - first_id + 1 <= counters.frames + counters.superseded + counters.lost);
}

TEST_CASE("each of several frames lost in a row is counted") {
  Simulator simulator("127.0.41.21");
  simulator.frames.drop_three_in_ten = true;
  const auto source = make_aravis_source(settings_for("127.0.41.21"));
  source->start();
  Frame frame;
  REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  const std::uint64_t first_id = frame.id;
  while (frame.id < first_id + 100) REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  const SourceCounters counters = source->counters();
  CHECK(counters.lost >= 3 * 9);
  CHECK(frame.id - first_id + 1 <= counters.frames + counters.superseded + counters.lost);
}

TEST_CASE("a camera that is asked tells the rate of its clock, until it is lost") {
  for (const double slow : {0.0, 0.02}) {
    CAPTURE(slow);
    Simulator simulator(slow > 0 ? "127.0.41.18" : "127.0.41.19");
    simulator.frames.slow = slow;
    const auto source = make_aravis_source(settings_for(slow > 0 ? "127.0.41.18" : "127.0.41.19"));
    source->start();
    Frame frame;
    for (int i = 0; i < 200; ++i) REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK(std::isinf(source->clock_rate(false).uncertainty));
    // A busy machine answers late, so that it takes longer to be sure.
    ClockRate rate;
    const std::int64_t end_ns = monotonic_ns() + 60 * kNanosecondsPerSecond;
    while (!(rate.uncertainty < 0.005F) && monotonic_ns() < end_ns) {
      REQUIRE(pop_until(*source, PopStatus::Frame, frame));
      rate = source->clock_rate(true);
    }
    CHECK(rate.uncertainty < 0.005F);
    CHECK(std::abs(rate.slow - slow) <= rate.uncertainty);
    if (slow > 0) {
      simulator.frames.away = true;
      REQUIRE(pop_until(*source, PopStatus::Disconnected, frame));
      CHECK(std::isinf(source->clock_rate(false).uncertainty));
      simulator.frames.away = false;  // a source without its camera stops slowly
      REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    } else {  // nobody wants to know it any more
      while (!std::isinf(rate.uncertainty) && monotonic_ns() < end_ns) {
        REQUIRE(pop_until(*source, PopStatus::Frame, frame));
        rate = source->clock_rate(false);
      }
    }
    CHECK(std::isinf(source->clock_rate(false).uncertainty));
  }
}

TEST_CASE("a mirror and binning that another program left are taken off before the region is set") {
  sim::CameraModel model = camera_model();
  model.left_over = {.binning_x = 4, .binning_y = 2, .reverse_x = true, .reverse_y = true};
  Simulator simulator("127.0.41.31", model);
  const auto source = make_aravis_source(settings_for("127.0.41.31"));
  source->start();
  const sim::SensorSettings sensor = sensor_of(simulator, *source);
  CHECK_FALSE(sensor.reverse_x);
  CHECK_FALSE(sensor.reverse_y);
  CHECK(sensor.binning_x == 1);
  CHECK(sensor.binning_y == 1);
  CHECK(sensor.offset_x_px == 32);
  CHECK(sensor.offset_y_px == 16);
  CHECK(sensor.width_px == 128);
  CHECK(sensor.height_px == 64);
  const CameraNote mirror = note_of(source->info(), "ReverseX");
  CHECK(mirror.asked == "false");
  CHECK(mirror.got == "false");
  CHECK(mirror.text == "ReverseX was true; set to false");
  CHECK(note_of(source->info(), "BinningVertical").text == "BinningVertical was 2; set to 1");
}

TEST_CASE("a region beyond the sensor is refused with both numbers") {
  Simulator simulator("127.0.41.32");
  AravisSettings settings = settings_for("127.0.41.32");
  SECTION("columns") {
    settings.region_x_px = 200;  // and 128: 328 of 320
    CHECK(error_of(settings) ==
          "the region does not fit the sensor: region_x_px 200 with region_width_px 128 needs 328 "
          "columns, and the camera has 320");
  }
  SECTION("rows") {
    settings.region_height_px = 186;
    CHECK(error_of(settings) ==
          "the region does not fit the sensor: region_y_px 16 with region_height_px 186 needs 202 "
          "rows, and the camera has 200");
  }
  SECTION("a corner outside") {
    settings.region_x_px = 320;
    settings.region_width_px = 0;
    CHECK(error_of(settings).find("needs 321 columns, and the camera has 320") !=
          std::string::npos);
  }
}

TEST_CASE("a region between the camera's steps is a warning with both numbers") {
  Simulator simulator("127.0.41.33");
  AravisSettings settings = settings_for("127.0.41.33");
  settings.region_width_px = 130;
  settings.region_y_px = 17;
  const auto source = make_aravis_source(settings);
  source->start();
  const CameraNote width = note_of(source->info(), "region_width_px");
  CHECK(width.severity == CameraNote::Severity::Warning);
  CHECK(width.asked == "130");
  CHECK(width.got == "128");
  CHECK(note_of(source->info(), "region_y_px").got == "16");
  CHECK(note_of(source->info(), "region_height_px").text.empty());
}

TEST_CASE("a rate that a mode gates is obeyed in each dialect") {
  for (const auto gate : {sim::RateGate::Mode, sim::RateGate::ModeBasic}) {
    sim::CameraModel model = camera_model();
    model.dialect.rate_gate = gate;
    const bool basic = gate == sim::RateGate::ModeBasic;
    const std::string address = basic ? "127.0.41.35" : "127.0.41.34";
    Simulator simulator(address, model);
    const auto source = make_aravis_source(settings_for(address));
    source->start();
    CHECK(note_of(source->info(), "AcquisitionFrameRateMode").got == (basic ? "Basic" : "On"));
    Frame frame;
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    const Frame first = frame;
    while (frame.id < first.id + 20) REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    // By the camera's own clock, on which a busy machine has no say but for late exposures.
    const double period_ns = static_cast<double>(frame.camera_time_ns - first.camera_time_ns) /
                             static_cast<double>(frame.id - first.id);
    CHECK(period_ns > 0.99e9 / 200);
  }
}

TEST_CASE("the gain is set in the camera's own unit") {
  sim::CameraModel model = camera_model();
  AravisSettings settings = settings_for("127.0.41.36");
  settings.gain_db = 12;
  SECTION("dB") {
    Simulator simulator("127.0.41.36", model);
    const auto source = make_aravis_source(settings);
    source->start();
    CHECK(sensor_of(simulator, *source).gain_db == Approx(12));
  }
  SECTION("a factor") {
    model.dialect.gain = sim::GainUnit::Factor;
    Simulator simulator("127.0.41.36", model);
    const auto source = make_aravis_source(settings);
    source->start();
    CHECK(sensor_of(simulator, *source).gain_db == Approx(12));
    CHECK(note_of(source->info(), "gain_db").text.empty());
  }
  SECTION("more than the factor goes") {
    model.dialect.gain = sim::GainUnit::Factor;
    settings.gain_db = 30;
    Simulator simulator("127.0.41.36", model);
    const auto source = make_aravis_source(settings);
    source->start();
    const CameraNote note = note_of(source->info(), "gain_db");
    CHECK(note.asked == "30");
    CHECK(note.got == "24.0824");  // 16 times
    CHECK(note.severity == CameraNote::Severity::Warning);
  }
  SECTION("steps of unknown size") {
    model.dialect.gain = sim::GainUnit::Raw;
    Simulator simulator("127.0.41.36", model);
    CHECK(error_of(settings).find("GainRaw 32 to 512") != std::string::npos);
    settings.gain_db = 0;
    const auto source = make_aravis_source(settings);
    source->start();
    CHECK(sensor_of(simulator, *source).gain_db == Approx(0));
  }
}

TEST_CASE("a camera of the older names is set as one of the standard's") {
  sim::CameraModel model = camera_model();
  model.dialect.names = sim::FeatureNames::Legacy;
  Simulator simulator("127.0.41.37", model);
  const auto source = make_aravis_source(settings_for("127.0.41.37"));
  source->start();
  CHECK(source->info().exposure_us == Approx(1500));
  CHECK(source->info().frame_rate_hz == Approx(200));
  CHECK(sensor_of(simulator, *source).exposure_us == Approx(1500));
}

TEST_CASE("a packet size that the camera refuses is a warning with both numbers") {
  Simulator simulator("127.0.41.38");
  AravisSettings settings = settings_for("127.0.41.38");
  settings.packet_size_bytes = 1002;  // its sizes go in steps of 4
  const auto source = make_aravis_source(settings);
  source->start();
  const CameraNote note = note_of(source->info(), "packet_size_bytes");
  CHECK(note.severity == CameraNote::Severity::Warning);
  CHECK(note.asked == "1002");
  CHECK(note.got == "1400");  // as at power-on
}
