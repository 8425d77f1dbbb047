// SPDX-License-Identifier: MIT
#include <filesystem>
#include <fstream>

#include "config/options.hpp"
#include "random_config.hpp"
#include "support/catch.hpp"
#include "support/source_dir.hpp"

namespace driftd::config {
namespace {

const std::filesystem::path kFolder = driftd::test::source_dir() / "config/examples";

Config example(const std::string& name) {
  return load(kFolder / (name + ".yaml"));
}

}  // namespace

TEST_CASE("the simulator example is the simulated instrument", "[config]") {
  const Config config = example("simulator");
  CHECK(config.camera.source == Source::Aravis);
  CHECK(config.camera.id == "127.0.0.1");
  CHECK(config.camera.frame_rate_hz == 500);
  CHECK(config.camera.region_width_px == 0);
  CHECK(config.fitter.roi_px == 0);  // found in the image
  CHECK(config.lock.at_start == false);
  CHECK(config.wire.publish == Endpoints{"ipc://publish"});
  CHECK(config.wire.corrections == Endpoints{"ipc://corrections"});
  CHECK(config.wire.commands == Endpoints{"ipc://commands"});
  // Mirrored: a wrong handedness makes the lock run away.
  const auto& m = config.stage.image_to_stage;
  CHECK(m[0][0] * m[1][1] - m[0][1] * m[1][0] == Approx(-1).margin(1e-5));  // six digits given
}

TEST_CASE("the example of three axes is the simulator's, and holds z", "[config]") {
  const Config flat = example("simulator"), deep = example("three-axes");
  CHECK(deep.axial.method == control::AxialMethod::Astigmatic);
  CHECK(deep.axial.hold);
  CHECK(std::filesystem::exists(deep.axial.curve));
  CHECK(deep.stage.image_to_stage == flat.stage.image_to_stage);
  CHECK(deep.control.step_limit_nm == flat.control.step_limit_nm);
  CHECK_FALSE(flat.axial.hold);
}

TEST_CASE("the camera examples differ in what the cameras need", "[config]") {
  const Config gige = example("gige");
  CHECK(gige.camera.id == "192.168.10.2");
  CHECK(gige.camera.packet_size_bytes == 9000);
  CHECK(gige.camera.start_without_camera);
  CHECK(gige.markers.mode == MarkerMode::Auto);
  const Config usb3 = example("usb3");
  CHECK(usb3.camera.id == "22531234");
  CHECK(usb3.realtime.mode == RealTimeMode::Require);
  REQUIRE(usb3.markers.list.size() == 4);
  CHECK(usb3.markers.list[3].id == 9);
  CHECK(usb3.markers.list[3].role == control::MarkerRole::Witness);
  CHECK(usb3.markers.list[0].role == control::MarkerRole::Tracking);
}

TEST_CASE("the camera examples ask for no more than their bus carries", "[config]") {
  const auto bytes_per_s = [](const std::string& name) {
    const Camera camera = example(name).camera;
    const bool packed = camera.pixel_format == camera::PixelFormat::Mono12Packed ||
                        camera.pixel_format == camera::PixelFormat::Mono12p;
    REQUIRE(packed);  // 1.5 bytes a pixel
    return 1.5 * camera.region_width_px * camera.region_height_px * camera.frame_rate_hz;
  };
  CHECK(bytes_per_s("gige") < 115e6);  // 1 Gbit/s less the headers
  CHECK(bytes_per_s("gige") > 50e6);   // and not by a slip of a key
  CHECK(bytes_per_s("usb3") < 350e6);  // 5 Gbit/s less coding and protocol, as cameras reach it
  CHECK(bytes_per_s("usb3") > 200e6);
}

TEST_CASE("the replay example finds its recording beside itself", "[config]") {
  const Config config = example("replay");
  CHECK(config.camera.source == Source::Replay);
  CHECK(config.replay.path == kFolder / "recording.tif");
  CHECK(config.replay.on_end == camera::ReplayEnd::Stop);
}

TEST_CASE("every example there is loads", "[config]") {
  int examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".yaml") || name.starts_with("scenario-")) continue;  // the simulator's
    INFO(name);
    CHECK_NOTHROW(load(entry.path()));
    const std::string text = test::project_file("config/examples/" + name);
    const bool has_schema =
        text.starts_with("# yaml-language-server: $schema=../driftd.schema.json\n");
    CHECK(has_schema);
    ++examples;
  }
  CHECK(examples >= 4);
}

}  // namespace driftd::config
