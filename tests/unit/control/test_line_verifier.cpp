// SPDX-License-Identifier: MIT
// Which lines are the sample's own and which are aliases, by frames of two rates.
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "control/law/observer/line_verifier.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

constexpr double kRateHz = 100;
constexpr std::int64_t kPeriodNs = 10'000'000, kSlowerNs = 10'200'000, kStartNs = 1'000'000'000'000;

Line line_at(double hz, double amplitude_nm) {
  const double fade = 0.2;
  return {
      .frequency_hz = hz, .fade_per_s = fade, .kick_nm2_per_s = amplitude_nm * amplitude_nm * fade};
}

DisturbanceModel model_of(const std::vector<Line>& lines) {
  DisturbanceModel model{.walk_nm2_per_s = 0.1, .noise_nm2 = 0.04};
  for (const Line& line : lines) model.lines[model.line_count++] = line;
  return model;
}

struct Vibration {
  double hz, nm;
};

/// 400 frames of the usual rate, and 200 of another one.
PlaceRecord seen(const std::vector<Vibration>& vibrations, double later_s) {
  std::mt19937 generator(7);
  std::normal_distribution<double> noise(0, 0.2);
  PlaceRecord record;
  record.period_s = 1 / kRateHz;
  double time_s = 0;
  for (int i = 0; i < 600; ++i) {
    const double step_s = 1 / kRateHz + (i < 400 ? 0 : later_s);
    time_s += step_s;
    double place_nm = 5 * time_s + noise(generator);
    for (const Vibration& v : vibrations)
      place_nm += v.nm * std::sin(2 * std::numbers::pi * v.hz * time_s + v.hz);
    record.step_s.push_back(step_s);
    record.place_nm.push_back(place_nm);
    record.more_noise_nm2.push_back(0);
  }
  record.place_nm[100] = record.place_nm[450] = std::numeric_limits<double>::quiet_NaN();
  return record;
}

TEST_CASE("line verifier: at two rates a line of the sample's is told from an alias beside it") {
  const double alias_hz = GENERATE(93., 107., 193., 207., 393., 493.);
  CAPTURE(alias_hz);
  const DisturbanceModel told =
      judge_origins(seen({{12, 1}, {alias_hz, 0.6}}, 2e-4),
                    model_of({line_at(12.02, 1), line_at(7.03, 0.6)}), kRateHz);
  CHECK(told.lines[0].origin == LineOrigin::Own);
  CHECK(told.lines[0].frequency_hz == 12.02);
  CHECK(told.lines[1].origin == LineOrigin::Alias);
  CHECK(std::abs(told.lines[1].frequency_hz - alias_hz) < 0.05);
}

TEST_CASE("line verifier: at one rate nothing is told, nor of a line that is not there") {
  const DisturbanceModel model = model_of({line_at(12, 1), line_at(7, 0.6)});
  const DisturbanceModel one_rate = judge_origins(seen({{12, 1}, {93, 0.6}}, 0), model, kRateHz);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(one_rate.lines[i].origin == LineOrigin::Unknown);
    CHECK(one_rate.lines[i].frequency_hz == model.lines[i].frequency_hz);
  }
  const DisturbanceModel none = judge_origins(seen({{12, 1}}, 2e-4), model, kRateHz);
  CHECK(none.lines[0].origin == LineOrigin::Own);
  CHECK(none.lines[1].origin != LineOrigin::Own);
}

/// A verifier and the times of a camera that obeys.
struct Watch {
  LineVerifier verifier;
  std::int64_t time_ns = kStartNs;
  bool obeys = true;

  void go_on(int frames) {
    for (int i = 0; i < frames; ++i) {
      time_ns += obeys && verifier.wants_slower_frames() ? kSlowerNs : kPeriodNs;
      verifier.take(time_ns);
    }
  }
};

TEST_CASE("line verifier: a test takes two seconds of slower frames, and what it told stays") {
  Watch watch;
  LineVerifier& verifier = watch.verifier;
  const DisturbanceModel found = model_of({line_at(12, 1), line_at(7, 1)});
  CHECK_FALSE(verifier.has_question(found));  // no frame was seen
  watch.go_on(100);
  CHECK(verifier.rate_hz() == Approx(kRateHz));
  REQUIRE(verifier.has_question(found));
  CHECK_FALSE(verifier.has_question(model_of({line_at(12, 0.01)})));  // moves nothing
  verifier.begin();
  CHECK(verifier.wants_slower_frames());
  CHECK_FALSE(verifier.has_question(found));
  int frames = 0;
  for (; frames < 1000 && !verifier.is_over(); ++frames) watch.go_on(1);
  CHECK(frames > 180);
  CHECK(frames < 230);
  CHECK_FALSE(verifier.wants_slower_frames());
  CHECK(verifier.record_from_ns() < kStartNs + 100 * kPeriodNs);
  DisturbanceModel told = found;
  told.lines[0].origin = LineOrigin::Own;
  told.lines[1].origin = LineOrigin::Alias;
  told.lines[1].frequency_hz = 93;
  verifier.learn(told);
  verifier.finish();
  watch.go_on(1000);
  CHECK(verifier.rate_hz() == Approx(kRateHz));
  // Found a little beside it, as seen at the usual rate.
  DisturbanceModel again = model_of({line_at(7.1, 1), line_at(12.1, 1)});
  verifier.name(again);
  CHECK(again.lines[0].origin == LineOrigin::Alias);
  CHECK(again.lines[0].frequency_hz == Approx(92.9));
  CHECK(again.lines[1].origin == LineOrigin::Own);
  CHECK(again.lines[1].frequency_hz == 12.1);
  CHECK_FALSE(verifier.has_question(again));
  DisturbanceModel elsewhere = model_of({line_at(14, 1)});
  verifier.name(elsewhere);
  CHECK(elsewhere.lines[0].origin == LineOrigin::Unknown);
  CHECK(verifier.has_question(elsewhere));
  // A line that was away for a minute is another one.
  watch.go_on(6100);
  verifier.name(elsewhere);
  verifier.name(told = found);
  CHECK(told.lines[0].origin == LineOrigin::Unknown);
}

TEST_CASE("line verifier: of two lines beside each other each keeps its own verdict") {
  for (const bool own_first : {true, false}) {
    Watch watch;
    Line own = line_at(12, 1), alias = line_at(87.7, 1);
    own.origin = LineOrigin::Own;
    alias.origin = LineOrigin::Alias;
    watch.go_on(100);
    watch.verifier.begin();
    while (!watch.verifier.is_over()) watch.go_on(1);
    watch.verifier.learn(own_first ? model_of({own, alias}) : model_of({alias, own}));
    watch.verifier.finish();
    DisturbanceModel later = model_of({line_at(12.02, 1), line_at(12.28, 1), line_at(12.15, 1)});
    watch.verifier.name(later);
    CHECK(later.lines[0].origin == LineOrigin::Own);
    CHECK(later.lines[1].origin == LineOrigin::Alias);
    CHECK(later.lines[1].frequency_hz == Approx(87.72));
    CHECK(later.lines[2].origin == LineOrigin::Unknown);
    watch.go_on(1000);
    CHECK(watch.verifier.has_question(later));
    DisturbanceModel at_its_own = model_of({line_at(87.71, 1), line_at(12.2, 1)});
    watch.verifier.name(at_its_own);
    CHECK(at_its_own.lines[0].origin == LineOrigin::Alias);
    CHECK(at_its_own.lines[1].origin == LineOrigin::Own);
    // Of the next lock, too, whichever axis comes first.
    watch.verifier.reset();
    watch.go_on(100);
    DisturbanceModel other = model_of({line_at(30, 1)}), again = model_of({line_at(12, 1)});
    watch.verifier.name(other);
    watch.verifier.name(again);
    CHECK(again.lines[0].origin == LineOrigin::Own);
  }
}

TEST_CASE("line verifier: frames that are slower for another lock are not its rate") {
  LineVerifier verifier;
  std::int64_t time_ns = kStartNs;
  const auto take = [&](int frames, std::int64_t step_ns) {
    for (int i = 0; i < frames; ++i) verifier.take(time_ns += step_ns);
  };
  const DisturbanceModel found = model_of({line_at(12, 1)});
  verifier.see_camera(true);
  take(100, kSlowerNs);
  CHECK(verifier.is_unsettled());
  CHECK(verifier.rate_hz() == 0);
  CHECK_FALSE(verifier.has_question(found));
  verifier.see_camera(false);
  take(20, kSlowerNs);  // it takes the camera a while
  CHECK(verifier.is_unsettled());
  take(100, kPeriodNs);
  CHECK_FALSE(verifier.is_unsettled());
  CHECK(verifier.rate_hz() == Approx(kRateHz));
  CHECK(verifier.has_question(found));
}

TEST_CASE("line verifier: in the test of another lock it takes part") {
  const DisturbanceModel found = model_of({line_at(12, 1)});
  for (const bool joins : {true, false}) {
    Watch watch;
    watch.go_on(100);
    joins ? watch.verifier.join() : watch.verifier.begin();
    while (!watch.verifier.is_over()) watch.go_on(1);
    watch.verifier.finish();  // it told nothing
    watch.go_on(70);
    CHECK(watch.verifier.has_question(found) == joins);
  }
  Watch watch;
  watch.go_on(100);
  watch.verifier.join();
  CHECK(watch.verifier.wants_slower_frames());
  while (!watch.verifier.is_over()) watch.go_on(1);
  DisturbanceModel told = found;
  told.lines[0].origin = LineOrigin::Own;
  watch.verifier.learn(told);
  watch.verifier.finish();
  DisturbanceModel later = found;
  watch.verifier.name(later);
  CHECK(later.lines[0].origin == LineOrigin::Own);
}

TEST_CASE("line verifier: what was not told is asked again, ever more seldom") {
  Watch watch;
  const DisturbanceModel found = model_of({line_at(12, 1)});
  watch.go_on(100);
  std::vector<double> waits_s;
  for (int i = 0; i < 3; ++i) {
    watch.verifier.begin();
    while (!watch.verifier.is_over()) watch.go_on(1);
    watch.verifier.learn(found);
    watch.verifier.finish();
    const std::int64_t from_ns = watch.time_ns;
    while (!watch.verifier.has_question(found)) watch.go_on(1);
    waits_s.push_back(1e-9 * static_cast<double>(watch.time_ns - from_ns));
  }
  CHECK(waits_s[0] > 5);
  CHECK(waits_s[1] == Approx(2 * waits_s[0]).epsilon(0.05));
  CHECK(waits_s[2] == Approx(2 * waits_s[1]).epsilon(0.05));
}

TEST_CASE("line verifier: a camera that does not obey is left alone for a minute") {
  Watch watch;
  watch.obeys = false;
  const DisturbanceModel found = model_of({line_at(12, 1)});
  watch.go_on(100);
  watch.verifier.begin();
  watch.go_on(500);
  CHECK_FALSE(watch.verifier.wants_slower_frames());
  REQUIRE(watch.verifier.is_over());
  CHECK(watch.verifier.is_refused());
  watch.verifier.finish();
  CHECK_FALSE(watch.verifier.is_busy());
  CHECK(watch.verifier.is_refused());
  watch.go_on(5900);
  CHECK_FALSE(watch.verifier.has_question(found));
  watch.go_on(200);
  REQUIRE(watch.verifier.has_question(found));
  watch.obeys = true;
  watch.verifier.begin();
  watch.go_on(300);
  CHECK(watch.verifier.is_over());
  CHECK_FALSE(watch.verifier.is_refused());
}

TEST_CASE("line verifier: a test whose slower rate somebody takes back tells nothing") {
  Watch watch;
  watch.go_on(100);
  watch.verifier.begin();
  watch.go_on(100);
  watch.obeys = false;
  watch.go_on(500);
  CHECK_FALSE(watch.verifier.is_busy());
  CHECK_FALSE(watch.verifier.is_refused());
}

TEST_CASE("line verifier: a lock that begins anew ends a test") {
  Watch watch;
  watch.go_on(100);
  watch.verifier.begin();
  watch.go_on(100);
  watch.verifier.reset();
  CHECK_FALSE(watch.verifier.wants_slower_frames());
  CHECK_FALSE(watch.verifier.is_busy());
}

}  // namespace
}  // namespace driftd::control
