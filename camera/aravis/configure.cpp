// SPDX-License-Identifier: MIT
#include "camera/aravis/configure.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "camera/aravis/features.hpp"
#include "camera/aravis/gain.hpp"

namespace driftd::camera::aravis {
namespace {

/// Set by itself, as Aravis sets the triggers with it; empty: the camera has none.
std::string rate_feature(ArvCamera* camera) {
  for (const char* name : {"AcquisitionFrameRate", "AcquisitionFrameRateAbs"})
    if (has(camera, name)) return name;
  return "";
}

class Configurator {
 public:
  Configurator(ArvCamera* camera, const AravisSettings& settings)
      : camera_(camera), settings_(settings) {}

  SourceInfo run() {
    apply(camera_, geometry_features(), info_.camera_notes);
    set_pixel_format();
    set_region();
    apply(camera_, pixel_features(), info_.camera_notes);
    set_acquisition_mode();
    // Aravis clears the triggers when it sets the rate, and the rate when it sets a trigger.
    if (settings_.trigger == Trigger::Off) set_triggers_off();
    set_gain(camera_, settings_.gain_db, info_.camera_notes);
    set_exposure_and_rate();
    if (settings_.trigger != Trigger::Off) set_trigger();
    Failure no_range;
    const gint64 largest = arv_camera_get_integer(camera_, "PixelDynamicRangeMax", no_range.out());
    if (!no_range && largest > 0 && largest <= UINT16_MAX)
      info_.largest_adu = static_cast<int>(largest);
    read_ranges();
    return std::move(info_);
  }

  /// Of a camera that sends, with the notes of this alone. Half done, too, it is what the camera
  /// has.
  SourceInfo adjust(const ExposureOrder& order) {
    sends_ = true;
    try {
      if (order.gain_db) set_gain(camera_, *order.gain_db, info_.camera_notes);
      if (order.exposure_us) set_exposure_and_rate();
    } catch (const CameraError& error) {
      warn("exposure", "", "", error.what());
    }
    if (exposes()) info_.exposure_us = exposure_us();
    info_.frame_rate_hz = settings_.trigger != Trigger::Off ? settings_.frame_rate_hz
                          : has_rate()                      ? rate_hz()
                                                            : 0;
    read_ranges();
    return std::move(info_);
  }

 private:
  void warn(std::string key, std::string asked, std::string got, std::string text) {
    info_.camera_notes.push_back(
        warning(std::move(key), std::move(asked), std::move(got), std::move(text)));
  }

  /// As asked, or otherwise packed: the same grey levels. Any other depth would give gain, offset
  /// and saturation another meaning.
  void set_pixel_format() {
    const std::string wanted = name_of(settings_.format);
    const std::string refused =
        refusal(arv_camera_set_pixel_format_from_string, camera_, wanted.c_str());
    if (taken_format() != wanted) {
      for (const PixelFormat format : kPixelFormats) {
        if (bits_per_pixel(format) != bits_per_pixel(settings_.format)) continue;
        refusal(arv_camera_set_pixel_format_from_string, camera_, name_of(format));
        if (taken_format() == name_of(format)) break;
      }
    }
    const std::string taken = taken_format();
    const auto format = pixel_format_named(taken);
    if (!format || bits_per_pixel(*format) != bits_per_pixel(settings_.format)) {
      throw CameraError("the camera refused " + wanted + because(refused) + " and offers " +
                        in_words(pixel_formats_offered()) + ": " + known_of_offered());
    }
    info_.format = *format;
    if (taken != wanted) {
      warn("pixel_format", wanted, taken,
           "PixelFormat is " + taken + " instead of " + wanted + ": the camera offers " +
               in_words(pixel_formats_offered()) + because(refused));
    }
  }

  std::string taken_format() {
    const char* text =
        checked("reading PixelFormat", arv_camera_get_pixel_format_as_string, camera_);
    return text != nullptr ? text : "";
  }

  std::vector<std::string> pixel_formats_offered() {
    Failure failure;
    guint count = 0;
    const StringList names(
        arv_camera_dup_available_pixel_formats_as_strings(camera_, &count, failure.out()));
    if (failure) return {};
    return {names.get(), names.get() + count};
  }

  static std::string in_words(const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    return list.empty() ? "none that it names" : list;
  }

  /// What to do about a format of another depth.
  std::string known_of_offered() {
    std::vector<std::string> known = pixel_formats_offered();
    std::erase_if(known, [](const std::string& name) { return !pixel_format_named(name); });
    if (!known.empty())
      return "set camera.pixel_format to one of these that driftd knows: " + in_words(known) +
             "; gain, offset and saturation are in its grey levels";
    for (const PixelFormat format : kPixelFormats) known.emplace_back(name_of(format));
    return "driftd knows none of them; it takes " + in_words(known);
  }

  // ---- the region ----

  struct Axis {
    const char* size;  ///< names of features
    const char* offset;
    const char* sensor;
    const char* size_key;  ///< names of settings
    const char* offset_key;
    const char* lines;
    int wanted;  ///< 0: as far as the sensor goes
    int wanted_offset;
  };

  void set_region() {
    set_axis({"Width", "OffsetX", "SensorWidth", "region_width_px", "region_x_px", "columns",
              settings_.region_width_px, settings_.region_x_px},
             info_.width_px, info_.offset_x_px);
    set_axis({"Height", "OffsetY", "SensorHeight", "region_height_px", "region_y_px", "rows",
              settings_.region_height_px, settings_.region_y_px},
             info_.height_px, info_.offset_y_px);
  }

  /// @throws CameraError when the camera cannot read out what was asked for, but for its steps
  void set_axis(const Axis& axis, int& size, int& offset) {
    const bool movable = has(camera_, axis.offset);
    // At the origin first: the largest size depends on the offset.
    if (movable) refusal(arv_camera_set_integer, camera_, axis.offset, gint64{0});
    const gint64 sensor = sensor_size(axis);
    const gint64 end = axis.wanted_offset + std::max<gint64>(axis.wanted, 1);
    if (end > sensor) {
      throw CameraError("the region does not fit the sensor: " + std::string(axis.offset_key) +
                        " " + std::to_string(axis.wanted_offset) + " with " + axis.size_key + " " +
                        std::to_string(axis.wanted) + " needs " + std::to_string(end) + " " +
                        axis.lines + ", and the camera has " + std::to_string(sensor));
    }
    if (!movable && axis.wanted_offset != 0) {
      throw CameraError("the camera's region cannot be moved: " + std::string(axis.offset_key) +
                        " is " + std::to_string(axis.wanted_offset) + ", and only 0 is possible");
    }
    const gint64 room = sensor - axis.wanted_offset;
    size = set_integer(axis.size, axis.size_key, axis.wanted > 0 ? axis.wanted : room, room,
                       axis.wanted > 0);
    if (movable) {
      offset = set_integer(axis.offset, axis.offset_key, axis.wanted_offset, sensor - size, true);
    }
  }

  /// What can be read out at most, with the offset at 0. Older cameras do not tell the sensor's.
  gint64 sensor_size(const Axis& axis) {
    gint64 lowest = 0;
    gint64 highest = 0;
    checked("reading the range of " + std::string(axis.size), arv_camera_get_integer_bounds,
            camera_, axis.size, &lowest, &highest);
    if (!has(camera_, axis.sensor)) return highest;
    const gint64 sensor = checked("reading " + std::string(axis.sensor), arv_camera_get_integer,
                                  camera_, axis.sensor);
    return std::min(sensor, highest);
  }

  /// Sets an integer feature to the nearest value at or below `wanted` that bounds and increment
  /// allow (Aravis checks neither). @returns what the camera then has
  /// @throws CameraError when that is further off than by a step
  int set_integer(const char* feature, const char* key, gint64 wanted, gint64 upper_limit,
                  bool tell) {
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
    const std::string sentence = name + " is " + std::to_string(taken) + " instead of " +
                                 std::to_string(wanted) + ": the camera allows " +
                                 std::to_string(lowest) + " to " + std::to_string(highest) +
                                 " in steps of " + std::to_string(step) + because(refused);
    if (taken != value) throw CameraError(sentence);
    if (taken != wanted && tell) warn(key, std::to_string(wanted), std::to_string(taken), sentence);
    return static_cast<int>(taken);
  }

  // ---- acquisition ----

  void set_acquisition_mode() {
    if (!has(camera_, "AcquisitionMode")) return;
    const std::string refused =
        refusal(arv_camera_set_acquisition_mode, camera_, ARV_ACQUISITION_MODE_CONTINUOUS);
    if (refused.empty()) return;
    warn("AcquisitionMode", "Continuous", value_of(camera_, "AcquisitionMode"),
         "AcquisitionMode could not be set to Continuous" + because(refused));
  }

  void set_triggers_off() {
    if (!has(camera_, "TriggerMode")) return;
    const std::string refused = refusal(arv_camera_clear_triggers, camera_);
    if (refused.empty()) return;
    warn("TriggerMode", "Off", value_of(camera_, "TriggerMode"),
         "the triggers could not all be switched off" + because(refused));
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
    apply(camera_, rate_gates_off(), info_.camera_notes);
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

  // ---- exposure, rate, gain ----

  using Getter = double (*)(ArvCamera* camera, GError** error);
  using Setter = void (*)(ArvCamera* camera, double value, GError** error);
  using Bounds = void (*)(ArvCamera* camera, double* lowest, double* highest, GError** error);

  struct Quantity {
    const char* key;
    const char* name;
    const char* unit;
    double wanted;
    double tolerance;  ///< absolute; a difference beyond it is reported
    Setter set;
    Getter get;
    Bounds bounds;
  };

  /// What the camera took of a quantity, and the end of the sentence that says why.
  struct Taken {
    double value = 0;
    std::string why;
  };

  Taken set_quantity(const Quantity& quantity) {
    double lowest = quantity.wanted;
    double highest = quantity.wanted;
    Failure no_bounds;
    quantity.bounds(camera_, &lowest, &highest, no_bounds.out());
    const bool bounded = !no_bounds && lowest <= highest;
    const double value = bounded ? std::clamp(quantity.wanted, lowest, highest) : quantity.wanted;
    const std::string refused = refusal(quantity.set, camera_, value);
    return {checked("reading " + std::string(quantity.name), quantity.get, camera_),
            (bounded ? ": the camera allows " + number(lowest) + " to " + number(highest) : "") +
                because(refused)};
  }

  static bool is_as_wanted(const Quantity& quantity, const Taken& taken) {
    return std::abs(taken.value - quantity.wanted) <= quantity.tolerance;
  }

  void tell(const Quantity& quantity, const Taken& taken) {
    if (is_as_wanted(quantity, taken)) return;
    warn(quantity.key, number(quantity.wanted), number(taken.value),
         std::string(quantity.name) + " is " + number(taken.value) + quantity.unit +
             " instead of " + number(quantity.wanted) + quantity.unit + taken.why);
  }

  /// Each limits the other, so that what an old value of the other limited is set a second time.
  void set_exposure_and_rate() {
    // Cameras step by lines or clock ticks: 1 % or 1 us is no refusal.
    const Quantity exposure{"exposure_us",
                            "the exposure time",
                            " us",
                            settings_.exposure_us,
                            std::max(1.0, 0.01 * settings_.exposure_us),
                            arv_camera_set_exposure_time,
                            arv_camera_get_exposure_time,
                            arv_camera_get_exposure_time_bounds};
    Taken taken;
    if (exposes()) taken = set_quantity(exposure);
    set_frame_rate();
    if (!exposes()) {
      return warn(exposure.key, number(exposure.wanted), "", "the camera has no exposure time");
    }
    if (!is_as_wanted(exposure, taken)) taken = set_quantity(exposure);
    tell(exposure, taken);
    info_.exposure_us = taken.value;
  }

  /// What may be set of both while it sends. It is asked now: the frame rate limits the exposure.
  void read_ranges() {
    info_.gain_db = read_gain_db(camera_, info_.gain_range_db);
    info_.exposure_range_us = {};
    if (!exposes()) return;
    SettableRange range;
    if (refusal(arv_camera_get_exposure_time_bounds, camera_, &range.lowest, &range.highest)
            .empty())
      info_.exposure_range_us = range;
  }

  bool exposes() { return says_yes(arv_camera_is_exposure_time_available, camera_); }
  bool has_rate() { return says_yes(arv_camera_is_frame_rate_available, camera_); }
  double exposure_us() {
    return checked("reading the exposure time", arv_camera_get_exposure_time, camera_);
  }
  double rate_hz() { return checked("reading the frame rate", arv_camera_get_frame_rate, camera_); }

  void set_frame_rate() {
    const double wanted_hz = settings_.frame_rate_hz;
    if (settings_.trigger != Trigger::Off) {
      info_.frame_rate_hz = wanted_hz;  // the trigger's, if it is known
      return;
    }
    if (wanted_hz > 0 && !sends_) apply(camera_, rate_gates(), info_.camera_notes);
    if (!has_rate()) {
      if (wanted_hz > 0) {
        warn("frame_rate_hz", number(wanted_hz), "", "the camera has no frame rate to set");
      }
      return;
    }
    // Aravis sets the triggers with it, which a camera that sends may not like.
    if (sends_ && std::abs(rate_hz() - wanted_hz) <= 0.01 * wanted_hz) {
      info_.frame_rate_hz = rate_hz();
      return;
    }
    if (wanted_hz == 0) {
      info_.frame_rate_hz = rate_hz();
      return;
    }
    const Quantity rate{"frame_rate_hz",
                        "the frame rate",
                        " frames/s",
                        wanted_hz,
                        0.01 * wanted_hz,
                        arv_camera_set_frame_rate,
                        arv_camera_get_frame_rate,
                        arv_camera_get_frame_rate_bounds};
    const Taken taken = set_quantity(rate);
    tell(rate, taken);
    info_.frame_rate_hz = taken.value;
    info_.rate_can_change = !rate_feature(camera_).empty();
  }

  ArvCamera* camera_;
  const AravisSettings& settings_;
  SourceInfo info_;
  bool sends_ = false;
};

}  // namespace

std::string change_frame_rate(ArvCamera* camera, double rate_hz) {
  const std::string feature = rate_feature(camera);
  if (feature.empty()) return "the camera has no frame rate to set";
  return refusal(arv_camera_set_float, camera, feature.c_str(), rate_hz);
}

SourceInfo configure(ArvCamera* camera, const AravisSettings& settings) {
  return Configurator(camera, settings).run();
}

std::string adjust_exposure(ArvCamera* camera, const AravisSettings& settings,
                            const ExposureOrder& order, SourceInfo& info) {
  const SourceInfo taken = Configurator(camera, settings).adjust(order);
  info.gain_db = taken.gain_db;
  info.gain_range_db = taken.gain_range_db;
  info.exposure_range_us = taken.exposure_range_us;
  info.exposure_us = taken.exposure_us;
  info.frame_rate_hz = taken.frame_rate_hz;
  std::string problem;
  for (const CameraNote& note : taken.camera_notes)
    if (note.severity == CameraNote::Severity::Warning)
      problem += (problem.empty() ? "" : "; ") + note.text;
  return problem;
}

}  // namespace driftd::camera::aravis
