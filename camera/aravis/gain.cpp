// SPDX-License-Identifier: MIT
#include "camera/aravis/gain.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "camera/aravis/features.hpp"

namespace driftd::camera::aravis {
namespace {

constexpr double kToleranceDb = 0.1;

enum class Unit : std::uint8_t { Db, Factor, Steps };

struct Gain {
  const char* name;
  bool is_float;
  double lowest = 0;
  double highest = 0;
  Unit unit = Unit::Db;
};

std::string unit_text(ArvGcNode* node) {
  const char* text = ARV_IS_GC_FLOAT(node) ? arv_gc_float_get_unit(ARV_GC_FLOAT(node))
                                           : arv_gc_integer_get_unit(ARV_GC_INTEGER(node));
  return text != nullptr ? text : "";
}

/// A gain in dB can be 0 or less, a factor cannot. Basler's GainAbs is in dB, a whole number
/// without a unit counts steps.
Unit unit_of(const Gain& gain, const std::string& text) {
  if (text == "dB" || text == "db" || text == "DB") return Unit::Db;
  if (!gain.is_float || std::string_view(gain.name) == "GainRaw") return Unit::Steps;
  if (std::string_view(gain.name) == "GainAbs") return Unit::Db;
  return gain.lowest > 0 ? Unit::Factor : Unit::Db;
}

/// @returns name nullptr: the camera has none
Gain find(ArvCamera* camera) {
  for (const char* name : {"Gain", "GainAbs", "GainRaw"}) {
    if (!has(camera, name)) continue;
    ArvGcNode* node = arv_device_get_feature(arv_camera_get_device(camera), name);
    Gain gain{.name = name, .is_float = ARV_IS_GC_FLOAT(node) != 0};
    const std::string reading = std::string("reading the range of ") + name;
    if (gain.is_float) {
      checked(reading, arv_camera_get_float_bounds, camera, name, &gain.lowest, &gain.highest);
    } else {
      gint64 lowest = 0;
      gint64 highest = 0;
      checked(reading, arv_camera_get_integer_bounds, camera, name, &lowest, &highest);
      gain.lowest = static_cast<double>(lowest);
      gain.highest = static_cast<double>(highest);
    }
    gain.unit = unit_of(gain, unit_text(node));
    return gain;
  }
  return {.name = nullptr, .is_float = false};
}

double to_db(const Gain& gain, double value) {
  return gain.unit == Unit::Factor ? 20 * std::log10(value) : value;
}

double from_db(const Gain& gain, double gain_db) {
  return gain.unit == Unit::Factor ? std::pow(10, gain_db / 20) : gain_db;
}

std::string set(ArvCamera* camera, const Gain& gain, double value) {
  value = std::clamp(value, gain.lowest, std::max(gain.lowest, gain.highest));
  if (gain.is_float) return refusal(arv_camera_set_float, camera, gain.name, value);
  return refusal(arv_camera_set_integer, camera, gain.name, gint64{std::llround(value)});
}

double get(ArvCamera* camera, const Gain& gain) {
  const std::string reading = std::string("reading ") + gain.name;
  if (gain.is_float) return checked(reading, arv_camera_get_float, camera, gain.name);
  return static_cast<double>(checked(reading, arv_camera_get_integer, camera, gain.name));
}

/// Has the next values mean this gain. @returns false: the camera has no such one
bool select(ArvCamera* camera, const char* entry) {
  Failure failure;
  return arv_camera_is_enumeration_entry_available(camera, "GainSelector", entry, failure.out()) !=
             0 &&
         refusal(arv_camera_set_string, camera, "GainSelector", entry).empty();
}

/// A digital gain only stretches what the analogue one gives: it is set to 1.
void select_analogue(ArvCamera* camera) {
  if (!has(camera, "GainSelector")) return;
  if (select(camera, "DigitalAll")) {
    const Gain digital = find(camera);
    if (digital.name != nullptr) {
      set(camera, digital, digital.unit == Unit::Steps ? digital.lowest : from_db(digital, 0));
    }
  }
  if (!select(camera, "AnalogAll")) select(camera, "All");
}

}  // namespace

void set_gain(ArvCamera* camera, double gain_db, std::vector<CameraNote>& notes) {
  select_analogue(camera);
  const Gain gain = find(camera);
  if (gain.name == nullptr) {
    if (gain_db != 0)
      notes.push_back(warning("gain_db", number(gain_db), "", "the camera has no gain to set"));
    return;
  }
  const std::string range = number(gain.lowest) + " to " + number(gain.highest);
  if (gain.unit == Unit::Steps && gain_db != 0) {
    throw CameraError("the camera counts its gain in steps of its own (" + std::string(gain.name) +
                      " " + range + "), and driftd does not know how many make " + number(gain_db) +
                      " dB: set gain_db to 0, the least gain that it has");
  }
  const double wanted = gain.unit == Unit::Steps ? gain.lowest : from_db(gain, gain_db);
  const std::string refused = set(camera, gain, wanted);
  const double taken = get(camera, gain);
  if (gain.unit == Unit::Steps) {
    if (taken == wanted) return;
    notes.push_back(warning("gain_db", number(gain_db), "",
                            std::string(gain.name) + " is " + number(taken) + " instead of " +
                                number(wanted) + because(refused)));
    return;
  }
  const double taken_db = to_db(gain, taken);
  if (std::abs(taken_db - gain_db) <= kToleranceDb) return;
  notes.push_back(warning("gain_db", number(gain_db), number(taken_db),
                          "the gain is " + number(taken_db) + " dB instead of " + number(gain_db) +
                              " dB: the camera allows " + range +
                              (gain.unit == Unit::Factor ? " as a factor" : " dB") +
                              because(refused)));
}

double read_gain_db(ArvCamera* camera, SettableRange& range) {
  range = {};
  const Gain gain = find(camera);
  if (gain.name == nullptr || gain.unit == Unit::Steps)
    return std::numeric_limits<double>::quiet_NaN();
  range = {.lowest = to_db(gain, gain.lowest), .highest = to_db(gain, gain.highest)};
  return to_db(gain, get(camera, gain));
}

}  // namespace driftd::camera::aravis
