// SPDX-License-Identifier: MIT
// The lock of z in simulated worlds that differ from what the daemon believes, judged by truth.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

#include "support/catch.hpp"
#include "support/source_dir.hpp"
#include "tests/bench/stillness/bound.hpp"
#include "tests/bench/stillness/measures.hpp"
#include "tests/bench/stillness/pilot.hpp"
#include "tests/bench/stillness/run.hpp"

namespace {

using namespace driftd::stillness;
using driftd::simulator::FaultKind;

const std::filesystem::path kWorlds =
    driftd::test::source_dir() / "tests/bench/stillness/worlds/axial";

World world_of(const std::string& name, double seconds = 30, double learn_s = 15) {
  World world = load_world(kWorlds / (name + ".yaml"));
  world.judgement.seconds = seconds;
  world.judgement.learn_s = learn_s;
  return world;
}

double bound_nm(const World& world) {
  return find_bound(AxisModel(physics_of(world, false, world.axial->noise_nm)),
                    change_limit_nm(world))
      .residual_nm;
}

double rms_nm(const Flight& flight) {
  return measure(flight, {1, 1}).rms_nm;
}

TEST_CASE("the bound of z is what its controller reaches") {
  for (const char* name : {"z_nominal", "z_objective", "z_dim"}) {
    CAPTURE(name);
    const World world = world_of(name, 45, 5);
    CHECK(rms_nm(fly(world, kBestLaw, 1)) == Approx(bound_nm(world)).epsilon(0.06));
  }
}

TEST_CASE("z is held near the bound and without a false alarm") {
  for (const char* name : {"z_nominal", "z_objective"}) {
    CAPTURE(name);
    const World world = world_of(name);
    const Flight flight = fly(world, "auto", 1);
    CHECK(rms_nm(flight) < 1.15 * bound_nm(world));  // 15 s tell an rms to some 2 %
    CHECK(flight.locked_share == 1);
    CHECK(flight.alarms == 0);
    CHECK(fly(world, "pi", 1).alarms == 0);
  }
}

TEST_CASE("z is held as still as it is meant to be, in all worlds", "[.full]") {
  int worlds = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kWorlds)) {
    CAPTURE(entry.path());
    const World world = load_world(entry.path());
    const Flight flight = fly(world, "auto", 1);
    CHECK(rms_nm(flight) < 1.25 * bound_nm(world));
    CHECK(flight.alarms == 0);
    ++worlds;
  }
  CHECK(worlds >= 11);
}

TEST_CASE("a stage of z that is dead or reversed is found, and another gain does no harm") {
  struct Case {
    FaultKind kind;
    double factor;
    bool found;
  };
  for (const Case& c :
       {Case{FaultKind::StageReversed, 1, true}, Case{FaultKind::StageDead, 1, true},
        Case{FaultKind::StageGain, 2.2, false}, Case{FaultKind::StageGain, 0.45, false}}) {
    World world = world_of("z_vibration", 20);
    world.fault = driftd::simulator::Fault{.kind = c.kind, .at_s = 12, .factor = c.factor};
    const Flight flight = fly(world, "auto", 1);
    CAPTURE(name_of(c.kind), c.factor, flight.alarm_looks);
    if (c.found) CHECK(flight.alarm_s > 12);
    CHECK(flight.driven_nm < 30);
  }
}

TEST_CASE("a stage of z that was stuck for a while is followed again") {
  World world = world_of("z_nominal", 24);
  world.fault = driftd::simulator::Fault{.kind = FaultKind::StageStuck, .at_s = 8, .seconds = 2};
  const Flight flight = fly(world, "auto", 1);
  CHECK(flight.alarms >= 1);
  CHECK(flight.locked_share == 1);  // from 15 s on
  CHECK(rms_nm(flight) < 1.3 * bound_nm(world));
}

TEST_CASE("a step of z is made up for where such jumps are allowed, and else held") {
  World world = world_of("z_step", 50, 45);
  CHECK(fly(world, "auto", 1).locked_share == 1);
  CHECK(rms_nm(fly(world, "auto", 1)) < 1.2 * bound_nm(world));
  world.axial->max_jump_nm = 150;
  const Flight held = fly(world, "auto", 1);
  CHECK(held.locked_share < 1);
  CHECK(held.driven_nm < 5);  // it is not followed
}

TEST_CASE("a lock of z finds out how its stage answers") {
  World world = world_of("z_wrong");
  world.acquaint = true;
  const Flight flight = fly(world, "auto", 1);
  CHECK(std::stod(flight.stage_found) == Approx(1.25).epsilon(0.05));
  CHECK(flight.alarms == 0);
  CHECK(rms_nm(flight) < 1.25 * bound_nm(world));
}

}  // namespace
