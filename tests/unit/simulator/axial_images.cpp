// SPDX-License-Identifier: MIT
// driftd_axial_images SCENARIO SIDE X Y Z...: what of a spot's light falls into each of SIDE * SIDE
// pixels, for a spot at (X, Y) from the middle of the first and each height Z (nm): a line of JSON
// a height. test_axial_images.py holds them against calculations of its own.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>

#include "support/axial_scene.hpp"

int main(int argc, char** argv) {
  using namespace driftd;
  if (argc < 6) return 2;
  try {
    const simulator::Scenario scenario = simulator::load_scenario(argv[1]);
    const test::AxialScene scene(scenario.optics, 0, 0);
    for (int i = 5; i < argc; ++i) {
      simulator::Spot spot;
      spot.x_px = std::atof(argv[3]);
      spot.y_px = std::atof(argv[4]);
      spot.electrons = 1;
      spot.z_nm = std::atof(argv[i]);
      std::puts(nlohmann::json(scene.expected({&spot, 1}, std::atoi(argv[2]))).dump().c_str());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
