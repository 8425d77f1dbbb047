// SPDX-License-Identifier: MIT
// Stillness in the loop and out of it, against the same figures taken in one go.
#include <cmath>
#include <random>
#include <vector>

#include "control/lock/residual_statistics.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

constexpr double kFrameS = 0.002;

/// Allan deviation of adjacent means over `frames`, straight from the definition.
double allan_nm(const std::vector<double>& place_nm, std::size_t frames) {
  std::vector<double> means;
  for (std::size_t i = 0; i + frames <= place_nm.size(); i += frames) {
    double sum = 0;
    for (std::size_t k = 0; k < frames; ++k) sum += place_nm[i + k];
    means.push_back(sum / static_cast<double>(frames));
  }
  double sum = 0;
  for (std::size_t i = 1; i < means.size(); ++i) sum += std::pow(means[i] - means[i - 1], 2);
  return std::sqrt(sum / 2 / static_cast<double>(means.size() - 1));
}

DriftEstimate drift_of(Vec2 in_loop_nm, Vec2 witness_nm, int witnesses = 3) {
  DriftEstimate drift;
  drift.valid = true;
  drift.frame_drift_nm = in_loop_nm;
  drift.frame_noise_nm2 = {0.04, 0.09};
  drift.frame_witness_nm = witness_nm;
  drift.frame_witness_noise_nm2 = {0.16, 0.25};
  drift.witnesses_used = witnesses;
  return drift;
}

TEST_CASE("the octaves' Allan deviations are those of the definition") {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  OctaveAllan allan;
  std::vector<double> x, y;
  double walk = 0;
  for (int i = 0; i < 1000; ++i) {  // no octave has forgotten anything yet
    walk += 0.1 * normal(random);
    x.push_back(walk + normal(random));
    y.push_back(0.3 * normal(random));
    allan.add({x.back(), y.back()});
  }
  for (std::size_t octave = 0; octave < 9; ++octave) {
    CAPTURE(octave);
    const std::size_t frames = std::size_t{1} << octave;
    CHECK(allan.octaves()[octave].differences == 1000 / frames - 1);
    CHECK(std::sqrt(allan.octaves()[octave].variance_nm2.x) == Approx(allan_nm(x, frames)));
    CHECK(std::sqrt(allan.octaves()[octave].variance_nm2.y) == Approx(allan_nm(y, frames)));
  }
  CHECK(allan.octaves()[10].differences == 0);
}

TEST_CASE("a difference is never taken over an interruption") {
  OctaveAllan allan;
  for (int i = 0; i < 64; ++i) allan.add({0, 0});
  allan.interrupt();
  for (int i = 0; i < 64; ++i) allan.add({100, -100});
  for (const AllanOctave& octave : allan.octaves()) {
    CHECK(octave.variance_nm2.x == 0);
    CHECK(octave.variance_nm2.y == 0);
  }
  CHECK(allan.octaves()[0].differences == 126);
  CHECK(allan.octaves()[5].differences == 2);
  allan.restart();
  CHECK(allan.octaves()[0].differences == 0);
}

TEST_CASE("an octave forgets what is older than its differences") {
  OctaveAllan allan;
  for (int i = 0; i < 4096; ++i) allan.add({i % 2 == 0 ? 10.0 : -10.0, 0});
  CHECK(allan.octaves()[0].variance_nm2.x == Approx(200));
  for (int i = 0; i < 10 * 1024; ++i) allan.add({0, 0});
  CHECK(allan.octaves()[0].variance_nm2.x < 0.1);
  CHECK(allan.octaves()[0].differences == OctaveAllan::kRememberedDifferences);
}

TEST_CASE("in and out of the loop are told apart, with mean, rms and noise") {
  ResidualStatistics statistics;
  CHECK(statistics.state().in_loop.frames == 0);
  for (int i = 0; i < 4000; ++i) {
    const double sign = i % 2 == 0 ? 1 : -1;
    statistics.measured(drift_of({sign * 0.5, 0.25}, {sign * 0.5 + 2, -3}), {}, kFrameS, kFrameS);
  }
  const ResidualState state = statistics.state();
  CHECK(state.in_loop.frames == 4000);
  CHECK(state.in_loop.rms_nm.x == Approx(0.5));
  CHECK(state.in_loop.rms_nm.y == Approx(0.25));
  CHECK(state.in_loop.mean_nm.x == Approx(0).margin(0.001));
  CHECK(state.in_loop.noise_nm.x == Approx(0.2));
  CHECK(state.in_loop.noise_nm.y == Approx(0.3));
  CHECK(state.out_of_loop.frames == 4000);
  CHECK(state.out_of_loop.rms_nm.x == Approx(std::sqrt(4.25)).epsilon(1e-3));
  CHECK(state.out_of_loop.mean_nm.y == Approx(-3));
  CHECK(state.out_of_loop.noise_nm.x == Approx(0.4));
  CHECK(state.out_of_loop.noise_nm.y == Approx(0.5));
  CHECK(state.in_loop.allan[0].variance_nm2.x == Approx(0.5));
  CHECK(state.out_of_loop.allan[3].variance_nm2.x == Approx(0).margin(1e-9));
  statistics.new_reference();
  CHECK(statistics.state().in_loop.frames == 0);
  CHECK(statistics.state().out_of_loop.frames == 0);
}

TEST_CASE("where a move has the sample is no residual") {
  ResidualStatistics statistics;
  for (int i = 0; i < 4000; ++i)
    statistics.measured(drift_of({300.5, -40}, {300, -41}), {300, -40}, kFrameS, kFrameS);
  CHECK(statistics.state().in_loop.rms_nm.x == Approx(0.5));
  CHECK(statistics.state().in_loop.mean_nm.y == Approx(0).margin(1e-9));
  CHECK(statistics.state().out_of_loop.mean_nm.x == Approx(0).margin(1e-9));
  CHECK(statistics.state().out_of_loop.rms_nm.y == Approx(1));
}

TEST_CASE("frames without witnesses count in the loop only") {
  ResidualStatistics statistics;
  for (int i = 0; i < 10; ++i)
    statistics.measured(drift_of({1, 1}, {50, 50}, i < 4 ? 2 : 0), {}, kFrameS, kFrameS);
  CHECK(statistics.state().in_loop.frames == 10);
  CHECK(statistics.state().out_of_loop.frames == 4);
}

TEST_CASE("a few missing frames are passed over, a pause is not") {
  for (const double missed : {4.0, 6.0}) {
    CAPTURE(missed);
    ResidualStatistics statistics;
    statistics.measured(drift_of({0, 0}, {}), {}, kFrameS, kFrameS);
    statistics.measured(drift_of({1, 0}, {}), {}, missed * kFrameS, kFrameS);
    CHECK(statistics.state().in_loop.allan[0].differences == (missed < 5 ? 1 : 0));
    statistics.not_locked();
    statistics.measured(drift_of({9, 0}, {}), {}, kFrameS, kFrameS);
    CHECK(statistics.state().in_loop.allan[0].differences == (missed < 5 ? 1 : 0));
  }
}

}  // namespace
}  // namespace driftd::control
