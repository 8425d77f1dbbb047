// SPDX-License-Identifier: MIT
// A lock of a slow camera does not follow vibrations that only look slow.
#include "support/catch.hpp"
#include "tests/bench/stillness/alias_worlds.hpp"
#include "tests/bench/stillness/pilot.hpp"

namespace {

using namespace driftd::stillness;

struct Means {
  std::array<double, kAliasScalesMs.size()> none{}, pi{}, automatic{};
};

Means flown(std::uint64_t seed, AliasDrift drift) {
  const World world = make_alias_world(seed, {.drift = drift});
  const auto by = [&](const char* law) { return means_nm(fly(world, law, seed), true); };
  return {by(kNoLaw), by("pi"), by("auto")};
}

TEST_CASE("a sample at rest is left at rest, whatever its vibrations look like") {
  // 37 and 11 frames/s. Followed, they moved by 0.45 and 0.11 nm over 100 ms, and by 0.05 and 0.08
  // over a second.
  for (const std::uint64_t seed : {4U, 10U}) {
    CAPTURE(seed);
    const Means means = flown(seed, AliasDrift::None);
    CHECK(means.automatic[0] < 1.1 * means.none[0]);
    CHECK(means.automatic[1] < 1.1 * means.none[1] + 0.05);
    CHECK(means.automatic[2] < 1.1 * means.none[2] + 0.03);
  }
}

TEST_CASE("a sample at rest is left at rest where a slower frame rate tells aliases") {
  World world = make_alias_world(3, {.rate_hz = 100});
  const double none_nm = means_nm(fly(world, kNoLaw, 3), true)[0];
  CHECK(means_nm(fly(world, "auto", 3), true)[0] < 1.1 * none_nm);
  world.camera_obeys = false;  // then they are followed
  CHECK(means_nm(fly(world, "auto", 3), true)[0] > 1.5 * none_nm);
}

TEST_CASE("beside vibrations that look slow a drift is followed no worse than by PI") {
  for (const std::uint64_t seed : {3U, 4U}) {
    CAPTURE(seed);
    const Means means = flown(seed, AliasDrift::Ramp);
    for (std::size_t i = 0; i < kAliasScalesMs.size(); ++i) {
      CHECK(means.automatic[i] < 1.02 * means.pi[i]);
      CHECK(means.automatic[i] < 0.75 * means.none[i]);
    }
  }
}

}  // namespace
