// SPDX-License-Identifier: MIT
// What is known of markers beyond a frame, judged by the true place: reputations, and witnesses
// that take turns.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "control/drift/marker_trust.hpp"
#include "support/catch.hpp"
#include "unit/control/marker_scene.hpp"

namespace driftd::control {
namespace {

constexpr double kRateHz = 50;  ///< slow, so that minutes are few frames

/// A scene, the estimator on it, and what it makes of the true place.
struct Watched {
  test::MarkerScene scene;
  DriftEstimator estimator;
  MarkerTrust trust;
  bool trusting;
  double rotate_s = 0;
  int frame = 0;
  int bad = 0, since = 0;
  test::Misdeed misdeed;
  Vec2 reference_nm;
  int invalid = 0;

  explicit Watched(const test::Scene& s, bool with_trust = true, unsigned seed = 7)
      : scene(s, seed),
        estimator(test::scene_settings()),
        trust(scene.markers()),
        trusting(with_trust) {
    reference_nm = test::take_reference(estimator, scene, 100);
    frame = 100;
  }
  /// Error of the mean over so many seconds, of the worse axis.
  double place_error_nm(double seconds) {
    Vec2 sum;
    const int frames = static_cast<int>(seconds * kRateHz);
    for (int i = 0; i < frames; ++i) {
      const auto& seen = scene.observe(frame, bad, since, misdeed);
      const DriftEstimate& drift = estimator.update(seen);
      if (!drift.valid) ++invalid;
      if (trusting)
        trust.after_frame(estimator, drift, seen,
                          {.interval_s = 1 / kRateHz, .locked = true, .period_s = rotate_s});
      const Vec2 truth = scene.truth_nm(frame++);
      sum.x += drift.frame_drift_nm.x - (truth.x - reference_nm.x);
      sum.y += drift.frame_drift_nm.y - (truth.y - reference_nm.y);
    }
    return std::max(std::abs(sum.x), std::abs(sum.y)) / frames;
  }
  double worst_error_nm(int times, double seconds) {
    double worst = 0;
    for (int i = 0; i < times; ++i) worst = std::max(worst, place_error_nm(seconds));
    return worst;
  }
  bool excluded(std::size_t i) const { return trust.standing(i).excluded; }
  int tracking() const {
    const auto markers = estimator.markers();
    return static_cast<int>(std::count_if(markers.begin(), markers.end(), [](const Marker& m) {
      return m.role == MarkerRole::Tracking;
    }));
  }
};

/// Along (0.8, 0.6).
test::Misdeed walk(double nm_per_min) {
  return [=](MarkerObservation& o, int age, std::mt19937&) {
    const double by_px = nm_per_min * age / kRateHz / 60 / test::kPixelNm;
    o.x_px += 0.8 * by_px;
    o.y_px += 0.6 * by_px;
  };
}

TEST_CASE("markers that do what they promise count in full: nothing is changed") {
  for (const int markers : {4, 16}) {
    Watched with({.markers = markers, .witnesses = 2}),
        without({.markers = markers, .witnesses = 2}, false);
    for (int i = 0; i < 12; ++i)
      CHECK(with.place_error_nm(10) == Approx(without.place_error_nm(10)).margin(1e-6));
    for (std::size_t i = 0; i < with.scene.markers().size(); ++i) {
      CAPTURE(i);
      CHECK(with.trust.standing(i).reputation == 1);
      CHECK(with.trust.standing(i).reason == StandingReason::Good);
      CHECK(with.trust.standing(i).chi_square == Approx(1).margin(0.35));
    }
  }
}

TEST_CASE("a quarter of the markers that walk by 1 nm/min is found, and holds nothing back") {
  for (const int markers : {4, 8, 16}) {
    CAPTURE(markers);
    double worst[2] = {};
    for (const bool trusting : {false, true}) {
      Watched w({.markers = markers, .witnesses = 1}, trusting);
      w.bad = markers / 4;
      w.since = w.frame;
      w.misdeed = walk(1);
      w.place_error_nm(60);
      worst[trusting ? 1 : 0] = w.worst_error_nm(12, 10);
      if (!trusting) continue;
      for (int i = 0; i < w.bad; ++i) {
        CHECK(w.excluded(static_cast<std::size_t>(i)));
        const MarkerStanding& s = w.trust.standing(static_cast<std::size_t>(i));
        CHECK(s.reason == StandingReason::Moved);
        CHECK(std::hypot(s.walk_nm_per_min.x, s.walk_nm_per_min.y) == Approx(1).margin(0.3));
      }
      for (int i = w.bad; i < markers; ++i) CHECK_FALSE(w.excluded(static_cast<std::size_t>(i)));
    }
    // Three minutes: without a memory they pull until they are 3 nm away.
    CHECK(worst[1] < 0.6 * worst[0]);
  }
}

TEST_CASE("a marker that came back counts again after a while, each time after a longer one") {
  Watched w({.markers = 8, .witnesses = 1});
  std::vector<double> until_back_s;
  for (int time = 0; time < 3; ++time) {
    w.bad = 1;
    w.since = w.frame;
    w.misdeed = [](MarkerObservation& o, int, std::mt19937&) { o.x_px += 0.02; };  // 2 nm
    w.place_error_nm(20);
    CHECK(w.excluded(0));
    w.bad = 0;
    double seconds = 0;
    for (; w.excluded(0) && seconds < 1000; seconds += 1) w.place_error_nm(1);
    CHECK(w.trust.standing(0).reason == StandingReason::Returning);
    until_back_s.push_back(seconds);
    w.place_error_nm(400);
    CHECK(w.trust.standing(0).reputation > 0.9);
  }
  CHECK(until_back_s[0] > 30);
  CHECK(until_back_s[0] < 120);
  CHECK(until_back_s[1] > 1.3 * until_back_s[0]);
  CHECK(until_back_s[2] > 1.3 * until_back_s[1]);
}

TEST_CASE("a marker that scatters more than it promises loses weight, one that blinks does not") {
  Watched w({.markers = 8, .witnesses = 1});
  w.bad = 1;
  w.since = w.frame;
  w.misdeed = [](MarkerObservation& o, int, std::mt19937& random) {
    std::normal_distribution<double> normal;
    o.x_px += 2 * static_cast<double>(o.x_sd_px) * normal(random);
    o.y_px += 2 * static_cast<double>(o.y_sd_px) * normal(random);
  };
  w.place_error_nm(180);
  CHECK(w.trust.standing(0).reason == StandingReason::Noisy);
  CHECK(w.trust.standing(0).reputation > 0.15);
  CHECK(w.trust.standing(0).reputation < 0.8);
  Watched blinks({.markers = 8, .witnesses = 1});
  blinks.bad = 1;
  blinks.misdeed = [](MarkerObservation& o, int age, std::mt19937&) { o.fitted = age % 10 != 0; };
  blinks.place_error_nm(180);
  CHECK(blinks.trust.standing(0).reputation == 1);
  CHECK(blinks.trust.standing(0).good_share == Approx(0.9).margin(0.02));
  blinks.misdeed = [](MarkerObservation& o, int age, std::mt19937&) { o.fitted = age % 10 == 0; };
  blinks.place_error_nm(180);
  CHECK(blinks.excluded(0));
  CHECK(blinks.trust.standing(0).reason == StandingReason::SeldomSeen);
}

TEST_CASE("the drift never has fewer than min_markers for reputation") {
  Watched w({.markers = 6, .witnesses = 1});
  w.bad = 4;  // one of the four is there in each frame
  w.misdeed = [n = 0](MarkerObservation& o, int, std::mt19937&) mutable {
    o.fitted = n / 4 % 4 == n % 4;
    ++n;
  };
  w.place_error_nm(300);
  CHECK(w.invalid < 10);  // where one of the three is an outlier by noise
  for (std::size_t i = 0; i < 4; ++i) REQUIRE(w.excluded(i));
  w.bad = 0;
  w.invalid = 0;
  w.place_error_nm(1);  // all are there again, four of them excluded still
  REQUIRE(w.excluded(0));
  CHECK(w.invalid == 0);
  CHECK(w.estimator.update(w.scene.observe(w.frame)).markers_used == 6);
  w.place_error_nm(600);
  for (std::size_t i = 0; i < 4; ++i) CHECK_FALSE(w.excluded(i));
}

TEST_CASE("a new reference forgets where a marker was, and nothing else") {
  Watched w({.markers = 8, .witnesses = 1});
  w.bad = 1;
  w.since = w.frame;
  w.misdeed = [](MarkerObservation& o, int, std::mt19937&) { o.x_px += 0.02; };
  w.place_error_nm(20);
  REQUIRE(w.excluded(0));
  w.estimator.begin_reference(100);
  w.place_error_nm(4);
  CHECK(std::abs(w.trust.standing(0).moved_nm.x) < 0.3);
  CHECK(w.excluded(0));
}

TEST_CASE("the role of witness goes round, and the place neither steps nor walks") {
  Watched still({.markers = 8, .witnesses = 2}), turning({.markers = 8, .witnesses = 2});
  turning.rotate_s = 60;
  std::set<std::uint32_t> have_been;
  double step_nm = 0, apart_nm = 0;
  Vec2 before;
  for (int second = 0; second < 1200; ++second) {
    still.place_error_nm(1);
    turning.place_error_nm(1);
    CHECK(turning.tracking() <= 8);
    CHECK(turning.tracking() >= 7);
    for (const Marker& m : turning.estimator.markers())
      if (m.role == MarkerRole::Witness) have_been.insert(m.id);
    // Both see the same frames: without its noise, how far the one is from the other.
    Vec2 apart;
    double weight[2] = {};
    for (std::size_t i = 0; i < 10; ++i) {
      const auto part = [&](const Watched& w) {
        return w.estimator.markers()[i].role == MarkerRole::Tracking ? w.estimator.share(i) : 0;
      };
      weight[0] += part(still);
      weight[1] += part(turning);
    }
    for (std::size_t i = 0; i < 10; ++i) {
      const Vec2 mistake = still.scene.reference_error_nm(i, still.estimator.reference(i).place_px,
                                                          still.reference_nm);
      const auto part = [&](const Watched& w, double sum) {
        return (w.estimator.markers()[i].role == MarkerRole::Tracking ? w.estimator.share(i) : 0) /
               sum;
      };
      const double more = part(turning, weight[1]) - part(still, weight[0]);
      apart.x += more * mistake.x;
      apart.y += more * mistake.y;
    }
    if (second > 0) step_nm = std::max(step_nm, std::hypot(apart.x - before.x, apart.y - before.y));
    before = apart;
    apart_nm = std::max(apart_nm, std::hypot(apart.x, apart.y));
  }
  CHECK(have_been.size() == 10);
  CHECK(turning.invalid == 0);
  CHECK(step_nm < 0.01);  // in a second
  CHECK(apart_nm < 0.1);
  for (std::size_t i = 0; i < 10; ++i) {  // no reference was touched
    CHECK(turning.estimator.reference(i).place_px.x == still.estimator.reference(i).place_px.x);
    CHECK(turning.estimator.reference(i).place_px.y == still.estimator.reference(i).place_px.y);
  }
}

TEST_CASE("nobody of bad reputation changes its role, and none while too few would be left") {
  Watched moved({.markers = 8, .witnesses = 2});
  moved.rotate_s = 40;
  moved.bad = 1;
  moved.since = moved.frame;
  // 2 nm: good in each frame.
  moved.misdeed = [](MarkerObservation& o, int, std::mt19937&) { o.x_px += 0.02; };
  moved.place_error_nm(30);
  for (int i = 0; i < 600; ++i) {
    moved.place_error_nm(1);
    REQUIRE(moved.estimator.markers()[0].role == MarkerRole::Tracking);
  }
  Watched few({.markers = 4, .witnesses = 2});  // three are to be left, and one to spare
  few.rotate_s = 40;
  for (int i = 0; i < 120; ++i) {
    few.place_error_nm(1);
    REQUIRE(few.tracking() == 4);
  }
}

TEST_CASE("markers that are lost in an exchange end it") {
  Watched w({.markers = 5, .witnesses = 1});
  w.rotate_s = 40;
  for (int i = 0; i < 200 && w.tracking() == 5; ++i) w.place_error_nm(1);
  REQUIRE(w.tracking() == 4);  // one has left, none has come in yet
  const auto left =
      std::find_if(w.estimator.markers().begin(), w.estimator.markers().end(),
                   [](const Marker& m) { return m.role == MarkerRole::Witness && m.id != 6; });
  REQUIRE(left != w.estimator.markers().end());
  REQUIRE(left->id == 1);
  // Markers 1 to 3 are dark but for the first.
  w.bad = 3;
  w.misdeed = [n = 0](MarkerObservation& o, int, std::mt19937&) mutable {
    o.fitted = n++ % 3 == 0;
  };
  w.place_error_nm(0.1);
  CHECK(w.tracking() == 5);
  CHECK(w.estimator.share(0) == 1);
  CHECK(w.invalid == 1);  // the frame that showed it
}

}  // namespace
}  // namespace driftd::control
