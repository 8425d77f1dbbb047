// SPDX-License-Identifier: MIT
// The dialects of cameras, as Aravis reads them: features under their other names and units, state
// that another program left, and the image that obeys.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "simulator/gige_camera.hpp"
#include "support/catch.hpp"
#include "unit/simulator/aravis_client.hpp"

using namespace driftd::simulator;
using namespace driftd::test;

namespace {

/// One marker in the upper left of 64x48 pixels.
Scenario lopsided_world() {
  Scenario scenario;
  scenario.camera.width_px = 64;
  scenario.camera.height_px = 48;
  scenario.camera.rate_hz = 200;
  scenario.camera.background_e = 8;
  scenario.markers.positions_px = {{14, 9}};
  scenario.markers.photons_spread = 0;
  scenario.stage.noise_nm = 0;
  return scenario;
}

/// A simulated camera with its client.
struct Rig {
  Rig(const std::string& address, const Scenario& scenario)
      : producer(scenario), camera({address, "DIA01"}, scenario.camera, producer), client(address) {
    set_text("PixelFormat", "Mono16");
  }
  bool has(const char* feature) {
    Error error;
    return arv_camera_is_feature_available(client.camera(), feature, error) != 0;
  }
  void set_text(const char* feature, const char* value) {
    Error error;
    arv_camera_set_string(client.camera(), feature, value, error);
    error.require_none();
  }
  void set_number(const char* feature, double value) {
    Error error;
    arv_camera_set_float(client.camera(), feature, value, error);
    error.require_none();
  }
  void set_whole(const char* feature, int value) {
    Error error;
    arv_camera_set_integer(client.camera(), feature, value, error);
    error.require_none();
  }
  int whole(const char* feature) {
    Error error;
    const auto value = arv_camera_get_integer(client.camera(), feature, error);
    error.require_none();
    return static_cast<int>(value);
  }
  struct Image {
    int width = 0, height = 0;
    std::uint64_t time_ns = 0, system_time_ns = 0;
    std::int64_t told_time_ns = 0;
    std::vector<unsigned> levels;
    unsigned at(int x, int y) const { return levels[static_cast<std::size_t>(y * width + x)]; }
    int brightest_x() const { return brightest() % width; }
    int brightest_y() const { return brightest() / width; }
    int brightest() const {
      return static_cast<int>(std::max_element(levels.begin(), levels.end()) - levels.begin());
    }
    double sum_above(double floor) const {
      double sum = 0;
      for (const unsigned level : levels) sum += level - floor;
      return sum;
    }
  };
  Image grab() {
    client.start();
    Image image;
    for (int i = 0; i < 50 && image.levels.empty(); ++i) {
      ArvBuffer* buffer = client.pop();
      REQUIRE(buffer != nullptr);
      if (arv_buffer_get_status(buffer) == ARV_BUFFER_STATUS_SUCCESS) {
        image.width = arv_buffer_get_image_width(buffer);
        image.height = arv_buffer_get_image_height(buffer);
        image.time_ns = arv_buffer_get_timestamp(buffer);
        image.system_time_ns = arv_buffer_get_system_timestamp(buffer);
        image.told_time_ns = producer.image(arv_buffer_get_frame_id(buffer)).told_time_ns;
        std::size_t size = 0;
        const auto* bytes = static_cast<const std::uint8_t*>(arv_buffer_get_data(buffer, &size));
        for (std::size_t k = 0; k + 1 < size; k += 2) {
          image.levels.push_back(bytes[k] + 256U * bytes[k + 1]);
        }
      }
      client.push(buffer);
    }
    client.stop();
    REQUIRE_FALSE(image.levels.empty());
    return image;
  }

  RecordingProducer producer;
  GigeCamera camera;
  Client client;
};

}  // namespace

TEST_CASE("Legacy names are those that Aravis falls back on") {
  Scenario scenario = lopsided_world();
  scenario.camera.dialect.names = FeatureNames::Legacy;
  Rig rig("127.71.8.1", scenario);
  CHECK_FALSE(rig.has("ExposureTime"));
  CHECK_FALSE(rig.has("AcquisitionFrameRate"));
  Error error;
  arv_camera_set_exposure_time(rig.client.camera(), 2500, error);
  arv_camera_set_frame_rate(rig.client.camera(), 70, error);
  error.require_none();
  CHECK(arv_camera_get_exposure_time(rig.client.camera(), error) == 2500);
  CHECK(arv_camera_get_frame_rate(rig.client.camera(), error) == 70);
  // 2.5 times the light.
  CHECK(rig.grab().sum_above(100) == Approx(2.5 * (30000 + 64 * 48 * 8) / 4).epsilon(0.05));
}

TEST_CASE("Gain is in dB, a factor or raw, and the levels obey it") {
  Scenario scenario = lopsided_world();
  const double unit = (30000 + 64 * 48 * 8) / 4.0;
  SECTION("dB") {
    Rig rig("127.71.8.2", scenario);
    rig.set_number("Gain", 6.0206);
    CHECK(rig.grab().sum_above(100) == Approx(2 * unit).epsilon(0.05));
  }
  SECTION("factor") {
    scenario.camera.dialect.gain = GainUnit::Factor;
    Rig rig("127.71.8.2", scenario);
    double lowest = 0;
    double highest = 0;
    Error error;
    arv_camera_get_gain_bounds(rig.client.camera(), &lowest, &highest, error);
    error.require_none();
    CHECK(lowest == 1);
    CHECK(highest == 16);
    CHECK(rig.grab().sum_above(100) == Approx(unit).epsilon(0.05));
    rig.set_number("Gain", 2.5);
    CHECK(rig.grab().sum_above(100) == Approx(2.5 * unit).epsilon(0.05));
    arv_camera_set_float(rig.client.camera(), "Gain", 0, error);  // the 0 dB of another camera
    CHECK(error.set());
  }
  SECTION("raw") {
    scenario.camera.dialect.gain = GainUnit::Raw;
    Rig rig("127.71.8.2", scenario);
    CHECK_FALSE(rig.has("Gain"));
    CHECK(rig.grab().sum_above(100) == Approx(unit).epsilon(0.05));
    Error error;
    arv_camera_set_gain(rig.client.camera(), 96, error);
    error.require_none();
    CHECK(rig.whole("GainRaw") == 96);
    CHECK(rig.grab().sum_above(100) == Approx(3 * unit).epsilon(0.05));
  }
}

TEST_CASE("A rate that is gated by a mode holds only when the mode says so") {
  Scenario scenario = lopsided_world();
  scenario.camera.dialect.rate_gate = GENERATE(RateGate::Mode, RateGate::ModeBasic);
  const char* on = scenario.camera.dialect.rate_gate == RateGate::Mode ? "On" : "Basic";
  Rig rig("127.71.8.3", scenario);
  CHECK_FALSE(rig.has("AcquisitionFrameRateEnable"));
  rig.set_number("ExposureTime", 5000);
  rig.set_number("AcquisitionFrameRate", 40);
  struct Periods {
    double mean_ms = 0, shortest_ms = 1e9;
  };
  const auto periods = [&](std::size_t frames) {
    rig.client.start();
    std::vector<std::int64_t> times;
    while (times.size() < frames) {
      ArvBuffer* buffer = rig.client.pop(20'000);
      REQUIRE(buffer != nullptr);
      if (arv_buffer_get_status(buffer) == ARV_BUFFER_STATUS_SUCCESS) {
        times.push_back(static_cast<std::int64_t>(arv_buffer_get_timestamp(buffer)));
      }
      rig.client.push(buffer);
    }
    rig.client.stop();
    Periods found;
    for (std::size_t i = 1; i < frames; ++i) {
      const double period_ms = static_cast<double>(times[i] - times[i - 1]) * 1e-6;
      found.mean_ms += period_ms / static_cast<double>(frames - 1);
      found.shortest_ms = std::min(found.shortest_ms, period_ms);
    }
    return found;
  };
  // As fast as the exposure allows: 5 ms each, where the machine is not busy.
  CHECK(periods(20).shortest_ms < 20);
  rig.set_text("AcquisitionFrameRateMode", on);
  CHECK(periods(5).mean_ms > 24);
}

TEST_CASE("A mirror mirrors the picture, and the region is cut from the mirrored one") {
  Scenario scenario = lopsided_world();
  SECTION("as a client sets it") {
    Rig rig("127.71.8.4", scenario);
    CHECK(std::abs(rig.grab().brightest_x() - 14) <= 1);
    Error error;
    arv_camera_set_boolean(rig.client.camera(), "ReverseX", 1, error);
    error.require_none();
    Rig::Image image = rig.grab();
    CHECK(std::abs(image.brightest_x() - (63 - 14)) <= 1);
    CHECK(std::abs(image.brightest_y() - 9) <= 1);
    arv_camera_set_region(rig.client.camera(), 32, 4, 24, 20, error);
    error.require_none();
    image = rig.grab();
    CHECK(image.width == 24);
    CHECK(std::abs(image.brightest_x() - (63 - 14 - 32)) <= 1);
    CHECK(std::abs(image.brightest_y() - (9 - 4)) <= 1);
  }
  SECTION("left on by another program") {
    scenario.camera.left_over.reverse_y = true;
    Rig rig("127.71.8.4", scenario);
    const Rig::Image image = rig.grab();
    CHECK(std::abs(image.brightest_x() - 14) <= 1);
    CHECK(std::abs(image.brightest_y() - (47 - 9)) <= 1);
    Error error;
    arv_camera_set_boolean(rig.client.camera(), "ReverseY", 0, error);
    error.require_none();
    CHECK(std::abs(rig.grab().brightest_y() - 9) <= 1);
  }
}

TEST_CASE("Binning halves the picture and sums its light") {
  Scenario scenario = lopsided_world();
  scenario.camera.left_over.binning_x = 2;
  Rig rig("127.71.8.5", scenario);
  CHECK(rig.whole("Width") == 32);
  CHECK(rig.whole("Height") == 48);
  CHECK(rig.whole("SensorWidth") == 64);
  Error error;
  gint lowest = 0;
  gint highest = 0;
  arv_camera_get_width_bounds(rig.client.camera(), &lowest, &highest, error);
  error.require_none();
  CHECK(highest == 32);
  Rig::Image image = rig.grab();
  CHECK(image.width == 32);
  CHECK(image.height == 48);
  CHECK(std::abs(image.brightest_x() - 7) <= 1);
  CHECK(std::abs(image.brightest_y() - 9) <= 1);
  const double light = (30000 + 64 * 48 * 8) / 4.0;
  CHECK(image.sum_above(200) == Approx(light).epsilon(0.05));  // two offsets in each pixel

  arv_camera_set_region(rig.client.camera(), 8, 4, 36, 20, error);  // does not fit 32 columns
  CHECK(error.set());
  rig.set_whole("BinningVertical", 4);
  CHECK(rig.whole("Height") == 12);
  image = rig.grab();
  CHECK(image.height == 12);
  CHECK(std::abs(image.brightest_y() - 2) <= 1);
  CHECK(image.sum_above(800) == Approx(light).epsilon(0.05));
  rig.set_whole("BinningHorizontal", 1);
  CHECK(rig.whole("Width") == 32);  // cameras do not widen by themselves
  rig.set_whole("Width", 64);
  CHECK(rig.grab().width == 64);
}

TEST_CASE("A mirror and binning at once, on a sensor that the bins do not fill") {
  Scenario scenario = lopsided_world();
  scenario.camera.width_px = 68;  // 17 bins of four, of which a region takes 16
  scenario.camera.left_over.binning_x = 4;
  scenario.camera.left_over.reverse_x = true;
  Rig rig("127.71.8.6", scenario);
  CHECK(rig.whole("Width") == 16);
  CHECK(std::abs(rig.grab().brightest_x() - (16 - 14 / 4)) <= 1);
}

TEST_CASE("Twelve bits in the upper bits of Mono16 go in steps of 16 up to 65520") {
  Scenario scenario = lopsided_world();
  scenario.camera.dialect.left_aligned = true;
  scenario.markers.photons = 1e6;  // clips
  Rig rig("127.71.8.7", scenario);
  const Rig::Image image = rig.grab();
  unsigned low_bits = 0;
  unsigned top = 0;
  for (const unsigned level : image.levels) {
    low_bits |= level & 15U;
    top = std::max(top, level);
  }
  CHECK(low_bits == 0);
  CHECK(top == 65520);
  CHECK(std::abs(static_cast<int>(image.at(50, 40)) - 1600) < 300);  // an offset of 100 levels
}

TEST_CASE("Ticks of 125 MHz are what the frequency's register says") {
  Scenario scenario = lopsided_world();
  scenario.camera.dialect.tick_hz = 125'000'000;
  scenario.camera.clock_jitter_us = 30;
  Rig rig("127.71.8.8", scenario);
  CHECK(rig.whole("GevTimestampTickFrequency") == 125'000'000);
  const Rig::Image image = rig.grab();
  CHECK(image.time_ns % 8 == 0);
  CHECK(static_cast<std::int64_t>(image.time_ns) == image.told_time_ns);
  CHECK(image.time_ns > 1'000'000'000);
  Error error;
  arv_camera_execute_command(rig.client.camera(), "GevTimestampControlLatch", error);
  const auto ticks = arv_camera_get_integer(rig.client.camera(), "GevTimestampValue", error);
  error.require_none();
  // Latched after the frame, less than a minute.
  CHECK(static_cast<double>(ticks) / 125e6 > static_cast<double>(image.time_ns) * 1e-9);
  CHECK(static_cast<double>(ticks) / 125e6 < static_cast<double>(image.time_ns) * 1e-9 + 60);
}

TEST_CASE("A camera without a clock has no frequency, no latch and no times") {
  Scenario scenario = lopsided_world();
  scenario.camera.dialect.tick_hz = 0;
  Rig rig("127.71.8.9", scenario);
  CHECK_FALSE(rig.has("GevTimestampControlLatch"));
  CHECK_FALSE(rig.has("GevTimestampValue"));
  Error error;
  ArvDevice* device = arv_camera_get_device(rig.client.camera());
  CHECK(arv_gv_device_get_timestamp_tick_frequency(ARV_GV_DEVICE(device), error) == 0);
  error.require_none();
  const Rig::Image image = rig.grab();
  CHECK(image.told_time_ns == 0);
  CHECK(image.time_ns == image.system_time_ns);  // Aravis puts the host's real time in its place
}
