// SPDX-License-Identifier: MIT
#include "camera/aravis/output_line.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "camera/aravis/features.hpp"

namespace driftd::camera::aravis {
namespace {

constexpr const char* kKey = "in_lock_line";
constexpr const char* kValue = "UserOutputValue";
/// What the sources and the outputs are called: by the standard, and by one maker before it.
constexpr std::array kOutputs = {"UserOutput0", "UserOutput1", "UserOutput2",
                                 "UserOutput3", "UserOutput",  "UserOutputLine1"};

std::vector<std::string> entries(ArvCamera* camera, const char* feature) {
  if (!has(camera, feature)) return {};
  Failure failure;
  guint count = 0;
  const StringList names(
      arv_camera_dup_available_enumerations_as_strings(camera, feature, &count, failure.out()));
  const std::span list(names.get(), failure ? 0 : count);
  return {list.begin(), list.end()};
}

std::string joined(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? "none" : list;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The first of kOutputs that the camera has; empty: none.
std::string output_of(const std::vector<std::string>& names) {
  for (const char* output : kOutputs)
    if (contains(names, output)) return output;
  return "";
}

}  // namespace

void OutputLine::prepare(ArvCamera* camera, const std::string& line,
                         std::vector<CameraNote>& notes) {
  ready_ = false;
  if (line.empty()) return;
  const std::vector<std::string> lines = entries(camera, "LineSelector");
  if (!contains(lines, line)) {
    notes.push_back(warning(kKey, line, joined(lines),
                            "the camera has no line " + line + "; its lines are " + joined(lines)));
    return;
  }
  const auto put = [&](const char* feature, const std::string& value) {
    return refusal(arv_camera_set_string, camera, feature, value.c_str());
  };
  std::string refused = put("LineSelector", line);
  if (refused.empty() && has(camera, "LineMode")) refused = put("LineMode", "Output");
  if (!refused.empty()) {
    notes.push_back(warning(kKey, line, "", line + " cannot be an output" + because(refused)));
    return;
  }
  const std::vector<std::string> sources = entries(camera, "LineSource");
  const std::string source = output_of(sources);
  if (source.empty() || !has(camera, kValue)) {
    notes.push_back(warning(kKey, line, joined(sources),
                            line + " has no source that a program sets, but " + joined(sources)));
    return;
  }
  refused = put("LineSource", source);
  if (refused.empty() && has(camera, "LineInverter"))
    refused = refusal(arv_camera_set_boolean, camera, "LineInverter", gboolean{0});
  const std::vector<std::string> outputs = entries(camera, "UserOutputSelector");
  const bool is_only = outputs.size() == 1;  // whatever it is called
  if (!outputs.empty() && !is_only && !contains(outputs, source)) {
    notes.push_back(warning(
        kKey, line, joined(outputs),
        "the source " + source + " of " + line + " is none of the outputs " + joined(outputs)));
    return;
  }
  const std::string output = outputs.empty() ? "" : is_only ? outputs.front() : source;
  if (refused.empty() && !output.empty()) refused = put("UserOutputSelector", output);
  if (refused.empty()) refused = refusal(arv_camera_set_boolean, camera, kValue, gboolean{0});
  ready_ = refused.empty();
  if (!ready_) notes.push_back(warning(kKey, line, "", line + " cannot be set" + because(refused)));
}

std::string OutputLine::set(ArvCamera* camera, bool high) const {
  return ready_ ? refusal(arv_camera_set_boolean, camera, kValue, gboolean{high ? 1 : 0}) : "";
}

}  // namespace driftd::camera::aravis
