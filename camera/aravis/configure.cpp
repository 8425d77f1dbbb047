// SPDX-License-Identifier: MIT
#include "camera/aravis/configure.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>
#include <string_view>

namespace driftd::camera::aravis {
namespace {

std::string number(double value) {
  std::array<char, 32> text{};
  const int size = std::snprintf(text.data(), text.size(), "%.6g", value);
  return {text.data(), static_cast<std::size_t>(size)};
}

/// " (the camera says: ...)" for the end of a note, if it said anything.
std::string because(const std::string& refused) {
  return refused.empty() ? "" : " (the camera says: " + refused + ")";
}

// ---- what alters pixel values behind the back of a fit, and must be off ----

struct Switch {
  const char* feature;
  const char* off;  ///< enumeration entry; nullptr: a boolean, off is false
};

/// Names of the GenICam Standard Features Naming Convention and of the vendors that deviate from it
/// (Basler, FLIR, Allied Vision, Hikrobot, The Imaging Source). Auto exposure and gain come first:
/// while they run, cameras refuse to set the values.
constexpr std::array kSwitches{
    Switch{"ExposureAuto", "Off"},
    Switch{"GainAuto", "Off"},
    Switch{"BlackLevelAuto", "Off"},
    Switch{"GammaEnable", nullptr},
    Switch{"GammaEnabled", nullptr},
    Switch{"LUTEnable", nullptr},
    Switch{"SharpeningEnable", nullptr},
    Switch{"SharpeningEnabled", nullptr},
    Switch{"SharpnessEnable", nullptr},
    Switch{"SharpnessEnabled", nullptr},
    Switch{"SharpnessAuto", "Off"},
    Switch{"NoiseReductionEnable", nullptr},
    Switch{"DenoiseEnable", nullptr},
    Switch{"DefectPixelCorrectionMode", "Off"},
    Switch{"DefectCorrectStaticEnable", nullptr},
    Switch{"DefectCorrectionMode", "Off"},
    Switch{"DefectMaskEnable", nullptr},
    Switch{"StaticDefectCorrectionEnable", nullptr},
    Switch{"DPCEnable", nullptr},
    Switch{"ChunkModeActive", nullptr},
};

/// Values at which a correction does nothing.
struct Neutral {
  const char* feature;
  double value;
};
constexpr std::array kNeutral{Neutral{"Gamma", 1.0}, Neutral{"SharpnessEnhancement", 0.0},
                              Neutral{"NoiseReduction", 0.0}};

class Configurator {
 public:
  Configurator(ArvCamera* camera, const AravisSettings& settings)
      : camera_(camera), settings_(settings) {}

  SourceInfo run() {
    for (const Switch& item : kSwitches) switch_off(item);
    for (const Neutral& item : kNeutral) neutralise(item);
    set_binning("BinningHorizontal");
    set_binning("BinningVertical");
    set_pixel_format();
    set_region();
    set_acquisition_mode();
    // Aravis clears the triggers when it sets the rate, and the rate when it sets a trigger.
    if (settings_.trigger == Trigger::Off) set_triggers_off();
    set_exposure();
    set_gain();
    set_frame_rate();
    if (settings_.trigger != Trigger::Off) set_trigger();
    return std::move(info_);
  }

 private:
  void note(std::string text) { info_.notes.push_back(std::move(text)); }

  void switch_off(const Switch& item) {
    if (!has(camera_, item.feature)) return;
    const std::string before = state_of(item);
    const std::string off = item.off != nullptr ? item.off : "false";
    const std::string name = item.feature;
    if (before == off) return note(name + " is off");
    const std::string refused =
        item.off != nullptr ? refusal(arv_camera_set_string, camera_, item.feature, item.off)
                            : refusal(arv_camera_set_boolean, camera_, item.feature, gboolean{0});
    const std::string after = state_of(item);
    if (after == off) return note(name + " was " + before + "; switched off");
    note(name + " stays " + after + ": the camera refused to switch it off" + because(refused));
  }

  std::string state_of(const Switch& item) {
    Failure failure;
    std::string state;
    if (item.off != nullptr) {
      const char* text = arv_camera_get_string(camera_, item.feature, failure.out());
      state = text != nullptr ? text : "";
    } else {
      state = arv_camera_get_boolean(camera_, item.feature, failure.out()) != 0 ? "true" : "false";
    }
    return failure ? "unreadable" : state;
  }

  void neutralise(const Neutral& item) {
    if (!has(camera_, item.feature)) return;
    Failure failure;
    const double before = arv_camera_get_float(camera_, item.feature, failure.out());
    if (failure) return;
    const std::string name = item.feature;
    if (before == item.value) return note(name + " is " + number(before));
    const std::string refused = refusal(arv_camera_set_float, camera_, item.feature, item.value);
    const double after = checked("reading " + name, arv_camera_get_float, camera_, item.feature);
    if (after == item.value) {
      return note(name + " was " + number(before) + "; set to " + number(after));
    }
    note(name + " stays " + number(after) + ": the camera refused " + number(item.value) +
         because(refused));
  }

  void set_binning(const char* feature) {
    if (!has(camera_, feature)) return;
    const std::string name = feature;
    const gint64 before = checked("reading " + name, arv_camera_get_integer, camera_, feature);
    if (before == 1) return;
    const std::string refused = refusal(arv_camera_set_integer, camera_, feature, gint64{1});
    const gint64 after = checked("reading " + name, arv_camera_get_integer, camera_, feature);
    note(after == 1 ? name + " was " + std::to_string(before) + "; set to 1"
                    : name + " stays " + std::to_string(after) + because(refused));
  }

  void set_pixel_format() {
    const std::string wanted = name_of(settings_.format);
    const std::string refused =
        refusal(arv_camera_set_pixel_format_from_string, camera_, wanted.c_str());
    const char* text =
        checked("reading PixelFormat", arv_camera_get_pixel_format_as_string, camera_);
    const std::string taken = text != nullptr ? text : "";
    const auto format = pixel_format_named(taken);
    if (!format) {
      throw CameraError("the camera sends " + taken +
                        " pixels, which cannot be used, and refused " + wanted + because(refused) +
                        "; it offers " + pixel_formats_offered());
    }
    info_.format = *format;
    if (taken != wanted) {
      note("PixelFormat is " + taken + " instead of " + wanted + ": the camera offers " +
           pixel_formats_offered() + because(refused));
    }
  }

  std::string pixel_formats_offered() {
    Failure failure;
    guint count = 0;
    const StringList names(
        arv_camera_dup_available_pixel_formats_as_strings(camera_, &count, failure.out()));
    std::string list;
    for (const char* name : std::span(names.get(), failure ? 0 : count)) {
      list += (list.empty() ? "" : ", ") + std::string(name);
    }
    return list.empty() ? "none that it names" : list;
  }

  /// Sets an integer feature to the nearest value at or below `wanted` that bounds and increment
  /// allow (Aravis checks neither). @returns what the camera then has
  int set_integer(const char* feature, gint64 wanted, gint64 upper_limit) {
    const std::string name = feature;
    gint64 lowest = 0;
    gint64 highest = 0;
    checked("reading the range of " + name, arv_camera_get_integer_bounds, camera_, feature,
            &lowest, &highest);
    Failure no_increment;  // optional in GenICam
    const gint64 step =
        std::max<gint64>(arv_camera_get_integer_increment(camera_, feature, no_increment.out()), 1);
    highest = std::max(lowest, std::min(highest, upper_limit));
    gint64 value = std::clamp(wanted, lowest, highest);
    value = lowest + (value - lowest) / step * step;
    const std::string refused = refusal(arv_camera_set_integer, camera_, feature, value);
    const gint64 taken = checked("reading " + name, arv_camera_get_integer, camera_, feature);
    if (taken != wanted) {
      note(name + " is " + std::to_string(taken) + " instead of " + std::to_string(wanted) +
           ": the camera allows " + std::to_string(lowest) + " to " + std::to_string(highest) +
           " in steps of " + std::to_string(step) + because(refused));
    }
    return static_cast<int>(taken);
  }

  void set_region() {
    int sensor_width = 0;
    int sensor_height = 0;
    checked("reading the sensor's size", arv_camera_get_sensor_size, camera_, &sensor_width,
            &sensor_height);
    const bool movable = has(camera_, "OffsetX") && has(camera_, "OffsetY");
    // At the origin first: the largest width and height depend on the offsets.
    if (movable) {
      refusal(arv_camera_set_integer, camera_, "OffsetX", gint64{0});
      refusal(arv_camera_set_integer, camera_, "OffsetY", gint64{0});
    } else if (settings_.region_x_px != 0 || settings_.region_y_px != 0) {
      note("the camera's region cannot be moved; it starts at (0, 0)");
    }
    const int x = movable ? settings_.region_x_px : 0;
    const int y = movable ? settings_.region_y_px : 0;
    info_.width_px = set_extent("Width", settings_.region_width_px, sensor_width - x);
    info_.height_px = set_extent("Height", settings_.region_height_px, sensor_height - y);
    if (movable) {
      info_.offset_x_px = set_integer("OffsetX", x, sensor_width - info_.width_px);
      info_.offset_y_px = set_integer("OffsetY", y, sensor_height - info_.height_px);
    }
    if (info_.width_px <= 0 || info_.height_px <= 0) {
      throw CameraError("the camera's region is empty");
    }
  }

  /// @param wanted  0: as far as the sensor goes, which the camera's steps may cut without a note
  int set_extent(const char* feature, int wanted, int room) {
    if (wanted > 0) return set_integer(feature, wanted, room);
    const std::size_t notes = info_.notes.size();
    const int taken = set_integer(feature, std::max(room, 1), room);
    info_.notes.resize(notes);
    return taken;
  }

  void set_acquisition_mode() {
    if (!has(camera_, "AcquisitionMode")) return;
    const std::string refused =
        refusal(arv_camera_set_acquisition_mode, camera_, ARV_ACQUISITION_MODE_CONTINUOUS);
    if (!refused.empty()) note("AcquisitionMode could not be set to Continuous" + because(refused));
  }

  void set_triggers_off() {
    if (!has(camera_, "TriggerMode")) return;
    const std::string refused = refusal(arv_camera_clear_triggers, camera_);
    if (!refused.empty()) note("the triggers could not all be switched off" + because(refused));
  }

  void set_trigger() {
    const std::string source =
        settings_.trigger == Trigger::Software ? "Software" : settings_.trigger_line;
    const std::string refused = refusal(arv_camera_set_trigger, camera_, source.c_str());
    Failure failure;
    const char* text = arv_camera_get_trigger_source(camera_, failure.out());
    const std::string taken = text != nullptr && !failure ? text : "";
    // Free-running frames in place of triggered ones would be another experiment: no fallback.
    if (!refused.empty() || taken != source) {
      throw CameraError("the camera cannot be triggered by " + source + because(refused) +
                        "; it offers " + trigger_sources_offered());
    }
    note("frames are triggered by " + source);
  }

  std::string trigger_sources_offered() {
    Failure failure;
    guint count = 0;
    const StringList names(
        arv_camera_dup_available_trigger_sources(camera_, &count, failure.out()));
    std::string list;
    for (const char* name : std::span(names.get(), failure ? 0 : count)) {
      list += (list.empty() ? "" : ", ") + std::string(name);
    }
    return list.empty() ? "no trigger" : list;
  }

  using Getter = double (*)(ArvCamera* camera, GError** error);
  using Setter = void (*)(ArvCamera* camera, double value, GError** error);
  using Bounds = void (*)(ArvCamera* camera, double* lowest, double* highest, GError** error);

  struct Quantity {
    const char* name;
    const char* unit;
    Setter set;
    Getter get;
    Bounds bounds;
    double tolerance;  ///< absolute; a difference beyond it is reported
  };

  double set_quantity(const Quantity& quantity, double wanted) {
    const std::string name = quantity.name;
    double lowest = wanted;
    double highest = wanted;
    Failure no_bounds;
    quantity.bounds(camera_, &lowest, &highest, no_bounds.out());
    const bool bounded = !no_bounds && lowest <= highest;
    const double value = bounded ? std::clamp(wanted, lowest, highest) : wanted;
    const std::string refused = refusal(quantity.set, camera_, value);
    const double taken = checked("reading " + name, quantity.get, camera_);
    if (std::abs(taken - wanted) > quantity.tolerance) {
      note(name + " is " + number(taken) + quantity.unit + " instead of " + number(wanted) +
           quantity.unit +
           (bounded ? ": the camera allows " + number(lowest) + " to " + number(highest) : "") +
           because(refused));
    }
    return taken;
  }

  void set_exposure() {
    Failure failure;
    if (arv_camera_is_exposure_time_available(camera_, failure.out()) == 0) {
      return note("the camera has no exposure time to set");
    }
    // Cameras step by lines or clock ticks: 1 % or 1 us is no refusal.
    info_.exposure_us = set_quantity(
        {"the exposure time", " us", arv_camera_set_exposure_time, arv_camera_get_exposure_time,
         arv_camera_get_exposure_time_bounds, std::max(1.0, 0.01 * settings_.exposure_us)},
        settings_.exposure_us);
  }

  void set_gain() {
    Failure failure;
    if (arv_camera_is_gain_available(camera_, failure.out()) == 0) {
      if (settings_.gain_db != 0) note("the camera has no gain to set");
      return;
    }
    if (!has(camera_, "Gain")) {
      note("the camera counts its gain in steps of its own, not in dB; gain_db sets these");
    }
    set_quantity({"the gain", " dB", arv_camera_set_gain, arv_camera_get_gain,
                  arv_camera_get_gain_bounds, 0.1},
                 settings_.gain_db);
  }

  void set_frame_rate() {
    Failure failure;
    if (arv_camera_is_frame_rate_available(camera_, failure.out()) == 0) {
      if (settings_.frame_rate_hz > 0) note("the camera has no frame rate to set");
      info_.frame_rate_hz = settings_.trigger == Trigger::Software ? settings_.frame_rate_hz : 0;
      return;
    }
    if (settings_.trigger == Trigger::Off && settings_.frame_rate_hz > 0) {
      info_.frame_rate_hz = set_quantity(
          {"the frame rate", " frames/s", arv_camera_set_frame_rate, arv_camera_get_frame_rate,
           arv_camera_get_frame_rate_bounds, 0.01 * settings_.frame_rate_hz},
          settings_.frame_rate_hz);
    } else if (settings_.trigger == Trigger::Off) {
      info_.frame_rate_hz = checked("reading the frame rate", arv_camera_get_frame_rate, camera_);
    } else {
      info_.frame_rate_hz = settings_.frame_rate_hz;  // the trigger's, if it is known
    }
  }

  ArvCamera* camera_;
  const AravisSettings& settings_;
  SourceInfo info_;
};

}  // namespace

SourceInfo configure(ArvCamera* camera, const AravisSettings& settings) {
  return Configurator(camera, settings).run();
}

}  // namespace driftd::camera::aravis
