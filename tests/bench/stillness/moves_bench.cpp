// SPDX-License-Identifier: MIT
// What moves under lock do in the worlds of this folder: steps, and a tiling, judged by truth
// (README.md). Virtual time, no network, the same bits each time.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "support/source_dir.hpp"
#include "tests/bench/stillness/move_flight.hpp"
#include "tests/bench/stillness/pilot.hpp"
#include "tests/bench/stillness/world.hpp"

namespace {

using namespace driftd::stillness;

struct Options {
  std::vector<std::string> worlds = {"nominal"};
  std::string law = "pi";
  int seeds = 5;
  int tiles = 0;
  double pitch_nm = 500, speed_nm_per_s = 10'000, stay_s = 0.2;
  double step_limit_nm = 40, rate_limit_nm_per_s = 20'000, range_limit_nm = 20'000;
  double gain = 1, turn_deg = 0;
};

/// So many steps to and fro along one axis after the other.
std::vector<driftd::Vec2> steps(double length_nm) {
  return {{length_nm, 0},  {0, 0}, {0, length_nm},         {0, 0},
          {-length_nm, 0}, {0, 0}, {length_nm, length_nm}, {0, 0}};
}

struct Sum {
  std::size_t places = 0, never = 0, early = 0, never_in_lock = 0;
  std::vector<double> settled_ms, in_lock_ms, error_nm;
  double locked = 1, largest_step_nm = 0, rms2 = 0, seconds = 0;
  std::string reason;

  void add(const MoveFlight& flight) {
    for (const VisitedPlace& place : flight.places) {
      ++places;
      if (place.settled_s < 0)
        ++never;
      else
        settled_ms.push_back(1e3 * place.settled_s);
      if (place.in_lock_s < 0)
        ++never_in_lock;
      else
        in_lock_ms.push_back(1e3 * place.in_lock_s);
      if (place.early) ++early;
      error_nm.push_back(std::max(std::abs(place.error_nm.x), std::abs(place.error_nm.y)));
      rms2 += place.rms_nm * place.rms_nm;
    }
    locked = std::min(locked, flight.locked_share);
    largest_step_nm = std::max(largest_step_nm, flight.largest_step_nm);
    seconds += flight.seconds;
    if (!flight.reason.empty()) reason = flight.reason;
  }
};

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return -1;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

void fly_world(const std::string& name, const Options& o) {
  const std::filesystem::path folder = driftd::test::source_dir() / "tests/bench/stillness/worlds";
  const bool is_file = std::filesystem::exists(name);
  World world = load_world(is_file ? std::filesystem::path(name) : folder / (name + ".yaml"));
  world.belief.step_limit_nm = o.step_limit_nm;
  world.belief.rate_limit_nm_per_s = o.rate_limit_nm_per_s;
  world.belief.range_limit_nm = o.range_limit_nm;
  if (o.gain != 1) world.scenario.stage.axis_gain = {o.gain, o.gain};
  if (o.turn_deg != 0) world.scenario.stage.turn_deg = o.turn_deg;
  MoveScript script{.places_nm =
                        o.tiles > 0 ? tiling(o.tiles, o.tiles, o.pitch_nm) : steps(o.pitch_nm)};
  script.speed_nm_per_s = o.speed_nm_per_s;
  script.stay_s = o.stay_s;
  Sum sum;
  for (int seed = 1; seed <= o.seeds; ++seed)
    sum.add(fly_moves(world, script, o.law, static_cast<std::uint64_t>(seed)));
  std::printf(
      "| %-18s | %-4s | %6zu | %4.0f | %4.0f | %4.0f | %5zu | %4.0f | %4.0f | %5zu | %5.2f | %5.2f "
      "| %5.2f | %5.1f | %7.3f | %7.0f | %s%s\n",
      world.title.c_str(), o.law.c_str(), sum.places, percentile(sum.settled_ms, 0.5),
      percentile(sum.settled_ms, 0.95), percentile(sum.settled_ms, 1), sum.never,
      percentile(sum.in_lock_ms, 0.5), percentile(sum.in_lock_ms, 1), sum.never_in_lock,
      percentile(sum.error_nm, 0.5), percentile(sum.error_nm, 1),
      std::sqrt(sum.rms2 / static_cast<double>(sum.places)), sum.largest_step_nm, 100 * sum.locked,
      sum.seconds, sum.reason.c_str(), sum.early > 0 ? " EARLY" : "");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"What moves under lock do, by truth"};
  app.add_option("worlds", options.worlds, "names in tests/bench/stillness/worlds, or files");
  app.add_option("--law", options.law)->check(CLI::IsMember(law_names()));
  app.add_option("--seeds", options.seeds)->check(CLI::Range(1, 1000));
  app.add_option("--tiles", options.tiles, "so many squared, instead of eight steps");
  app.add_option("--pitch", options.pitch_nm, "nm: of a tile, or the length of a step");
  app.add_option("--speed", options.speed_nm_per_s, "nm/s");
  app.add_option("--stay", options.stay_s, "s at each place");
  app.add_option("--step-limit", options.step_limit_nm);
  app.add_option("--rate-limit", options.rate_limit_nm_per_s);
  app.add_option("--range-limit", options.range_limit_nm);
  app.add_option("--gain", options.gain, "of the stage, over the model's");
  app.add_option("--turn", options.turn_deg, "degrees that the stage is turned against the model");
  CLI11_PARSE(app, argc, argv);
  try {
    std::puts(
        "| world | law | places | settled ms p50 | p95 | max | never | in lock ms p50 | max | "
        "never | error nm p50 | max | rms nm | step nm | locked % | s |");
    for (const std::string& world : options.worlds) fly_world(world, options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "driftd_moves_bench: %s\n", error.what());
    return 2;
  }
  return 0;
}
