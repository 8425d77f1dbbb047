// SPDX-License-Identifier: MIT
// The sources there are and their settings, which carry no defaults: those that users get are in
// the option table. Each constructor function validates and throws CameraError; none of Aravis,
// libtiff or HDF5 shows here.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "camera/frame_source.hpp"
#include "camera/source_options.hpp"

namespace driftd::camera {

struct AravisSettings {
  std::string id;  ///< Aravis id, serial number or IP address; empty: the first camera found
  PixelFormat format;
  int region_x_px, region_y_px;
  int region_width_px, region_height_px;  ///< 0: up to the sensor's end
  double exposure_us;
  double gain_db;
  double frame_rate_hz;  ///< 0: leave to the camera
  Trigger trigger;
  std::string trigger_line;
  int packet_size_bytes;  ///< 0: automatic
  int socket_buffer_bytes;
  Resend resend;
  int packet_timeout_us;
  int frame_retention_us;
  int buffers;
  int stall_timeout_ms;  ///< no frame for so long (trigger off): the connection counts as lost
  int reconnect_min_ms;  ///< back-off between attempts: doubles from min to max
  int reconnect_max_ms;
  int heartbeat_timeout_ms;   ///< GigE Vision: a camera lets go of a daemon that died after so long
  std::string in_lock_line;   ///< an output that FrameSource::set_in_lock() sets; empty: none
  bool start_without_camera;  ///< start() succeeds and keeps trying instead of throwing
  /// Called once on Aravis' stream thread when it starts (priority, CPU). May be empty.
  std::function<void()> on_stream_thread_start;
};

std::unique_ptr<FrameSource> make_aravis_source(const AravisSettings& settings);

struct ReplaySettings {
  std::filesystem::path path;
  ReplayFormat format;
  std::string dataset;         ///< HDF5 only; empty: the only one with three dimensions
  int series, channel, slice;  ///< TIFF with several; -1: the only one
  bool every_page;             ///< TIFF: each page is a frame, whatever the metadata say
  bool allow_truncated;        ///< the whole frames at the beginning of a truncated file will do
  int width_px, height_px;     ///< raw files only
  int first_frame;             ///< 0-based, inclusive
  int last_frame;              ///< inclusive; -1: the last there is
  ReplayPace pace;
  double rate_hz;  ///< for pace Rate
  ReplayEnd on_end;
};

/// Reads the whole range into memory at once, so that pop() never touches the disk.
std::unique_ptr<FrameSource> make_replay_source(const ReplaySettings& settings);

}  // namespace driftd::camera
