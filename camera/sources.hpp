// SPDX-License-Identifier: MIT
// The sources there are and their settings. Each constructor function validates and throws
// CameraError; none of Aravis or libtiff shows here.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "camera/frame_source.hpp"

namespace driftd::camera {

enum class Trigger : std::uint8_t { Off, HardwareLine, Software };
enum class Resend : std::uint8_t { Always, Never };

struct AravisSettings {
  std::string id;  ///< Aravis id, serial number or IP address; empty: the first camera found
  PixelFormat format = PixelFormat::Mono8;
  int region_x_px = 0, region_y_px = 0;
  int region_width_px = 0, region_height_px = 0;  ///< 0: up to the sensor's end
  double exposure_us = 1000;
  double gain_db = 0;
  double frame_rate_hz = 0;  ///< 0: leave to the camera
  Trigger trigger = Trigger::Off;
  std::string trigger_line = "Line1";
  int packet_size_bytes = 0;  ///< 0: automatic
  int socket_buffer_bytes = 4 << 20;
  Resend resend = Resend::Always;
  int packet_timeout_us = 1000;
  int frame_retention_us = 10000;
  int buffers = 16;
  int stall_timeout_ms =
      100;  ///< no frame for so long (trigger off): the connection counts as lost
  int reconnect_min_ms = 200;  ///< back-off between attempts: doubles from min to max
  int reconnect_max_ms = 5000;
  bool start_without_camera = false;  ///< start() succeeds and keeps trying instead of throwing
  /// Called once on Aravis' stream thread when it starts (priority, CPU). May be empty.
  std::function<void()> on_stream_thread_start;
};

std::unique_ptr<FrameSource> make_aravis_source(const AravisSettings& settings);

enum class ReplayFormat : std::uint8_t { Tiff, RawU8, RawU16 };
enum class ReplayPace : std::uint8_t { Rate, Recorded, Fast };
enum class ReplayEnd : std::uint8_t { Stop, Loop };

struct ReplaySettings {
  std::filesystem::path path;
  ReplayFormat format = ReplayFormat::Tiff;
  int width_px = 0, height_px = 0;  ///< raw files only
  int first_frame = 0;              ///< 0-based, inclusive
  int last_frame = -1;              ///< inclusive; -1: the last there is
  ReplayPace pace = ReplayPace::Rate;
  double rate_hz = 100;  ///< for pace Rate
  ReplayEnd on_end = ReplayEnd::Stop;
};

/// Reads the whole range into memory at once, so that pop() never touches the disk.
std::unique_ptr<FrameSource> make_replay_source(const ReplaySettings& settings);

}  // namespace driftd::camera
