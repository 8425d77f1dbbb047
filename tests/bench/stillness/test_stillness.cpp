// SPDX-License-Identifier: MIT
// The bench's own figures: the bound is what its controller reaches in the simulated world, nobody
// is below it, and a PI whose model is exact leaves what its responses say.
#include <algorithm>
#include <cmath>
#include <complex>
#include <filesystem>
#include <numbers>

#include "simulator/random.hpp"
#include "support/catch.hpp"
#include "support/instrumented.hpp"
#include "support/source_dir.hpp"
#include "tests/bench/stillness/bound.hpp"
#include "tests/bench/stillness/measures.hpp"
#include "tests/bench/stillness/pilot.hpp"
#include "tests/bench/stillness/run.hpp"

namespace {

using namespace driftd::stillness;
namespace simulator = driftd::simulator;

const std::filesystem::path kWorlds = driftd::test::source_dir() / "tests/bench/stillness/worlds";

World shortened(const std::string& name, double seconds, double learn_s) {
  World world = load_world(kWorlds / (name + ".yaml"));
  world.judgement.seconds = seconds;
  world.judgement.learn_s = learn_s;
  return world;
}

double bound_nm(const World& world, double noise_nm) {
  return find_bound(AxisModel(physics_of(world, false, noise_nm)), change_limit_nm(world))
      .residual_nm;
}

/// Residual over bound, both axes.
double ratio(const World& world, const std::string& law, std::uint64_t seed) {
  const Flight flight = fly(world, law, seed);
  const double bound = bound_nm(world, flight.noise_nm);
  return measure(flight, {bound, bound}).rms_nm / bound;
}

TEST_CASE("the bound is what its controller reaches in the simulated world") {
  // 20 s of two axes tell an rms to 1 or 2 %; the stage's steps of 0.05 nm cost 0.3 %.
  for (const char* name : {"nominal", "vibration", "noise_1nm", "slow_vibration", "rate_50",
                           "broadband", "exposure", "resonant_stage", "wrong_long_weak"}) {
    CAPTURE(name);
    const double reached = ratio(shortened(name, 25, 5), kBestLaw, 1);
    CHECK(reached > 0.96);
    CHECK(reached < 1.05);
  }
}

TEST_CASE("each axis has its own bound") {
  World world = shortened("nominal", 25, 5);
  world.scenario.stage.axis_gain = {1.2, 0.8};
  world.scenario.disturbance_y.random_walk_nm_per_sqrt_s = 4;
  world.scenario.disturbance_y.sines = {{2, 40}};
  const Flight flight = fly(world, kBestLaw, 1);
  const Measures m = measure(flight, {1, 1});
  const AxisModel y(physics_of(world, true, flight.noise_nm));
  const double bound_y_nm = find_bound(y, change_limit_nm(world)).residual_nm;
  CHECK(m.axes[0].rms_nm == Approx(bound_nm(world, flight.noise_nm)).epsilon(0.04));
  CHECK(m.axes[1].rms_nm == Approx(bound_y_nm).epsilon(0.04));
  CHECK(bound_y_nm > 1.2 * bound_nm(world, flight.noise_nm));
}

TEST_CASE("nobody is below the bound, in any world") {
  int worlds = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kWorlds)) {
    if (entry.is_directory())
      continue;  // slow cameras: their few frames of six seconds tell nothing
    CAPTURE(entry.path());
    World world = load_world(entry.path());
    world.judgement.seconds = 6;
    world.judgement.learn_s = 2;
    CHECK(ratio(world, "pi", 1) > 0.97);
    ++worlds;
  }
  CHECK(worlds >= 30);
}

TEST_CASE("the bound knows of no line that drifts, or is not there all the time") {
  const World quiet = shortened("nominal", 6, 2);
  const double bound = bound_nm(quiet, 0.3);
  World world = quiet;
  simulator::Sine line{.amplitude_nm = 20, .frequency_hz = 240};
  const auto with = [&](simulator::Sine sine) {
    world.scenario.disturbance_x = quiet.scenario.disturbance_x;
    world.scenario.disturbance_x.sines.push_back(sine);
    return bound_nm(world, 0.3);
  };
  CHECK(with(line) > 10);
  line.from_s = 1;
  CHECK(with(line) == bound);
  line.from_s = 0;
  line.until_s = 1000;
  CHECK(with(line) == bound);
  CHECK(with({.amplitude_nm = 20, .frequency_hz = 240, .drift_share_per_s = -0.05}) == bound);
}

TEST_CASE("the bound's commands change no more than they may") {
  World world = shortened("nominal", 6, 2);
  world.scenario.disturbance_x.sines = {{200, 1}};  // 1.8 nm a frame
  for (const double limit_nm : {0.5, 1.0, 1.7}) {
    const Bound bound = find_bound(AxisModel(physics_of(world, false, 0.3)), limit_nm);
    CHECK(bound.change_nm == Approx(limit_nm).epsilon(1e-3));
    CHECK(bound.lines_nm > 1);
  }
}

/// One axis under PI whose stage model is exact, by its responses. A frame's command obeys
/// u = -F (d + n), F = k / (1 - (1 - k) z^-1), whatever the delay; the stage follows `effect_s`
/// after the frame with time constant `tau_s`.
struct ExactPi {
  double k, period_s, effect_s, tau_s;

  double step(double since_s) const { return since_s > 0 ? -std::expm1(-since_s / tau_s) : 0; }
  /// Place at `time_s` when the commands were u[0], u[1], .. from frame 0 on.
  double place(const std::vector<double>& u, double time_s) const {
    double sum = 0, before = 0;
    for (std::size_t i = 0; i < u.size(); ++i) {
      sum += (u[i] - before) * step(time_s - static_cast<double>(i) * period_s - effect_s);
      before = u[i];
    }
    return sum;
  }
  /// Mean square by white noise of 1 nm in the measurement.
  double by_noise() const {
    std::vector<double> u;
    for (int i = 0; i < 60; ++i) u.push_back(-k * std::pow(1 - k, i));
    double sum = 0;
    for (int j = 1; j <= 4 * 70; ++j) sum += std::pow(place(u, j * period_s / 4), 2) / 4;
    return sum;
  }
  /// By a random walk of 1 nm/sqrt(s): a step in every instant, each forgotten in time.
  double by_walk() const {
    std::vector<double> u;
    for (int i = 0; i < 60; ++i) u.push_back(-(1 - std::pow(1 - k, i + 1)));
    constexpr int kPieces = 20;
    double sum = 0;
    for (int piece = 0; piece < kPieces; ++piece) {
      const double since_s = (piece + 0.5) / kPieces * period_s;  // before frame 0
      for (int j = -4; j <= 4 * 55; ++j) {
        const double time_s = j * period_s / 4;
        if (time_s < -since_s) continue;
        sum += std::pow(1 + place(u, time_s), 2) / 4 * period_s / kPieces;
      }
    }
    return sum;
  }
  double by_line(double amplitude_nm, double hz) const {
    using Complex = std::complex<double>;
    const double omega = 2 * std::numbers::pi * hz;
    const Complex back = std::polar(1.0, -omega * period_s);
    const Complex f = k / (1.0 - (1 - k) * back);
    double sum = 0;
    for (int j = 1; j <= 4; ++j) {
      const double time_s = j * period_s / 4;
      // Commands of frames 0, -1, ..: each changes by (1 - back) e^(-i omega m T).
      Complex stage = 0;
      for (int m = -1; m < 60; ++m)
        stage += (1.0 - back) * std::polar(1.0, -omega * period_s * m) *
                 (1 - step(time_s + m * period_s - effect_s));
      // All changes until frame 1 add up to the command of frame 1, less what is not there yet.
      stage = std::polar(1.0, omega * period_s) - stage;
      sum += std::norm(std::polar(1.0, omega * time_s) - f * stage) / 4;
    }
    return 0.5 * amplitude_nm * amplitude_nm * sum;
  }
};

TEST_CASE("a PI whose model is exact leaves what its responses say") {
  // So overdamped a stage is of first order: the second pole is at 12 us.
  World world = shortened("nominal", 45, 5);
  world.scenario.stage.frequency_hz = 2000;
  world.scenario.stage.damping = 5;
  world.scenario.stage.noise_nm = 0;
  world.scenario.stage.quantisation_nm = 0;
  world.belief.stage_time_constant_us = 796;
  world.belief.latency_us = 1450;
  for (auto* axis : {&world.scenario.disturbance_x, &world.scenario.disturbance_y})
    axis->sines = {{1, 7.3}, {0.5, 31}};
  const Flight flight = fly(world, "pi-alone", 1);
  const double measured_nm = measure(flight, {1, 1}).rms_nm;
  const ExactPi pi{.k = 0.3, .period_s = 2e-3, .effect_s = 4e-3, .tau_s = 796e-6};
  const double expected_nm2 = pi.by_noise() * flight.noise_nm * flight.noise_nm + pi.by_walk() +
                              pi.by_line(1, 7.3) + pi.by_line(0.5, 31);
  CHECK(measured_nm == Approx(std::sqrt(expected_nm2)).epsilon(0.01));
}

TEST_CASE("the observer holds a slow stage of second order by the bound, and foretells how still") {
  if (driftd::test::kInstrumented) {
    WARN("SKIPPED: minutes of arithmetic when instrumented");
    return;
  }
  for (const char* name : {"slow_nominal", "slow_vibration"}) {
    CAPTURE(name);
    const World world = shortened(name, 25, 8);
    const Flight flight = fly(world, "observer-alone", 1);
    const double bound = bound_nm(world, flight.noise_nm);
    const double reached_nm = measure(flight, {bound, bound}).rms_nm;
    CHECK(reached_nm < 1.08 * bound);  // 1.10 and more with the penalty of a fast stage
    CHECK(std::sqrt(flight.foretold_nm2) == Approx(reached_nm).epsilon(0.08));
  }
}

TEST_CASE("how still it will be is foretold where the stage cannot follow a line, too") {
  if (driftd::test::kInstrumented) {
    WARN("SKIPPED: minutes of arithmetic when instrumented");
    return;
  }
  World world = shortened("slow_vibration", 30, 15);
  world.scenario.stage.frequency_hz = world.belief.stage_resonance_hz = 8;
  world.scenario.stage.damping = world.belief.stage_damping = 0.2;
  world.belief.rate_limit_nm_per_s = 1000;
  for (auto* axis : {&world.scenario.disturbance_x, &world.scenario.disturbance_y})
    axis->sines = {{2, 2.1}, {2, 45}};
  const Flight flight = fly(world, "observer-alone", 1);
  // Calmer gains commanded all the time, and those that the forecast is of never: 0.51.
  CHECK(std::sqrt(flight.foretold_nm2) == Approx(measure(flight, {1, 1}).rms_nm).epsilon(0.08));
  // With few markers the stage's own noise is a small part of the frames': 0.76.
  const Flight few = fly(shortened("markers_4", 30, 15), "observer-alone", 1);
  CHECK(std::sqrt(few.foretold_nm2) == Approx(measure(few, {1, 1}).rms_nm).epsilon(0.12));
}

TEST_CASE("of a slow camera auto leaves no more than PI, from the first seconds on") {
  for (const char* name : {"rate_05", "rate_10", "rate_20"}) {
    CAPTURE(name);
    const World world = shortened(std::string("slow_cameras/") + name, 240, 4);
    const auto left_nm = [&](const char* law) {
      return measure(fly(world, law, 1), {1, 1}).rms_nm;
    };
    CHECK(left_nm("auto") < left_nm("pi"));
  }
}

TEST_CASE("the observer tracks lines that drift") {
  if (driftd::test::kInstrumented) {
    WARN("SKIPPED: minutes of arithmetic when instrumented");
    return;
  }
  // Where each surprise shortened the record that models are judged by, seed 1 was at 2 for 24 s.
  CHECK(ratio(shortened("drifting_lines", 22, 12), "auto", 1) < 1.35);
}

TEST_CASE("the observer tracks other lines that drift", "[.full]") {
  if (driftd::test::kInstrumented) {
    WARN("SKIPPED: minutes of arithmetic when instrumented");
    return;
  }
  CHECK(ratio(shortened("drifting_lines", 22, 12), "auto", 4) < 1.35);
}

TEST_CASE("the observer takes lines that swell for no fault") {
  if (driftd::test::kInstrumented) {
    WARN("SKIPPED: minutes of arithmetic when instrumented");
    return;
  }
  // Seed 2 was held after 38 s: the monitor had not learnt yet how much the lines had grown.
  CHECK(fly(shortened("swelling_lines", 40, 5), "auto", 2).locked_share == 1);
}

TEST_CASE("a slow stage of second order is quiet soon after a knock, within its limits") {
  if (driftd::test::kInstrumented) {
    WARN("SKIPPED: minutes of arithmetic when instrumented");
    return;
  }
  // Three knocks, of which the last is of 60 nm. Where commands were only cut off: 4.6 and more.
  CHECK(ratio(shortened("slow_knocks", 36, 18), "observer-alone", 1) < 1.15);
  // 45 where gains were chosen by what they ask for at present.
  CHECK(ratio(shortened("ringing_knocks", 36, 18), "auto", 1) < 1.15);
}

TEST_CASE("markers that are drawn and fitted give the residual of those that are computed") {
  World world = shortened("vibration", 5, 1);
  const double computed_nm = measure(fly(world, "pi", 1), {1, 1}).rms_nm;
  world.fitted = true;
  const Flight fitted = fly(world, "pi", 1);
  // The lines are the same; the noise, a twentieth of the mean square, is another.
  CHECK(measure(fitted, {1, 1}).rms_nm == Approx(computed_nm).epsilon(0.01));
  CHECK(fitted.normalised2 == Approx(1).epsilon(0.15));
}

TEST_CASE("a world that the bound cannot take is refused") {
  CHECK_THROWS_WITH(
      load_world_text("stage: {image_to_stage: [2, 0, 0, 2]}", "w"),
      "w:1:25: stage.image_to_stage: found another matrix; allowed [1, 0, 0, 1]: the bound takes "
      "the axes one by one");
  CHECK_THROWS_WITH(load_world_text("bench: {judge: {seconds: 10}}", "w"),
                    "w:1:16: bench.judge.learn_s: found the default; allowed less than "
                    "judge.seconds");
}

TEST_CASE("what was never held is no stillness") {
  World world = shortened("nominal", 2, 0.5);
  world.belief.min_markers = 17;
  const Measures m = measure(fly(world, "pi", 1), {1, 1});
  CHECK(std::isnan(m.rms_nm));
  CHECK(m.learnt_after_s < 0);
  world.scenario.markers.count = 0;
  CHECK_THROWS_WITH(fly(world, "pi", 1), "no marker shines at the start");
}

TEST_CASE("a flight is the same each time, and another with another seed") {
  const World world = shortened("nominal", 2, 0.5);
  const Flight first = fly(world, "pi", 1);
  CHECK(first.residual_nm == fly(world, "pi", 1).residual_nm);
  CHECK(first.residual_nm != fly(world, "pi", 2).residual_nm);
  CHECK_THROWS_WITH(fly(world, "pid", 1),
                    "no control law is called 'pid'; there are: pi, pi-alone, auto, observer, "
                    "observer-alone, best, none");
}

TEST_CASE("the residual's measures") {
  Flight flight;
  flight.rate_hz = 100;
  simulator::Random random(1, 1);
  // Ten seconds of 3 nm, then of 1 nm.
  for (int i = 0; i < 4000; ++i) {
    const double size = i < 1000 ? 3 : 1;
    for (auto& axis : flight.residual_nm)
      axis.push_back(static_cast<float>(size * random.normal()));
    flight.left_out.push_back(i >= 3000 && i < 3010);
    flight.judged.push_back(i >= 1000 && !flight.left_out.back());
    if (flight.left_out.back()) flight.residual_nm[0].back() = i < 3007 ? 100.0F : 0.0F;
    if (flight.left_out.back()) flight.residual_nm[1].back() = 0;
  }
  const Measures m = measure(flight, {1, 1});
  CHECK(m.rms_nm == Approx(1).epsilon(0.03));
  CHECK(m.axes[0].p95_nm == Approx(1.96).epsilon(0.06));
  CHECK(m.learnt_after_s > 9);
  CHECK(m.learnt_after_s <= 10);
  CHECK(m.settled_s == Approx(0.07));
  for (std::size_t i = 3000; i < 3010; ++i) flight.residual_nm[0][i] = -2;
  CHECK(measure(flight, {1, 1}).settled_s < 0);
  for (const AllanPoint& p : m.axes[1].allan)  // white noise
    if (p.tau_s < 1) CHECK(p.deviation_nm == Approx(1 / std::sqrt(100 * p.tau_s)).epsilon(0.15));
  // As white: 2 / rate per Hz.
  CHECK(m.axes[0].spectrum.density[20] == Approx(0.02).epsilon(0.6));
  CHECK(measure(flight, {0.5, 0.5}).learnt_after_s < 0);
}

}  // namespace
