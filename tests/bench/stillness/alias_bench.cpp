// SPDX-License-Identifier: MIT
// Whether a lock follows motion that is not there: lines above half the frame rate, by truth
// (tests/bench/stillness/README.md). Virtual time, the same bits each time.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/stillness/alias_worlds.hpp"
#include "tests/bench/stillness/in_order.hpp"
#include "tests/bench/stillness/pilot.hpp"

namespace {

using namespace driftd::stillness;

constexpr std::size_t kScales = kAliasScalesMs.size();
using Means = std::array<double, kScales>;

struct Options {
  int first = 1, worlds = 20, jobs = 1;
  double rate_hz = 0;
  std::string drift = "none";
  bool slow_line = false, no_aliases = false;
};

struct Row {
  Means none, pi, fixed, automatic;  ///< fixed: the camera keeps its rate, whatever it is asked
  double locked = 0;
  std::array<double, 2> gains{};  ///< of the stage, as the observer learnt them; 1 is true
};

Row fly_all(const World& world, std::uint64_t seed) {
  const auto judged = [&](const Flight& flight) { return means_nm(flight, true); };
  const Flight automatic = fly(world, "auto", seed);
  World with_fixed_rate = world;
  with_fixed_rate.camera_obeys = false;
  return {.none = judged(fly(world, kNoLaw, seed)),
          .pi = judged(fly(world, "pi", seed)),
          .fixed = judged(fly(with_fixed_rate, "auto", seed)),
          .automatic = judged(automatic),
          .locked = automatic.locked_share,
          .gains = {automatic.stage_errors[0].gain, automatic.stage_errors[1].gain}};
}

void print(const World& world, const Row& row) {
  std::printf("%-10s %6.1f/s %3.0f %%", world.name.c_str(), world.scenario.camera.rate_hz,
              1e-4 * world.scenario.camera.exposure_us * world.scenario.camera.rate_hz);
  for (const Means* means : {&row.none, &row.pi, &row.fixed, &row.automatic}) {
    std::printf(" |");
    for (const double nm : *means) std::printf(" %6.3f", nm);
  }
  std::printf(" | %5.1f %% %.2f %.2f  ", 100 * row.locked, row.gains[0], row.gains[1]);
  for (const auto& sine : world.scenario.disturbance_x.sines)
    std::printf(" %.2f@%.1f", sine.amplitude_nm, sine.frequency_hz);
  std::puts("");
  std::fflush(stdout);
}

struct Law {
  const char* name;
  Means Row::*means;
};

/// At each scale: the share of worlds that keep to `times` the other law's motion and `more_nm`.
void tell(const std::vector<Row>& rows, const Law& law, const Law& other, double times,
          double more_nm) {
  std::printf("%s at most %.2f times %s and %.2f nm:", law.name, times, other.name, more_nm);
  int all_kept = 0;
  std::array<int, kScales> kept{};
  std::array<std::vector<double>, kScales> ratios;
  for (const Row& row : rows) {
    bool all = true;
    for (std::size_t i = 0; i < kScales; ++i) {
      const bool keeps = (row.*law.means)[i] <= times * (row.*other.means)[i] + more_nm;
      kept[i] += keeps ? 1 : 0;
      all = all && keeps;
      ratios[i].push_back((row.*law.means)[i] / (row.*other.means)[i]);
    }
    all_kept += all ? 1 : 0;
  }
  for (std::size_t i = 0; i < kScales; ++i) {
    std::sort(ratios[i].begin(), ratios[i].end());
    std::printf("  %d ms: %d of %zu (median %.2f, largest %.2f)", kAliasScalesMs[i], kept[i],
                rows.size(), ratios[i][rows.size() / 2], ratios[i].back());
  }
  std::printf("  all: %d\n", all_kept);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Whether a lock follows motion that is not there"};
  app.add_option("--first", options.first, "seed of the first world")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--worlds", options.worlds)->check(CLI::Range(1, 10000));
  app.add_option("--drift", options.drift, "none; ramp")->check(CLI::IsMember({"none", "ramp"}));
  app.add_flag("--slow-line", options.slow_line, "a slow line, too, that is there");
  app.add_option("--rate", options.rate_hz, "frames a second of all; 0: of 5 to 100, each its own")
      ->check(CLI::Range(0., 10000.));
  app.add_option("--jobs", options.jobs, "worlds at a time")->check(CLI::Range(1, 1024));
  app.add_flag("--no-aliases", options.no_aliases, "no line above half the frame rate");
  CLI11_PARSE(app, argc, argv);
  std::puts(
      "world, frames/s, exposure | 10, 100, 1000 ms means, nm: none | PI | auto, camera at a fixed "
      "rate | auto | "
      "locked, gains");
  std::vector<Row> rows;
  try {
    const auto make = [&](int i) {
      const auto seed = static_cast<std::uint64_t>(options.first + i);
      const World world = make_alias_world(
          seed, {.drift = options.drift == "none" ? AliasDrift::None : AliasDrift::Ramp,
                 .slow_line = options.slow_line,
                 .aliases = !options.no_aliases,
                 .rate_hz = options.rate_hz});
      return std::pair(world, fly_all(world, seed));
    };
    in_order(options.worlds, options.jobs, make, [&](const std::pair<World, Row>& flown) {
      rows.push_back(flown.second);
      print(flown.first, flown.second);
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "driftd_alias_bench: %s\n", error.what());
    return 2;
  }
  const Law none{"unlocked", &Row::none}, pi{"PI", &Row::pi};
  for (const Law& law : {Law{"auto at a fixed rate", &Row::fixed}, Law{"auto", &Row::automatic}}) {
    tell(rows, law, none, 1.1, 0);
    tell(rows, law, none, 1.1, 0.05);
    tell(rows, law, pi, 1.0, 0);
    tell(rows, law, pi, 1.05, 0);
  }
  return 0;
}
