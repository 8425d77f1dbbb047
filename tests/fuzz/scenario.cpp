// SPDX-License-Identifier: MIT
// The simulator's scenario, and the world that it makes of one.
#include "simulator/scenario.hpp"

#include <cmath>

#include "fuzz/fuzz.hpp"
#include "fuzz/option_table.hpp"
#include "simulator/simulation.hpp"

namespace driftd::fuzz {
namespace {

using namespace simulator;

/// Exposes a frame, where the sensor does not take long.
void expose(const Scenario& scenario) {
  const CameraModel& camera = scenario.camera;
  if (camera.width_px * camera.height_px > 4096 || scenario.markers.count > 20) return;
  Simulation world(scenario);
  SensorSettings settings;
  settings.width_px = camera.width_px;
  settings.height_px = camera.height_px;
  settings.exposure_us = 1000;
  std::vector<std::uint16_t> levels(settings.pixels());
  for (int frame = 0; frame < 3; ++frame) {
    const Truth truth = world.expose(frame * std::int64_t{2'000'000}, settings, levels.data());
    for (const Vec2 place : {truth.sample_nm, truth.disturbance_nm, truth.stage_nm})
      require(std::isfinite(place.x) && std::isfinite(place.y), "the world's places are finite");
    require(std::isfinite(truth.sample_z_nm), "the world's height is finite");
    const unsigned most = (1U << static_cast<unsigned>(camera.bit_depth)) - 1;
    for (const std::uint16_t level : levels) require(level <= most, "levels have their bits");
  }
}

}  // namespace

void scenario(Bytes bytes) {
  const std::string text = text_of(bytes);
  Scenario read;
  try {
    read = load_scenario_text(text, kFile);
  } catch (const ScenarioError& error) {
    return check_refusal(error.what(), text);
  }
  try {
    expose(read);
  } catch (const ScenarioError& error) {  // markers that find no room
    require(error.what()[0] != '\0', "a refusal says something");
  }
}

}  // namespace driftd::fuzz
