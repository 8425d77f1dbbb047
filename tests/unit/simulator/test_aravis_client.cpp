// SPDX-License-Identifier: MIT
// The simulated camera as Aravis sees it: frames arrive whole and hold the pixels that the physics
// made; features read and write; a lost packet is brought back.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "simulator/gige_camera.hpp"
#include "support/catch.hpp"
#include "unit/simulator/aravis_client.hpp"

using namespace driftd::simulator;
using namespace driftd::test;

namespace {

Scenario small_world() {
  Scenario scenario;
  scenario.camera.width_px = 128;
  scenario.camera.height_px = 96;
  scenario.camera.rate_hz = 200;
  scenario.markers.count = 4;
  return scenario;
}

bool same_pixels(ArvBuffer* buffer, const std::vector<std::byte>& image) {
  std::size_t size = 0;
  const void* data = arv_buffer_get_data(buffer, &size);
  return size >= image.size() && !image.empty() &&
         std::equal(image.begin(), image.end(), static_cast<const std::byte*>(data));
}

}  // namespace

TEST_CASE("An Aravis client gets consecutive frames with the pixels that were made") {
  RecordingProducer producer(small_world());
  const GigeCamera camera({"127.71.1.1", "ARV01"}, small_world().camera, producer);
  Client client("127.71.1.1");
  client.start();
  int good = 0;
  int in_a_row = 0;
  std::uint64_t last = 0;
  for (int i = 0; i < 500 && in_a_row < 100; ++i) {
    ArvBuffer* buffer = client.pop();
    REQUIRE(buffer != nullptr);
    if (arv_buffer_get_status(buffer) == ARV_BUFFER_STATUS_SUCCESS) {
      const std::uint64_t id = arv_buffer_get_frame_id(buffer);
      in_a_row = id == last + 1 ? in_a_row + 1 : 1;
      last = id;
      const auto made = producer.image(id);
      REQUIRE(same_pixels(buffer, made.image));
      REQUIRE(static_cast<std::int64_t>(arv_buffer_get_timestamp(buffer)) ==
              made.plan.camera_time_ns);
      CHECK(arv_buffer_get_image_width(buffer) == 128);
      ++good;
    }
    client.push(buffer);
  }
  INFO(good << " good frames");
  CHECK(in_a_row == 100);
  client.stop();
}

TEST_CASE("Every pixel format and a region arrive as made") {
  RecordingProducer producer(small_world());
  const GigeCamera camera({"127.71.1.2", "ARV02"}, small_world().camera, producer);
  Client client("127.71.1.2");
  for (const char* format : {"Mono8", "Mono10", "Mono10Packed", "Mono10p", "Mono12", "Mono12Packed",
                             "Mono12p", "Mono16"}) {
    INFO(format);
    Error error;
    arv_camera_set_region(client.camera(), 8, 4, 100, 50, error);
    error.require_none();
    arv_camera_set_pixel_format_from_string(client.camera(), format, error);
    error.require_none();
    client.start();
    int good = 0;
    for (int i = 0; i < 20 && good < 3; ++i) {
      ArvBuffer* buffer = client.pop();
      REQUIRE(buffer != nullptr);
      if (arv_buffer_get_status(buffer) == ARV_BUFFER_STATUS_SUCCESS) {
        CHECK(same_pixels(buffer, producer.image(arv_buffer_get_frame_id(buffer)).image));
        CHECK(arv_buffer_get_image_width(buffer) == 100);
        CHECK(arv_buffer_get_image_height(buffer) == 50);
        CHECK(arv_buffer_get_image_x(buffer) == 8);
        CHECK(arv_buffer_get_image_y(buffer) == 4);
        ++good;
      }
      client.push(buffer);
    }
    CHECK(good == 3);
    client.stop();
  }
}

TEST_CASE("Lost packets are brought back by resend") {
  RecordingProducer producer(small_world());
  const GigeCamera camera({"127.71.1.3", "ARV03"}, small_world().camera, producer);
  Fault loss;
  loss.kind = FaultKind::LosePackets;
  loss.share = 0.05;
  loss.seconds = 1000;
  REQUIRE(producer.simulation.inject(loss));
  Client client("127.71.1.3");
  client.start();
  int good = 0;
  constexpr int kFrames = 200;
  for (int i = 0; i < kFrames; ++i) {
    ArvBuffer* buffer = client.pop();
    REQUIRE(buffer != nullptr);
    if (arv_buffer_get_status(buffer) == ARV_BUFFER_STATUS_SUCCESS) {
      CHECK(same_pixels(buffer, producer.image(arv_buffer_get_frame_id(buffer)).image));
      ++good;
    }
    client.push(buffer);
  }
  client.stop();
  // Six packets a frame: without resend 1 - 0.95^6, a quarter of the frames, would be lost.
  CHECK(good > kFrames * 9 / 10);
  CHECK(camera.resent_packets() > 20);
}

TEST_CASE("A corrupted frame never arrives as a good one") {
  RecordingProducer producer(small_world());
  const GigeCamera camera({"127.71.1.4", "ARV04"}, small_world().camera, producer);
  Fault corrupt;
  corrupt.kind = FaultKind::CorruptFrames;
  corrupt.share = 1;
  corrupt.seconds = 1000;
  REQUIRE(producer.simulation.inject(corrupt));
  Client client("127.71.1.4");
  client.start();
  int arrived = 0;
  for (int i = 0; i < 20; ++i) {
    ArvBuffer* buffer = client.pop(1000);
    if (buffer == nullptr) continue;
    ++arrived;
    CHECK(arv_buffer_get_status(buffer) != ARV_BUFFER_STATUS_SUCCESS);
    client.push(buffer);
  }
  CHECK(arrived > 0);
  client.stop();
}

TEST_CASE("A second Aravis client is refused a stream") {
  RecordingProducer producer(small_world());
  const GigeCamera camera({"127.71.1.5", "ARV05"}, small_world().camera, producer);
  Client first("127.71.1.5");
  first.start();
  Client second("127.71.1.5");
  Error error;
  const Owned<ArvStream> stream(arv_camera_create_stream(second.camera(), nullptr, nullptr, error));
  CHECK(stream == nullptr);
  CHECK(error.set());
  ArvBuffer* buffer = first.pop();
  CHECK(buffer != nullptr);
  if (buffer != nullptr) first.push(buffer);
  first.stop();
}

TEST_CASE("After the cable was out a new client finds the camera as new") {
  RecordingProducer producer(small_world());
  const GigeCamera camera({"127.71.1.6", "ARV06"}, small_world().camera, producer);
  {
    Client client("127.71.1.6");
    Error error;
    arv_camera_set_exposure_time(client.camera(), 2000, error);
    error.require_none();
    client.start();
    ArvBuffer* buffer = client.pop();
    REQUIRE(buffer != nullptr);
    client.push(buffer);
    Fault vanish;
    vanish.seconds = 0.5;
    REQUIRE(producer.simulation.inject(vanish));
    // Frames on their way still come; then silence, for good: the camera does not stream again.
    int late = 0;
    for (buffer = client.pop(1000); buffer != nullptr && late < 50; buffer = client.pop(1000)) {
      ++late;
      client.push(buffer);
    }
    CHECK(buffer == nullptr);
    CHECK_FALSE(camera.controlled());
  }
  Client client("127.71.1.6");
  Error error;
  CHECK(arv_camera_get_exposure_time(client.camera(), error) == 1000);
  error.require_none();
  client.start();
  ArvBuffer* buffer = client.pop();
  REQUIRE(buffer != nullptr);
  client.push(buffer);
  client.stop();
}

TEST_CASE("Features have the names, ranges and defaults that a client expects") {
  RecordingProducer producer(small_world());
  const GigeCamera camera({"127.71.1.7", "ARV07"}, small_world().camera, producer);
  Client client("127.71.1.7");
  ArvCamera* arv = client.camera();
  Error error;
  CHECK(std::string(arv_camera_get_vendor_name(arv, error)) == "driftd");
  CHECK(std::string(arv_camera_get_device_serial_number(arv, error)) == "ARV07");
  double low = 0;
  double high = 0;
  arv_camera_get_frame_rate_bounds(arv, &low, &high, error);
  CHECK(high > 1000);
  arv_camera_set_frame_rate(arv, 1234.5, error);
  CHECK(arv_camera_get_frame_rate(arv, error) == Approx(1234.5));
  arv_camera_set_exposure_time(arv, 123.25, error);
  CHECK(arv_camera_get_exposure_time(arv, error) == Approx(123.25));
  arv_camera_set_gain(arv, 6.5, error);
  CHECK(arv_camera_get_gain(arv, error) == Approx(6.5));
  arv_camera_set_string(arv, "DeviceUserID", "left arm", error);
  CHECK(std::string(arv_camera_get_string(arv, "DeviceUserID", error)) == "left arm");
  error.require_none();
  // On as delivered, and can be switched off.
  for (const char* name : {"ExposureAuto", "GainAuto"}) {
    CHECK(std::string(arv_camera_get_string(arv, name, error)) == "Continuous");
    arv_camera_set_string(arv, name, "Off", error);
    CHECK(std::string(arv_camera_get_string(arv, name, error)) == "Off");
  }
  for (const char* name : {"GammaEnable", "SharpnessEnable", "DefectCorrectStaticEnable"}) {
    CHECK(arv_camera_get_boolean(arv, name, error));
    arv_camera_set_boolean(arv, name, FALSE, error);
    CHECK_FALSE(arv_camera_get_boolean(arv, name, error));
  }
  error.require_none();
  arv_camera_set_integer(arv, "Width", 0, error);
  CHECK(error.set());
}

TEST_CASE("Aravis' software trigger gives a frame each") {
  RecordingProducer producer(small_world());
  const GigeCamera camera({"127.71.1.8", "ARV08"}, small_world().camera, producer);
  Client client("127.71.1.8");
  Error error;
  arv_camera_set_trigger(client.camera(), "Software", error);
  error.require_none();
  client.start();
  CHECK(client.pop(300) == nullptr);
  for (int i = 0; i < 3; ++i) {
    arv_camera_software_trigger(client.camera(), error);
    error.require_none();
    ArvBuffer* buffer = client.pop();
    REQUIRE(buffer != nullptr);
    CHECK(arv_buffer_get_status(buffer) == ARV_BUFFER_STATUS_SUCCESS);
    client.push(buffer);
  }
  client.stop();
}

TEST_CASE("The automatic packet size ends at the largest") {
  RecordingProducer producer(small_world());
  const GigeCamera camera({"127.71.1.9", "ARV09"}, small_world().camera, producer);
  Client client("127.71.1.9");
  Error error;
  // Aravis halves the interval down to one step of 4 bytes and may stop just below the end.
  CHECK(arv_camera_gv_auto_packet_size(client.camera(), error) >= kMaxPacketBytes - 4);
  error.require_none();
}
