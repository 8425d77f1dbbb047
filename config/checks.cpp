// SPDX-License-Identifier: MIT
#include "config/checks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "base/stretch.hpp"
#include "base/yaml/scalar.hpp"
#include "config/endpoint.hpp"
#include "config/names.hpp"

namespace driftd::config {
namespace {

using camera::PixelFormat;
using camera::ReplayFormat;
using camera::Trigger;
using Conflicts = std::vector<Conflict>;

std::string number(double value) {
  return yaml::format_real(value);
}

/// Largest pixel value of the frames, as far as the configuration tells.
int largest_adu(const Config& config) {
  if (config.camera.source == Source::Replay)
    return config.replay.format == ReplayFormat::RawU8 ? 255 : 65535;
  switch (config.camera.pixel_format) {
    case PixelFormat::Mono8:
      return 255;
    case PixelFormat::Mono10:
    case PixelFormat::Mono10Packed:
    case PixelFormat::Mono10p:
      return 1023;
    case PixelFormat::Mono12:
    case PixelFormat::Mono12Packed:
    case PixelFormat::Mono12p:
      return 4095;
    case PixelFormat::Mono16:
      break;
  }
  return 65535;
}

void check_resonance(const char* key, double resonance_hz, Conflicts& conflicts) {
  constexpr double kLeastHz = 0.1;
  if (resonance_hz > 0 && resonance_hz < kLeastHz)
    conflicts.push_back(
        {{key}, number(resonance_hz) + " Hz", "0, or " + number(kLeastHz) + " Hz and more"});
}

void check_timing(const Camera& camera, Conflicts& conflicts) {
  if (camera.trigger != Trigger::HardwareLine && camera.frame_rate_hz > 0) {
    const double period_us = 1e6 / camera.frame_rate_hz;
    if (camera.exposure_us > period_us) {
      conflicts.push_back({{"camera.exposure_us", "camera.frame_rate_hz", "camera.trigger"},
                           number(camera.exposure_us) + " us with camera.frame_rate_hz " +
                               number(camera.frame_rate_hz),
                           "at most one frame period, " + number(std::floor(period_us)) + " us"});
    }
    if (camera.trigger == Trigger::Off && camera.stall_timeout_ms < 2e-3 * period_us) {
      conflicts.push_back(
          {{"camera.stall_timeout_ms", "camera.frame_rate_hz", "camera.trigger"},
           number(camera.stall_timeout_ms) + " ms with camera.frame_rate_hz " +
               number(camera.frame_rate_hz),
           "at least two frame periods, " + number(std::ceil(2e-3 * period_us)) + " ms"});
    }
  }
  if (camera.trigger == Trigger::Off && camera.stall_timeout_ms < 2e-3 * camera.exposure_us) {
    conflicts.push_back(
        {{"camera.stall_timeout_ms", "camera.exposure_us", "camera.trigger"},
         number(camera.stall_timeout_ms) + " ms with camera.exposure_us " +
             number(camera.exposure_us),
         "at least two exposures, " + number(std::ceil(2e-3 * camera.exposure_us)) + " ms"});
  }
  if (camera.trigger == Trigger::Software && camera.frame_rate_hz == 0) {
    conflicts.push_back({{"camera.frame_rate_hz", "camera.trigger"},
                         "0 with camera.trigger software",
                         "a rate at which to trigger"});
  }
  if (camera.trigger == Trigger::HardwareLine && camera.trigger_line.empty()) {
    conflicts.push_back({{"camera.trigger_line", "camera.trigger"},
                         "\"\" with camera.trigger hardware",
                         "the camera's name of the input, such as Line1"});
  }
  if (camera.trigger == Trigger::HardwareLine && camera.in_lock_line == camera.trigger_line &&
      !camera.in_lock_line.empty()) {
    conflicts.push_back({{"camera.in_lock_line", "camera.trigger_line"},
                         "\"" + camera.in_lock_line + "\" for both",
                         "another line than that of the trigger"});
  }
}

void check_transport(const Camera& camera, Conflicts& conflicts) {
  constexpr int kSmallestPacketBytes = 576;  // what every IPv4 network carries whole (RFC 791)
  if (camera.packet_size_bytes != 0 && camera.packet_size_bytes < kSmallestPacketBytes) {
    conflicts.push_back({{"camera.packet_size_bytes"},
                         number(camera.packet_size_bytes),
                         "0 (automatic), or from 576 to 9216 bytes"});
  }
}

/// What both kinds of source share: how pixel values are to be read.
void check_pixels(const Config& config, Conflicts& conflicts) {
  const Camera& camera = config.camera;
  const std::vector<std::string> format_keys = {"camera.pixel_format", "camera.source",
                                                "replay.format"};
  const auto above_format = [&](const char* key, double value) {
    if (value <= largest_adu(config)) return;
    conflicts.push_back(
        {{key},
         number(value),
         "at most the pixel format's largest value, " + std::to_string(largest_adu(config))});
    auto& keys = conflicts.back().keys;
    keys.insert(keys.end(), format_keys.begin(), format_keys.end());
  };
  above_format("camera.saturation_adu", camera.saturation_adu);
  above_format("camera.offset_adu", camera.offset_adu);
  const auto needs_gain = [&](const char* key, double value) {
    if (value == 0 || camera.gain_e_per_adu > 0) return;
    conflicts.push_back({{key, "camera.gain_e_per_adu"},
                         number(value) + " with camera.gain_e_per_adu 0",
                         "only with a camera.gain_e_per_adu above 0"});
  };
  needs_gain("camera.offset_adu", camera.offset_adu);
  needs_gain("camera.read_noise_e", camera.read_noise_e);
  if (config.fitter.estimator == Estimator::Poisson && !(camera.gain_e_per_adu > 0))
    conflicts.push_back({{"fitter.estimator", "camera.gain_e_per_adu"},
                         "poisson with camera.gain_e_per_adu 0",
                         "poisson only with a camera.gain_e_per_adu above 0"});
}

void check_replay(const Replay& replay, Conflicts& conflicts) {
  if (replay.path.empty()) {
    conflicts.push_back(
        {{"replay.path", "camera.source"}, "no path with camera.source replay", "a recording"});
  }
  const bool raw = replay.format == ReplayFormat::RawU8 || replay.format == ReplayFormat::RawU16;
  const auto check_side = [&](const char* key, int value) {
    if (raw == (value != 0)) return;
    conflicts.push_back(
        {{key, "replay.format", "camera.source"},
         number(value) + " with replay.format " + std::string(text_of(replay.format)),
         raw ? "the frames' size: a raw file does not say it" : "0: such a file says its own"});
  };
  check_side("replay.width_px", replay.width_px);
  check_side("replay.height_px", replay.height_px);
  if (!replay.dataset.empty() && replay.format != ReplayFormat::Hdf5) {
    conflicts.push_back(
        {{"replay.dataset", "replay.format", "camera.source"},
         '"' + replay.dataset + "\" with replay.format " + std::string(text_of(replay.format)),
         "a name only with replay.format hdf5"});
  }
  const auto only_tiff = [&](const char* key, bool given, const std::string& value) {
    if (!given || replay.format == ReplayFormat::Tiff) return;
    conflicts.push_back({{key, "replay.format", "camera.source"},
                         value + " with replay.format " + std::string(text_of(replay.format)),
                         "only with replay.format tiff"});
  };
  only_tiff("replay.series", replay.series >= 0, number(replay.series));
  only_tiff("replay.channel", replay.channel >= 0, number(replay.channel));
  only_tiff("replay.slice", replay.slice >= 0, number(replay.slice));
  only_tiff("replay.every_page", replay.every_page, "true");
  const auto of_metadata = [&](const char* key, int value) {
    if (value < 0 || !replay.every_page || replay.format != ReplayFormat::Tiff) return;
    conflicts.push_back({{key, "replay.every_page", "camera.source"},
                         number(value) + " with replay.every_page true",
                         "-1: the metadata are left aside"});
  };
  of_metadata("replay.series", replay.series);
  of_metadata("replay.channel", replay.channel);
  of_metadata("replay.slice", replay.slice);
  if (raw && replay.pace == camera::ReplayPace::Recorded) {
    conflicts.push_back({{"replay.pace", "replay.format", "camera.source"},
                         "recorded with replay.format " + std::string(text_of(replay.format)),
                         "rate or fast: a raw file holds no times"});
  }
  if (replay.last_frame != -1 && replay.last_frame < replay.first_frame) {
    conflicts.push_back(
        {{"replay.last_frame", "replay.first_frame"},
         number(replay.last_frame) + " with replay.first_frame " + number(replay.first_frame),
         "at least replay.first_frame, or -1"});
  }
}

/// The part of the sensor that frames show, as far as the configuration tells; 0: not known.
struct Region {
  std::string x_key, y_key, width_key, height_key;
  int x_px, y_px, width_px, height_px;
};

Region region_of(const Config& config) {
  if (config.camera.source == Source::Replay) {
    return {"", "", "replay.width_px",      "replay.height_px",
            0,  0,  config.replay.width_px, config.replay.height_px};
  }
  const Camera& camera = config.camera;
  return {"camera.region_x_px",      "camera.region_y_px",   "camera.region_width_px",
          "camera.region_height_px", camera.region_x_px,     camera.region_y_px,
          camera.region_width_px,    camera.region_height_px};
}

void check_roi(const Config& config, Conflicts& conflicts) {
  const int roi_px = config.fitter.roi_px;
  if (roi_px > 0 && roi_px < 4 * config.optics.spot_sigma_px) {
    conflicts.push_back(
        {{"fitter.roi_px", "optics.spot_sigma_px"},
         number(roi_px) + " px with optics.spot_sigma_px " + number(config.optics.spot_sigma_px),
         "at least four times optics.spot_sigma_px"});
  }
  const bool automatic = config.markers.mode == MarkerMode::Auto;
  const double needed_px = least_side_px(config);
  const Region region = region_of(config);
  const auto check_side = [&](const std::string& side_key, int side_px) {
    if (side_px == 0 || side_px >= needed_px) return;
    conflicts.push_back({{side_key, "fitter.roi_px", "markers.border_px", "markers.mode"},
                         number(side_px) + " px",
                         "at least " + number(needed_px) + " px: " +
                             (roi_px > 0 ? "fitter.roi_px " + number(roi_px)
                                         : std::string("the least ROI that is chosen")) +
                             (automatic ? " and markers.border_px on both sides" : "")});
  };
  check_side(region.width_key, region.width_px);
  check_side(region.height_key, region.height_px);
}

void check_automatic_markers(const Config& config, Conflicts& conflicts) {
  const Markers& markers = config.markers;
  // A fitter for another ROI is made beside the one in use, and two such kernels lock each other
  // out.
  if (config.fitter.roi_px == 0 && config.cuda.mode == fitter::CudaMode::Resident &&
      config.fitter.backend != Backend::Cpu) {
    conflicts.push_back({{"fitter.roi_px", "fitter.cuda.mode", "fitter.backend"},
                         "auto with fitter.cuda.mode resident",
                         "a whole number: a resident kernel is made for one ROI alone"});
  }
  const double sigma_px = config.optics.spot_sigma_px;
  if (sigma_px > 0 && markers.max_sigma_px <= sigma_px) {
    conflicts.push_back(
        {{"markers.max_sigma_px", "optics.spot_sigma_px"},
         number(markers.max_sigma_px) + " px with optics.spot_sigma_px " + number(sigma_px),
         "more than optics.spot_sigma_px"});
  }
  const int wanted = config.drift.min_markers;
  if (wanted > markers.max_count) {
    conflicts.push_back({{"drift.min_markers", "markers.max_count"},
                         number(wanted) + " with markers.max_count " + number(markers.max_count),
                         "at most markers.max_count"});
    return;
  }
  // The fewest tracking markers are left when just enough were found to set witnesses aside; a
  // share that is not a whole number may be rounded up.
  const int found = markers.min_for_witness;
  const int tracking = found - static_cast<int>(std::ceil(markers.witness_fraction * found - 1e-9));
  if (found <= markers.max_count && tracking < wanted) {
    conflicts.push_back(
        {{"markers.witness_fraction", "markers.min_for_witness", "drift.min_markers"},
         number(markers.witness_fraction) + ", which of markers.min_for_witness " + number(found) +
             " leaves " + number(tracking) + " tracking markers",
         "what leaves at least drift.min_markers " + number(wanted)});
  }
}

void check_fits_of_z(const Config& config, Conflicts& conflicts) {
  const bool astigmatic = config.axial.method == control::AxialMethod::Astigmatic;
  const std::string method(text_of(config.axial.method));
  // `driftctl calibrate z` makes one where there is a stage.
  if (config.axial.curve.empty() && config.camera.source == Source::Replay) {
    conflicts.push_back({{"axial.method", "axial.curve"},
                         method + " without axial.curve",
                         "the file of a curve, which `driftfit calibrate-z` makes from a stack"});
  }
  if (astigmatic && config.fitter.estimator == Estimator::LeastSquares) {
    conflicts.push_back({{"fitter.estimator", "axial.method"},
                         "least_squares with axial.method astigmatic",
                         "auto or poisson: z by least squares has twice the error"});
  }
  if (astigmatic && !(config.camera.gain_e_per_adu > 0)) {
    conflicts.push_back({{"axial.method", "camera.gain_e_per_adu"},
                         "astigmatic without camera.gain_e_per_adu",
                         "the camera's gain, offset and read noise, which the likelihood needs: "
                         "`driftctl calibrate camera` measures them"});
  }
  if (!astigmatic && config.fitter.estimator == Estimator::Poisson) {
    conflicts.push_back({{"fitter.estimator", "axial.method"},
                         "poisson with axial.method defocus",
                         "auto or least_squares: out of focus a width by likelihood changes with "
                         "the brightness"});
  }
}

void check_hold_of_z(const Config& config, Conflicts& conflicts) {
  const Axial& axial = config.axial;
  if (axial.hold && axial.method == control::AxialMethod::None)
    conflicts.push_back({{"axial.hold", "axial.method"},
                         "true without axial.method",
                         "a method by which z is measured"});
  if (axial.step_limit_nm > axial.range_limit_nm)
    conflicts.push_back({{"axial.step_limit_nm", "axial.range_limit_nm"},
                         number(axial.step_limit_nm) + " nm with axial.range_limit_nm " +
                             number(axial.range_limit_nm),
                         "at most axial.range_limit_nm"});
  constexpr double kLeastGain = 0.01;
  if (!(std::abs(config.axial_stage.gain) >= kLeastGain))
    conflicts.push_back({{"axial.stage.gain"},
                         number(config.axial_stage.gain),
                         number(kLeastGain) + " or more, or " + number(-kLeastGain) + " or less"});
}

void check_reflection(const Config& config, Conflicts& conflicts) {
  const Reflection& reflection = config.reflection;
  if (reflection.nm_per_px == 0 && config.camera.source == Source::Replay) {
    conflicts.push_back({{"axial.method", "axial.reflection.nm_per_px"},
                         "reflection without axial.reflection.nm_per_px",
                         "how far the sample moves up for a pixel of the spot's way"});
  }
  const Region region = region_of(config);
  const double half_px = reflection.roi_px / 2.0;
  const auto check_axis = [&](const char* key, double at_px, int start_px, int side_px) {
    const double least_px = start_px - 0.5 + half_px;
    const double most_px = start_px + side_px - 0.5 - half_px;
    if (at_px + 0.5 >= least_px && (side_px == 0 || at_px - 0.5 <= most_px)) return;
    conflicts.push_back({{key, "axial.reflection.roi_px", "axial.method"},
                         number(at_px) + " px",
                         "from " + number(least_px) +
                             (side_px > 0 ? " to " + number(most_px) : std::string(" on")) +
                             ": the region of axial.reflection.roi_px " +
                             number(reflection.roi_px) + " has to lie inside the camera's"});
  };
  check_axis("axial.reflection.x_px", reflection.x_px, region.x_px, region.width_px);
  check_axis("axial.reflection.y_px", reflection.y_px, region.y_px, region.height_px);
}

std::string entry_key(std::size_t i) {
  return "markers.list[" + std::to_string(i) + ']';
}

void check_listed_pair(const Config& config, std::size_t i, std::size_t j, Conflicts& conflicts) {
  const ListedMarker& a = config.markers.list[i];
  const ListedMarker& b = config.markers.list[j];
  const std::string other = " as " + entry_key(i);
  if (a.id == b.id) {
    conflicts.push_back({{entry_key(j) + ".id", entry_key(j), "markers.list"},
                         std::to_string(b.id) + other,
                         "an id of its own"});
  }
  const double distance_px = std::max(std::abs(a.x_px - b.x_px), std::abs(a.y_px - b.y_px));
  if (distance_px < config.fitter.roi_px / 2.0) {
    conflicts.push_back({{entry_key(j), "markers.list", "fitter.roi_px"},
                         number(std::round(10 * distance_px) / 10) + " px from " + entry_key(i),
                         "at least half of fitter.roi_px " + number(config.fitter.roi_px) +
                             ": a window must hold one marker only"});
  }
}

void check_listed_place(const Config& config, std::size_t i, Conflicts& conflicts) {
  const ListedMarker& marker = config.markers.list[i];
  const Region region = region_of(config);
  const double half_px = config.fitter.roi_px / 2.0;
  const auto check_axis = [&](const char* axis, double at_px, int start_px, int side_px,
                              const std::string& start_key, const std::string& side_key) {
    // The window's edges lie half a pixel outside the centres of its first and last pixel.
    const double least_px = start_px - 0.5 + half_px;
    const double most_px = start_px + side_px - 0.5 - half_px;
    const bool known_end = side_px != 0;
    // A window is placed on whole pixels: up to half a pixel from the marker.
    if (at_px + 0.5 >= least_px && (!known_end || at_px - 0.5 <= most_px)) return;
    conflicts.push_back(
        {{entry_key(i) + axis, entry_key(i), "markers.list", "fitter.roi_px", start_key, side_key},
         number(at_px) + " px",
         "from " + number(least_px) + (known_end ? " to " + number(most_px) : " on") +
             ": the window of fitter.roi_px " + number(config.fitter.roi_px) +
             " has to lie inside the region"});
  };
  check_axis(".x_px", marker.x_px, region.x_px, region.width_px, region.x_key, region.width_key);
  check_axis(".y_px", marker.y_px, region.y_px, region.height_px, region.y_key, region.height_key);
}

void check_listed_beside_reflection(const Config& config, Conflicts& conflicts) {
  const Reflection& reflection = config.reflection;
  const double apart_px = 0.5 * (reflection.roi_px + config.fitter.roi_px);
  const auto& list = config.markers.list;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (std::abs(list[i].x_px - reflection.x_px) >= apart_px ||
        std::abs(list[i].y_px - reflection.y_px) >= apart_px)
      continue;
    conflicts.push_back({{entry_key(i), "markers.list", "axial.reflection.x_px",
                          "axial.reflection.y_px", "axial.reflection.roi_px", "fitter.roi_px"},
                         "a window that reaches into the region of axial.reflection",
                         "at least " + number(apart_px) + " px from its middle, in x or in y"});
  }
}

void check_listed_markers(const Config& config, Conflicts& conflicts) {
  const auto& list = config.markers.list;
  for (std::size_t j = 0; j < list.size(); ++j) {
    check_listed_place(config, j, conflicts);
    for (std::size_t i = 0; i < j; ++i) check_listed_pair(config, i, j, conflicts);
  }
  if (config.axial.method == control::AxialMethod::Reflection)
    check_listed_beside_reflection(config, conflicts);
  const auto tracking =
      std::ranges::count(list, control::MarkerRole::Tracking, &ListedMarker::role);
  if (tracking < config.drift.min_markers) {
    conflicts.push_back({{"markers.list", "markers.mode", "drift.min_markers"},
                         std::to_string(tracking) + " tracking markers",
                         "at least drift.min_markers " + number(config.drift.min_markers)});
  }
}

void check_control(const Config& config, Conflicts& conflicts) {
  const Control& control = config.control;
  if (control.step_limit_nm > control.range_limit_nm) {
    conflicts.push_back({{"control.step_limit_nm", "control.range_limit_nm"},
                         number(control.step_limit_nm) + " nm with control.range_limit_nm " +
                             number(control.range_limit_nm),
                         "at most control.range_limit_nm"});
  }
  if (control.proportional + control.integral > 1) {
    conflicts.push_back(
        {{"control.proportional", "control.integral"},
         number(control.proportional) + " with control.integral " + number(control.integral),
         "together at most 1: more overshoots"});
  }
  const auto& m = config.stage.image_to_stage;
  const Stretch stretch = stretch_of(m[0][0], m[0][1], m[1][0], m[1][1]);
  if (!is_of_a_stage(stretch)) {
    conflicts.push_back(
        {{"stage.image_to_stage"},
         "a map that stretches by " + number(stretch.smallest) + " to " + number(stretch.largest),
         kStretchOfAStage});
  }
}

/// One endpoint of an option.
struct Place {
  std::string key;        ///< "wire.publish", or "wire.publish[1]" of a list
  std::string_view list;  ///< "wire.publish"
  const std::string& endpoint;
};

std::vector<Place> places_of(const Wire& wire) {
  std::vector<Place> places;
  const auto add = [&](std::string_view key, const Endpoints& endpoints) {
    for (std::size_t i = 0; i < endpoints.size(); ++i) {
      const std::string index = endpoints.size() > 1 ? '[' + std::to_string(i) + ']' : "";
      places.push_back({std::string(key) + index, key, endpoints[i]});
    }
  };
  add("wire.publish", wire.publish);
  add("wire.corrections", wire.corrections);
  add("wire.commands", wire.commands);
  return places;
}

void check_wire(const Wire& wire, bool keys, Conflicts& conflicts) {
  const std::vector<Place> places = places_of(wire);
  for (auto place = places.begin(); place != places.end(); ++place) {
    const std::string list(place->list);
    if (auto allowed = refused_endpoint(place->endpoint, keys)) {
      conflicts.push_back({{place->key, list, "access.server_key"},
                           '"' + place->endpoint + '"',
                           std::move(*allowed)});
    }
    const auto same = std::find_if(places.begin(), place, [&](const Place& other) {
      return other.endpoint == place->endpoint && !other.endpoint.ends_with(":*");
    });
    if (same != place) {
      conflicts.push_back({{place->key, list, same->key, std::string(same->list)},
                           '"' + place->endpoint + "\" as " + same->key,
                           "an address of its own"});
    }
  }
}

void check_access(const Config& config, Conflicts& conflicts) {
  const Access& access = config.access;
  const bool keys = !access.server_key.empty();
  if (keys && access.clients.empty()) {
    conflicts.push_back({{"access.clients", "access.server_key"},
                         "\"\" with an access.server_key",
                         "the folder of the public keys that are let in"});
  }
  if (!keys && !access.clients.empty()) {
    conflicts.push_back({{"access.clients", "access.server_key"},
                         "\"" + access.clients.string() + "\" without access.server_key",
                         "a folder only with an access.server_key"});
  }
  const bool groups =
      !access.observe_group.empty() || !access.stage_group.empty() || !access.command_group.empty();
  if (!groups || keys) return;
  for (const Place& place : places_of(config.wire)) {
    if (!is_tcp(place.endpoint)) continue;
    conflicts.push_back({{place.key, std::string(place.list), "access.observe_group",
                          "access.stage_group", "access.command_group"},
                         '"' + place.endpoint + "\" with groups for roles",
                         "ipc://, or tcp:// with an access.server_key: whose a connection to "
                         "tcp:// is does not show"});
  }
}

/// Whether it is there and may be run is the daemon's to tell: a hook's absence stops no lock.
void check_hook(const Hook& hook, Conflicts& conflicts) {
  if (hook.on_event.empty() || hook.on_event.is_absolute()) return;
  conflicts.push_back({{"hook.on_event"}, hook.on_event.string(), "an absolute path, or nothing"});
}

}  // namespace

std::vector<Conflict> find_conflicts(const Config& config) {
  Conflicts conflicts;
  if (config.camera.source == Source::Aravis) {
    check_timing(config.camera, conflicts);
    check_transport(config.camera, conflicts);
  }
  if (config.camera.source == Source::Replay) check_replay(config.replay, conflicts);
  check_resonance("stage.resonance_hz", config.stage.resonance_hz, conflicts);
  check_resonance("axial.stage.resonance_hz", config.axial_stage.resonance_hz, conflicts);
  check_hold_of_z(config, conflicts);
  check_pixels(config, conflicts);
  const bool listed = config.markers.mode == MarkerMode::List;
  const Config sized = listed ? with_sizes(config) : config;
  check_roi(sized, conflicts);
  if (listed)
    check_listed_markers(sized, conflicts);
  else
    check_automatic_markers(sized, conflicts);
  if (config.axial.by_widths()) check_fits_of_z(config, conflicts);
  if (config.axial.method == control::AxialMethod::Reflection) check_reflection(config, conflicts);
  check_control(config, conflicts);
  check_wire(config.wire, !config.access.server_key.empty(), conflicts);
  check_access(config, conflicts);
  check_hook(config.hook, conflicts);
  return conflicts;
}

}  // namespace driftd::config
