// SPDX-License-Identifier: MIT
// The sources there are and their settings. The defaults that users get are in the option table;
// here are only those of what is no option. Each constructor function validates and throws
// CameraError; none of Aravis, libtiff or HDF5 shows here.
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
  /// A packet that is overdue for so long is asked for again. With less Aravis' receiving thread
  /// would never sleep, and more would only delay a frame that is incomplete.
  int packet_timeout_us = 1000;
  /// An incomplete frame waits so long for its packets, and delays the frames behind it by as much.
  int frame_retention_us = 10'000;
  /// Frame buffers lent to the camera. The thread that receives them keeps the newest alone and
  /// lends the others again at once: more would bridge nothing.
  int buffers = 16;
  int stall_timeout_ms;  ///< no frame for so long (trigger off): the connection counts as lost
  /// The pause between attempts to connect doubles from one to the other: soon enough for a camera
  /// that reboots, seldom enough for a network without one.
  int reconnect_min_ms = 200;
  int reconnect_max_ms = 5000;
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
