// SPDX-License-Identifier: MIT
// Values that are each allowed and make no sense together.
#include "mistakes_of.hpp"
#include "support/catch.hpp"

namespace driftd::config {
namespace {

using test::mistakes_of;

/// A camera section around `keys`.
std::string camera(const std::string& keys) {
  return mistakes_of("camera: {" + keys + "}\n");
}

std::string replay(const std::string& keys) {
  return mistakes_of("camera: {source: replay}\nreplay: {" + keys + "}\n");
}

std::string listed(const std::string& entries, const std::string& rest = "") {
  return mistakes_of("drift: {min_markers: 1}\n" + rest + "markers:\n  mode: list\n  list:\n" +
                     entries);
}

}  // namespace

TEST_CASE("exposure, frame rate and stall time-out fit together", "[config]") {
  CHECK(camera("frame_rate_hz: 500, exposure_us: 2000") == "");
  CHECK(camera("frame_rate_hz: 500, exposure_us: 2001") ==
        "f:1:43: camera.exposure_us: found 2001 us with camera.frame_rate_hz 500; allowed at most "
        "one frame period, 2000 us");
  // Told at the key that the file gives.
  CHECK(camera("frame_rate_hz: 2000") ==
        "f:1:25: camera.exposure_us: found 1000 us with camera.frame_rate_hz 2000; allowed at most "
        "one frame period, 500 us");
  CHECK(camera("frame_rate_hz: 2000, trigger: hardware") == "");
  CHECK(camera("frame_rate_hz: 20") == "");
  CHECK(camera("frame_rate_hz: 19") ==
        "f:1:25: camera.stall_timeout_ms: found 100 ms with camera.frame_rate_hz 19; allowed at "
        "least two frame periods, 106 ms");
  CHECK(camera("frame_rate_hz: 19, stall_timeout_ms: 106") == "");
  CHECK(camera("exposure_us: 50000") == "");
  CHECK(camera("exposure_us: 50001") ==
        "f:1:23: camera.stall_timeout_ms: found 100 ms with camera.exposure_us 50001; allowed at "
        "least two exposures, 101 ms");
}

TEST_CASE("a stage is of first order, or not too slow for a model of second", "[config]") {
  CHECK(mistakes_of("stage: {resonance_hz: 0}\n") == "");
  CHECK(mistakes_of("stage: {resonance_hz: 0.1, damping: 0.05}\n") == "");
  CHECK(mistakes_of("stage: {resonance_hz: 0.05}\n") ==
        "f:1:23: stage.resonance_hz: found 0.05 Hz; allowed 0, or 0.1 Hz and more");
}

TEST_CASE("a trigger has what it needs", "[config]") {
  CHECK(
      camera("trigger: hardware, trigger_line: \"\"") ==
      "f:1:43: camera.trigger_line: found \"\" with camera.trigger hardware; allowed the camera's "
      "name of the input, such as Line1");
  CHECK(camera("trigger: software") ==
        "f:1:19: camera.frame_rate_hz: found 0 with camera.trigger software; allowed a rate at "
        "which to trigger");
  CHECK(camera("trigger: software, frame_rate_hz: 10") == "");
  CHECK(camera("trigger: hardware, trigger_line: Line2, in_lock_line: Line2") ==
        "f:1:64: camera.in_lock_line: found \"Line2\" for both; allowed another line than that of "
        "the trigger");
  CHECK(camera("trigger: hardware, trigger_line: Line1, in_lock_line: Line2") == "");
  CHECK(camera("trigger: software, frame_rate_hz: 10, in_lock_line: Line1") == "");
}

TEST_CASE("the transport's settings fit together", "[config]") {
  CHECK(camera("packet_size_bytes: 576") == "");
  CHECK(camera("packet_size_bytes: 575") ==
        "f:1:29: camera.packet_size_bytes: found 575; allowed 0 (automatic), or from 576 to 9216 "
        "bytes");
}

TEST_CASE("pixel values lie within the pixel format", "[config]") {
  CHECK(camera("pixel_format: Mono8, saturation_adu: 255") == "");
  CHECK(camera("pixel_format: Mono8, saturation_adu: 256") ==
        "f:1:47: camera.saturation_adu: found 256; allowed at most the pixel format's largest "
        "value, 255");
  CHECK(camera("pixel_format: Mono10p, saturation_adu: 1024") != "");
  CHECK(camera("pixel_format: Mono12Packed, saturation_adu: 4095") == "");
  CHECK(camera("pixel_format: Mono12Packed, saturation_adu: 4096") != "");
  CHECK(camera("pixel_format: Mono16, saturation_adu: 65535") == "");
  CHECK(camera("pixel_format: Mono8, gain_e_per_adu: 1, offset_adu: 300") ==
        "f:1:62: camera.offset_adu: found 300; allowed at most the pixel format's largest value, "
        "255");
  // The recording's format counts, not the camera's.
  CHECK(mistakes_of("camera: {source: replay, pixel_format: Mono8, saturation_adu: 60000}\n"
                    "replay: {path: a}\n") == "");
  CHECK(mistakes_of("camera: {source: replay, saturation_adu: 256}\n"
                    "replay: {path: a, format: raw_u8, width_px: 64, height_px: 64}\n") != "");
}

TEST_CASE("noise in electrons needs the gain", "[config]") {
  CHECK(camera("read_noise_e: 5") ==
        "f:1:24: camera.read_noise_e: found 5 with camera.gain_e_per_adu 0; allowed only with a "
        "camera.gain_e_per_adu above 0");
  CHECK(camera("offset_adu: 100") != "");
  CHECK(camera("offset_adu: 100, read_noise_e: 5, gain_e_per_adu: 0.5") == "");
  CHECK(
      mistakes_of("fitter: {estimator: poisson}\n") ==
      "f:1:21: fitter.estimator: found poisson with camera.gain_e_per_adu 0; allowed poisson only "
      "with a camera.gain_e_per_adu above 0");
  CHECK(mistakes_of("fitter: {estimator: poisson}\ncamera: {gain_e_per_adu: 0.5}\n") == "");
}

TEST_CASE("a replay has a recording of known size", "[config]") {
  CHECK(replay("path: a.tif") == "");
  CHECK(replay("") ==
        "f:1:18: replay.path: found no path with camera.source replay; allowed a recording");
  CHECK(replay("path: a.raw, format: raw_u16, width_px: 32, height_px: 32") == "");
  CHECK(replay("path: a.raw, format: raw_u16, width_px: 32") ==
        "f:2:31: replay.height_px: found 0 with replay.format raw_u16; allowed the frames' size: a "
        "raw file does not say it");
  CHECK(
      replay("path: a.tif, width_px: 32") ==
      "f:2:33: replay.width_px: found 32 with replay.format tiff; allowed 0: such a file says its "
      "own");
  CHECK(replay("path: a.h5, format: hdf5, dataset: /entry/data, pace: recorded") == "");
  CHECK(replay("path: a.h5, format: hdf5, height_px: 48") ==
        "f:2:47: replay.height_px: found 48 with replay.format hdf5; allowed 0: such a file says "
        "its own");
  CHECK(
      replay("path: a.tif, dataset: images") ==
      "f:2:32: replay.dataset: found \"images\" with replay.format tiff; allowed a name only with "
      "replay.format hdf5");
  CHECK(replay("path: a.tif, series: 0, channel: 0, slice: 0") == "");
  for (const char* choice : {"series: 0", "channel: 2", "slice: 0", "every_page: true"}) {
    const std::string text = choice;
    const std::string value = text.substr(text.find(' ') + 1);
    CHECK(replay("path: a.h5, format: hdf5, " + text) ==
          "f:2:" + std::to_string(37 + text.find(' ')) + ": replay." +
              text.substr(0, text.find(':')) + ": found " + value +
              " with replay.format hdf5; allowed only with replay.format tiff");
  }
  CHECK(replay("path: a.tif, every_page: true") == "");
  for (const std::string key : {"series", "channel", "slice"}) {
    CHECK(replay("path: a.tif, " + key + ": 0, every_page: true") ==
          "f:2:" + std::to_string(25 + key.size()) + ": replay." + key +
              ": found 0 with replay.every_page true; allowed -1: the metadata are left aside");
  }
  CHECK(replay("path: a.raw, format: raw_u8, width_px: 32, height_px: 32, pace: recorded") ==
        "f:2:74: replay.pace: found recorded with replay.format raw_u8; allowed rate or fast: a "
        "raw file holds no times");
  CHECK(replay("path: a.tif, pace: recorded") == "");
  CHECK(replay("path: a.tif, first_frame: 5, last_frame: 5") == "");
  CHECK(replay("path: a.tif, first_frame: 5, last_frame: 4") ==
        "f:2:51: replay.last_frame: found 4 with replay.first_frame 5; allowed at least "
        "replay.first_frame, or -1");
  // Not used, not checked: one switches between camera and recording by one key.
  CHECK(mistakes_of("replay: {format: raw_u8, first_frame: 5, last_frame: 4}\n") == "");
  CHECK(mistakes_of("camera: {source: replay, packet_size_bytes: 9}\nreplay: {path: a}\n") == "");
}

TEST_CASE("the window holds the spot and lies inside the region", "[config]") {
  CHECK(mistakes_of("fitter: {roi_px: 8}\noptics: {spot_sigma_px: 2}\n") == "");
  CHECK(mistakes_of("fitter: {roi_px: 7}\noptics: {spot_sigma_px: 2}\n") ==
        "f:1:18: fitter.roi_px: found 7 px with optics.spot_sigma_px 2; allowed at least four "
        "times optics.spot_sigma_px");
  // 13 px of window and 4 px on both sides.
  CHECK(mistakes_of(
            "camera: {region_width_px: 21, region_height_px: 21}\nfitter: {roi_px: 13}\n") == "");
  CHECK(
      mistakes_of("camera: {region_width_px: 20, region_height_px: 21}\nfitter: {roi_px: 13}\n") ==
      "f:1:27: camera.region_width_px: found 20 px; allowed at least 21 px: fitter.roi_px 13 and "
      "markers.border_px on both sides");
  CHECK(mistakes_of("camera: {region_height_px: 32}\nfitter: {roi_px: 33}\n") != "");
  // 5 px and 4 px on both sides.
  CHECK(mistakes_of("camera: {region_width_px: 13, region_height_px: 13}\n") == "");
  CHECK(
      mistakes_of("camera: {region_width_px: 13, region_height_px: 12}\n") ==
      "f:1:49: camera.region_height_px: found 12 px; allowed at least 13 px: the least ROI that is "
      "chosen and markers.border_px on both sides");
  CHECK(mistakes_of("camera: {source: replay}\nreplay: {path: a, format: raw_u8, width_px: 64, "
                    "height_px: 20}\nfitter: {roi_px: 13}\n") ==
        "f:2:60: replay.height_px: found 20 px; allowed at least 21 px: fitter.roi_px 13 and "
        "markers.border_px on both sides");
}

TEST_CASE("a window that is to be chosen will be one that fits", "[config]") {
  CHECK(mistakes_of("optics: {spot_sigma_px: 9}\n") == "");
  CHECK(mistakes_of("markers: {max_sigma_px: 0.2}\n") == "");
  CHECK(mistakes_of("fitter: {roi_px: 7}\noptics: {spot_sigma_px: auto}\n") == "");
  CHECK(camera("region_width_px: 16, region_height_px: 16") == "");
  // A list chooses nothing: its side is ten sigma, or 13 px. Its markers may be at the border.
  CHECK(listed("    - {id: 1, x_px: 6, y_px: 6}\n",
               "camera: {region_width_px: 13, region_height_px: 13}\n") == "");
  CHECK(listed("    - {id: 1, x_px: 9, y_px: 10}\n", "optics: {spot_sigma_px: 1.9}\n") == "");
  CHECK(
      listed("    - {id: 1, x_px: 8, y_px: 10}\n", "optics: {spot_sigma_px: 1.9}\n") ==
      "f:6:7: markers.list[0].x_px: found 8 px; allowed from 9 on: the window of fitter.roi_px 19 "
      "has to lie inside the region");
}

TEST_CASE("automatic markers can be found and are enough", "[config]") {
  CHECK(mistakes_of("markers: {max_sigma_px: 1.2}\noptics: {spot_sigma_px: 1.3}\n") ==
        "f:1:25: markers.max_sigma_px: found 1.2 px with optics.spot_sigma_px 1.3; allowed more "
        "than optics.spot_sigma_px");
  CHECK(mistakes_of("markers: {max_count: 2}\n") ==
        "f:1:22: drift.min_markers: found 3 with markers.max_count 2; allowed at most "
        "markers.max_count");
  CHECK(mistakes_of("drift: {min_markers: 4}\n") == "");  // 6 found, 0.2 of them witnesses: 4 left
  CHECK(mistakes_of("drift: {min_markers: 5}\n") ==
        "f:1:22: markers.witness_fraction: found 0.2, which of markers.min_for_witness 6 leaves 4 "
        "tracking markers; allowed what leaves at least drift.min_markers 5");
  CHECK(mistakes_of("drift: {min_markers: 5}\nmarkers: {witness_fraction: 0}\n") == "");
  // 0.2 of 5 is one, whatever the numbers' last digits say.
  CHECK(mistakes_of("drift: {min_markers: 4}\nmarkers: {min_for_witness: 5}\n") == "");
  // So few are kept that none becomes a witness.
  CHECK(mistakes_of("drift: {min_markers: 5}\nmarkers: {max_count: 5}\n") == "");
}

TEST_CASE("listed markers are distinct and lie inside the region", "[config]") {
  CHECK(listed("    - {id: 1, x_px: 50, y_px: 50}\n    - {id: 2, x_px: 56.5, y_px: 50}\n") == "");
  CHECK(listed("    - {id: 1, x_px: 50, y_px: 50}\n    - {id: 2, x_px: 56.4, y_px: 53}\n") ==
        "f:6:7: markers.list[1]: found 6.4 px from markers.list[0]; allowed at least half of "
        "fitter.roi_px 13: a window must hold one marker only");
  // One above the other, in either order; the first and the third.
  CHECK(listed("    - {id: 1, x_px: 50, y_px: 50}\n    - {id: 2, x_px: 50, y_px: 56.5}\n") == "");
  CHECK(listed("    - {id: 1, x_px: 50, y_px: 56.5}\n    - {id: 2, x_px: 50, y_px: 50}\n") == "");
  CHECK(listed("    - {id: 1, x_px: 50, y_px: 56}\n    - {id: 2, x_px: 50, y_px: 50}\n") ==
        "f:6:7: markers.list[1]: found 6 px from markers.list[0]; allowed at least half of "
        "fitter.roi_px 13: a window must hold one marker only");
  CHECK(listed("    - {id: 1, x_px: 50, y_px: 50}\n    - {id: 2, x_px: 90, y_px: 50}\n"
               "    - {id: 3, x_px: 52, y_px: 49}\n") ==
        "f:7:7: markers.list[2]: found 2 px from markers.list[0]; allowed at least half of "
        "fitter.roi_px 13: a window must hold one marker only");
  CHECK(listed("    - {id: 1, x_px: 50, y_px: 50}\n    - {id: 1, x_px: 90, y_px: 50}\n") ==
        "f:6:7: markers.list[1].id: found 1 as markers.list[0]; allowed an id of its own");
  // The centre of the first pixel is 0: the middle of a 13 px window lies at 6.
  CHECK(listed("    - {id: 1, x_px: 6, y_px: 6}\n") == "");
  CHECK(
      listed("    - {id: 1, x_px: 5, y_px: 6}\n") ==
      "f:5:7: markers.list[0].x_px: found 5 px; allowed from 6 on: the window of fitter.roi_px 13 "
      "has to lie inside the region");
  const std::string region =
      "camera: {region_x_px: 100, region_y_px: 200, region_width_px: 64, region_height_px: 32}\n";
  CHECK(listed("    - {id: 1, x_px: 106, y_px: 225}\n", region) == "");
  CHECK(listed("    - {id: 1, x_px: 105, y_px: 226}\n", region) ==
        "f:6:7: markers.list[0].x_px: found 105 px; allowed from 106 to 157: the window of "
        "fitter.roi_px 13 has to lie inside the region\n"
        "f:6:7: markers.list[0].y_px: found 226 px; allowed from 206 to 225: the window of "
        "fitter.roi_px 13 has to lie inside the region");
}

TEST_CASE("a list in use has enough tracking markers", "[config]") {
  CHECK(mistakes_of("markers: {mode: list}\n") ==
        "f:1:17: markers.list: found 0 tracking markers; allowed at least drift.min_markers 3");
  CHECK(listed("    - {id: 1, x_px: 50, y_px: 50, role: witness}\n") ==
        "f:5:5: markers.list: found 0 tracking markers; allowed at least drift.min_markers 1");
  // In mode auto the list may stay, with whatever it holds.
  CHECK(mistakes_of("markers: {list: [{id: 1, x_px: 0, y_px: 0}, {id: 1, x_px: 0, y_px: 0}]}\n") ==
        "");
}

TEST_CASE("limits and gains fit together", "[config]") {
  CHECK(mistakes_of("control: {step_limit_nm: 50, range_limit_nm: 50}\n") == "");
  CHECK(mistakes_of("control: {step_limit_nm: 51, range_limit_nm: 50}\n") ==
        "f:1:26: control.step_limit_nm: found 51 nm with control.range_limit_nm 50; allowed at "
        "most control.range_limit_nm");
  CHECK(mistakes_of("control: {proportional: 0.7}\n") == "");
  CHECK(mistakes_of("control: {proportional: 0.75}\n") ==
        "f:1:25: control.proportional: found 0.75 with control.integral 0.3; allowed together at "
        "most 1: more overshoots");
}

TEST_CASE("the stage matrix can be inverted and keeps lengths about", "[config]") {
  const auto matrix = [](const std::string& rows) {
    return mistakes_of("stage: {image_to_stage: " + rows + "}\n");
  };
  CHECK(matrix("[[0.992546, 0.121869], [0.121869, -0.992546]]") == "");
  CHECK(matrix("[[0, -10], [10, 0]]") == "");
  CHECK(matrix("[[0.1, 0], [0, 10]]") == "");
  const std::string allowed =
      "; allowed an invertible map that stretches by 0.1 to 10 in every direction";
  CHECK(matrix("[[3, 0], [0, 0]]") ==
        "f:1:25: stage.image_to_stage: found a map that stretches by 0 to 3" + allowed);
  CHECK(matrix("[[0, 0], [0, 0]]") ==
        "f:1:25: stage.image_to_stage: found a map that stretches by 0 to 0" + allowed);
  CHECK(matrix("[[1, 1], [1, 1]]") != "");
  CHECK(matrix("[[1, 1], [1, 1.05]]") != "");  // nearly singular
  CHECK(matrix("[[9, 9], [-9, 9]]") != "");    // stretches by 12.7
  CHECK(matrix("[[0.09, 0], [0, 0.09]]") != "");
}

TEST_CASE("sockets are reached from this computer only", "[config]") {
  const auto publish = [](const std::string& endpoint) {
    return mistakes_of("wire: {publish: \"" + endpoint + "\"}\n");
  };
  for (const char* endpoint : {"tcp://127.0.0.1:1", "tcp://127.8.9.255:65535", "tcp://127.0.0.1:*",
                               "ipc:///run/driftd/publish", "ipc://publish", "ipc://A-1_b.c"}) {
    INFO(endpoint);
    CHECK(publish(endpoint) == "");
  }
  for (const char* endpoint : {"tcp://*:5555", "tcp://0.0.0.0:5555", "tcp://192.168.1.5:5555",
                               "tcp://eth0:5555", "tcp://[::]:5555", "tcp://1270.0.0.1:5555"}) {
    const std::string report = publish(endpoint);
    INFO(report);
    const bool says_why = report.find("access.server_key") != std::string::npos;
    CHECK(says_why);
  }
  for (const char* endpoint : {"",
                               "5555",
                               "tcp://127.0.0.1",
                               "tcp://127.0.0.1:",
                               "tcp://127.0.0.1:0",
                               "tcp://127.0.0.1:65536",
                               "tcp://127.0.0.1:-1",
                               "tcp://127.0.0.1:5a",
                               "udp://127.0.0.1:5",
                               "tcp://127.0.0:5555",
                               "tcp://127.0.0.0.1:5555",
                               "tcp://127.0.0.256:5555",
                               "inproc://x",
                               "ipc://",
                               "ipc:///",
                               "ipc://a/b",
                               "ipc://@hidden",
                               "ipc://.hidden",
                               "ipc://../x",
                               "ipc://two words",
                               "ipc:///run/driftd/",
                               "tcp://localhost:5555",
                               "tcp://:5555",
                               "tcp:"}) {
    INFO(endpoint);
    CHECK(publish(endpoint) != "");
  }
  CHECK(mistakes_of("wire: {commands: \"tcp://192.168.1.5:5555\"}\n").find("access.server_key") !=
        std::string::npos);
  CHECK(publish("ipc:///" + std::string(106, 'x')) ==
        "");  // 107 bytes: as long as the kernel takes
  CHECK(publish("ipc:///" + std::string(107, 'x')) != "");
  CHECK(publish("ipc://" + std::string(32, 'x')) == "");
  CHECK(publish("ipc://" + std::string(33, 'x')) != "");
  CHECK(mistakes_of("wire: {commands: \"ipc://publish\"}\n") ==
        "f:1:18: wire.commands: found \"ipc://publish\" as wire.publish; allowed an address "
        "of its own");
  CHECK(mistakes_of("wire: {publish: \"tcp://127.0.0.1:*\", commands: \"tcp://127.0.0.1:*\"}\n") ==
        "");
}

TEST_CASE("with keys, sockets are reached from other computers, too", "[config]") {
  const auto with = [](const std::string& wire, const char* access = "server_key: s, clients: c") {
    return mistakes_of("access: {" + std::string(access) + "}\nwire: {" + wire + "}\n");
  };
  for (const char* endpoint : {"tcp://*:5555", "tcp://0.0.0.0:5555", "tcp://192.168.1.5:5555",
                               "tcp://127.0.0.1:*", "ipc://publish"}) {
    INFO(endpoint);
    CHECK(with("publish: [\"ipc://a\", \"" + std::string(endpoint) + "\"]") == "");
  }
  for (const char* endpoint : {"tcp://eth0:5555", "tcp://localhost:5555", "tcp://[::]:5555",
                               "tcp://*:0", "tcp://1.2.3:5", "udp://1.2.3.4:5"}) {
    INFO(endpoint);
    CHECK(with("publish: [\"ipc://a\", \"" + std::string(endpoint) + "\"]")
              .find("f:2:29: wire.publish[1]: found \"") == 0);
  }
  CHECK(with("publish: [\"ipc://a\", \"ipc://a\"]") ==
        "f:2:29: wire.publish[1]: found \"ipc://a\" as wire.publish[0]; allowed an address of its "
        "own");
  CHECK(with("", "server_key: s") ==
        "f:1:22: access.clients: found \"\" with an access.server_key; allowed the folder of the "
        "public keys that are let in");
  CHECK(with("", "clients: c").find("access.clients: found \"c\" without access.server_key") !=
        std::string::npos);
  CHECK(with("publish: \"tcp://127.0.0.1:5\"", "stage_group: s")
            .find("wire.publish: found \"tcp://127.0.0.1:5\" with groups for roles") !=
        std::string::npos);
  CHECK(with("publish: \"tcp://127.0.0.1:5\"", "stage_group: s, server_key: s, clients: c") == "");
  CHECK(with("publish: []").find("allowed an endpoint, or a list of 1 to 8") != std::string::npos);
}

TEST_CASE("z is measured by fits that tell it", "[config]") {
  const auto with = [](const std::string& axial, const std::string& fitter = "",
                       const std::string& camera = "gain_e_per_adu: 2") {
    return mistakes_of("axial: {" + axial + "}\nfitter: {" + fitter + "}\ncamera: {" + camera +
                       "}\n");
  };
  CHECK(with("method: astigmatic, curve: c.yaml") == "");
  CHECK(with("method: astigmatic, curve: c.yaml", "estimator: poisson") == "");
  CHECK(with("method: defocus, curve: c.yaml", "estimator: least_squares", "") == "");
  CHECK(with("method: none, curve: c.yaml", "estimator: least_squares", "") == "");
  CHECK(with("method: astigmatic") == "");  // the stage's sweep makes a curve
  CHECK(with("method: defocus", "estimator: auto", "source: replay")
            .find("found defocus without axial.curve; allowed the file of a curve, which "
                  "`driftfit calibrate-z` makes from a stack") != std::string::npos);
  CHECK(with("method: astigmatic, curve: c.yaml", "estimator: least_squares") ==
        "f:2:21: fitter.estimator: found least_squares with axial.method astigmatic; allowed auto "
        "or poisson: z by least squares has twice the error");
  CHECK(with("method: astigmatic, curve: c.yaml", "", "")
            .find("axial.method: found astigmatic without camera.gain_e_per_adu") !=
        std::string::npos);
  CHECK(with("method: defocus, curve: c.yaml", "estimator: poisson")
            .find("fitter.estimator: found poisson with axial.method defocus") !=
        std::string::npos);
}

TEST_CASE("a reflected spot has a slope, and a region of its own in the camera's", "[config]") {
  const auto with = [](const std::string& reflection, const std::string& rest = "") {
    return mistakes_of(
        "camera: {region_width_px: 256, region_height_px: 128}\naxial:\n  method: "
        "reflection\n  reflection: {" +
        reflection + "}\n" + rest);
  };
  CHECK(with("x_px: 100, y_px: 60, nm_per_px: -40") == "");
  CHECK(with("x_px: 100, y_px: 60") == "");  // the stage's sweep measures it
  CHECK(mistakes_of("camera: {source: replay}\naxial:\n  method: reflection\n  reflection: {x_px: "
                    "100, y_px: 60}\n")
            .find("axial.method: found reflection without axial.reflection.nm_per_px") !=
        std::string::npos);
  CHECK(with("x_px: 20, y_px: 60, nm_per_px: 40")
            .find("axial.reflection.x_px: found 20 px; allowed from 23.5 to 231.5") !=
        std::string::npos);
  CHECK(with("x_px: 100, y_px: 110, nm_per_px: 40").find("axial.reflection.y_px: found 110 px") !=
        std::string::npos);
  const std::string listed =
      "drift: {min_markers: 1}\nfitter: {roi_px: 13}\nmarkers: {mode: list, list: [{id: 1, x_px: ";
  CHECK(with("x_px: 100, y_px: 60, nm_per_px: 40", listed + "131, y_px: 60}]}\n") == "");
  CHECK(with("x_px: 100, y_px: 60, nm_per_px: 40", listed + "130, y_px: 60}]}\n")
            .find("reaches into the region of axial.reflection") != std::string::npos);
}

TEST_CASE("a value that is wrong by itself is told once, not in its combinations too", "[config]") {
  CHECK(
      mistakes_of("control: {step_limit_nm: 10, range_limit_nm: none}\n") ==
      "f:1:46: control.range_limit_nm: found \"none\"; allowed a number above 0 up to 1000000 nm");
  CHECK(
      mistakes_of("control: {step_limit_nm: 6000, range_limit_nm: none}\n") ==
      "f:1:48: control.range_limit_nm: found \"none\"; allowed a number above 0 up to 1000000 nm");
}

TEST_CASE("z is held by a method, on a stage that moves it, within its range") {
  const auto with = [](const std::string& axial) {
    return mistakes_of("axial: {" + axial + "}\n");
  };
  CHECK(with("hold: true").find("axial.hold: found true without axial.method") !=
        std::string::npos);
  CHECK(with("hold: false") == "");
  CHECK(
      with("stage: {gain: 0}").find("axial.stage.gain: found 0; allowed 0.01 or more, or -0.01") !=
      std::string::npos);
  CHECK(with("stage: {gain: -1.25, resonance_hz: 40}") == "");
  CHECK(with("stage: {resonance_hz: 0.05}").find("axial.stage.resonance_hz: found 0.05 Hz") !=
        std::string::npos);
  CHECK(with("step_limit_nm: 30, range_limit_nm: 20").find("axial.step_limit_nm: found 30 nm") !=
        std::string::npos);
}

}  // namespace driftd::config
