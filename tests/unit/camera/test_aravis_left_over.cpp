// SPDX-License-Identifier: MIT
// What another program left on the camera, and what one camera calls otherwise than another: by
// features put into the description of "Fake_1".
#include <string>
#include <vector>

#include "camera/aravis/gain.hpp"
#include "support/catch.hpp"
#include "support/fake_camera.hpp"

using namespace driftd::camera;
using namespace driftd::test;

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
