// SPDX-License-Identifier: MIT
#include "tests/bench/stillness/world.hpp"

#include <algorithm>

#include "base/yaml/document.hpp"
#include "base/yaml/section.hpp"

namespace driftd::stillness {
namespace {

void read_belief(yaml::Section section, Belief& b) {
  section.number("stage_delay_us", b.stage_delay_us, {0, 1e6});
  section.number("stage_time_constant_us", b.stage_time_constant_us, {0, 1e6});
  section.number("stage_resonance_hz", b.stage_resonance_hz, {0, 1e4});
  section.number("stage_damping", b.stage_damping, {0.01, 100});
  section.number("proportional", b.proportional, {-2, 2});
  section.number("integral", b.integral, {0, 2});
  section.number("step_limit_nm", b.step_limit_nm, {0.1, 1e6});
  section.number("rate_limit_nm_per_s", b.rate_limit_nm_per_s, {1, 1e9});
  section.number("range_limit_nm", b.range_limit_nm, {1, 1e9});
  section.integer("average_frames", b.average_frames, {1, 1000});
  section.integer("min_markers", b.min_markers, {1, 1000});
  section.number("latency_us", b.latency_us, {0, 1e6});
  section.number("latency_jitter_us", b.latency_jitter_us, {0, 1e6});
  section.number("witness_share", b.witness_share, {0, 0.5});
  section.number("rotate_witness_s", b.rotate_witness_s, {0, 1e6});
  section.finish();
}

void read_judgement(yaml::Section section, Judgement& j) {
  section.number("seconds", j.seconds, {1, 1e6});
  section.number("learn_s", j.learn_s, {0, 1e6});
  section.number("left_out_s", j.left_out_s, {0, 1e6});
  section.each("left_out_at_s", [&](const YAML::Node& item, const std::string& path) {
    if (const auto at = section.reader().number(path, item, {0, 1e6}))
      j.left_out_at_s.push_back(*at);
  });
  if (!(j.learn_s < j.seconds)) section.reject("learn_s", "less than judge.seconds");
  section.number("missing_share", j.missing_share, {0, 0.9});
  section.finish();
}

void read_axial(yaml::Section section, Axial& a) {
  section.number("noise_nm", a.noise_nm, {0.01, 100});
  section.number("told_share", a.told_share, {0.01, 100});
  section.integer("markers", a.markers, {1, 1000});
  section.number("max_jump_nm", a.max_jump_nm, {1, 1e6});
  section.number("max_drift_nm_per_s", a.max_drift_nm_per_s, {0, 1e6});
  section.finish();
}

/// It is there all the time, at its frequency: what the best command leaves of it is known.
bool is_steady(const simulator::Sine& sine) {
  const simulator::Sine always;
  return sine.from_s == always.from_s && sine.until_s == always.until_s &&
         sine.drift_share_per_s == 0;
}

}  // namespace

World load_world_text(const std::string& text, const std::string& name) {
  World world{.name = name, .title = name, .scenario = {}, .belief = {}, .judgement = {}};
  world.scenario = simulator::load_scenario_text(text, name);
  yaml::Mistakes mistakes;
  const auto root = yaml::read_document(text, mistakes);
  if (root && (*root)["bench"]) {
    yaml::Section bench((*root)["bench"], "bench", mistakes);
    bench.text("title", world.title);
    read_belief(bench.section("daemon"), world.belief);
    read_judgement(bench.section("judge"), world.judgement);
    if ((*root)["bench"]["axial"]) read_axial(bench.section("axial"), world.axial.emplace());
    bench.finish();
  }
  if (world.scenario.stage.image_to_stage != simulator::StageModel{}.image_to_stage)
    mistakes.add(yaml::place_of((*root)["stage"]["image_to_stage"]), "stage.image_to_stage",
                 "another matrix", "[1, 0, 0, 1]: the bound takes the axes one by one");
  if (!mistakes.empty()) throw simulator::ScenarioError(mistakes.report(name));
  return world;
}

World load_world(const std::filesystem::path& file) {
  yaml::Mistakes mistakes;
  const auto text = yaml::read_file(file, mistakes);
  if (!text) throw simulator::ScenarioError(mistakes.report(file.string()));
  World world = load_world_text(*text, file.string());
  world.name = file.stem().string();
  return world;
}

double change_limit_nm(const World& world) {
  const double period_s = 1 / world.scenario.camera.rate_hz;
  return std::min(world.belief.step_limit_nm, world.belief.rate_limit_nm_per_s * period_s) / 3;
}

AxisPhysics physics_of(const World& world, bool y_axis, double noise_nm) {
  const simulator::Scenario& s = world.scenario;
  y_axis = y_axis && !world.axial;
  simulator::AxisDisturbance known = y_axis ? s.disturbance_y : s.disturbance_x;
  std::erase_if(known.sines, [](const simulator::Sine& sine) { return !is_steady(sine); });
  return {.stage = s.stage,
          .gain = s.stage.axis_gain[y_axis ? 1 : 0],
          .disturbance = known,
          .rate_hz = s.camera.rate_hz,
          .exposure_us = s.camera.exposure_us,
          .latency_us = world.belief.latency_us + world.belief.latency_jitter_us,
          .noise_nm = noise_nm};
}

}  // namespace driftd::stillness
