// SPDX-License-Identifier: MIT
// How locks fare on stages that they were told wrongly of: random worlds in virtual time, the same
// bits each time (tests/bench/stillness/README.md).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/bench/stillness/bound.hpp"
#include "tests/bench/stillness/in_order.hpp"
#include "tests/bench/stillness/measures.hpp"
#include "tests/bench/stillness/random_world.hpp"
#include "tests/bench/stillness/run.hpp"

namespace {

using namespace driftd::stillness;

struct Options {
  int worlds = 40;
  int first = 1;
  int jobs = 1;
  int driver_frames = 1;
  double seconds = 40;
  std::string law = "auto";
  bool fixed_rate = false;
  bool today = false;
  bool faults = false, early = false;
  bool no_pi = false;
  bool told_right = false;
  bool found = false;
};

double bound_of(const World& world, double noise_nm) {
  const double limit_nm = change_limit_nm(world);
  const auto axis_nm = [&](bool y) {
    return find_bound(AxisModel(physics_of(world, y, noise_nm)), limit_nm).residual_nm;
  };
  return std::sqrt((std::pow(axis_nm(false), 2) + std::pow(axis_nm(true), 2)) / 2);
}

struct Flown {
  double ratio, acting_share, acts_s, driven_nm;
  int alarms;
  std::string stage_found, alarm_looks;
};

Flown fly_one(const World& world, const std::string& law, std::uint64_t seed) {
  const Flight flight = fly(world, law, seed);
  const double bound_nm = bound_of(world, flight.noise_nm);
  const Measures m = measure(flight, {bound_nm, bound_nm});
  return {m.rms_nm / bound_nm, flight.acting_share, flight.acts_s,     flight.driven_nm,
          flight.alarms,       flight.stage_found,  flight.alarm_looks};
}

void print_world(const RandomWorld& random) {
  const auto& s = random.world.scenario;
  std::printf("| %5s | %-8s | %5.0f | %4.2f | %5.1f | %4.2f %4.2f | %5.0f | %2d | %6.0f | %zu |",
              random.world.name.c_str(), name_of(random.described), s.stage.frequency_hz,
              s.stage.damping, s.stage.delay_ms, s.stage.axis_gain[0], s.stage.axis_gain[1],
              s.camera.rate_hz, s.markers.count, s.markers.photons, s.disturbance_x.sines.size());
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Lock {
  RandomWorld random;
  Flown flown, pi;
};

Lock fly_world(const Options& options, int i) {
  const auto seed = static_cast<std::uint64_t>(options.first + i);
  Lock lock{.random = random_world(seed), .flown = {}, .pi = {}};
  if (options.told_right) describe_right(lock.random);
  World& world = lock.random.world;
  world.acquaint = !options.today;
  world.judgement.seconds = options.seconds;
  world.driver_frames = options.driver_frames;
  world.camera_obeys = !options.fixed_rate;
  lock.flown = fly_one(world, options.law, seed);
  if (!options.no_pi) lock.pi = fly_one(world, "pi", seed);
  return lock;
}

void fly_worlds(const Options& options) {
  std::puts(
      "| world | told | Hz | damping | dead ms | gain | fps | markers | photons | lines | locked % "
      "| "
      "ratio | acts s | driven nm | PI locked % | PI ratio |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | "
      "--- |");
  int locked = 0, near = 0, worse = 0, pi_locked = 0, alarmed = 0, alarms = 0;
  double largest_drive_nm = 0;
  std::vector<double> ratios, acts;
  const auto tell = [&](const Lock& lock) {
    const Flown &flown = lock.flown, &pi = lock.pi;
    locked += flown.acting_share >= 0.97;
    pi_locked += pi.acting_share >= 0.97;
    near += flown.ratio <= 1.3;
    worse += !options.no_pi && pi.acting_share >= 0.97 &&
             !(flown.ratio <= 1.05 * pi.ratio && flown.acting_share >= 0.97);
    ratios.push_back(std::isfinite(flown.ratio) ? flown.ratio : 1e9);
    acts.push_back(flown.acts_s);
    largest_drive_nm = std::max(largest_drive_nm, flown.driven_nm);
    alarmed += flown.alarms > 0;
    alarms += flown.alarms;
    print_world(lock.random);
    std::printf(" %5.1f | %6.2f | %5.2f | %5.1f | %5.1f | %6.2f |\n", 100 * flown.acting_share,
                flown.ratio, flown.acts_s, flown.driven_nm, 100 * pi.acting_share, pi.ratio);
    if (options.found)
      std::printf("  found %s; alarms %d:%s\n", flown.stage_found.c_str(), flown.alarms,
                  flown.alarm_looks.c_str());
    std::fflush(stdout);
  };
  in_order(
      options.worlds, options.jobs, [&](int i) { return fly_world(options, i); }, tell);
  std::sort(acts.begin(), acts.end());
  std::printf(
      "%d worlds: locked 97 %% from 5 s on: %d (PI %d); within 1.3: %d; worse than PI by 5 %%: %d; "
      "median ratio %.2f, largest %.2f; acts after %.1f s, at most %.1f; driven at most %.1f nm; "
      "held for the stage in %d, %d times in %.1f h\n",
      options.worlds, locked, pi_locked, near, worse, median(ratios),
      *std::max_element(ratios.begin(), ratios.end()), median(acts), acts.back(), largest_drive_nm,
      alarmed, alarms, options.worlds * options.seconds / 3600);
}

struct FaultyLock {
  RandomWorld random;
  std::string fault;
  Flight flight;
};

FaultyLock fly_fault(const Options& options, int i) {
  const auto seed = static_cast<std::uint64_t>(options.first + i);
  FaultyLock lock{.random = random_world(seed), .fault = {}, .flight = {}};
  if (options.told_right) describe_right(lock.random);
  World& world = lock.random.world;
  world.acquaint = !options.today;
  world.judgement.seconds = 12;
  world.judgement.learn_s = 4;
  lock.fault = options.early ? add_early_fault(world, seed) : name_of(add_fault(world, seed));
  lock.flight = fly(world, options.law, seed);
  return lock;
}

void fly_faults(const Options& options) {
  std::puts(
      "| world | told | Hz | damping | dead ms | gain | fps | markers | photons | lines | fault | "
      "alarm s | driven nm at it | in all |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
  int found = 0, far = 0;
  double latest_s = 0, farthest_nm = 0;
  const auto tell = [&](const FaultyLock& lock) {
    const Flight& flight = lock.flight;
    found += flight.alarm_s >= 0;
    far += flight.driven_nm > 50;
    latest_s = std::max(latest_s, flight.alarm_s);
    farthest_nm = std::max(farthest_nm, flight.driven_nm);
    print_world(lock.random);
    std::printf(" %-9s | %5.2f | %5.1f | %5.1f |\n", lock.fault.c_str(), flight.alarm_s,
                flight.driven_at_alarm_nm, flight.driven_nm);
    std::fflush(stdout);
  };
  in_order(
      options.worlds, options.jobs, [&](int i) { return fly_fault(options, i); }, tell);
  std::printf(
      "%d faults: found %d, after %.2f s at most; driven more than 50 nm: %d, at most %.1f\n",
      options.worlds, found, latest_s, far, farthest_nm);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"How locks fare on stages that they were told wrongly of"};
  app.add_option("--worlds", options.worlds, "so many")->check(CLI::Range(1, 100'000));
  app.add_option("--first", options.first, "seed of the first")->check(CLI::Range(1, 1'000'000));
  app.add_option("--jobs", options.jobs, "worlds at a time")->check(CLI::Range(1, 1024));
  app.add_option("--driver-frames", options.driver_frames,
                 "the stage's driver takes one correction in so many frames, and does not say so")
      ->check(CLI::Range(1, 1000));
  app.add_option("--seconds", options.seconds, "of lock in each world, of which 20 are not judged")
      ->check(CLI::Range(21., 1e5));
  app.add_option("--law", options.law)->check(CLI::IsMember({"auto", "observer", "pi"}));
  app.add_flag("--fixed-rate", options.fixed_rate,
               "the camera keeps its frame rate: lines that may be aliases are not verified");
  app.add_flag("--no-acquaintance", options.today, "the lock corrects at once, as it was told");
  app.add_flag("--faults", options.faults, "the stage has a fault from the start");
  app.add_flag("--early-faults", options.early,
               "it gets one within the second after a law begins to act");
  app.add_flag("--right", options.told_right, "all stages are described as they are");
  app.add_flag("--found", options.found, "with what was found of each stage");
  app.add_flag("--no-pi", options.no_pi, "without PI's flights beside");
  CLI11_PARSE(app, argc, argv);
  try {
    options.faults || options.early ? fly_faults(options) : fly_worlds(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "driftd_strangers_bench: %s\n", error.what());
    return 2;
  }
  return 0;
}
