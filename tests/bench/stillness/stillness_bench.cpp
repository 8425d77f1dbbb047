// SPDX-License-Identifier: MIT
// How near a control law comes to the stillness that physics allows, world by world
// (tests/bench/stillness/README.md). Virtual time, no network, the same bits each time.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/source_dir.hpp"
#include "tests/bench/stillness/bound.hpp"
#include "tests/bench/stillness/margins.hpp"
#include "tests/bench/stillness/measures.hpp"
#include "tests/bench/stillness/pilot.hpp"
#include "tests/bench/stillness/run.hpp"
#include "tests/bench/stillness/world.hpp"

namespace {

using namespace driftd::stillness;
using nlohmann::json;

struct Options {
  std::vector<std::string> worlds;
  std::vector<std::string> laws = {"pi"};
  int seeds = 5;
  int seconds = 0;
  std::string json_path;
  bool spectra = false;
  bool fitted = false;
  bool margins = false;
  bool no_reputation = false;
  bool fixed_rate = false;
  bool acquaint = false;
};

struct Bounds {
  Bound x, y;
  double both_nm() const {
    return std::sqrt((x.residual_nm * x.residual_nm + y.residual_nm * y.residual_nm) / 2);
  }
};

Bounds bounds_of(const World& world, double noise_nm) {
  const double limit_nm = change_limit_nm(world);
  return {.x = find_bound(AxisModel(physics_of(world, false, noise_nm)), limit_nm),
          .y = find_bound(AxisModel(physics_of(world, true, noise_nm)), limit_nm)};
}

json told(const Bound& b) {
  return {{"residual_nm", b.residual_nm},
          {"change_nm", b.change_nm},
          {"penalty", b.penalty},
          {"lines_nm", b.lines_nm},
          {"blind_nm", b.blind_nm}};
}

json told(const AxisMeasures& m, bool spectra) {
  json axis = {{"rms_nm", m.rms_nm},
               {"p50_nm", m.p50_nm},
               {"p95_nm", m.p95_nm},
               {"p99_nm", m.p99_nm},
               {"max_nm", m.max_nm}};
  json allan = json::array();
  for (const AllanPoint& p : m.allan) allan.push_back({p.tau_s, p.deviation_nm});
  axis["allan_s_nm"] = allan;
  if (spectra) axis["spectrum_nm2_per_hz"] = m.spectrum.density;
  return axis;
}

struct Sum {
  double ratio = 0, worst = std::numeric_limits<double>::quiet_NaN();
  double rms_nm = 0, p99_nm = 0, change_nm = 0, learnt_s = 0, settled_s = 0;
  double coverage = 0, locked = 0, foretold = 0;
};

/// The later of two times of which one below 0 is never.
double later(double a, double b) {
  return a < 0 || b < 0 ? -1 : std::max(a, b);
}

void print_head() {
  std::puts(
      "| world                      | law      | bound nm | rms nm | ratio | worst | p99 nm | move "
      "nm |"
      " learnt s | settled ms | coverage | foretold | locked % |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
}

/// With so many decimals.
std::string text_of(double value, int decimals) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

void print_row(const World& world, const std::string& law, double bound_nm, const Sum& s) {
  const std::string learnt = s.learnt_s < 0 ? "never" : text_of(s.learnt_s, 1);
  const std::string settled = s.settled_s < 0   ? "never"
                              : s.settled_s > 0 ? text_of(1e3 * s.settled_s, 0)
                                                : "-";
  const std::string foretold = s.foretold > 0 ? text_of(s.foretold, 2) : "-";
  std::printf(
      "| %-26s | %-8s | %8.3f | %6.3f | %5.2f | %5.2f | %6.2f | %7.3f | %8s | %10s | %8.2f | %8s | "
      "%8.1f |\n",
      world.title.c_str(), law.c_str(), bound_nm, s.rms_nm, s.ratio, s.worst, s.p99_nm, s.change_nm,
      learnt.c_str(), settled.c_str(), s.coverage, foretold.c_str(), 100 * s.locked);
  std::fflush(stdout);
}

json fly_world(const World& world, const std::string& law, const Options& options) {
  std::vector<Flight> flights;
  double noise_nm = 0;
  for (int seed = 1; seed <= options.seeds; ++seed) {
    flights.push_back(fly(world, law, static_cast<std::uint64_t>(seed)));
    noise_nm += flights.back().noise_nm / options.seeds;
  }
  const Bounds bounds = bounds_of(world, noise_nm);
  Sum sum;
  json seeds = json::array();
  for (const Flight& flight : flights) {
    const Measures m = measure(flight, {bounds.x.residual_nm, bounds.y.residual_nm});
    const double n = options.seeds, ratio = m.rms_nm / bounds.both_nm();
    sum.ratio += ratio / n;
    sum.worst = std::fmax(sum.worst, ratio);
    sum.rms_nm += m.rms_nm / n;
    sum.p99_nm += (m.axes[0].p99_nm + m.axes[1].p99_nm) / 2 / n;
    sum.change_nm += m.change_nm / n;
    sum.learnt_s = later(sum.learnt_s, m.learnt_after_s);
    sum.settled_s = later(sum.settled_s, m.settled_s);
    sum.coverage += flight.normalised2 / n;
    sum.locked += flight.locked_share / n;
    const double foretold = std::sqrt(flight.foretold_nm2) / m.rms_nm;
    sum.foretold += foretold / n;
    seeds.push_back({{"rms_nm", m.rms_nm},
                     {"ratio", ratio},
                     {"change_nm", m.change_nm},
                     {"learnt_after_s", m.learnt_after_s},
                     {"settled_s", m.settled_s},
                     {"coverage", flight.normalised2},
                     {"foretold", foretold},
                     {"locked_share", flight.locked_share},
                     {"frames_held", flight.frames_held},
                     {"noise_nm", flight.noise_nm},
                     {"x", told(m.axes[0], options.spectra)},
                     {"y", told(m.axes[1], options.spectra)}});
  }
  print_row(world, law, bounds.both_nm(), sum);
  return {{"world", world.name},
          {"title", world.title},
          {"law", law},
          {"noise_nm", noise_nm},
          {"bound_nm", bounds.both_nm()},
          {"bound", {{"x", told(bounds.x)}, {"y", told(bounds.y)}}},
          {"ratio", sum.ratio},
          {"worst_ratio", sum.worst},
          {"rms_nm", sum.rms_nm},
          {"change_nm", sum.change_nm},
          {"learnt_after_s", sum.learnt_s},
          {"settled_s", sum.settled_s},
          {"coverage", sum.coverage},
          {"foretold", sum.foretold},
          {"locked_share", sum.locked},
          {"seeds", seeds}};
}

/// The smallest of all seeds.
json margins_of(const World& world, const std::string& law, const Options& options) {
  Margins least{.gain = kMostGain, .late_ms = kMostLateMs};
  for (int seed = 1; seed <= options.seeds; ++seed) {
    const auto bound_nm = [&](double noise_nm) { return bounds_of(world, noise_nm).both_nm(); };
    const Margins m = find_margins(world, law, static_cast<std::uint64_t>(seed), bound_nm);
    least.gain = std::min(least.gain, m.gain);
    least.late_ms = std::min(least.late_ms, m.late_ms);
  }
  std::printf("| %-26s | %-14s | %5.1f | %7.1f |\n", world.title.c_str(), law.c_str(), least.gain,
              least.late_ms);
  std::fflush(stdout);
  return {{"world", world.name},
          {"title", world.title},
          {"law", law},
          {"gain", least.gain},
          {"late_ms", least.late_ms}};
}

std::vector<World> load_worlds(const Options& options) {
  const std::filesystem::path folder = driftd::test::source_dir() / "tests/bench/stillness/worlds";
  std::vector<std::filesystem::path> files;
  for (const std::string& name : options.worlds)
    files.push_back(std::filesystem::exists(name) ? std::filesystem::path(name)
                                                  : folder / (name + ".yaml"));
  if (files.empty()) {
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().extension() == ".yaml") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
  }
  std::vector<World> worlds;
  for (const auto& file : files) {
    worlds.push_back(load_world(file));
    worlds.back().fitted = options.fitted;
    worlds.back().remembering = !options.no_reputation;
    worlds.back().camera_obeys = !options.fixed_rate;
    worlds.back().acquaint = options.acquaint;
    if (options.seconds > 0) {
      worlds.back().judgement.seconds = options.seconds;
      worlds.back().judgement.learn_s =
          std::min(worlds.back().judgement.learn_s, options.seconds / 3.0);
    }
  }
  return worlds;
}

void write(const std::string& path, const json& all) {
  std::ofstream file(path);
  file << all.dump(1) << '\n';
  if (!file.flush()) throw std::runtime_error(path + " cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"How near a control law comes to the stillness that physics allows"};
  app.add_option("worlds", options.worlds, "names in tests/bench/stillness/worlds, or files; all");
  app.add_option("--law", options.laws,
                 "pi; pi-alone: without the supervisor; observer-alone: the observer; best: the "
                 "bound's own controller")
      ->allow_extra_args(false)
      ->check(CLI::IsMember(law_names()));
  app.add_option("--seeds", options.seeds)->check(CLI::Range(1, 1000));
  app.add_option("--seconds", options.seconds,
                 "of lock, instead of the worlds' own; a third learns")
      ->check(CLI::Range(3, 1'000'000));
  app.add_option("--json", options.json_path, "write everything here");
  app.add_flag("--spectra", options.spectra, "with spectra");
  app.add_flag("--margins", options.margins,
               "how far the stage's gain and dead time may be off, what was learnt being kept");
  app.add_flag("--acquaint", options.acquaint,
               "a lock (but by PI) gets to know its stage before it corrects");
  app.add_flag("--fitted", options.fitted, "draw each marker's ROI and fit it: slower by far");
  app.add_flag(
      "--no-reputation", options.no_reputation,
      "trust each frame alone: no marker is known by its past, and witnesses stay witnesses");
  app.add_flag("--fixed-rate", options.fixed_rate,
               "the camera keeps its frame rate: lines that may be aliases are not verified");
  CLI11_PARSE(app, argc, argv);
  try {
    const std::vector<World> worlds = load_worlds(options);
    if (!options.json_path.empty()) write(options.json_path, {});  // what fails, fails at once
    json all = json::array();
    if (options.margins)
      std::puts("| world | law | gain x | later ms |\n| --- | --- | --- | --- |");
    else
      print_head();
    const auto figures = options.margins ? margins_of : fly_world;
    for (const World& world : worlds)
      for (const std::string& law : options.laws) all.push_back(figures(world, law, options));
    if (!options.json_path.empty()) write(options.json_path, all);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "driftd_stillness_bench: %s\n", error.what());
    return 2;
  }
  return 0;
}
