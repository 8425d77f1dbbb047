// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>
#include <numbers>

#include "control/law/observer/model_fit.hpp"
#include "control/law/observer/stage_fit.hpp"
#include "support/catch.hpp"
#include "unit/control/observer_world.hpp"

namespace driftd::control {
namespace {

using test::kPeriodS;

DisturbanceModel knows_nothing() {
  return {.walk_nm2_per_s = 10, .noise_nm2 = 0.2};
}

/// Eight seconds.
PlaceRecord record_of(const DisturbanceModel& model, unsigned seed) {
  test::RandomMotion sample(model, seed);
  PlaceRecord record;
  record.period_s = kPeriodS;
  for (int i = 0; i < 4096; ++i) {
    record.place_nm.push_back(sample.measured(sample.advance()));
    record.more_noise_nm2.push_back(0);
  }
  return record;
}

void add_sine(PlaceRecord& record, double amplitude_nm, double hz, std::size_t from = 0) {
  for (std::size_t i = from; i < record.place_nm.size(); ++i)
    record.place_nm[i] +=
        amplitude_nm * std::sin(2 * std::numbers::pi * hz * kPeriodS * static_cast<double>(i));
}

TEST_CASE("model fit: walk and noise are found, and no line where there is none") {
  const DisturbanceModel truth{.walk_nm2_per_s = 1, .noise_nm2 = 0.09};
  int lines = 0;
  for (unsigned seed = 1; seed <= 5; ++seed) {
    const FittedModel fit = fit_model(record_of(truth, seed), knows_nothing());
    CHECK(fit.model.walk_nm2_per_s == Approx(1).epsilon(0.5));
    CHECK(fit.model.noise_nm2 == Approx(0.09).epsilon(0.08));
    lines += static_cast<int>(fit.model.line_count);
  }
  CHECK(lines <= 1);
}

TEST_CASE("model fit: lines are found where they are") {
  PlaceRecord record = record_of({.walk_nm2_per_s = 1, .noise_nm2 = 0.09}, 3);
  add_sine(record, 1, 29.7);
  add_sine(record, 0.5, 50);
  const FittedModel fit = fit_model(record, knows_nothing());
  REQUIRE(fit.model.line_count == 2);
  CHECK_FALSE(fit.model.tracks);
  CHECK(fit.model.lines[0].frequency_hz == Approx(29.7).margin(0.02));
  CHECK(fit.model.lines[1].frequency_hz == Approx(50).margin(0.02));
  CHECK(fit.model.noise_nm2 == Approx(0.09).epsilon(0.1));
  CHECK(fit.log_likelihood > judge_model(record, knows_nothing()).log_likelihood + 100);
}

TEST_CASE("model fit: it is as likely as the truth") {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    const PlaceRecord record = record_of(test::shaken(), seed);
    CHECK(fit_model(record, knows_nothing()).log_likelihood >
          judge_model(record, test::shaken()).log_likelihood - 2);
  }
}

TEST_CASE("model fit: a line that has stopped is dropped, one that has begun is found") {
  PlaceRecord record = record_of({.walk_nm2_per_s = 1, .noise_nm2 = 0.09}, 4);
  constexpr std::size_t kFrom = 3900;
  SECTION("begun") {
    add_sine(record, 1, 29.7, kFrom);
    record.judged_from = kFrom;
    const FittedModel fit = fit_model(record, {.walk_nm2_per_s = 1, .noise_nm2 = 0.09});
    REQUIRE(fit.model.line_count >= 1);
    CHECK(fit.model.lines[0].frequency_hz == Approx(29.7).margin(0.5));
  }
  SECTION("stopped") {
    add_sine(record, 1, 29.7);
    PlaceRecord after = record_of({.walk_nm2_per_s = 1, .noise_nm2 = 0.09}, 4);
    for (std::size_t i = kFrom; i < record.place_nm.size(); ++i)
      record.place_nm[i] = after.place_nm[i];
    record.judged_from = kFrom;
    DisturbanceModel model{.walk_nm2_per_s = 1, .noise_nm2 = 0.09};
    model.lines[0] = {.frequency_hz = 29.7, .fade_per_s = 0.01, .kick_nm2_per_s = 1e-3};
    model.line_count = 1;
    const double before = judge_model(record, model).innovation_nm2;
    CHECK(fit_model(record, model).innovation_nm2 < 0.85 * before);
  }
}

/// A line from 29 to 31.46 Hz.
PlaceRecord drifting_record() {
  PlaceRecord record = record_of({.walk_nm2_per_s = 1, .noise_nm2 = 0.09}, 5);
  for (std::size_t i = 0; i < record.place_nm.size(); ++i) {
    const double t = kPeriodS * static_cast<double>(i);
    record.place_nm[i] += std::sin(2 * std::numbers::pi * (29 * t + 0.5 * 0.3 * t * t));
  }
  return record;
}

TEST_CASE("model fit: a line that drifts is tracked back to where it was") {
  DisturbanceModel model{.walk_nm2_per_s = 1, .noise_nm2 = 0.09};
  model.lines[0] = {.frequency_hz = 31.46, .fade_per_s = 0.1, .kick_nm2_per_s = 0.05};
  model.line_count = 1;
  CHECK(at_beginning(drifting_record(), model).lines[0].frequency_hz == 31.46);  // it is fixed
  model.tracks = true;
  CHECK(at_beginning(drifting_record(), model).lines[0].frequency_hz == Approx(29).margin(0.2));
}

TEST_CASE("model fit: a line that drifts is tracked") {
  const PlaceRecord record = drifting_record();
  const FittedModel fit = fit_model(record, knows_nothing());
  REQUIRE(fit.model.line_count >= 1);
  CHECK(fit.model.tracks);
  CHECK(fit.model.lines[0].frequency_hz == Approx(29 + 0.3 * 8.19).margin(0.4));
}

TEST_CASE("model fit: missing places are bridged") {
  PlaceRecord record = record_of(test::shaken(), 6);
  for (std::size_t i = 0; i < record.place_nm.size(); i += 10)
    record.place_nm[i] = std::numeric_limits<double>::quiet_NaN();
  const FittedModel fit = fit_model(record, knows_nothing());
  REQUIRE(fit.model.line_count >= 1);
  CHECK(fit.model.lines[0].frequency_hz == Approx(30).margin(0.2));
  CHECK(std::isfinite(fit.log_likelihood));
}

TEST_CASE("stage fit: places that come too late, too far, or right are told from each other") {
  const PlaceRecord sample = record_of({.walk_nm2_per_s = 1, .noise_nm2 = 0.09}, 7);
  test::RandomMotion moves({.walk_nm2_per_s = 100, .noise_nm2 = 0}, 8);
  std::vector<double> stage;
  for (std::size_t i = 0; i < sample.place_nm.size() + 1; ++i) stage.push_back(moves.advance());
  const DisturbanceModel model =
      judge_model(sample, {.walk_nm2_per_s = 1, .noise_nm2 = 0.09}).model;
  const double wrong = GENERATE(-0.1, 0.0, 0.1);
  PlaceRecord seen = sample;
  StageDoubt gain{.place_nm = {}, .by = 0.01, .sd = 0.3, .most = 0.15};
  for (std::size_t i = 0; i < seen.place_nm.size(); ++i) {
    seen.place_nm[i] -= wrong * stage[i];
    gain.place_nm.push_back(seen.place_nm[i] + 0.01 * stage[i]);
  }
  CHECK(fit_stage(seen, model, {gain})[0] == Approx(wrong).margin(0.02));
}

}  // namespace
}  // namespace driftd::control
