// SPDX-License-Identifier: MIT
// The stage monitor in the simulated lock (tests/unit/control/stage_simulation.hpp): how near its
// doubt comes to an alarm while the stage follows, what becomes of the sample when it does not, and
// what a frame costs. The figures of docs/internals/stage-monitor.md.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "unit/control/stage_simulation.hpp"

namespace {

using namespace driftd::control;
using nlohmann::json;
using test::StageOutcome;
using test::StageSetup;
using test::World;

struct Options {
  double hours = 0.05, frame_rate_hz = 500;
  unsigned seeds = 4;
  std::string law = "pi", only;
  std::string json_path;
  std::map<std::string, driftd::stillness::Learnt> learnt;  ///< by world
};

std::vector<std::pair<std::string, World>> worlds() {
  return {{"nominal", test::nominal_world()},
          {"vibration", test::vibration_world()},
          {"quiet", test::quiet_world()},
          {"noisy", test::noisy_world()}};
}

StageSetup setup_in(const std::string& name, const World& world, const Options& options) {
  StageSetup setup;
  setup.observed = options.law == "observer";
  if (const auto learnt = options.learnt.find(name); learnt != options.learnt.end())
    setup.learnt = learnt->second;
  setup.world = world;
  setup.frame_rate_hz = options.frame_rate_hz;
  setup.idle_s = 5;
  return setup;
}

/// What the observer knows after 20 s in each world; it keeps to that afterwards, as between two
/// refits, so that hours take minutes.
void learn(Options& options) {
  for (const auto& [name, world] : worlds()) {
    StageSetup setup = setup_in(name, world, options);
    setup.seconds = setup.idle_s + 20;
    setup.guarded = false;
    const StageOutcome out = simulate(setup, 99);
    std::printf("%-10s learnt in 20 s: alarms %d, largest doubt %.1f\n", name.c_str(), out.alarms,
                out.largest_doubt);
    for (const auto& tuning : out.learnt)
      if (tuning)
        std::printf("%-10s %c: stage gain %.2f, %.2f ms later, lines %zu\n", name.c_str(),
                    tuning->axis == 0 ? 'x' : 'y', tuning->stage.gain, 1e3 * tuning->stage.late_s,
                    tuning->filter.model().line_count);
    options.learnt[name] = out.learnt;
  }
}

/// Frames whose doubt reached 2, 4, 6 .. while the stage followed.
json following(const Options& options) {
  json all;
  std::printf("the stage follows, %g h each\n", options.hours);
  for (const auto& [name, world] : worlds()) {
    StageSetup setup = setup_in(name, world, options);
    setup.seconds = 3600 * options.hours;
    setup.guarded = false;
    const StageOutcome out = simulate(setup, 1);
    json tail = json::array();
    for (std::size_t i = 0; i <= 20; i += 2) tail.push_back(out.doubt_tail[i]);
    std::printf("%-10s alarms %d, largest doubt %.1f, reached 2, 4 ..: %s\n", name.c_str(),
                out.alarms, out.largest_doubt, tail.dump().c_str());
    all[name] = {{"alarms", out.alarms}, {"largest_doubt", out.largest_doubt}, {"tail", tail}};
  }
  return all;
}

/// The stage described wrong: dead time x0.5, x1 or x1.5, gain 0.8 to 1.2, axes 10 degrees off.
json described_wrong(const Options& options) {
  json all;
  std::puts("the stage described moderately wrong, 27 ways, 60 s each");
  for (const auto& [name, world] : worlds()) {
    int alarms = 0;
    double largest = 0;
    for (const double delay : {0.5, 1.0, 1.5})
      for (const double gain : {0.8, 1.0, 1.2})
        for (const double degrees : {-10.0, 0.0, 10.0}) {
          StageSetup setup = setup_in(name, world, options);
          setup.learnt = {};
          setup.model.stage_delay_us *= delay;
          setup.fault = {.response = test::turned(degrees, gain), .begin_s = 0};
          setup.seconds = 60;
          const StageOutcome out = simulate(setup, 1);
          alarms += out.alarms;
          largest = std::max(largest, out.largest_doubt);
        }
    std::printf("%-10s alarms %d, largest doubt %.1f\n", name.c_str(), alarms, largest);
    all[name] = {{"alarms", alarms}, {"largest_doubt", largest}};
  }
  return all;
}

struct Fault {
  std::string name;
  ImageToStage response;
};

json fault_in(const std::string& name, const World& world, const Fault& fault, double begin_s,
              const Options& options) {
  double wait_s = 0, beyond_nm = 0, trust = 0;
  int missed = 0, resumes = 0;
  std::map<std::string, int> looks;
  for (unsigned seed = 1; seed <= options.seeds; ++seed) {
    StageSetup setup = setup_in(name, world, options);
    setup.fault = {.response = fault.response, .begin_s = begin_s};
    setup.seconds = std::max(begin_s, setup.idle_s) + 10;
    const StageOutcome out = simulate(setup, seed);
    if (out.alarms == 0) ++missed;
    resumes += out.resumes;
    looks[name_of(out.last_looks)]++;
    wait_s = std::max(wait_s, out.first_alarm_s - std::max(begin_s, setup.idle_s));
    beyond_nm = std::max(beyond_nm, out.beyond_drift_nm);
    trust = std::max(trust, out.largest_trust_held);
  }
  const json named = looks;
  std::printf(
      "%-10s %-9s %s missed %d, wait %.2f s, beyond the drift %.1f nm, trust %.1f, "
      "resumed %d, %s\n",
      name.c_str(), fault.name.c_str(), begin_s > 0 ? "later:" : "start:", missed, wait_s,
      beyond_nm, trust, resumes, named.dump().c_str());
  return {{"world", name},          {"fault", fault.name}, {"begin_s", begin_s},
          {"missed", missed},       {"wait_s", wait_s},    {"beyond_drift_nm", beyond_nm},
          {"largest_trust", trust}, {"resumes", resumes},  {"looks", named}};
}

json faults(const Options& options) {
  const std::vector<Fault> list = {{"stuck", {0, 0, 0, 0}},
                                   {"stuck x", {0, 0, 0, 1}},
                                   {"stuck y", {1, 0, 0, 0}},
                                   {"reversed", {-1, 0, 0, -1}},
                                   {"x reversed", {-1, 0, 0, 1}},
                                   {"y reversed", {1, 0, 0, -1}},
                                   {"swapped", {0, 1, 1, 0}},
                                   {"turned 60", test::turned(60)},
                                   {"turned 90", test::turned(90)},
                                   {"turned 120", test::turned(120)},
                                   {"gain 0.5", test::turned(0, 0.5)},
                                   {"gain 2", test::turned(0, 2)}};
  json all = json::array();
  std::printf("faults, worst of %u\n", options.seeds);
  for (const double begin_s : {0.0, 15.0})
    for (const auto& [name, world] : worlds())
      for (const Fault& fault : list) all.push_back(fault_in(name, world, fault, begin_s, options));
  return all;
}

json stuck_for_a_while(const Options& options) {
  json all = json::array();
  std::printf("stuck for a while, worst of %u\n", 10 * options.seeds);
  for (const auto& [name, world] : worlds())
    for (const double stuck_s : {0.3, 1.0}) {
      double beyond_nm = 0, back_s = 0;
      int not_locked = 0, alarms = 0;
      for (unsigned seed = 1; seed <= 10 * options.seeds; ++seed) {
        StageSetup setup = setup_in(name, world, options);
        const double begin_s = 15 + 0.013 * seed;
        setup.fault = {.begin_s = begin_s, .end_s = begin_s + stuck_s};
        setup.seconds = 20;
        const StageOutcome out = simulate(setup, seed);
        beyond_nm = std::max(beyond_nm, out.beyond_drift_nm);
        if (out.alarms > 0) back_s = std::max(back_s, out.first_resume_s - setup.fault.end_s);
        if (out.alarms > 0) ++alarms;
        if (!out.locked_at_end) ++not_locked;
      }
      std::printf(
          "%-10s %.1f s: noticed %d, beyond the drift %.1f nm, back after %.2f s, not locked %d\n",
          name.c_str(), stuck_s, alarms, beyond_nm, back_s, not_locked);
      all.push_back({{"world", name},
                     {"stuck_s", stuck_s},
                     {"noticed", alarms},
                     {"beyond_drift_nm", beyond_nm},
                     {"back_s", back_s},
                     {"not_locked", not_locked}});
    }
  return all;
}

/// The stage follows, but a busy computer's commands reach it late now and then.
json stalls(const Options& options) {
  json all = json::array();
  std::puts("commands stand still every 1.7 s, 100 s");
  for (const auto& [name, world] : worlds())
    for (const double stall_s : {0.01, 0.02, 0.04, 0.08}) {
      StageSetup setup = setup_in(name, world, options);
      setup.stall_s = stall_s;
      setup.stall_every_s = 1.7;
      setup.seconds = setup.idle_s + 100;
      const StageOutcome out = simulate(setup, 1);
      std::printf("%-10s %.2f s: alarms %d, resumed %d, largest doubt %.1f, residual %.2f nm\n",
                  name.c_str(), stall_s, out.alarms, out.resumes, out.largest_doubt,
                  out.residual_rms_nm);
      all.push_back({{"world", name},
                     {"stall_s", stall_s},
                     {"alarms", out.alarms},
                     {"resumes", out.resumes},
                     {"largest_doubt", out.largest_doubt}});
    }
  return all;
}

/// Mean over a million frames of noise, with the stage moving.
double nanoseconds_a_frame() {
  constexpr int kFrames = 1'000'000;
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  std::vector<Vec2> noise(4096);
  for (Vec2& n : noise) n = {normal(random), 0.7 * normal(random)};
  StageMonitor monitor;
  const std::clock_t start = std::clock();  // of this process: other work does not count
  for (int i = 0; i < kFrames; ++i) {
    const Vec2 n = noise[static_cast<std::size_t>(i) % noise.size()];
    const Vec2 stage = noise[static_cast<std::size_t>(i + 99) % noise.size()];
    monitor.update({.moved_nm = {n.x + stage.x, n.y + stage.y},
                    .covariance_nm2 = {0.1, 0, 0.1},
                    .modelled_nm = stage});
  }
  return 1e9 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / kFrames;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"The stage monitor in the simulated lock"};
  app.add_option("--hours", options.hours, "simulated time with a stage that follows, each world");
  app.add_option("--seeds", options.seeds, "runs of each fault");
  app.add_option("--frame-rate", options.frame_rate_hz, "frames a second");
  app.add_option("--json", options.json_path, "write the results here as well");
  app.add_option("--law", options.law,
                 "pi, or observer: with what it learns in 20 s, or learning where the stage is "
                 "described wrong")
      ->check(CLI::IsMember({"pi", "observer"}));
  app.add_option("--only", options.only, "one part of it")
      ->check(
          CLI::IsMember({"following", "described_wrong", "stuck_for_a_while", "faults", "stalls"}));
  CLI11_PARSE(app, argc, argv);

  if (options.law == "observer") learn(options);
  json result;
  result["ns_per_frame"] = nanoseconds_a_frame();
  std::printf("%.0f ns a frame\n", result["ns_per_frame"].get<double>());
  const auto wanted = [&](const char* part) {
    return options.only.empty() || options.only == part;
  };
  if (wanted("following")) result["following"] = following(options);
  if (wanted("described_wrong")) result["described_wrong"] = described_wrong(options);
  if (wanted("stuck_for_a_while")) result["stuck_for_a_while"] = stuck_for_a_while(options);
  if (wanted("faults")) result["faults"] = faults(options);
  if (wanted("stalls")) result["stalls"] = stalls(options);
  if (!options.json_path.empty()) std::ofstream(options.json_path) << result.dump(1) << '\n';
  return 0;
}
