// SPDX-License-Identifier: MIT
// The lock of z in the worlds of worlds/axial: how still it holds against the bound, how soon a
// stage that does not follow is found, and how often one is doubted that does. Virtual time, the
// same bits each time. The figures of docs/measured/benchmarks.md.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/source_dir.hpp"
#include "tests/bench/stillness/bound.hpp"
#include "tests/bench/stillness/in_order.hpp"
#include "tests/bench/stillness/measures.hpp"
#include "tests/bench/stillness/pilot.hpp"
#include "tests/bench/stillness/run.hpp"

namespace {

using namespace driftd::stillness;
using driftd::simulator::Fault;
using driftd::simulator::FaultKind;

struct Options {
  std::vector<std::string> titles;
  int seeds = 5;
  double hours = 0.1;
  int jobs = 1;
  bool acquaint = false;
};

std::vector<World> load_worlds(const Options& options) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(
           driftd::test::source_dir() / "tests/bench/stillness/worlds/axial"))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<World> worlds;
  for (const auto& file : files) {
    World world = load_world(file);
    world.acquaint = options.acquaint;
    if (options.titles.empty() || std::ranges::count(options.titles, world.title) > 0)
      worlds.push_back(std::move(world));
  }
  return worlds;
}

void stillness(const std::vector<World>& worlds, const Options& options) {
  std::puts("| world | bound nm | auto nm | ratio | worst | pi nm | locked % | alarms |");
  std::puts("| --- | --- | --- | --- | --- | --- | --- | --- |");
  for (const World& world : worlds) {
    const double bound_nm = find_bound(AxisModel(physics_of(world, false, world.axial->noise_nm)),
                                       change_limit_nm(world))
                                .residual_nm;
    double auto_nm = 0, pi_nm = 0, worst = 0, locked = 0;
    int alarms = 0;
    for (int seed = 1; seed <= options.seeds; ++seed) {
      const Flight flight = fly(world, "auto", static_cast<std::uint64_t>(seed));
      const double rms_nm = measure(flight, {bound_nm, bound_nm}).rms_nm;
      auto_nm += rms_nm / options.seeds;
      worst = std::fmax(worst, rms_nm / bound_nm);
      locked += flight.locked_share / options.seeds;
      const Flight by_pi = fly(world, "pi", static_cast<std::uint64_t>(seed));
      pi_nm += measure(by_pi, {bound_nm, bound_nm}).rms_nm / options.seeds;
      alarms += flight.alarms + by_pi.alarms;
    }
    std::printf("| %s | %.3f | %.3f | %.2f | %.2f | %.3f | %.1f | %d |\n", world.title.c_str(),
                bound_nm, auto_nm, auto_nm / bound_nm, worst, pi_nm, 100 * locked, alarms);
    std::fflush(stdout);
  }
}

struct Named {
  const char* name;
  Fault fault;
};

/// Two seconds after 20 s of lock: the slowest and the farthest of the seeds.
void faults(const std::vector<World>& worlds, const std::string& law, const Options& options) {
  constexpr double kAtS = 20;
  const std::vector<Named> all = {
      {"stuck for 2 s", {.kind = FaultKind::StageStuck, .at_s = kAtS, .seconds = 2}},
      {"dead", {.kind = FaultKind::StageDead, .at_s = kAtS}},
      {"reversed", {.kind = FaultKind::StageReversed, .at_s = kAtS}},
      {"gain 0.45", {.kind = FaultKind::StageGain, .at_s = kAtS, .factor = 0.45}},
      {"gain 2.2", {.kind = FaultKind::StageGain, .at_s = kAtS, .factor = 2.2}},
  };
  std::printf("\n%s | found after s (not found of %d) | farthest nm\n", law.c_str(), options.seeds);
  for (World world : worlds) {
    world.judgement.seconds = kAtS + 8;
    std::printf("%-26s", world.title.c_str());
    for (const Named& named : all) {
      world.fault = named.fault;
      double slowest_s = 0, farthest_nm = 0;
      int missed = 0;
      for (int seed = 1; seed <= options.seeds; ++seed) {
        const Flight flight = fly(world, law, static_cast<std::uint64_t>(seed));
        const double begins_s = flight.acts_s - flight.engaged_s + kAtS;
        const bool found = flight.alarm_s >= begins_s;
        missed += found ? 0 : 1;
        if (found) slowest_s = std::max(slowest_s, flight.alarm_s - begins_s);
        farthest_nm = std::max(farthest_nm, flight.driven_nm);
      }
      std::printf(" | %s %.3f (%d) %.1f", named.name, slowest_s, missed, farthest_nm);
    }
    std::puts("");
    std::fflush(stdout);
  }
}

/// Locks of six minutes, each begun and learnt anew.
void false_alarms(const std::vector<World>& worlds, const std::string& law,
                  const Options& options) {
  constexpr double kLockS = 360;
  const auto locks = std::max(1, static_cast<int>(std::lround(options.hours * 3600 / kLockS)));
  std::printf("\nthe stage follows, %s, %d locks of %.0f s in each world\n", law.c_str(), locks,
              kLockS);
  int alarms = 0;
  const auto world_of = [&](int i) -> const World& {
    return worlds[static_cast<std::size_t>(i / locks)];
  };
  const auto seed_of = [&](int i) { return 1001 + i % locks; };
  const auto make = [&](int i) {
    World world = world_of(i);
    world.judgement.seconds = kLockS;
    world.judgement.left_out_at_s.clear();
    world.belief.range_limit_nm = 1e6;
    const Flight flight = fly(world, law, static_cast<std::uint64_t>(seed_of(i)));
    return std::tuple(i, flight.alarms, std::string(flight.alarm_looks));
  };
  in_order(locks * static_cast<int>(worlds.size()), options.jobs, make,
           [&](const std::tuple<int, int, std::string>& flown) {
             const auto& [i, found, looks] = flown;
             alarms += found;
             if (found > 0)
               std::printf("%s, seed %d: %s\n", world_of(i).title.c_str(), seed_of(i),
                           looks.c_str());
             std::fflush(stdout);
           });
  std::printf("%d alarms in %.1f h\n", alarms,
              locks * kLockS / 3600 * static_cast<double>(worlds.size()));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"The lock of z: stillness, faults and false alarms"};
  app.add_option("worlds", options.titles, "their titles; all");
  app.add_option("--seeds", options.seeds, "0: false alarms alone")->check(CLI::Range(0, 1000));
  app.add_option("--hours", options.hours, "of each world, for false alarms");
  app.add_option("--jobs", options.jobs, "of the locks for false alarms, at a time")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--acquaint", options.acquaint, "a lock by auto gets to know its stage first");
  CLI11_PARSE(app, argc, argv);
  try {
    const std::vector<World> worlds = load_worlds(options);
    if (options.seeds > 0) {
      stillness(worlds, options);
      for (const char* law : {"auto", "pi"}) faults(worlds, law, options);
    }
    if (options.hours > 0)
      for (const char* law : {"auto", "pi"}) false_alarms(worlds, law, options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "driftd_axial_lock_bench: %s\n", error.what());
    return 2;
  }
  return 0;
}
