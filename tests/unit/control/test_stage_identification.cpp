// SPDX-License-Identifier: MIT
// Whole calibration runs in the simulator's world: a few of the worlds that
// driftd_identification_bench goes through by the dozen.
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/default_settings.hpp"
#include "unit/control/calibration_world.hpp"

namespace driftd::control {
namespace {

ControllerSettings limits() {
  return driftd::test::default_controller_settings();
}

void check_against_truth(const test::CalibrationWorld& world, const test::CalibrationRun& run,
                         const StageCalibration& found, double tolerance = 1) {
  const auto& stage = world.scenario.stage;
  CHECK(test::matrix_error(found.image_to_stage, test::true_matrix(stage)) < 0.01 * tolerance);
  CHECK(std::abs(found.delay_us - 1e3 * stage.delay_ms) <
        tolerance * std::max(500.0, 100 * stage.delay_ms));
  CHECK(found.bandwidth_hz == Approx(test::true_bandwidth_hz(stage)).epsilon(0.15 * tolerance));
  CHECK(std::hypot(run.left_nm.x, run.left_nm.y) < 5);
  CHECK(run.farthest_nm <= 100);
}

TEST_CASE("a calibration finds stages drawn at random") {
  // The slowest, the fastest, the longest dead time and three in between.
  for (const std::uint64_t seed : {2U, 39U, 43U, 5U, 21U, 46U}) {
    CAPTURE(seed);
    const test::CalibrationWorld world = test::random_world(seed);
    const auto run = test::calibrate_in(world, limits(), seed);
    const StageIdentification found = identify_stage(run.record, {.present = limits()});
    REQUIRE(found.text.empty());
    REQUIRE_FALSE(found.refused());
    const StageCalibration& r = found.result;
    check_against_truth(world, run, r);

    // Standard deviations are neither too small nor too large by far.
    const ImageToStage truth = test::true_matrix(world.scenario.stage);
    CHECK(std::abs(r.image_to_stage.a - truth.a) < 4 * r.image_to_stage_sd.a);
    CHECK(std::abs(r.image_to_stage.d - truth.d) < 4 * r.image_to_stage_sd.d);
    CHECK(std::abs(r.delay_us - test::true_delay_us(world.scenario.stage, run)) <
          4 * r.delay_sd_us);
    CHECK(r.delay_sd_us < 150);
    CHECK(std::abs(r.bandwidth_hz / test::true_bandwidth_hz(world.scenario.stage) - 1) <
          4 * r.bandwidth_sd_hz / r.bandwidth_hz);

    CHECK(r.noise_nm.x == Approx(world.noise_nm).epsilon(0.15));
    // A walk of 2 nm / sqrt(s) has a slope of 0.5 nm/s over 20 s.
    CHECK(r.drift_nm_per_s.x == Approx(world.scenario.disturbance_x.linear_nm_per_s).margin(1.5));
    CHECK(r.proposal.residual_nm < 1.2);
    CHECK(r.proposal.residual_nm <= 1.02 * r.present.residual_nm);
    CHECK(r.seconds < 30);
    REQUIRE(r.response.time_ms.size() == r.response.x.size());
    for (std::size_t i = 0; i < r.response.x.size(); ++i) {
      CHECK(r.response.x[i] == Approx(r.response.model[i]).margin(0.03 + 5 * r.response.x_sd[i]));
      CHECK(r.response.y[i] == Approx(r.response.model[i]).margin(0.03 + 5 * r.response.y_sd[i]));
    }
  }
}

TEST_CASE("what the image's own gain is not known to is in all that follows from the matrix") {
  const test::CalibrationWorld world = test::random_world(3);
  const StageRecord record = test::calibrate_in(world, limits(), 3, 8).record;
  constexpr double kSd = 0.02;
  const auto alone = identify_stage(record, {.present = limits()}).result;
  const auto with = identify_stage(record, {.present = limits(), .image_gain_sd = kSd}).result;
  const ImageToStage& m = alone.image_to_stage;
  CHECK(with.image_to_stage.a == m.a);
  // (I + e) G has the inverse M - M e: each element of a row gets the row's length.
  const auto added = [](double sd, double before) { return std::sqrt(sd * sd - before * before); };
  const double row_x = kSd * std::hypot(m.a, m.b), row_y = kSd * std::hypot(m.c, m.d);
  CHECK(added(with.image_to_stage_sd.a, alone.image_to_stage_sd.a) == Approx(row_x).epsilon(0.01));
  CHECK(added(with.image_to_stage_sd.b, alone.image_to_stage_sd.b) == Approx(row_x).epsilon(0.01));
  CHECK(added(with.image_to_stage_sd.c, alone.image_to_stage_sd.c) == Approx(row_y).epsilon(0.01));
  CHECK(added(with.image_to_stage_sd.d, alone.image_to_stage_sd.d) == Approx(row_y).epsilon(0.01));
  CHECK(with.scale_sd.x > alone.scale_sd.x);
  CHECK(added(with.pixel_ratio_sd, alone.pixel_ratio_sd) ==
        Approx(kSd * alone.pixel_ratio / std::sqrt(2)).epsilon(0.01));
  CHECK(with.delay_sd_us == alone.delay_sd_us);
}

TEST_CASE("a lock with the proposal leaves what was forecast") {
  for (const std::uint64_t seed : {7U, 15U, 26U}) {
    CAPTURE(seed);
    const test::CalibrationWorld world = test::random_world(seed);
    const auto run = test::calibrate_in(world, limits(), seed);
    const StageIdentification found = identify_stage(run.record, {.present = limits()});
    REQUIRE_FALSE(found.refused());
    const StageProposal& proposal = found.result.proposal;
    ControllerSettings settings = limits();
    settings.image_to_stage = proposal.image_to_stage;
    settings.stage_delay_us = proposal.delay_us;
    settings.stage_time_constant_us = proposal.time_constant_us;
    settings.stage_resonance_hz = proposal.resonance_hz;
    settings.stage_damping = proposal.damping;
    settings.integral = proposal.integral;
    settings.proportional = proposal.proportional;
    const double really_nm = test::locked_residual_nm(world, settings, 12, seed + 1);
    CHECK(proposal.residual_nm == Approx(really_nm).epsilon(0.2));
  }
}

TEST_CASE("impossible stages are refused with the reason") {
  int tried = 0;
  std::uint64_t number = 0;
  for (const auto& [name, world, refusals, no_room] : test::impossible_worlds()) {
    ++number;
    // Every third and those of the issue: the bench goes through all.
    const bool of_issue =
        name == "x dead" || name == "x reversed twice" || name == "markers swapped";
    if (!of_issue && number % 4 != 3) continue;
    CAPTURE(name);
    ControllerSettings allowed = limits();
    if (no_room) allowed.range_limit_nm = 0.2;
    const auto run = test::calibrate_in(world, allowed, number);
    const StageIdentification found = identify_stage(run.record, {.present = allowed});
    CAPTURE(found.text, name_of(found.refusal));
    CHECK(std::ranges::find(refusals, found.refusal) != refusals.end());
    CHECK(found.text.size() > 40);
    CHECK(found.text.back() == '.');
    ++tried;
  }
  CHECK(tried >= 9);
}

TEST_CASE("an axis wired reversed and axes swapped from the start are what the matrix says") {
  test::CalibrationWorld world = test::random_world(3);
  world.scenario.stage.image_to_stage = {{{0, 1}, {1, 0}}};
  world.scenario.stage.axis_sign = {-1, 1};
  world.scenario.stage.coupling = {0, 0};
  const auto run = test::calibrate_in(world, limits(), 3);
  const StageIdentification found = identify_stage(run.record, {.present = limits()});
  REQUIRE_FALSE(found.refused());
  check_against_truth(world, run, found.result);
  CHECK_FALSE(found.result.mirrored);  // swapped and one reversed: turned
  CHECK(std::abs(found.result.rotation_deg) == Approx(90).margin(1));
  CHECK(found.result.scale.x == Approx(0.98).epsilon(0.01));
  CHECK(found.result.pixel_ratio == Approx(1 / 0.98).epsilon(0.01));
}

TEST_CASE("frames that are missing, late or wrong spoil nothing") {
  test::CalibrationWorld world = test::random_world(8);
  world.missing_share = 0.05;
  world.outlier_share = 0.003;
  world.time_jitter_us = 30;
  const auto run = test::calibrate_in(world, limits(), 8);
  const StageIdentification found = identify_stage(run.record, {.present = limits()});
  REQUIRE_FALSE(found.refused());
  check_against_truth(world, run, found.result);
  CHECK(found.result.outliers > 10);
  CHECK(found.result.missing > 300);
}

TEST_CASE("hysteresis within the excursion is seen, and the matrix is that of small motions") {
  test::CalibrationWorld world = test::random_world(5);
  world.scenario.stage.hysteresis_share = 0.1;
  world.scenario.stage.hysteresis_reach_nm = 90;
  const auto run = test::calibrate_in(world, limits(), 5);
  const StageIdentification found = identify_stage(run.record, {.present = limits()});
  REQUIRE_FALSE(found.refused());
  CHECK(test::matrix_error(found.result.image_to_stage, test::true_matrix(world.scenario.stage)) <
        0.02);
  CHECK(found.result.hysteresis.x == Approx(0.1).margin(0.02));
  CHECK(found.result.hysteresis.y == Approx(0.1).margin(0.02));
}

TEST_CASE("slow cameras find the matrix, and responses that frames can follow") {
  test::CalibrationWorld world = test::random_world(12);
  world.frame_rate_hz = 50;
  const auto run = test::calibrate_in(world, limits(), 12);
  const StageIdentification found = identify_stage(run.record, {.present = limits()});
  REQUIRE_FALSE(found.refused());
  check_against_truth(world, run, found.result, 3);
}

TEST_CASE("a response of first order is told from one of second") {
  // The simulator has none: the record is made by the model itself.
  const ResponseShape truth{.order = 1, .delay_s = 0.004, .time_constant_s = 0.006};
  test::CalibrationWorld world = test::random_world(4);
  const auto run = test::calibrate_in(world, limits(), 4);
  StageRecord record = run.record;
  Staircase staircase;
  staircase.channels.resize(2);
  Exposures exposures{.middle_s = {}, .exposure_s = 1e-9 * static_cast<double>(record.exposure_ns)};
  const std::int64_t zero_ns = record.samples.front().taken_ns;
  for (const StageMove& move : record.moves) {
    staircase.sent_s.push_back(1e-9 * static_cast<double>(move.sent_ns - zero_ns));
    staircase.channels[0].push_back(move.total_nm.x);
    staircase.channels[1].push_back(move.total_nm.y);
  }
  for (const StageFrame& frame : record.samples)
    exposures.middle_s.push_back(1e-9 * static_cast<double>(frame.taken_ns - zero_ns));
  const auto moved = respond(truth, staircase, exposures);
  simulator::Random random(9, 9);
  for (std::size_t k = 0; k < record.samples.size(); ++k)
    record.samples[k].moved_nm = {moved[0][k] + 0.4 * random.normal(),
                                  moved[1][k] + 0.4 * random.normal()};
  const StageIdentification found = identify_stage(record, {.present = limits()});
  REQUIRE_FALSE(found.refused());
  CHECK(found.result.order == 1);
  CHECK(found.result.delay_us == Approx(4000).margin(50));
  REQUIRE(found.result.time_constant_us.has_value());
  CHECK(*found.result.time_constant_us == Approx(6000).epsilon(0.02));
  CHECK_FALSE(found.result.resonance_hz.has_value());
  CHECK(found.result.proposal.time_constant_us == Approx(6000).epsilon(0.02));
}

TEST_CASE("a slow stage of second order is proposed as one, a fast one as of first order") {
  const bool slow = GENERATE(true, false);
  test::CalibrationWorld world = test::random_world(5);
  world.scenario.stage.frequency_hz = slow ? 15 : 150;
  world.scenario.stage.damping = 0.7;
  ControllerSettings present = limits();
  present.stage_resonance_hz = 77;
  present.stage_damping = 0.3;
  const auto run = test::calibrate_in(world, limits(), 5);
  const StageIdentification found = identify_stage(run.record, {.present = present});
  REQUIRE_FALSE(found.refused());
  CHECK(found.result.present.resonance_hz == 77);
  CHECK(found.result.present.damping == 0.3);
  const StageProposal& proposal = found.result.proposal;
  if (slow) {
    CHECK(proposal.resonance_hz == Approx(15).epsilon(0.05));
    CHECK(proposal.damping == Approx(0.7).epsilon(0.1));
    CHECK(proposal.delay_us == Approx(found.result.delay_us));
  } else {
    CHECK(proposal.resonance_hz == 0);
    CHECK(proposal.time_constant_us > 500);
  }
}

TEST_CASE("records that hold nothing are refused") {
  CHECK(identify_stage({}, {.present = limits()}).refusal == StageRefusal::TooFewFrames);
  const test::CalibrationWorld world = test::random_world(1);
  StageRecord record = test::calibrate_in(world, limits(), 1, 6).record;
  StageRecord still = record;
  still.moves.clear();
  CHECK(identify_stage(still, {.present = limits()}).refusal == StageRefusal::TooLittleMotion);
  for (StageFrame& frame : record.samples) frame.moved_nm.x = std::nan("");
  CHECK(identify_stage(record, {.present = limits()}).refusal == StageRefusal::TooFewFrames);
}

}  // namespace
}  // namespace driftd::control
