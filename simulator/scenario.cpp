// SPDX-License-Identifier: MIT
#include "simulator/scenario.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "base/yaml/document.hpp"
#include "base/yaml/section.hpp"
#include "simulator/scenario_optics.hpp"

namespace driftd::simulator {
namespace {

using yaml::Mistakes;

constexpr double kLongS = 1e7;  ///< four months: longer than any scenario runs
constexpr yaml::Range kLengthNm = {-1e6, 1e6};
constexpr yaml::Range kFactor = {0, 1000};

constexpr std::array<std::pair<FaultKind, const char*>, 21> kFaultNames = {{
    {FaultKind::Vanish, "vanish"},
    {FaultKind::DropFrames, "drop_frames"},
    {FaultKind::CorruptFrames, "corrupt_frames"},
    {FaultKind::LosePackets, "lose_packets"},
    {FaultKind::HideMarkers, "hide_markers"},
    {FaultKind::StageStuck, "stage_stuck"},
    {FaultKind::StageDead, "stage_dead"},
    {FaultKind::StageReversed, "stage_reversed"},
    {FaultKind::StageGain, "stage_gain"},
    {FaultKind::StageTurned, "stage_turned"},
    {FaultKind::ClockStep, "clock_step"},
    {FaultKind::ClockJump, "clock_jump"},
    {FaultKind::ClockRate, "clock_rate"},
    {FaultKind::ClockAbsent, "clock_absent"},
    {FaultKind::Step, "step"},
    {FaultKind::DetachMarker, "detach_marker"},
    {FaultKind::WalkMarker, "walk_marker"},
    {FaultKind::Intruder, "intruder"},
    {FaultKind::Light, "light"},
    {FaultKind::Background, "background"},
    {FaultKind::HideReflection, "hide_reflection"},
}};

constexpr std::array<std::string_view, 2> kFaultAxes = {"xy", "z"};

void read_illumination(yaml::Section section, IlluminationModel& illumination) {
  section.number("flicker_share", illumination.flicker_share, {0, 0.5});
  section.number("flicker_bandwidth_hz", illumination.flicker_bandwidth_hz, {0.001, 5000});
  section.number("ripple_share", illumination.ripple_share, {0, 1});
  section.number("ripple_hz", illumination.ripple_hz, {0.001, 1000});
  section.finish();
}

void read_background(yaml::Section section, BackgroundModel& background) {
  section.number("structure_share", background.structure_share, {0, 1});
  section.number("grain_px", background.grain_px, {2, 1000});
  section.number("speed_x_nm_per_s", background.speed_nm_per_s.x, kLengthNm);
  section.number("speed_y_nm_per_s", background.speed_nm_per_s.y, kLengthNm);
  section.finish();
}

void read_reflection(yaml::Section section, const CameraModel& camera,
                     ReflectionModel& reflection) {
  section.number("photons", reflection.photons, {0, 1e9});
  section.number("x_px", reflection.place_px.x, {0, camera.width_px - 1.0});
  section.number("y_px", reflection.place_px.y, {0, camera.height_px - 1.0});
  section.number("px_per_um", reflection.px_per_um, {0, 10000});
  section.number("direction_deg", reflection.direction_deg, {-360, 360});
  section.number("sigma_px", reflection.sigma_px, {0.3, 20});
  section.number("pointing_px_per_sqrt_s", reflection.pointing_px_per_sqrt_s, {0, 1000});
  section.finish();
}

void read_dialect(yaml::Section section, CameraDialect& dialect) {
  constexpr std::array<std::string_view, 2> kNames = {"standard", "legacy"};
  constexpr std::array<std::string_view, 3> kGains = {"db", "factor", "raw"};
  constexpr std::array<std::string_view, 3> kGates = {"enable", "mode", "mode_basic"};
  read_choice(section, "names", kNames, dialect.names);
  read_choice(section, "gain", kGains, dialect.gain);
  read_choice(section, "rate_gate", kGates, dialect.rate_gate);
  section.boolean("left_aligned", dialect.left_aligned);
  section.boolean("counts_zero", dialect.counts_zero);
  section.integer("line_padding_bytes", dialect.line_padding_bytes, {0, 1024});
  section.integer64("tick_hz", dialect.tick_hz, 0);
  if (dialect.tick_hz != 0 && (dialect.tick_hz < 1000 || dialect.tick_hz > 1'000'000'000)) {
    section.reject("tick_hz", "0 (no clock) or a whole number from 1000 to 1000000000");
  }
  section.finish();
}

void read_left_over(yaml::Section section, LeftOver& left) {
  section.integer("binning_x", left.binning_x, {1, 4});
  section.integer("binning_y", left.binning_y, {1, 4});
  if (left.binning_x == 3) section.reject("binning_x", "1, 2 or 4");
  if (left.binning_y == 3) section.reject("binning_y", "1, 2 or 4");
  section.boolean("reverse_x", left.reverse_x);
  section.boolean("reverse_y", left.reverse_y);
  section.finish();
}

void read_camera(yaml::Section section, CameraModel& camera) {
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
  section.number("clock_rate", camera.clock_rate, kFactor);
  section.boolean("clock_absent", camera.clock_absent);
  section.number("clock_jitter_us", camera.clock_jitter_us, {0, 1e6});
  section.number("clock_step_us", camera.clock_step_us, {0, 1e6});
  section.number("clock_step_every_s", camera.clock_step_every_s, {1e-3, kLongS});
  section.number("delivery_jitter_us", camera.delivery_jitter_us, {0, 1e6});
  section.integer("network_mtu_bytes", camera.network_mtu_bytes, {576, 65535});
  section.integer("first_frame_id", camera.first_frame_id, {1, 65535});
  read_dialect(section.section("dialect"), camera.dialect);
  read_left_over(section.section("left_over"), camera.left_over);
  if (camera.width_px % 4 != 0) section.reject("width_px", "a multiple of 4");
  if (camera.height_px % 2 != 0) section.reject("height_px", "a multiple of 2");
  section.finish();
}

void read_markers(yaml::Section section, const CameraModel& camera, MarkerModel& markers) {
  section.integer("count", markers.count, {0, 1000});
  section.number("photons", markers.photons, {1, 1e8});
  section.number("photons_spread", markers.photons_spread, {0, 2});
  section.number("min_distance_px", markers.min_distance_px, {0, 4096});
  section.number("border_px", markers.border_px, {0, 2048});
  section.number("bleach_tau_s", markers.bleach_tau_s, {0, kLongS});
  section.number("bleach_spread", markers.bleach_spread, {0, 5});
  section.number("height_spread_nm", markers.height_spread_nm, {0, 1e5});
  section.number("tilt_x_nm_per_um", markers.tilt_x_nm_per_um, {-1000, 1000});
  section.number("tilt_y_nm_per_um", markers.tilt_y_nm_per_um, {-1000, 1000});
  section.number("wander_nm_per_sqrt_s", markers.wander_nm_per_sqrt_s, {0, 1e6});
  section.number("intruder_photons", markers.intruder_photons, {1, 1e9});
  section.number("intruder_speed_nm_per_s", markers.intruder_speed_nm_per_s, {-1e7, 1e7});
  yaml::Section blink = section.section("blink");
  blink.number("share", markers.blink.share, {0, 1});
  blink.number("on_s", markers.blink.on_s, {1e-3, kLongS});
  blink.number("off_s", markers.blink.off_s, {1e-3, kLongS});
  blink.finish();
  section.each("positions_px", [&](const YAML::Node& item, const std::string& path) {
    if (!item.IsSequence() || item.size() != 2) {
      section.reader().refuse(path, item, "[x, y]");
      return;
    }
    const auto x = section.reader().number(path + "[0]", item[0], {0, camera.width_px - 1.0});
    const auto y = section.reader().number(path + "[1]", item[1], {0, camera.height_px - 1.0});
    if (x && y) markers.positions_px.push_back({*x, *y});
  });
  if (section.has("positions_px") && section.has("count")) {
    section.reject("count", "none together with positions_px");
  }
  const std::size_t count = markers.positions_px.empty() ? static_cast<std::size_t>(markers.count)
                                                         : markers.positions_px.size();
  if (const auto heights = section.numbers("heights_nm", count, {-1e5, 1e5}))
    markers.heights_nm = *heights;
  if (2 * markers.border_px >= std::min(camera.width_px, camera.height_px) - 1) {
    section.reject("border_px", "what leaves room on the sensor");
  }
  section.finish();
}

void read_axis(yaml::Section section, AxisDisturbance& axis, Mistakes& mistakes) {
  section.number("linear_nm_per_s", axis.linear_nm_per_s, kLengthNm);
  section.number("random_walk_nm_per_sqrt_s", axis.random_walk_nm_per_sqrt_s, {0, 1e6});
  section.number("settling_nm", axis.settling_nm, kLengthNm);
  section.number("settling_tau_s", axis.settling_tau_s, {1e-3, kLongS});
  section.number("step_nm", axis.step_nm, kLengthNm);
  section.number("step_at_s", axis.step_at_s, {0, kLongS});
  section.number("step_seconds", axis.step_seconds, {0, kLongS});
  yaml::Section broadband = section.section("broadband");
  broadband.number("rms_nm", axis.broadband.rms_nm, {0, 1e6});
  broadband.number("frequency_hz", axis.broadband.frequency_hz, {0.01, 1000});
  broadband.number("damping", axis.broadband.damping, {0.001, 5});
  broadband.finish();
  section.each("sines", [&](const YAML::Node& item, const std::string& path) {
    Sine sine;
    yaml::Section one(item, path, mistakes);
    one.number("amplitude_nm", sine.amplitude_nm, kLengthNm);
    one.number("frequency_hz", sine.frequency_hz, {0, 1000});
    one.number("phase_deg", sine.phase_deg, {-360, 360});
    one.number("drift_share_per_s", sine.drift_share_per_s, {-0.1, 0.1});
    one.number("drift_turn_s", sine.drift_turn_s, {0.1, kLongS});
    one.number("modulation_share", sine.modulation_share, {0, 1});
    one.number("modulation_hz", sine.modulation_hz, {0, 1000});
    one.number("from_s", sine.from_s, {0, kLongS});
    one.number("until_s", sine.until_s, {0, kLongS});
    one.finish();
    axis.sines.push_back(sine);
  });
  section.finish();
}

void read_matrix(yaml::Section& section, StageModel& stage) {
  const auto values = section.numbers("image_to_stage", 4, {-100, 100});
  if (!values) return;
  stage.image_to_stage = {{{(*values)[0], (*values)[1]}, {(*values)[2], (*values)[3]}}};
  const double determinant = (*values)[0] * (*values)[3] - (*values)[1] * (*values)[2];
  if (std::abs(determinant) < 1e-6)
    section.reject("image_to_stage", "a matrix that can be inverted");
}

/// What any actuator has.
void read_actuator(yaml::Section& section, StageModel& stage) {
  section.number("slew_nm_per_s", stage.slew_nm_per_s, {0, 1e9});
  section.number("hysteresis_share", stage.hysteresis_share, {0, 0.9});
  section.number("hysteresis_reach_nm", stage.hysteresis_reach_nm, {0.1, 1e6});
  section.number("creep_share_per_decade", stage.creep_share_per_decade, {0, 0.2});
  section.number("delay_jitter_ms", stage.delay_jitter_ms, {0, 1000});
  section.number("frequency_hz", stage.frequency_hz, {0.1, 2000});
  section.number("damping", stage.damping, {0.05, 5});
  section.number("second_mode_share", stage.second_mode_share, {-0.9, 0.9});
  section.number("second_mode_hz", stage.second_mode_hz, {0.1, 2000});
  section.number("second_mode_damping", stage.second_mode_damping, {0.001, 5});
  section.number("delay_ms", stage.delay_ms, {0, 1000});
  section.number("noise_nm", stage.noise_nm, {0, 1000});
  section.number("noise_bandwidth_hz", stage.noise_bandwidth_hz, {0.1, 5000});
  section.number("quantisation_nm", stage.quantisation_nm, {0, 1000});
  section.number("range_nm", stage.range_nm, {1, 1e7});
  section.boolean("stuck", stage.stuck);
}

FocusStageModel read_focus_stage(yaml::Section section) {
  FocusStageModel focus;
  focus.actuator.frequency_hz = 100;
  read_actuator(section, focus.actuator);
  section.integer("sign", focus.actuator.axis_sign[0], {-1, 1});
  if (focus.actuator.axis_sign[0] == 0) section.reject("sign", "1 or -1");
  section.number("gain", focus.actuator.axis_gain[0], {0.01, 100});
  section.number("coupling", focus.coupling, {-100, 100});
  if (focus.coupling == 0) section.reject("coupling", "a number that is not 0");
  section.number("tilt_x_nm_per_um", focus.tilt_x_nm_per_um, {-1000, 1000});
  section.number("tilt_y_nm_per_um", focus.tilt_y_nm_per_um, {-1000, 1000});
  section.finish();
  return focus;
}

void read_stage(yaml::Section section, StageModel& stage, Scenario& scenario) {
  read_matrix(section, stage);
  if (const auto signs = section.numbers("axis_sign", 2, {-1, 1})) {
    for (std::size_t i = 0; i < 2; ++i) {
      if (std::abs((*signs)[i]) != 1) section.reject("axis_sign", "1 or -1 for each");
      stage.axis_sign[i] = (*signs)[i] < 0 ? -1 : 1;
    }
  }
  if (const auto gains = section.numbers("axis_gain", 2, {0.01, 100})) {
    stage.axis_gain = {(*gains)[0], (*gains)[1]};
  }
  if (const auto shares = section.numbers("coupling", 2, {-0.5, 0.5})) {
    stage.coupling = {(*shares)[0], (*shares)[1]};
  }
  section.number("turn_deg", stage.turn_deg, {-180, 180});
  read_actuator(section, stage);
  if (section.has("z")) scenario.focus_stage = read_focus_stage(section.section("z"));
  section.text("endpoint", scenario.stage_endpoint);
  section.finish();
}

std::vector<std::string_view> fault_names() {
  std::vector<std::string_view> names;
  names.reserve(kFaultNames.size());
  for (const auto& [kind, name] : kFaultNames) names.emplace_back(name);
  return names;
}

void read_fault(const YAML::Node& item, const std::string& path, Scenario& scenario,
                Mistakes& mistakes) {
  Fault fault;
  yaml::Section section(item, path, mistakes);
  std::string kind;
  section.text("kind", kind, fault_names());
  if (!section.has("kind")) section.reject("kind", "a fault's name", "no such key");
  fault_from_name(kind, fault.kind);
  const auto markers = scenario.markers.positions_px.empty()
                           ? scenario.markers.count
                           : static_cast<int>(scenario.markers.positions_px.size());
  section.number("at_s", fault.at_s, {0, kLongS});
  section.number("seconds", fault.seconds, {0, kLongS});
  section.number("share", fault.share, {0, 1});
  section.number("x_nm", fault.x_nm, kLengthNm);
  section.number("y_nm", fault.y_nm, kLengthNm);
  section.number("z_nm", fault.z_nm, kLengthNm);
  read_choice(section, "axes", kFaultAxes, fault.axes);
  section.number("factor", fault.factor, kFactor);
  section.number("degrees", fault.degrees, {-360, 360});
  section.number("shift_s", fault.shift_s, {-kLongS, kLongS});
  section.integer("index", fault.index, {0, static_cast<double>(std::max(0, markers - 1))});
  section.finish();
  scenario.faults.push_back(fault);
}

Scenario read_scenario(const YAML::Node& root, Mistakes& mistakes) {
  Scenario scenario;
  yaml::Section section(root, "", mistakes);
  std::int64_t seed = 1;
  section.integer64("seed", seed, 0);
  scenario.seed = static_cast<std::uint64_t>(seed);
  read_optics(section.section("optics"), scenario.optics);
  read_illumination(section.section("illumination"), scenario.illumination);
  read_background(section.section("background"), scenario.background);
  read_camera(section.section("camera"), scenario.camera);
  read_reflection(section.section("reflection"), scenario.camera, scenario.reflection);
  read_markers(section.section("markers"), scenario.camera, scenario.markers);
  yaml::Section disturbance = section.section("disturbance");
  read_axis(disturbance.section("x"), scenario.disturbance_x, mistakes);
  read_axis(disturbance.section("y"), scenario.disturbance_y, mistakes);
  read_axis(disturbance.section("z"), scenario.disturbance_z, mistakes);
  disturbance.number("rotation_urad_per_s", scenario.field.rotation_urad_per_s, {-1e5, 1e5});
  disturbance.number("scale_ppm_per_s", scenario.field.scale_ppm_per_s, {-1e5, 1e5});
  disturbance.finish();
  read_stage(section.section("stage"), scenario.stage, scenario);
  section.each("faults", [&](const YAML::Node& item, const std::string& path) {
    read_fault(item, path, scenario, mistakes);
  });
  section.section("bench");  // tests/bench/stillness reads it
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
  Mistakes mistakes;
  Scenario scenario;
  if (const auto root = yaml::read_document(text, mistakes))
    scenario = read_scenario(*root, mistakes);
  if (!mistakes.empty()) throw ScenarioError(mistakes.report(name));
  return scenario;
}

Scenario load_scenario(const std::filesystem::path& file) {
  Mistakes mistakes;
  const auto text = yaml::read_file(file, mistakes);
  if (!text) throw ScenarioError(mistakes.report(file.string()));
  return load_scenario_text(*text, file.string());
}

}  // namespace driftd::simulator
