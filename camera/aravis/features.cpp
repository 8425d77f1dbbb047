// SPDX-License-Identifier: MIT
#include "camera/aravis/features.hpp"

#include <cstdio>
#include <cstdlib>

namespace driftd::camera::aravis {
namespace {

constexpr std::array<const char*, 4> kOff{"Off", "false", "None", "Disabled"};
constexpr std::array<const char*, 4> kOne{"1", "X1", "x1", "Off"};
constexpr std::array<const char*, 4> kZero{"0"};
constexpr const char* kMirrored =
    "the picture is mirrored, and corrections would go the wrong way; set it with the camera "
    "maker's program";
constexpr const char* kCoarser =
    "camera pixels are larger than optics.pixel_size_nm says; set it with the camera maker's "
    "program";
constexpr const char* kAltered = "pixel values are altered, and positions may be wrong";

// Names of the GenICam Standard Features Naming Convention (SFNC) first, then those of the vendors
// that deviate from it (Basler, FLIR, Allied Vision, Hikrobot, The Imaging Source).

constexpr std::array kGeometry{
    Feature{{"SequencerMode", "SequenceEnable"},
            kOff,
            Need::Required,
            "its settings change from frame to frame"},
    Feature{{"TestPattern", "TestImageSelector"}, kOff, Need::Required, "no sample is seen"},
    Feature{{"ReverseX"}, kOff, Need::Required, kMirrored},
    Feature{{"ReverseY"}, kOff, Need::Required, kMirrored},
    Feature{{"BinningHorizontal"}, kOne, Need::Required, kCoarser},
    Feature{{"BinningVertical"}, kOne, Need::Required, kCoarser},
    Feature{{"DecimationHorizontal"}, kOne, Need::Required, kCoarser},
    Feature{{"DecimationVertical"}, kOne, Need::Required, kCoarser},
};

/// Auto exposure and gain come first: while they run, cameras refuse to set the values.
constexpr std::array kPixels{
    Feature{{"ExposureAuto"}, kOff, Need::Wanted, "exposure_us does not hold"},
    Feature{{"ExposureMode"}, {"Timed"}, Need::Wanted, "exposure_us does not hold"},
    Feature{{"GainAuto"}, kOff, Need::Wanted, "the gain changes"},
    Feature{{"BlackLevelAuto"}, kOff, Need::Wanted, "the offset changes"},
    Feature{{"GammaEnable", "GammaEnabled"}, kOff, Need::Wanted, kAltered},
    Feature{{"Gamma"}, {"1"}, Need::Wanted, kAltered},
    Feature{{"LUTEnable"}, kOff, Need::Wanted, kAltered},
    Feature{{"DigitalShiftEnable"}, kOff, Need::Wanted, kAltered},
    Feature{{"DigitalShift"}, kZero, Need::Wanted, kAltered},
    Feature{{"SharpeningEnable", "SharpeningEnabled"}, kOff, Need::Wanted, kAltered},
    Feature{{"SharpnessEnable", "SharpnessEnabled", "SharpnessAuto"}, kOff, Need::Wanted, kAltered},
    Feature{{"SharpnessEnhancement"}, kZero, Need::Wanted, kAltered},
    Feature{{"NoiseReductionEnable", "DenoiseEnable"}, kOff, Need::Wanted, kAltered},
    Feature{{"NoiseReduction"}, kZero, Need::Wanted, kAltered},
    Feature{{"DefectPixelCorrectionMode", "DefectCorrectionMode", "DPCEnable"},
            kOff,
            Need::Wanted,
            kAltered},
    Feature{{"DefectCorrectStaticEnable", "StaticDefectCorrectionEnable", "DefectMaskEnable"},
            kOff,
            Need::Wanted,
            kAltered},
    Feature{{"ChunkModeActive"}, kOff, Need::Wanted, "frames carry bytes that nobody reads"},
};

constexpr const char* kOwnRate = "frame_rate_hz does not hold";
constexpr std::array kRateGates{
    Feature{{"AcquisitionFrameRateEnable", "AcquisitionFrameRateEnabled"},
            {"true", "On"},
            Need::Wanted,
            kOwnRate},
    Feature{
        {"AcquisitionFrameRateMode"}, {"On", "Basic", "Custom", "true"}, Need::Wanted, kOwnRate},
    Feature{{"AcquisitionFrameRateAuto"}, kOff, Need::Wanted, kOwnRate},
};
constexpr std::array kRateGatesOff{
    Feature{
        {"AcquisitionFrameRateEnable", "AcquisitionFrameRateEnabled", "AcquisitionFrameRateMode"},
        kOff,
        Need::Wanted,
        "it may limit the rate of triggered frames"},
};

enum class Kind : std::uint8_t { Boolean, Enumeration, Number };

Kind kind_of(ArvCamera* camera, const char* name) {
  ArvGcNode* node = arv_device_get_feature(arv_camera_get_device(camera), name);
  if (ARV_IS_GC_BOOLEAN(node)) return Kind::Boolean;
  return ARV_IS_GC_ENUMERATION(node) ? Kind::Enumeration : Kind::Number;
}

bool is_float(ArvCamera* camera, const char* name) {
  return ARV_IS_GC_FLOAT(arv_device_get_feature(arv_camera_get_device(camera), name));
}

bool is_number(const char* text) {
  char* end = nullptr;
  std::strtod(text, &end);
  return end != text && *end == '\0';
}

bool fits(ArvCamera* camera, const char* name, Kind kind, const std::string& value) {
  if (kind == Kind::Boolean) return value == "true" || value == "false";
  if (kind == Kind::Number) return is_number(value.c_str());
  Failure failure;
  return arv_camera_is_enumeration_entry_available(camera, name, value.c_str(), failure.out()) != 0;
}

/// @returns why not, empty when the camera obeyed
std::string set(ArvCamera* camera, const char* name, Kind kind, const std::string& value) {
  if (kind == Kind::Boolean) {
    return refusal(arv_camera_set_boolean, camera, name, gboolean{value == "true" ? 1 : 0});
  }
  if (kind == Kind::Enumeration) {
    return refusal(arv_camera_set_string, camera, name, value.c_str());
  }
  const double wanted = std::strtod(value.c_str(), nullptr);
  if (is_float(camera, name)) return refusal(arv_camera_set_float, camera, name, wanted);
  return refusal(arv_camera_set_integer, camera, name, static_cast<gint64>(wanted));
}

void apply_one(ArvCamera* camera, const char* name, const Feature& feature,
               std::vector<CameraNote>& notes) {
  const Kind kind = kind_of(camera, name);
  const std::string before = value_of(camera, name);
  std::string wanted;
  for (const char* value : feature.values) {
    if (value != nullptr && wanted.empty() && fits(camera, name, kind, value)) wanted = value;
  }
  if (before == wanted) return;
  const bool known = !wanted.empty();
  const std::string refused =
      known ? because(set(camera, name, kind, wanted)) : " (driftd knows none of its values)";
  if (!known) wanted = feature.values.front();
  CameraNote note{.key = name, .asked = wanted, .got = value_of(camera, name), .text = name};
  if (note.got == wanted) {
    note.text += " was " + before + "; set to " + wanted;
  } else {
    note.severity = CameraNote::Severity::Warning;
    note.text +=
        " stays " + note.got + " instead of " + wanted + refused + ": " + feature.otherwise;
    if (known && feature.need == Need::Required) throw CameraError(note.text);
  }
  notes.push_back(std::move(note));
}

}  // namespace

std::span<const Feature> geometry_features() {
  return kGeometry;
}

std::span<const Feature> pixel_features() {
  return kPixels;
}

std::span<const Feature> rate_gates() {
  return kRateGates;
}

std::span<const Feature> rate_gates_off() {
  return kRateGatesOff;
}

std::string number(double value) {
  std::array<char, 32> text{};
  const int size = std::snprintf(text.data(), text.size(), "%.6g", value);
  return {text.data(), static_cast<std::size_t>(size)};
}

std::string because(const std::string& refused) {
  return refused.empty() ? "" : " (the camera says: " + refused + ")";
}

CameraNote warning(std::string key, std::string asked, std::string got, std::string text) {
  return {.key = std::move(key),
          .asked = std::move(asked),
          .got = std::move(got),
          .severity = CameraNote::Severity::Warning,
          .text = std::move(text)};
}

std::string value_of(ArvCamera* camera, const char* name) {
  Failure failure;
  std::string value;
  switch (kind_of(camera, name)) {
    case Kind::Boolean:
      value = arv_camera_get_boolean(camera, name, failure.out()) != 0 ? "true" : "false";
      break;
    case Kind::Enumeration: {
      const char* entry = arv_camera_get_string(camera, name, failure.out());
      value = entry != nullptr ? entry : "";
      break;
    }
    case Kind::Number:
      value = is_float(camera, name)
                  ? number(arv_camera_get_float(camera, name, failure.out()))
                  : std::to_string(arv_camera_get_integer(camera, name, failure.out()));
      break;
  }
  if (failure.is_silence()) throw CameraError("the camera does not answer: " + failure.text());
  return failure ? "unreadable" : value;
}

void apply(ArvCamera* camera, std::span<const Feature> features, std::vector<CameraNote>& notes) {
  for (const Feature& feature : features) {
    for (const char* name : feature.names) {
      if (name != nullptr && has(camera, name)) apply_one(camera, name, feature, notes);
    }
  }
}

}  // namespace driftd::camera::aravis
