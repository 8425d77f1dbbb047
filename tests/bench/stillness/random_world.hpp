// SPDX-License-Identifier: MIT
// Worlds at random: a stage of any kind, a camera, a sample that drifts and shakes, and what the
// daemon believes of the stage, right or wrong. The same seed gives the same world.
#pragma once

#include <cstdint>
#include <string>

#include "tests/bench/stillness/world.hpp"

namespace driftd::stillness {

/// What the daemon is told of the stage.
enum class Described : std::uint8_t { Right, Defaults, Short, Long, FirstOrder };
const char* name_of(Described described);

/// What is wrong with the stage besides, from the start or from some time on.
enum class StageFault : std::uint8_t {
  None,
  Stuck,
  OneStuck,
  Reversed,
  OneReversed,
  Swapped,
  Turned
};
const char* name_of(StageFault fault);

struct RandomWorld {
  World world;
  Described described = Described::Right;
};
/// Stages of 8 to 300 Hz, damping 0.2 to 1, dead time 1 to 20 ms, gain 0.8 to 1.25; 100 to 1000
/// frames/s; 4 to 25 markers of 3e3 to 1e5 photons; drift up to 8 nm/s, one of three sets of lines.
RandomWorld random_world(std::uint64_t seed);
/// All is described as it is, the gain too.
void describe_right(RandomWorld& random);
/// A fault of the seed's own, from the start. @returns which
StageFault add_fault(World& world, std::uint64_t seed);
/// One within the second after a law begins to act: the stage stands still for a second or for
/// good, goes the other way, or turns by a right angle. @returns its name
std::string add_early_fault(World& world, std::uint64_t seed);

}  // namespace driftd::stillness
