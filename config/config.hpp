// SPDX-License-Identifier: MIT
// The configuration as plain structs, one per YAML section. Defaults, ranges and texts live in the
// option table (config/options.hpp), which the loader, the JSON Schema and
// docs/reference/configuration.md share; a Config made by hand starts from default_config(). Where
// a part has an enumeration of its own the configuration holds that one; nothing else of the parts
// is known here: the daemon translates.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "camera/pixel_format.hpp"
#include "camera/source_options.hpp"
#include "control/axial/axial_method.hpp"
#include "control/axial/brightness_curves.hpp"
#include "control/values/acquaint_when.hpp"
#include "control/values/types.hpp"
#include "fitter/cuda_mode.hpp"

namespace driftd::config {

/// What an option table (config/table.hpp) fills: Config, and other programs' structs.
struct Settings {};

enum class Source : std::uint8_t { Aravis, Replay };
enum class Backend : std::uint8_t { Auto, Cpu, Cuda };
enum class Estimator : std::uint8_t { Auto, LeastSquares, Poisson };
enum class MarkerMode : std::uint8_t { Auto, List };
enum class Resume : std::uint8_t { Ask, Always, Never };
enum class RealTimeMode : std::uint8_t { Require, Prefer, Off };
enum class LogLevel : std::uint8_t { Debug, Info, Warning, Error };
/// When raw frames are saved: on command alone, when the lock is lost, too, or each time it holds.
enum class RawFramesAt : std::uint8_t { Command, Lost, Holding };
enum class EventLevel : std::uint8_t { Info, Warning, Error };

struct Camera {
  Source source;
  std::string id;
  camera::PixelFormat pixel_format;
  int region_x_px, region_y_px, region_width_px, region_height_px;
  double exposure_us, gain_db, frame_rate_hz;
  camera::Trigger trigger;
  std::string trigger_line, in_lock_line;
  int packet_size_bytes, socket_buffer_bytes;
  camera::Resend resend;
  int stall_timeout_ms, heartbeat_timeout_ms;
  bool start_without_camera;  ///< no camera at start: keep trying instead of exiting
  double offset_adu, gain_e_per_adu, read_noise_e;
  int saturation_adu;  ///< 0: the pixel format's largest value
  double readout_us;   ///< end of exposure to last byte at the host
};

struct Replay {
  std::filesystem::path path;  ///< relative to the configuration file
  camera::ReplayFormat format;
  std::string dataset;         ///< of an HDF5 file; empty: the only one with three dimensions
  int series, channel, slice;  ///< of a TIFF with several; -1: the only one
  bool every_page, allow_truncated;
  int width_px, height_px, first_frame, last_frame;
  camera::ReplayPace pace;
  double rate_hz;
  camera::ReplayEnd on_end;
  double wait_for_subscriber_s;  ///< 0: start at once
};

struct Optics {
  double pixel_size_nm;  ///< in the sample plane
  double spot_sigma_px;  ///< expected; 0: chosen from the image
};

struct Fitter {
  Backend backend;
  Estimator estimator;
  int roi_px;  ///< 0: chosen from the image
};

/// Section fitter.cuda.
struct Cuda {
  fitter::CudaMode mode;
  int device, deadline_us;
};

struct ListedMarker {
  std::uint32_t id;
  double x_px, y_px;
  control::MarkerRole role;

  bool operator==(const ListedMarker&) const = default;
};

struct Markers {
  MarkerMode mode;
  std::vector<ListedMarker> list;
  int max_count;
  double min_snr, max_sigma_px, min_distance_px, border_px;
  double witness_fraction;
  int min_for_witness;
  double rotate_witness_s;  ///< an exchange of roles while locked; 0: never
  int find_again_after_ms;  ///< gone for so long: look for them in the whole frame; 0: never
};

struct Drift {
  int average_frames, min_markers;
  double outlier_sigma, outlier_floor_nm, max_width_change, max_brightness_change;
};

/// Where z comes from.
struct Axial {
  control::AxialMethod method;
  std::filesystem::path curve;  ///< relative to the configuration file
  /// What the daemon read from it (daemon/setup/axial_curve.hpp); none: there is no such method.
  std::shared_ptr<const control::BrightnessCurves> read = nullptr;
  bool of_unknown_fits = false;  ///< the file does not say what fits the curve is of: Picasso's

  bool hold;  ///< a plain `lock` holds z, too
  double step_limit_nm, rate_limit_nm_per_s, range_limit_nm, travel_limit_nm;
  double max_jump_nm, max_drift_nm_per_s;

  /// z is read from the widths of markers.
  bool by_widths() const noexcept {
    return method == control::AxialMethod::Astigmatic || method == control::AxialMethod::Defocus;
  }
};

/// Section axial.stage: how the stage of z stands to the sample, and how fast it answers.
struct AxialStage {
  double gain, delay_us, time_constant_us, resonance_hz, damping;
};

/// Section axial.reflection: a square part of the sensor, and how a spot in it moves with z.
struct Reflection {
  double x_px, y_px;  ///< of its centre, on the full sensor
  int roi_px;
  double nm_per_px, angle_deg;
};

struct Lock {
  bool at_start;  ///< engage as soon as markers are found
  Resume resume;  ///< a lock that the daemon's end interrupted
  int reference_frames;
  double hold_timeout_s, reference_timeout_s;
  int bad_frames_to_hold;
  double max_frame_age_ms;    ///< older frames are counted and skipped
  double max_jump_nm;         ///< a larger change between frames is implausible
  double max_drift_nm_per_s;  ///< while no drift is measured, the sample may move so fast
};

/// When images may be taken of the sample.
struct Gate {
  double tolerance_nm, z_tolerance_nm;
  double average_s;
};

struct Control {
  control::ControlLaw law;
  double coast_nm;    ///< 0: never
  bool verify_lines;  ///< by another frame rate for some seconds
  double proportional, integral;
  double step_limit_nm, rate_limit_nm_per_s, range_limit_nm, travel_limit_nm;
};

struct Stage {
  std::array<std::array<double, 2>, 2> image_to_stage;
  double delay_us, time_constant_us, resonance_hz, damping;
  bool require_driver;  ///< no lock without one that says it is ready
  control::AcquaintWhen acquaint;
};

struct RealTime {
  RealTimeMode mode;
  int priority;              ///< of the tracking loop
  int loop_cpu, stream_cpu;  ///< -1: not pinned

  /// Above the loop's, or packets get lost.
  int stream_priority() const noexcept { return priority + 5; }
  int publisher_priority() const noexcept { return priority - 5; }
};

/// What one socket is bound to: at least one endpoint.
using Endpoints = std::vector<std::string>;

struct Wire {
  Endpoints publish;      ///< of a PUB socket
  Endpoints corrections;  ///< of a PUB socket
  Endpoints commands;     ///< of a ROUTER socket
  int status_interval_ms;
  int markers_interval_ms;  ///< 0: every frame
};

struct Access {
  std::filesystem::path server_key;  ///< the secret one; relative to the file; empty: no keys
  std::filesystem::path clients;     ///< folder of the public keys that are let in; likewise
  std::string observe_group, stage_group, command_group;  ///< of local peers; empty: none
};

struct Record {
  std::filesystem::path directory;  ///< relative to the configuration file; empty: the state's
  bool at_lock;                     ///< from each lock to its end
  int max_file_mb, max_file_minutes;
  int keep_mb;  ///< of old records; 0: all
  int keep_free_mb;
  int frames_memory_mb;  ///< for raw frames; 0: none are kept
  double frames_before_s, frames_after_s;
  RawFramesAt frames_at;
  int frames_keep_mb;
};

struct Log {
  LogLevel level;
};

struct Hook {
  std::filesystem::path on_event;  ///< absolute; empty: none
  EventLevel level;
  double time_limit_s;
  int per_minute;  ///< of one code
};

struct Config : Settings {
  Camera camera;
  Replay replay;
  Optics optics;
  Fitter fitter;
  Cuda cuda;
  Markers markers;
  Drift drift;
  Axial axial;
  AxialStage axial_stage;
  Reflection reflection;
  Lock lock;
  Gate gate;
  Control control;
  Stage stage;
  RealTime realtime;
  Wire wire;
  Access access;
  Record record;
  Log log;
  Hook hook;
};

/// A mistake in a configuration. what() is "FILE:LINE:COLUMN: key: found X; allowed Y", one line a
/// mistake, all mistakes of all files.
struct ConfigError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// All defaults of the option table.
Config default_config();

/// Without `auto`: sizes that are to be chosen from the image are those given or, where they are 0,
/// assumed: a ROI of ten sigma, of 13 px where sigma is not known either.
Config with_sizes(Config config, double sigma_px = 0, int roi_px = 0);

/// What an image needs each way for one marker, px: a ROI, and in mode auto `markers.border_px` on
/// both sides. While the ROI is still to be chosen, the smallest that is ever chosen counts.
double least_side_px(const Config& config);

/// Reads, checks and merges a file and its drop-ins over the defaults. @throws ConfigError
Config load(const std::filesystem::path& file);
/// The same from text; `name` stands for the file in messages, `folder` resolves relative paths.
Config load_text(const std::string& text, const std::string& name,
                 const std::filesystem::path& folder = {});

/// The merged configuration as YAML that load_text() reads back to the same Config.
std::string to_yaml(const Config& config);
/// Keys that differ and cannot be changed without a restart; empty: a reload may take `after` over.
/// @param idle  nothing is locked, held or calibrated
std::vector<std::string> not_reloadable_changes(const Config& before, const Config& after,
                                                bool idle);

}  // namespace driftd::config
