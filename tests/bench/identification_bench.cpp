// SPDX-License-Identifier: MIT
// Calibration of the stage in worlds drawn at random and in worlds that cannot be calibrated
// (tests/unit/control/calibration_world.hpp), and what each way of moving the stage tells about it
// per second. The figures of docs/internals/identification.md. Exit status 1 where a case fails.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "support/default_settings.hpp"
#include "unit/control/calibration_world.hpp"

namespace {

using namespace driftd::control;
using driftd::Vec2;
using test::CalibrationWorld;

struct Options {
  int worlds = 50, first = 1;
  double seconds = 20, frame_rate_hz = 500, tolerance = 1;
  bool verbose = false, skip_impossible = false, ways = false;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Errors in units of their standard deviations, gathered over all worlds.
struct Honesty {
  std::vector<double> matrix, delay, bandwidth;
  static void print(const char* name, const std::vector<double>& z) {
    double sum = 0, beyond = 0;
    for (const double v : z) {
      sum += v * v;
      if (std::abs(v) > 2) ++beyond;
    }
    const auto n = static_cast<double>(std::max<std::size_t>(1, z.size()));
    std::printf("%-10s rms of error / sd %.2f, beyond 2 sd %.0f %% of %zu\n", name,
                std::sqrt(sum / n), 100 * beyond / n, z.size());
  }
};

bool one_world(int number, const Options& options, const ControllerSettings& limits,
               Honesty& honesty) {
  CalibrationWorld world = test::random_world(static_cast<std::uint64_t>(number));
  world.frame_rate_hz = options.frame_rate_hz;
  const auto run =
      test::calibrate_in(world, limits, static_cast<std::uint64_t>(number), options.seconds);
  const auto start = std::chrono::steady_clock::now();
  const StageIdentification found = identify_stage(run.record, {.present = limits});
  const double took_s = seconds_since(start);
  const auto& stage = world.scenario.stage;
  const double bandwidth_hz = test::true_bandwidth_hz(stage);
  if (found.refused()) {
    std::printf("%3d REFUSED %s: %s\n", number, name_of(found.refusal), found.text.c_str());
    return false;
  }
  const StageCalibration& r = found.result;
  const ImageToStage truth = test::true_matrix(stage);
  const double matrix = test::matrix_error(r.image_to_stage, truth);
  const double delay_us = r.delay_us - test::true_delay_us(stage, run);
  const double response = r.bandwidth_hz / bandwidth_hz - 1;
  const double left_nm = std::hypot(run.left_nm.x, run.left_nm.y);
  const double t = options.tolerance;
  const bool good =
      matrix < 0.01 * t &&
      std::abs(r.delay_us - 1e3 * stage.delay_ms) < t * std::max(500.0, 100 * stage.delay_ms) &&
      std::abs(response) < 0.15 * t && left_nm < 5 && run.farthest_nm < 100.5;
  honesty.matrix.push_back((r.image_to_stage.a - truth.a) / r.image_to_stage_sd.a);
  honesty.matrix.push_back((r.image_to_stage.b - truth.b) / r.image_to_stage_sd.b);
  honesty.matrix.push_back((r.image_to_stage.c - truth.c) / r.image_to_stage_sd.c);
  honesty.matrix.push_back((r.image_to_stage.d - truth.d) / r.image_to_stage_sd.d);
  honesty.delay.push_back(delay_us / r.delay_sd_us);
  honesty.bandwidth.push_back((r.bandwidth_hz - bandwidth_hz) / r.bandwidth_sd_hz);
  std::printf(
      "%3d %s matrix %.3f %%  delay %7.0f%+6.0f (sd %4.0f) us  response %5.1f Hz %+6.1f %% "
      "(sd %4.1f)  f0 %5.1f (%5.1f) damping %.2f (%.2f)  order %d  left %.2f nm  residual "
      "%.2f -> %.2f nm (k %.2f p %.2f)  %.1f s\n",
      number, good ? "ok  " : "FAIL", 100 * matrix, 1e3 * stage.delay_ms, delay_us, r.delay_sd_us,
      bandwidth_hz, 100 * response, 100 * r.bandwidth_sd_hz / bandwidth_hz,
      r.resonance_hz.value_or(0), stage.frequency_hz, r.damping.value_or(0), stage.damping, r.order,
      left_nm, r.present.residual_nm, r.proposal.residual_nm, r.proposal.integral,
      r.proposal.proportional, took_s);
  if (options.verbose)
    std::printf(
        "     noise %.2f %.2f (true %.2f) stage noise %.2f drift %.1f %.1f hysteresis %.3f "
        "%.3f cross-talk %.3f %.3f outliers %d missing %d age %.0f returned %.1f %.1f "
        "tau %.0f delay %.0f\n",
        r.noise_nm.x, r.noise_nm.y, world.noise_nm, r.stage_noise_nm.value_or(-1),
        r.drift_nm_per_s.x, r.drift_nm_per_s.y, r.hysteresis.x, r.hysteresis.y, r.cross_talk.x,
        r.cross_talk.y, r.outliers, r.missing, r.age_us, r.returned_nm.x, r.returned_nm.y,
        r.proposal.time_constant_us, r.proposal.delay_us);
  return good;
}

/// Ways to move the stage, for 17 s after 3 s of rest, within 100 nm, 3.6 nm a frame.
struct Way {
  std::string name;
  std::vector<Vec2> places;
};
constexpr std::size_t kQuietFrames = 1500, kMovingFrames = 8300, kEndFrames = 200;
constexpr double kStepNm = 3.6, kReachNm = 100;

Way stepwise(std::string name, const std::function<Vec2(std::size_t)>& wanted) {
  Way way{std::move(name), std::vector<Vec2>(kQuietFrames)};
  const auto follow = [](double from, double to) {
    return from + std::clamp(std::clamp(to, -kReachNm, kReachNm) - from, -kStepNm, kStepNm);
  };
  for (std::size_t i = 0; i < kMovingFrames + kEndFrames; ++i) {
    const Vec2 to = i < kMovingFrames ? wanted(i) : Vec2{};
    const Vec2 last = way.places.back();
    way.places.push_back({follow(last.x, to.x), follow(last.y, to.y)});
  }
  return way;
}

/// Slopes up and down whose direction may change every `frames`.
Way random_slopes(int frames) {
  driftd::simulator::Random random(7, 7);
  Vec2 slope{1, 1}, place;
  return stepwise(
      "slopes, every " + std::to_string(frames) + " frames", [=](std::size_t i) mutable {
        if (i % static_cast<std::size_t>(frames) == 0)
          slope = {random.uniform() < 0.5 ? -1.0 : 1.0, random.uniform() < 0.5 ? -1.0 : 1.0};
        if (std::abs(place.x + slope.x * kStepNm) > kReachNm) slope.x = -slope.x;
        if (std::abs(place.y + slope.y * kStepNm) > kReachNm) slope.y = -slope.y;
        place = {place.x + slope.x * kStepNm, place.y + slope.y * kStepNm};
        return place;
      });
}

/// Sines at random phases, each with the same speed, their sum scaled to the limits.
Way multisine(double highest_hz) {
  struct Tone {
    double hz, phase_x, phase_y;
  };
  driftd::simulator::Random random(8, 8);
  std::vector<Tone> tones;
  const int count = static_cast<int>(std::ceil(std::log(highest_hz / 0.7) / std::log(1.15)));
  for (int n = 0; n < count; ++n)
    tones.push_back(
        {0.7 * std::pow(1.15, n), 6.2832 * random.uniform(), 6.2832 * random.uniform()});
  const double amplitude =
      1.3 * kStepNm / 0.002 / 6.2832 / std::sqrt(static_cast<double>(tones.size()));
  return stepwise("multisine to " + std::to_string(static_cast<int>(highest_hz)) + " Hz",
                  [=](std::size_t i) {
                    Vec2 sum;
                    for (const Tone& tone : tones) {
                      const double angle = 6.2832 * tone.hz * 0.002 * static_cast<double>(i);
                      sum.x += amplitude / tone.hz * std::sin(angle + tone.phase_x);
                      sum.y += amplitude / tone.hz * std::sin(angle + tone.phase_y);
                    }
                    return sum;
                  });
}

std::vector<Way> ways() {
  std::vector<Way> all;
  all.push_back(stepwise("steps, x and y by turns", [](std::size_t i) {
    const double to = i / 125 % 2 == 0 ? kReachNm : -kReachNm;
    return i / 1000 % 2 == 0 ? Vec2{to, 0} : Vec2{0, to};
  }));
  all.push_back(stepwise("steps of 20 nm, by turns", [](std::size_t i) {
    const double to = i / 50 % 2 == 0 ? 10 : -10;
    return i / 1000 % 2 == 0 ? Vec2{to, 0} : Vec2{0, to};
  }));
  for (const int frames : {1, 2, 4, 16}) all.push_back(random_slopes(frames));
  for (const double hz : {60.0, 240.0}) all.push_back(multisine(hz));
  Way standard{"StageExcitation", {}};
  const StageExcitation excitation;
  for (std::int64_t t = 0; t < excitation.duration_ns(); t += 2'000'000)
    standard.places.push_back(excitation.wanted_nm(t));
  all.push_back(standard);
  return all;
}

/// Standard deviations after a second of each way, from those after the whole run.
void compare_ways(const ControllerSettings& limits) {
  std::puts("what a second of moving tells: matrix in %, dead time in us, bandwidth in %");
  std::printf("%-28s", "stage");
  for (const double hz : {8.0, 30.0, 100.0, 250.0}) std::printf("  %17.0f Hz", hz);
  std::puts("");
  for (const Way& way : ways()) {
    std::printf("%-28s", way.name.c_str());
    for (const double hz : {8.0, 30.0, 100.0, 250.0}) {
      CalibrationWorld world = test::random_world(3);
      world.noise_nm = 0.7;
      world.scenario.stage.image_to_stage = {{{1, 0}, {0, 1}}};
      world.scenario.stage.frequency_hz = hz;
      world.scenario.stage.damping = 0.7;
      world.scenario.stage.delay_ms = 4;
      const auto run = test::play_calibration(
          world, limits,
          [&](std::int64_t elapsed_ns) {
            const auto frame = static_cast<std::size_t>((elapsed_ns + 1'000'000) / 2'000'000);
            return way.places[std::min(frame, way.places.size() - 1)];
          },
          2'000'000 * static_cast<std::int64_t>(way.places.size()), 3);
      const StageIdentification found = identify_stage(run.record, {.present = limits});
      const StageCalibration& r = found.result;
      const double root = std::sqrt(17.0);
      if (found.refused())
        std::printf("  %20s", name_of(found.refusal));
      else
        std::printf("  %5.2f %6.0f %7.2f", 100 * root * r.image_to_stage_sd.a, root * r.delay_sd_us,
                    100 * root * r.bandwidth_sd_hz / r.bandwidth_hz);
      std::fflush(stdout);
    }
    std::puts("");
  }
}

int impossible(const ControllerSettings& limits) {
  int wrong = 0, number = 0;
  for (const auto& [name, world, refusals, no_room] : test::impossible_worlds()) {
    ControllerSettings allowed = limits;
    if (no_room) allowed.range_limit_nm = 0.2;
    const auto run = test::calibrate_in(world, allowed, static_cast<std::uint64_t>(++number));
    const auto start = std::chrono::steady_clock::now();
    const StageIdentification found = identify_stage(run.record, {.present = allowed});
    const bool right = std::ranges::find(refusals, found.refusal) != refusals.end();
    if (!right) ++wrong;
    std::printf("%3d %s %-28s %-17s %.1f s  %s\n", number, right ? "ok  " : "FAIL", name.c_str(),
                name_of(found.refusal), seconds_since(start), found.text.c_str());
  }
  std::printf("%d of %d refused with the right sentence\n", number - wrong, number);
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Calibration of the stage in simulated worlds"};
  app.add_option("--worlds", options.worlds, "worlds drawn at random");
  app.add_option("--first", options.first, "the first world's number");
  app.add_option("--seconds", options.seconds, "length of a run");
  app.add_option("--frame-rate", options.frame_rate_hz, "frames a second");
  app.add_option("--tolerance", options.tolerance, "times the issue's tolerances");
  app.add_flag("--skip-impossible", options.skip_impossible, "only worlds that can be calibrated");
  app.add_flag("--ways", options.ways, "compare ways to move the stage, and nothing else");
  app.add_flag("--verbose", options.verbose, "more of each result");
  CLI11_PARSE(app, argc, argv);

  const ControllerSettings limits = driftd::test::default_controller_settings();
  if (options.ways) {
    compare_ways(limits);
    return 0;
  }
  Honesty honesty;
  int good = 0;
  for (int number = options.first; number < options.first + options.worlds; ++number) {
    if (one_world(number, options, limits, honesty)) ++good;
    std::fflush(stdout);
  }
  Honesty::print("matrix", honesty.matrix);
  Honesty::print("delay", honesty.delay);
  Honesty::print("bandwidth", honesty.bandwidth);
  std::printf("%d of %d\n", good, options.worlds);
  const int wrong = options.skip_impossible ? 0 : impossible(limits);
  return good == options.worlds && wrong == 0 ? 0 : 1;
}
