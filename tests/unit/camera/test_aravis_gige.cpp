// SPDX-License-Identifier: MIT
// The Aravis source over real GigE Vision packets on loopback, from Aravis' own fake camera in this
// process: settings as the camera has them, loss of packets, loss and return of the camera, a
// second program.
#include <arpa/inet.h>
#include <arv.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/monotonic.hpp"
#include "camera/sources.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"

using driftd::kNanosecondsPerSecond;
using driftd::monotonic_ns;
using namespace driftd::camera;
using namespace std::chrono_literals;

namespace {

constexpr const char* kAddress = "127.0.0.1";  // the only one ArvGvFakeCamera can have on loopback

constexpr const char* kSerial = "CAMTEST1";

bool control_port_is_free() {
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(3956);
  inet_pton(AF_INET, kAddress, &address.sin_addr);
  const bool free = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return free;
}

/// Keeps other runs of these tests on this machine away from the address while this process lives.
void lock_address() {
  static const int fd = open((std::filesystem::temp_directory_path() /
                              ("driftd_gvcp_127.0.0.1_" + std::to_string(getuid())))
                                 .c_str(),
                             O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  flock(fd, LOCK_EX);
}

/// Every pixel of a frame has the same value, which changes with each frame: a frame put together
/// from two, or with a hole, shows.
void fill_uniformly(ArvBuffer* buffer, void* value, guint32, guint32, ArvPixelFormat format) {
  const auto bytes = static_cast<std::size_t>(arv_buffer_get_image_width(buffer)) *
                     static_cast<std::size_t>(arv_buffer_get_image_height(buffer)) *
                     ARV_PIXEL_FORMAT_BIT_PER_PIXEL(format) / 8;
  auto* level = static_cast<unsigned char*>(value);
  // Aravis gives the pattern its own buffer as const.
  std::memset(const_cast<void*>(arv_buffer_get_data(buffer, nullptr)), ++*level, bytes);
}

bool is_uniform(const Frame& frame) {
  std::vector<std::uint16_t> pixels(static_cast<std::size_t>(frame.width_px * frame.height_px));
  unpack(frame, pixels.data());
  return pixels == std::vector<std::uint16_t>(pixels.size(), pixels[0]);
}

class FakeCamera {
 public:
  FakeCamera() : camera_(arv_gv_fake_camera_new(kAddress, kSerial)) {}
  ~FakeCamera() { g_object_unref(camera_); }
  FakeCamera(const FakeCamera&) = delete;
  FakeCamera& operator=(const FakeCamera&) = delete;

  guint32 read(guint32 address) const {
    guint32 value = 0;
    arv_fake_camera_read_register(arv_gv_fake_camera_get_fake_camera(camera_), address, &value);
    return value;
  }
  void lose_packets(double ratio) { g_object_set(camera_, "gvsp-lost-ratio", ratio, nullptr); }
  void fill_frames_uniformly() {
    arv_fake_camera_set_fill_pattern(arv_gv_fake_camera_get_fake_camera(camera_), fill_uniformly,
                                     &level_);
  }

 private:
  unsigned char level_ = 0;
  ArvGvFakeCamera* camera_;
};

/// Nothing when another program has the port for too long.
std::unique_ptr<FakeCamera> make_camera() {
  lock_address();
  for (int i = 0; i < 300 && !control_port_is_free(); ++i) std::this_thread::sleep_for(100ms);
  if (!control_port_is_free()) {
    std::cout << "SKIPPED: port 3956 of 127.0.0.1 is taken\n";
    return nullptr;
  }
  return std::make_unique<FakeCamera>();
}

AravisSettings settings_for_test() {
  AravisSettings settings = driftd::test::default_aravis_settings();
  settings.format = PixelFormat::Mono8;
  settings.id = kAddress;
  settings.region_x_px = 16;
  settings.region_y_px = 8;
  settings.region_width_px = 128;
  settings.region_height_px = 64;
  settings.exposure_us = 2345;
  settings.frame_rate_hz = 100;
  settings.stall_timeout_ms = 1000;  // a busy machine may keep the fake camera off its CPU
  return settings;
}

void check_registers(const FakeCamera& camera) {
  CHECK(camera.read(ARV_FAKE_CAMERA_REGISTER_WIDTH) == 128);
  CHECK(camera.read(ARV_FAKE_CAMERA_REGISTER_HEIGHT) == 64);
  CHECK(camera.read(ARV_FAKE_CAMERA_REGISTER_X_OFFSET) == 16);
  CHECK(camera.read(ARV_FAKE_CAMERA_REGISTER_Y_OFFSET) == 8);
  CHECK(camera.read(ARV_FAKE_CAMERA_REGISTER_EXPOSURE_TIME_US) == 2345);
  CHECK(camera.read(0x0938) == 1500);                           // GevHeartbeatTimeout
  CHECK(camera.read(ARV_FAKE_CAMERA_REGISTER_GAIN_RAW) == 0);   // its least
  CHECK(camera.read(ARV_FAKE_CAMERA_REGISTER_GAIN_MODE) == 1);  // Off
  CHECK(camera.read(ARV_FAKE_CAMERA_REGISTER_ACQUISITION_FRAME_PERIOD_US) == 10000);
  CHECK(camera.read(ARV_FAKE_CAMERA_REGISTER_TRIGGER_MODE) == 0);
  CHECK(camera.read(ARV_FAKE_CAMERA_REGISTER_ACQUISITION) == 1);
}

/// Pops until `wanted` comes; gives up after a minute.
bool pop_until(FrameSource& source, PopStatus wanted, Frame& frame) {
  const std::int64_t end_ns = monotonic_ns() + 60 * kNanosecondsPerSecond;
  while (monotonic_ns() < end_ns) {
    if (source.pop(100ms, frame) == wanted) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a GigE camera is set up as asked and its frames are all accounted for") {
  const auto camera = make_camera();
  if (!camera) return;
  const auto source = make_aravis_source(settings_for_test());
  source->start();
  check_registers(*camera);
  const SourceInfo info = source->info();
  CHECK(info.description == "Aravis Fake CAMTEST1 at 127.0.0.1");
  CHECK(info.width_px == 128);
  CHECK(info.offset_x_px == 16);
  CHECK(info.exposure_us == Approx(2345));
  CHECK(info.frame_rate_hz == Approx(100));

  Frame frame;
  std::uint64_t first_id = 0;
  std::uint64_t before = 0;
  std::int64_t camera_time_before_ns = 0;
  for (int i = 0; i < 100; ++i) {
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK((i == 0 || frame.id > before));
    CHECK(frame.camera_time_ns > camera_time_before_ns);
    if (i == 0) first_id = frame.id;
    before = frame.id;
    camera_time_before_ns = frame.camera_time_ns;
    CHECK(frame.offset_x_px == 16);
    CHECK(frame.offset_y_px == 8);
    CHECK(monotonic_ns() >= frame.arrival_ns);
  }
  const SourceCounters counters = source->counters();
  CHECK(counters.connected);
  CHECK(counters.frames == 100);
  // Ids are contiguous but for what is counted; what came after the last pop may be counted too.
  CHECK(before - first_id + 1 <= counters.frames + counters.superseded + counters.lost);
  CHECK(counters.disconnects == 0);
}

TEST_CASE("a camera is found by its serial number") {
  const auto camera = make_camera();
  if (!camera) return;
  AravisSettings settings = settings_for_test();
  settings.id = kSerial;
  const auto source = make_aravis_source(settings);
  source->start();
  CHECK(source->info().description == "Aravis Fake CAMTEST1 at 127.0.0.1");
  Frame frame;
  CHECK(pop_until(*source, PopStatus::Frame, frame));
}

TEST_CASE("16-bit pixels arrive as the camera's levels") {
  const auto camera = make_camera();
  if (!camera) return;
  camera->fill_frames_uniformly();
  AravisSettings settings = settings_for_test();
  settings.format = PixelFormat::Mono16;
  const auto source = make_aravis_source(settings);
  source->start();
  CHECK(source->info().format == PixelFormat::Mono16);
  Frame frame;
  REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  CHECK(is_uniform(frame));
  std::uint16_t level = 0;
  REQUIRE(cut_roi(frame, 0, 0, 1, &level));
  CHECK(level % 257 == 0);  // both bytes alike
}

TEST_CASE("incomplete frames never pass and are counted") {
  const auto camera = make_camera();
  if (!camera) return;
  camera->fill_frames_uniformly();
  camera->lose_packets(0.02);
  AravisSettings settings = settings_for_test();
  settings.region_width_px = settings.region_height_px = 128;
  settings.packet_size_bytes = 1000;  // about 19 packets a frame: every third frame loses one
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  for (int i = 0; i < 100; ++i) {
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK(is_uniform(frame));
  }
  const SourceCounters counters = source->counters();
  // 100 frames through a sieve that stops a third: none stopped has a chance below 1e-17.
  CHECK(counters.incomplete > 0);
  CHECK(counters.lost > 0);
  CHECK(counters.missing_packets > 0);
  CHECK(counters.disconnects == 0);
}

TEST_CASE("a camera that vanishes and comes back is set up again without a restart") {
  auto camera = make_camera();
  if (!camera) return;
  const auto source = make_aravis_source(settings_for_test());
  source->start();
  Frame frame;
  REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  const std::uint64_t id_before = frame.id;

  camera.reset();
  REQUIRE(pop_until(*source, PopStatus::Disconnected, frame));
  CHECK_FALSE(source->counters().connected);
  CHECK(source->pop(1ms, frame) == PopStatus::Disconnected);

  camera = make_camera();  // a new one: every register at its default
  REQUIRE(camera);
  REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  check_registers(*camera);
  CHECK(frame.id > id_before);
  CHECK(source->info().connection == 2);
  const SourceCounters counters = source->counters();
  CHECK(counters.connected);
  CHECK(counters.disconnects == 1);
  CHECK(counters.reconnects == 1);
  std::vector<SourceEvent::Kind> kinds;
  for (const SourceEvent& event : source->take_events()) {
    if (event.kind != SourceEvent::Kind::ReconnectFailed) kinds.push_back(event.kind);
  }
  CHECK(kinds == std::vector{SourceEvent::Kind::Connected, SourceEvent::Kind::Disconnected,
                             SourceEvent::Kind::Connected});
}

TEST_CASE("a source may start before its camera is there") {
  lock_address();
  std::unique_ptr<FakeCamera> camera;  // outlives the source: a stop without it takes seconds
  AravisSettings settings = settings_for_test();
  settings.start_without_camera = true;
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  CHECK(source->pop(1ms, frame) == PopStatus::Disconnected);
  camera = make_camera();
  if (!camera) return;
  REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  CHECK(source->counters().reconnects == 0);
  CHECK(source->counters().disconnects == 0);
}

TEST_CASE("without a camera start says so") {
  lock_address();
  if (!control_port_is_free()) {
    std::cout << "SKIPPED: port 3956 of 127.0.0.1 is taken\n";
    return;
  }
  const auto source = make_aravis_source(settings_for_test());
  std::string error;
  try {
    source->start();
  } catch (const CameraError& thrown) {
    error = thrown.what();
  }
  INFO(error);
  CHECK(error.find("127.0.0.1 cannot be opened") != std::string::npos);
}

TEST_CASE("a camera that another program controls is named as such") {
  const auto camera = make_camera();
  if (!camera) return;
  const auto first = make_aravis_source(settings_for_test());
  first->start();
  const auto second = make_aravis_source(settings_for_test());
  std::string error;
  try {
    second->start();
  } catch (const CameraError& thrown) {
    error = thrown.what();
  }
  INFO(error);
  CHECK(error.find("is controlled by another program") != std::string::npos);
  Frame frame;
  CHECK(pop_until(*first, PopStatus::Frame, frame));  // the first one is unharmed
}

TEST_CASE("a software trigger is sent at the asked rate") {
  const auto camera = make_camera();
  if (!camera) return;
  AravisSettings settings = settings_for_test();
  settings.trigger = Trigger::Software;
  settings.frame_rate_hz = 20;
  const auto source = make_aravis_source(settings);
  source->start();
  CHECK(camera->read(ARV_FAKE_CAMERA_REGISTER_TRIGGER_MODE) == 1);
  Frame frame;
  for (int i = 0; i < 5; ++i) REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  CHECK(source->counters().disconnects == 0);
}

TEST_CASE("a hardware trigger that never comes is a time-out, not a lost camera") {
  const auto camera = make_camera();
  if (!camera) return;
  AravisSettings settings = settings_for_test();
  settings.trigger = Trigger::HardwareLine;
  settings.trigger_line = "Line0";
  settings.stall_timeout_ms = 20;
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  CHECK(source->pop(1300ms, frame) == PopStatus::Timeout);  // beyond the first frame's second, too
  CHECK(source->counters().connected);
  CHECK(source->counters().disconnects == 0);
}
