// SPDX-License-Identifier: MIT
// Exposure and gain set while the camera sends, and a camera that falls silent between: "Fake_1",
// whose answers a test keeps back.
#include <arv.h>

#include <atomic>
#include <string>

#include "base/monotonic.hpp"
#include "camera/aravis/configure.hpp"
#include "camera/aravis/gain.hpp"
#include "support/catch.hpp"
#include "support/fake_camera.hpp"

using namespace driftd::camera;
using namespace driftd::test;
using namespace std::chrono_literals;

namespace {

constexpr guint64 kExposureRegister = 0x120;

/// In place of what Aravis reads and writes of "Fake_1" with: after each write of the exposure time
/// so many questions are not answered.
class Silence {
 public:
  explicit Silence(int questions) {
    fake_settings();
    const aravis::Ref<ArvCamera> camera(arv_camera_new("Fake_1", nullptr));
    REQUIRE(camera);
    device_ = ARV_DEVICE_GET_CLASS(arv_camera_get_device(camera.get()));
    before_ = *device_;
    after_write_ = questions;
    to_come_ = 0;
    device_->read_memory = [](ArvDevice* device, guint64 address, guint32 size, void* buffer,
                              GError** error) {
      return is_silent(error) ? gboolean{FALSE}
                              : before_.read_memory(device, address, size, buffer, error);
    };
    device_->write_memory = [](ArvDevice* device, guint64 address, guint32 size, void* buffer,
                               GError** error) {
      if (is_silent(error)) return gboolean{FALSE};
      if (address == kExposureRegister) to_come_ = after_write_.load();
      return before_.write_memory(device, address, size, buffer, error);
    };
    device_->read_register = [](ArvDevice* device, guint64 address, guint32* value,
                                GError** error) {
      return is_silent(error) ? gboolean{FALSE}
                              : before_.read_register(device, address, value, error);
    };
    device_->write_register = [](ArvDevice* device, guint64 address, guint32 value,
                                 GError** error) {
      if (is_silent(error)) return gboolean{FALSE};
      if (address == kExposureRegister) to_come_ = after_write_.load();
      return before_.write_register(device, address, value, error);
    };
  }
  ~Silence() { *device_ = before_; }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

  void begin(int questions) { after_write_ = questions; }
  void now(int questions) { to_come_ = questions; }
  void end() {
    after_write_ = 0;
    to_come_ = 0;
  }

 private:
  static bool is_silent(GError** error) {
    if (to_come_ <= 0) return false;
    --to_come_;
    g_set_error(error, ARV_DEVICE_ERROR, ARV_DEVICE_ERROR_TIMEOUT, "no answer");
    return true;
  }

  static inline std::atomic<int> to_come_, after_write_;
  static inline ArvDeviceClass before_;
  ArvDeviceClass* device_ = nullptr;
};

/// Waits until the source has dealt with an order.
SourceInfo dealt_with(FrameSource& source, std::uint64_t order) {
  const std::int64_t end_ns = driftd::monotonic_ns() + 60 * driftd::kNanosecondsPerSecond;
  Frame frame;
  while (driftd::monotonic_ns() < end_ns && source.info().exposure_order < order)
    source.pop(10ms, frame);
  return source.info();
}

}  // namespace

TEST_CASE("an exposure that the camera took before it fell silent is the one that is told") {
  Silence silence(0);
  AravisSettings settings = fake_settings();
  settings.exposure_us = 1500;
  const auto source = make_aravis_source(settings);
  source->start();
  silence.begin(1);
  const std::uint64_t order = source->order_exposure({.exposure_us = 3000, .gain_db = {}});
  const SourceInfo info = dealt_with(*source, order);
  REQUIRE(info.exposure_order == order);
  CHECK(info.exposure_us == Approx(3000));
  CHECK(info.frame_rate_hz == Approx(200));
  CHECK_THAT(info.exposure_problem, contains("no answer"));
  CHECK(source->counters().disconnects == 0);
}

TEST_CASE("a camera that stays silent amid an order is connected anew with what it had before") {
  Silence silence(0);
  AravisSettings settings = fake_settings();
  settings.exposure_us = 1500;
  const auto source = make_aravis_source(settings);
  source->start();
  silence.begin(1'000'000'000);
  const std::uint64_t order = source->order_exposure({.exposure_us = 3000, .gain_db = {}});
  const SourceInfo info = dealt_with(*source, order);
  silence.end();
  REQUIRE(info.exposure_order == order);
  CHECK_THAT(info.exposure_problem, contains("no answer"));
  CHECK(source->counters().disconnects == 1);
  Frame frame;
  while (source->pop(1s, frame) != PopStatus::Frame) {
  }
  CHECK(source->info().connection == 2);
  CHECK(source->info().exposure_us == Approx(1500));
}

TEST_CASE("a gain that cannot be set leaves what the camera has in place") {
  fake_settings();
  const aravis::Ref<ArvCamera> camera(arv_camera_new("Fake_1", nullptr));
  arv_camera_set_exposure_time(camera.get(), 1234, nullptr);
  AravisSettings settings = fake_settings();
  SourceInfo info;
  const std::string problem =
      aravis::adjust_exposure(camera.get(), settings, {.exposure_us = {}, .gain_db = 6}, info);
  CHECK_THAT(problem, contains("in steps of its own"));
  CHECK(info.exposure_us == Approx(1234));
}

TEST_CASE("silence is not taken for a camera without the feature that was asked for") {
  Silence silence(0);
  const Description description(
      "<Float Name=\"Gain\"><pIsAvailable>GainRawRegister</pIsAvailable><Value>3</Value>"
      "<Min>0</Min><Max>24</Max></Float>");
  const aravis::Ref<ArvCamera> camera(arv_camera_new("Fake_1", nullptr));
  arv_camera_set_integer(camera.get(), "GainRaw", 1, nullptr);
  SettableRange range;
  CHECK(aravis::read_gain_db(camera.get(), range) == Approx(3));
  silence.now(1);
  CHECK_THROWS_AS(aravis::read_gain_db(camera.get(), range), CameraError);
  silence.now(1);
  std::vector<CameraNote> notes;
  CHECK_THROWS_AS(aravis::set_gain(camera.get(), 6, notes), CameraError);
}
