// SPDX-License-Identifier: MIT
// The Aravis source on "Fake_1", Aravis' camera without a network, and the checks that need no
// camera at all.
#include <arv.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/monotonic.hpp"
#include "camera/aravis/clock_watch.hpp"
#include "camera/aravis/gain.hpp"
#include "camera/aravis/network.hpp"
#include "camera/sources.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"

using namespace driftd::camera;
using namespace std::chrono_literals;

namespace {

AravisSettings fake_settings() {
  // The other interfaces would search the network for a second.
  arv_enable_interface("Fake");
  arv_disable_interface("GigEVision");
  arv_disable_interface("USB3Vision");
  AravisSettings settings = driftd::test::default_aravis_settings();
  settings.format = PixelFormat::Mono8;
  settings.id = "Fake_1";
  settings.region_width_px = 128;
  settings.region_height_px = 64;
  settings.frame_rate_hz = 200;
  return settings;
}

std::string error_of(const AravisSettings& settings) {
  try {
    make_aravis_source(settings)->start();
  } catch (const CameraError& error) {
    return error.what();
  }
  return "no error";
}

bool has_note(const SourceInfo& info, const std::string& part) {
  for (const CameraNote& note : info.camera_notes) {
    if (note.text.find(part) != std::string::npos) return true;
  }
  return false;
}

/// Gives the in-process camera another GenICam description while it lives.
class Description {
 public:
  /// @param features  what it has besides its own
  explicit Description(const std::string& features)
      : path_(std::filesystem::temp_directory_path() /
              ("driftd_genicam_" + std::to_string(getpid()) + ".xml")) {
    ArvFakeCamera* camera = arv_fake_camera_new("1");
    std::size_t size = 0;
    const char* text = arv_fake_camera_get_genicam_xml(camera, &size);
    std::string xml(text, size);
    g_object_unref(camera);
    xml.insert(xml.find("</RegisterDescription>"), features);
    std::ofstream(path_) << xml;
    arv_set_fake_camera_genicam_filename(path_.c_str());
  }
  ~Description() {
    arv_set_fake_camera_genicam_filename(nullptr);
    std::filesystem::remove(path_);
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

 private:
  std::filesystem::path path_;
};

std::uint64_t sum(const SourceCounters& counters) {
  return counters.frames + counters.superseded + counters.lost;
}

}  // namespace

TEST_CASE("frames of the in-process camera come in order and are all accounted for") {
  AravisSettings settings = fake_settings();
  int stream_threads = 0;
  settings.on_stream_thread_start = [&stream_threads] { ++stream_threads; };
  const auto source = make_aravis_source(settings);
  source->start();
  CHECK(source->info().description == "Aravis Fake 1 at Fake_1");
  CHECK(source->info().connection == 1);
  Frame frame;
  std::uint64_t first_id = 0;
  std::uint64_t last_id = 0;
  for (int i = 0; i < 50; ++i) {
    REQUIRE(source->pop(10s, frame) == PopStatus::Frame);
    CHECK((i == 0 || frame.id > last_id));
    if (i == 0) first_id = frame.id;
    last_id = frame.id;
    CHECK(frame.width_px == 128);
    CHECK(frame.height_px == 64);
    CHECK(frame.arrival_ns > 0);
  }
  source->stop();
  const SourceCounters counters = source->counters();
  CHECK(counters.frames == 50);
  CHECK(counters.incomplete == 0);
  // Frames after the last one popped may have been superseded or not: at least those in between.
  CHECK(last_id - first_id + 1 <= counters.frames + counters.superseded + counters.lost);
  CHECK(stream_threads == 1);
  CHECK_FALSE(counters.connected);
  CHECK(source->pop(0us, frame) == PopStatus::Disconnected);
}

TEST_CASE("a nudge ends one wait for a frame, and loses none") {
  AravisSettings settings = fake_settings();
  settings.frame_rate_hz = 1;  // none is due meanwhile
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  REQUIRE(source->pop(10s, frame) == PopStatus::Frame);
  const std::uint64_t first = frame.id;
  source->nudge();  // before the wait
  CHECK(source->pop(10s, frame) == PopStatus::Timeout);
  std::thread later([&] {
    std::this_thread::sleep_for(20ms);
    source->nudge();
  });
  CHECK(source->pop(10s, frame) == PopStatus::Timeout);  // while it waits
  later.join();
  REQUIRE(source->pop(10s, frame) == PopStatus::Frame);
  CHECK(frame.id == first + 1);
  source->nudge();
  std::this_thread::sleep_for(1200ms);
  CHECK(source->pop(10s, frame) == PopStatus::Frame);  // it is there, and nothing to wait for
  source->stop();
}

TEST_CASE("no frame is counted twice") {
  const auto source = make_aravis_source(fake_settings());
  source->start();
  Frame frame;
  REQUIRE(source->pop(10s, frame) == PopStatus::Frame);
  const std::uint64_t first_id = frame.id;
  const std::uint64_t before = sum(source->counters());
  for (int i = 0; i < 50; ++i) REQUIRE(source->pop(10s, frame) == PopStatus::Frame);
  const std::uint64_t after = sum(source->counters());
  REQUIRE(source->pop(10s, frame) == PopStatus::Frame);  // newer than all that is counted
  CHECK(after - before >= 50);
  CHECK(after - before <= frame.id - first_id);
}

TEST_CASE("a correction that the camera keeps on is said to stay") {
  const Description description(
      "<Boolean Name=\"LUTEnable\"><pValue>LutAlwaysOn</pValue></Boolean>"
      "<IntConverter Name=\"LutAlwaysOn\"><FormulaTo>FROM</FormulaTo><FormulaFrom>1</FormulaFrom>"
      "<pValue>TestRegister</pValue></IntConverter>");
  const auto source = make_aravis_source(fake_settings());
  source->start();
  CHECK(has_note(source->info(), "LUTEnable stays true instead of false"));
  CHECK_FALSE(has_note(source->info(), "LUTEnable was"));
}

TEST_CASE("the largest value that a pixel can have is what the camera says") {
  {
    const Description description(
        "<Integer Name=\"PixelDynamicRangeMax\"><Value>4095</Value></Integer>");
    const auto source = make_aravis_source(fake_settings());
    source->start();
    CHECK(source->info().largest_adu == 4095);
    source->stop();
  }
  const auto source = make_aravis_source(fake_settings());
  source->start();
  CHECK(source->info().largest_adu == 0);
}

TEST_CASE("of more events than are kept the newest stay") {
  AravisSettings settings = fake_settings();
  settings.id = "Basler-21876543";  // there is none
  settings.start_without_camera = true;
  const auto source = make_aravis_source(settings);
  const auto start_and_stop = [&] {
    source->start();  // fails, and tells so
    source->stop();
  };
  start_and_stop();
  const std::int64_t first_ns = driftd::monotonic_ns();
  for (int i = 0; i < 255; ++i) start_and_stop();
  const std::int64_t last_ns = driftd::monotonic_ns();
  start_and_stop();
  const std::vector<SourceEvent> events = source->take_events();
  REQUIRE(events.size() == 256);
  CHECK(events.front().time_ns > first_ns);
  CHECK(events.back().time_ns > last_ns);
}

TEST_CASE("without a name the first camera found is taken") {
  AravisSettings settings = fake_settings();
  settings.id = "";
  const auto source = make_aravis_source(settings);
  source->start();
  CHECK(source->info().description == "Aravis Fake 1 at Fake_1");
}

TEST_CASE("a mirror or a test pattern that the camera keeps is refused with what it does") {
  const std::string always_on =
      "<IntConverter Name=\"AlwaysOn\"><FormulaTo>FROM</FormulaTo><FormulaFrom>1</FormulaFrom>"
      "<pValue>TestRegister</pValue></IntConverter>";
  SECTION("mirror") {
    const Description description("<Boolean Name=\"ReverseY\"><pValue>AlwaysOn</pValue></Boolean>" +
                                  always_on);
    const std::string error = error_of(fake_settings());
    INFO(error);
    CHECK(error.starts_with("ReverseY stays true instead of false: the picture is mirrored"));
  }
  SECTION("decimation") {
    const Description description(
        "<IntConverter Name=\"DecimationHorizontal\"><FormulaTo>FROM</FormulaTo><FormulaFrom>2"
        "</FormulaFrom><pValue>TestRegister</pValue></IntConverter>");
    CHECK(error_of(fake_settings()).starts_with("DecimationHorizontal stays 2 instead of 1"));
  }
  SECTION("pattern") {
    const Description description(
        "<Enumeration Name=\"TestPattern\"><EnumEntry Name=\"Off\"><Value>0</Value></EnumEntry>"
        "<EnumEntry Name=\"Ramp\"><Value>1</Value></EnumEntry><pValue>AlwaysOn</pValue>"
        "</Enumeration>" +
        always_on);
    CHECK(error_of(fake_settings()).starts_with("TestPattern stays Ramp instead of Off"));
  }
}

TEST_CASE("a test pattern, a digital shift and a sequencer that were left on are switched off") {
  const Description description(
      "<Enumeration Name=\"TestPattern\"><EnumEntry Name=\"Off\"><Value>0</Value></EnumEntry>"
      "<EnumEntry Name=\"Ramp\"><Value>3</Value></EnumEntry><pValue>Left</pValue></Enumeration>"
      "<Integer Name=\"Left\"><Value>3</Value></Integer>"
      "<Integer Name=\"DigitalShift\"><Value>2</Value></Integer>"
      "<Boolean Name=\"SequenceEnable\"><pValue>Left2</pValue></Boolean>"
      "<Integer Name=\"Left2\"><Value>1</Value></Integer>"
      "<Enumeration Name=\"SequencerMode\"><EnumEntry Name=\"On\"><Value>1</Value></EnumEntry>"
      "<EnumEntry Name=\"Off\"><Value>0</Value></EnumEntry><pValue>Left3</pValue></Enumeration>"
      "<Integer Name=\"Left3\"><Value>1</Value></Integer>"
      "<Enumeration Name=\"ExposureMode\"><EnumEntry Name=\"TriggerWidth\"><Value>2</Value>"
      "</EnumEntry><EnumEntry Name=\"Timed\"><Value>1</Value></EnumEntry><pValue>Left4</pValue>"
      "</Enumeration><Integer Name=\"Left4\"><Value>2</Value></Integer>");
  const auto source = make_aravis_source(fake_settings());
  source->start();
  CHECK(has_note(source->info(), "SequencerMode was On; set to Off"));
  CHECK(has_note(source->info(), "ExposureMode was TriggerWidth; set to Timed"));
  CHECK(has_note(source->info(), "TestPattern was Ramp; set to Off"));
  CHECK(has_note(source->info(), "DigitalShift was 2; set to 0"));
  CHECK(has_note(source->info(), "SequenceEnable was true; set to false"));
}

TEST_CASE("the camera's own rate does not limit triggered frames") {
  // Aravis itself switches the gate of the standard's name off.
  const std::string gate =
      "<Boolean Name=\"AcquisitionFrameRateEnabled\"><pValue>Gate</pValue></Boolean>";
  AravisSettings settings = fake_settings();
  {
    const Description description(gate + "<Integer Name=\"Gate\"><Value>1</Value></Integer>");
    settings.trigger = Trigger::HardwareLine;
    settings.trigger_line = "Line0";
    const auto source = make_aravis_source(settings);
    source->start();
    CHECK(has_note(source->info(), "AcquisitionFrameRateEnabled was true; set to false"));
  }
  const Description description(gate + "<Integer Name=\"Gate\"><Value>0</Value></Integer>");
  settings.trigger = Trigger::Off;
  const auto source = make_aravis_source(settings);
  source->start();
  CHECK(has_note(source->info(), "AcquisitionFrameRateEnabled was false; set to true"));
}

namespace {

/// Gains as a factor, one for each entry of their selector.
const char* const kSelectedGains =
    "<Enumeration Name=\"GainSelector\"><EnumEntry Name=\"All\"><Value>2</Value></EnumEntry>"
    "<EnumEntry Name=\"DigitalAll\"><Value>1</Value></EnumEntry>"
    "<EnumEntry Name=\"AnalogAll\"><Value>0</Value></EnumEntry>"
    "<pValue>Selected</pValue></Enumeration>"
    "<Integer Name=\"Selected\"><Value>2</Value></Integer>"
    "<Float Name=\"Gain\"><pValue>SelectedGain</pValue><Min>0.5</Min><Max>16</Max></Float>"
    "<FloatReg Name=\"SelectedGain\"><Address>2560</Address>"
    "<pIndex Offset=\"8\">Selected</pIndex><Length>8</Length><AccessMode>RW</AccessMode>"
    "<pPort>Device</pPort><Cachable>NoCache</Cachable><Endianess>BigEndian</Endianess></FloatReg>";

struct GainCamera {
  explicit GainCamera(const std::string& features) : description(features) {
    fake_settings();
    camera.reset(arv_camera_new("Fake_1", nullptr));
  }
  double gain(const char* name) const { return arv_camera_get_float(camera.get(), name, nullptr); }
  void select(const char* entry) {
    arv_camera_set_string(camera.get(), "GainSelector", entry, nullptr);
  }

  Description description;
  aravis::Ref<ArvCamera> camera;
  std::vector<CameraNote> notes;
};

}  // namespace

TEST_CASE("of several gains the analogue one is set, and the digital one to 1") {
  GainCamera camera(kSelectedGains);
  camera.select("DigitalAll");
  arv_camera_set_float(camera.camera.get(), "Gain", 7, nullptr);
  camera.select("All");
  aravis::set_gain(camera.camera.get(), 6, camera.notes);
  CHECK(camera.notes.empty());
  CHECK(camera.gain("Gain") == Approx(1.995).epsilon(0.001));  // 6 dB, of what is selected now
  camera.select("AnalogAll");
  CHECK(camera.gain("Gain") == Approx(1.995).epsilon(0.001));
  camera.select("DigitalAll");
  CHECK(camera.gain("Gain") == Approx(1));
  camera.select("All");
  CHECK(camera.gain("Gain") == Approx(0));  // untouched
}

TEST_CASE("an older camera's GainAbs is in dB, though it cannot be 0") {
  GainCamera camera("<Float Name=\"GainAbs\"><Value>3</Value><Min>0.5</Min><Max>24</Max></Float>");
  aravis::set_gain(camera.camera.get(), 6, camera.notes);
  CHECK(camera.gain("GainAbs") == Approx(6));
  CHECK(camera.notes.empty());
  aravis::set_gain(camera.camera.get(), 30, camera.notes);
  CHECK(camera.gain("GainAbs") == Approx(24));
  REQUIRE(camera.notes.size() == 1);
  CHECK_THAT(camera.notes[0].text, contains("24 dB instead of 30 dB: the camera allows 0.5 to 24"));
}

TEST_CASE("what the camera cannot do is taken over as it can, and said") {
  AravisSettings settings = fake_settings();
  settings.region_x_px = 48;
  settings.region_width_px = 0;
  settings.region_height_px = 0;
  settings.region_y_px = 1024;
  settings.frame_rate_hz = 5000;
  const auto source = make_aravis_source(settings);
  source->start();
  const SourceInfo info = source->info();
  CHECK(info.width_px == 2000);  // sensor of 2048, less the offset
  CHECK(info.offset_x_px == 48);
  CHECK(info.height_px == 1024);
  CHECK_FALSE(has_note(info, "Height"));  // 0 asked for what there is
  CHECK(info.frame_rate_hz == Approx(1000));
  CHECK(has_note(info, "the frame rate is 1000 frames/s instead of 5000"));
}

TEST_CASE("an exposure that an old rate limits is set again after the rate") {
  const Description description(
      "<Float Name=\"ExposureTime\"><pValue>ExposureTimeAbsConverter</pValue><Min>10</Min>"
      "<pMax>LongestExposure</pMax></Float><SwissKnife Name=\"LongestExposure\">"
      "<pVariable Name=\"PERIOD\">AcquisitionFramePeriod</pVariable><Formula>PERIOD</Formula>"
      "</SwissKnife>");
  AravisSettings settings = fake_settings();
  settings.frame_rate_hz = 10;
  settings.exposure_us = 60'000;  // the camera's own rate at power-on, 25 a second, allows 40000
  const auto source = make_aravis_source(settings);
  source->start();
  CHECK(source->info().exposure_us == Approx(60'000));
  CHECK_FALSE(has_note(source->info(), "the exposure time"));
}

TEST_CASE("another depth than asked for is refused: the grey levels would mean something else") {
  AravisSettings settings = fake_settings();
  settings.format = PixelFormat::Mono12p;  // the fake camera has Mono8, Mono16 and colour
  const std::string error = error_of(settings);
  INFO(error);
  CHECK(error.find("the camera refused Mono12p") != std::string::npos);
  CHECK(error.find("Mono8") != std::string::npos);
}

TEST_CASE("a stopped source stops again and is destroyed without harm") {
  const auto source = make_aravis_source(fake_settings());
  source->stop();
  source->start();
  source->stop();
  source->stop();
  Frame frame;
  CHECK(source->pop(1ms, frame) == PopStatus::Disconnected);
}

TEST_CASE("no camera of that name is an error that lists those there are") {
  AravisSettings settings = fake_settings();
  settings.id = "Basler-21876543";
  const std::string error = error_of(settings);
  INFO(error);
  CHECK(error.find("Basler-21876543") != std::string::npos);
  CHECK(error.find("Fake_1") != std::string::npos);
}

TEST_CASE("a trigger input that the camera lacks is an error, not free running") {
  AravisSettings settings = fake_settings();
  settings.trigger = Trigger::HardwareLine;
  settings.trigger_line = "Line9";
  const std::string error = error_of(settings);
  INFO(error);
  CHECK(error.find("Line9") != std::string::npos);
  CHECK(error.find("Line0") != std::string::npos);  // what there is
}

TEST_CASE("settings that cannot work are refused before any camera is touched") {
  AravisSettings settings = driftd::test::default_aravis_settings();
  settings.format = PixelFormat::Mono8;
  SECTION("negative region") {
    settings.region_x_px = -1;
  }
  SECTION("a row above the sensor") {
    settings.region_y_px = -1;
  }
  SECTION("no exposure") {
    settings.exposure_us = 0;
  }
  SECTION("a rate that is no number") {
    settings.frame_rate_hz = std::nan("");
  }
  SECTION("too few buffers") {
    settings.buffers = 3;
  }
  SECTION("a packet time-out with which Aravis spins") {
    settings.packet_timeout_us = 999;
  }
  SECTION("retention below the time-out") {
    settings.frame_retention_us = 500;
  }
  SECTION("a software trigger without a rate") {
    settings.trigger = Trigger::Software;
  }
  SECTION("back-off the wrong way round") {
    settings.reconnect_max_ms = 100;
  }
  SECTION("packet too large") {
    settings.packet_size_bytes = 70000;
  }
  CHECK_THROWS_AS(make_aravis_source(settings), CameraError);
}

TEST_CASE("a socket buffer that the kernel cuts is told with its remedy") {
  int allowed = 0;
  if (std::ifstream("/proc/sys/net/core/rmem_max") >> allowed) {
    CHECK(aravis::socket_buffer_given(allowed) == allowed);
    CHECK(aravis::socket_buffer_given(allowed + 1) == allowed);
  }
  CHECK(aravis::socket_buffer_given(4096) == 4096);
  const CameraNote note = aravis::socket_buffer_note(1 << 30, 212992);
  CHECK(note.asked == "1073741824");
  CHECK(note.got == "212992");
  CHECK(note.text.starts_with(
      "the kernel gives a socket buffer of 212992 bytes instead of 1073741824"));
  CHECK(note.text.find("net.core.rmem_max=1073741824") != std::string::npos);
}

namespace {

constexpr guint64 kLatchRegister = 0x1f0;  // none of the fake camera's own

/// A camera whose time, which stands, can be latched by the names of SFNC 2.
/// @param value  its feature for what was latched
struct Latching {
  explicit Latching(const std::string& value)
      : description(
            "<Command Name=\"TimestampLatch\"><pValue>LatchReg</pValue><CommandValue>1"
            "</CommandValue></Command><IntReg Name=\"LatchReg\"><Address>496</Address><Length>4"
            "</Length><AccessMode>RW</AccessMode><pPort>Device</pPort><Cachable>NoCache</Cachable>"
            "<Sign>Unsigned</Sign><Endianess>BigEndian</Endianess></IntReg>"
            "<Integer Name=\"" +
            value + "\"><Value>5</Value></Integer>") {
    fake_settings();
    camera.reset(arv_camera_new("Fake_1", nullptr));
  }
  /// @returns whether it was asked
  bool update(std::int64_t now_ms, bool wanted, bool there) {
    ArvDevice* device = arv_camera_get_device(camera.get());
    arv_device_write_register(device, kLatchRegister, 0, nullptr);
    rate = watch.update(camera.get(), now_ms * 1'000'000, wanted, there);
    guint32 asked = 0;
    arv_device_read_register(device, kLatchRegister, &asked, nullptr);
    return asked != 0;
  }

  Description description;
  aravis::Ref<ArvCamera> camera;
  aravis::ClockWatch watch;
  ClockRate rate;
};

}  // namespace

TEST_CASE("a camera is asked for its time four times a second while that is wanted") {
  Latching camera("TimestampLatchValue");
  CHECK_FALSE(camera.update(1000, false, true));
  CHECK_FALSE(camera.update(1000, true, false));
  CHECK(camera.update(1000, true, true));
  CHECK_FALSE(camera.update(1249, true, true));
  CHECK(camera.update(1250, true, true));
  CHECK(std::isinf(camera.rate.uncertainty));
  CHECK(camera.update(1500, true, true));
  CHECK(camera.rate.slow == 1);  // it stands
  CHECK_FALSE(camera.update(2000, true, false));
  CHECK(camera.rate.slow == 1);
  CHECK_FALSE(camera.update(2000, false, true));
  CHECK(std::isinf(camera.rate.uncertainty));
  CHECK(camera.update(2000, true, true));
}

TEST_CASE("a camera that refuses its time is not asked again") {
  Latching camera("NotTheLatchedValue");
  CHECK(camera.update(1000, true, true));
  CHECK_FALSE(camera.update(2000, true, true));
  CHECK_FALSE(camera.update(3000, true, true));
  CHECK(std::isinf(camera.rate.uncertainty));
}

TEST_CASE("a camera without a latch is not known by its rate, and streams on") {
  const auto source = make_aravis_source(fake_settings());
  source->start();
  Frame frame;
  for (int i = 0; i < 100; ++i) {  // half a second
    while (source->pop(1s, frame) != PopStatus::Frame) {
    }
    CHECK(std::isinf(source->clock_rate(true).uncertainty));
  }
  CHECK(source->counters().disconnects == 0);
}
