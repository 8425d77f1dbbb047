// SPDX-License-Identifier: MIT
#include "camera/simulator/scenario.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "camera/simulator/yaml_section.hpp"

namespace driftd::simulator {
namespace {

constexpr double kLongS = 1e7;  ///< four months: longer than any scenario runs
constexpr Bounds kLengthNm = {-1e6, 1e6};

constexpr std::array<std::pair<FaultKind, const char*>, 9> kFaultNames = {{
    {FaultKind::Vanish, "vanish"},
    {FaultKind::DropFrames, "drop_frames"},
    {FaultKind::CorruptFrames, "corrupt_frames"},
    {FaultKind::LosePackets, "lose_packets"},
    {FaultKind::HideMarkers, "hide_markers"},
    {FaultKind::StageStuck, "stage_stuck"},
    {FaultKind::Step, "step"},
    {FaultKind::DetachMarker, "detach_marker"},
    {FaultKind::Intruder, "intruder"},
}};

void read_optics(YamlSection section, OpticsModel& optics) {
  section.number("pixel_size_nm", optics.pixel_size_nm, {1, 10000});
  section.number("sigma_px", optics.sigma_px, {0.3, 20});
  section.number("sigma_y_px", optics.sigma_y_px, {0, 20});
  if (optics.sigma_y_px > 0 && optics.sigma_y_px < 0.3) {
    section.reject("sigma_y_px", "allowed is 0 (circular) or a number from 0.3 to 20");
  }
  section.finish();
}

void read_camera(YamlSection section, CameraModel& camera) {
  section.integer("width_px", camera.width_px, {16, 4096});
  section.integer("height_px", camera.height_px, {16, 4096});
  section.number("rate_hz", camera.rate_hz, {0.1, 10000});
  section.number("exposure_us", camera.exposure_us, {10, 1e6});
  section.number("background_e", camera.background_e, {0, 1e5});
  section.number("offset_adu", camera.offset_adu, {0, 10000});
  section.number("gain_e_per_adu", camera.gain_e_per_adu, {0.01, 1000});
  // Less noise would make the distribution of a pixel discrete, which the sensor does not tabulate.
  section.number("read_noise_e", camera.read_noise_e, {0.5, 100});
  section.number("full_well_e", camera.full_well_e, {100, 1e7});
  section.integer("bit_depth", camera.bit_depth, {8, 16});
  section.number("offset_pattern_adu", camera.offset_pattern_adu, {0, 1000});
  section.number("gain_pattern", camera.gain_pattern, {0, 0.2});
  section.integer64("clock_offset_ns", camera.clock_offset_ns);
  section.integer("first_frame_id", camera.first_frame_id, {1, 65535});
  if (camera.width_px % 4 != 0) section.reject("width_px", "must be a multiple of 4");
  if (camera.height_px % 2 != 0) section.reject("height_px", "must be a multiple of 2");
  section.finish();
}

void read_markers(YamlSection section, const CameraModel& camera, MarkerModel& markers) {
  section.integer("count", markers.count, {0, 1000});
  section.number("photons", markers.photons, {1, 1e8});
  section.number("photons_spread", markers.photons_spread, {0, 2});
  section.number("min_distance_px", markers.min_distance_px, {0, 4096});
  section.number("border_px", markers.border_px, {0, 2048});
  section.number("bleach_tau_s", markers.bleach_tau_s, {0, kLongS});
  section.number("wander_nm_per_sqrt_s", markers.wander_nm_per_sqrt_s, {0, 1e6});
  section.number("intruder_photons", markers.intruder_photons, {1, 1e9});
  section.number("intruder_speed_nm_per_s", markers.intruder_speed_nm_per_s, {-1e7, 1e7});
  YamlSection blink = section.section("blink");
  blink.number("share", markers.blink.share, {0, 1});
  blink.number("on_s", markers.blink.on_s, {1e-3, kLongS});
  blink.number("off_s", markers.blink.off_s, {1e-3, kLongS});
  blink.finish();
  Mistakes item_mistakes("");
  section.each("positions_px", [&](const YAML::Node& item, const std::string&) {
    double x = 0;
    double y = 0;
    if (item.IsSequence() && item.size() == 2 && YAML::convert<double>::decode(item[0], x) &&
        YAML::convert<double>::decode(item[1], y) && x >= 0 && y >= 0 && x <= camera.width_px - 1 &&
        y <= camera.height_px - 1) {
      markers.positions_px.push_back({x, y});
    } else {
      item_mistakes.add(item.Mark(), "");
    }
  });
  if (!item_mistakes.empty()) {
    section.reject("positions_px", "allowed is a list of [x, y] on the sensor");
  }
  if (section.has("positions_px") && section.has("count")) {
    section.reject("count", "not together with positions_px");
  }
  if (2 * markers.border_px >= std::min(camera.width_px, camera.height_px) - 1) {
    section.reject("border_px", "leaves no room on the sensor");
  }
  section.finish();
}

void read_axis(YamlSection section, AxisDisturbance& axis, Mistakes& mistakes) {
  section.number("linear_nm_per_s", axis.linear_nm_per_s, kLengthNm);
  section.number("random_walk_nm_per_sqrt_s", axis.random_walk_nm_per_sqrt_s, {0, 1e6});
  section.number("settling_nm", axis.settling_nm, kLengthNm);
  section.number("settling_tau_s", axis.settling_tau_s, {1e-3, kLongS});
  section.number("step_nm", axis.step_nm, kLengthNm);
  section.number("step_at_s", axis.step_at_s, {0, kLongS});
  section.each("sines", [&](const YAML::Node& item, const std::string& path) {
    Sine sine;
    YamlSection one(item, path, mistakes);
    one.number("amplitude_nm", sine.amplitude_nm, kLengthNm);
    one.number("frequency_hz", sine.frequency_hz, {0, 1000});
    one.number("phase_deg", sine.phase_deg, {-360, 360});
    one.finish();
    axis.sines.push_back(sine);
  });
  section.finish();
}

void read_matrix(YamlSection& section, StageModel& stage) {
  const auto values = section.numbers("image_to_stage", 4, {-100, 100});
  if (!values) return;
  stage.image_to_stage = {{{(*values)[0], (*values)[1]}, {(*values)[2], (*values)[3]}}};
  const double determinant = (*values)[0] * (*values)[3] - (*values)[1] * (*values)[2];
  if (std::abs(determinant) < 1e-6) section.reject("image_to_stage", "cannot be inverted");
}

void read_stage(YamlSection section, StageModel& stage, std::string& endpoint) {
  read_matrix(section, stage);
  if (const auto signs = section.numbers("axis_sign", 2, {-1, 1})) {
    for (std::size_t i = 0; i < 2; ++i) {
      if (std::abs((*signs)[i]) != 1) section.reject("axis_sign", "allowed is 1 or -1 for each");
      stage.axis_sign[i] = (*signs)[i] < 0 ? -1 : 1;
    }
  }
  section.number("frequency_hz", stage.frequency_hz, {0.1, 2000});
  section.number("damping", stage.damping, {0.05, 5});
  section.number("delay_ms", stage.delay_ms, {0, 1000});
  section.number("noise_nm", stage.noise_nm, {0, 1000});
  section.number("noise_bandwidth_hz", stage.noise_bandwidth_hz, {0.1, 5000});
  section.number("quantisation_nm", stage.quantisation_nm, {0, 1000});
  section.number("range_nm", stage.range_nm, {1, 1e7});
  section.boolean("stuck", stage.stuck);
  section.text("endpoint", endpoint);
  section.finish();
}

std::string fault_names() {
  std::string all;
  for (const auto& [kind, name] : kFaultNames) all += (all.empty() ? "" : ", ") + std::string(name);
  return all;
}

void read_fault(const YAML::Node& item, const std::string& path, Scenario& scenario,
                Mistakes& mistakes) {
  Fault fault;
  YamlSection section(item, path, mistakes);
  std::string kind;
  section.text("kind", kind);
  if (!fault_from_name(kind, fault.kind)) {
    section.reject("kind", "found '" + kind + "'; allowed is one of " + fault_names());
  }
  const auto markers = scenario.markers.positions_px.empty()
                           ? scenario.markers.count
                           : static_cast<int>(scenario.markers.positions_px.size());
  section.number("at_s", fault.at_s, {0, kLongS});
  section.number("seconds", fault.seconds, {0, kLongS});
  section.number("share", fault.share, {0, 1});
  section.number("x_nm", fault.x_nm, kLengthNm);
  section.number("y_nm", fault.y_nm, kLengthNm);
  section.integer("index", fault.index, {0, static_cast<double>(std::max(0, markers - 1))});
  section.finish();
  scenario.faults.push_back(fault);
}

Scenario read_scenario(const YAML::Node& root, Mistakes& mistakes) {
  Scenario scenario;
  YamlSection section(root, "", mistakes);
  std::int64_t seed = 1;
  section.integer64("seed", seed);
  if (seed < 0) section.reject("seed", "must not be negative");
  scenario.seed = static_cast<std::uint64_t>(seed);
  read_optics(section.section("optics"), scenario.optics);
  read_camera(section.section("camera"), scenario.camera);
  read_markers(section.section("markers"), scenario.camera, scenario.markers);
  YamlSection disturbance = section.section("disturbance");
  read_axis(disturbance.section("x"), scenario.disturbance_x, mistakes);
  read_axis(disturbance.section("y"), scenario.disturbance_y, mistakes);
  disturbance.finish();
  read_stage(section.section("stage"), scenario.stage, scenario.stage_endpoint);
  section.each("faults", [&](const YAML::Node& item, const std::string& path) {
    read_fault(item, path, scenario, mistakes);
  });
  section.finish();
  return scenario;
}

}  // namespace

const char* name_of(FaultKind kind) noexcept {
  for (const auto& [known, name] : kFaultNames) {
    if (known == kind) return name;
  }
  return "unknown";
}

bool fault_from_name(const std::string& name, FaultKind& kind) noexcept {
  for (const auto& [known, known_name] : kFaultNames) {
    if (name == known_name) {
      kind = known;
      return true;
    }
  }
  return false;
}

Scenario load_scenario_text(const std::string& text, const std::string& name) {
  Mistakes mistakes(name);
  Scenario scenario;
  try {
    scenario = read_scenario(YAML::Load(text), mistakes);
  } catch (const YAML::ParserException& error) {
    mistakes.add(error.mark, "not YAML: " + error.msg);
  }
  if (!mistakes.empty()) throw ScenarioError(mistakes.text());
  return scenario;
}

Scenario load_scenario(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  if (!stream || !(text << stream.rdbuf())) {
    throw ScenarioError(file.string() + ": cannot be read");
  }
  return load_scenario_text(text.str(), file.string());
}

}  // namespace driftd::simulator
