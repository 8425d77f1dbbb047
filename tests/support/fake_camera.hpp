// SPDX-License-Identifier: MIT
// "Fake_1", Aravis' camera without a network, and what tests of the Aravis source on it share.
#pragma once

#include <arv.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "camera/sources.hpp"
#include "support/default_settings.hpp"

namespace driftd::test {

inline camera::AravisSettings fake_settings() {
  // The other interfaces would search the network for a second.
  arv_enable_interface("Fake");
  arv_disable_interface("GigEVision");
  arv_disable_interface("USB3Vision");
  camera::AravisSettings settings = default_aravis_settings();
  settings.format = camera::PixelFormat::Mono8;
  settings.id = "Fake_1";
  settings.region_width_px = 128;
  settings.region_height_px = 64;
  settings.frame_rate_hz = 200;
  settings.stall_timeout_ms = 5000;  // a busy machine may keep the camera's thread off its CPU
  return settings;
}

inline std::string error_of(const camera::AravisSettings& settings) {
  try {
    camera::make_aravis_source(settings)->start();
  } catch (const camera::CameraError& error) {
    return error.what();
  }
  return "no error";
}

inline bool has_note(const camera::SourceInfo& info, const std::string& part) {
  for (const camera::CameraNote& note : info.camera_notes) {
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
    ArvFakeCamera* fake = arv_fake_camera_new("1");
    std::size_t size = 0;
    const char* text = arv_fake_camera_get_genicam_xml(fake, &size);
    std::string xml(text, size);
    g_object_unref(fake);
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

}  // namespace driftd::test
