// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "control/drift/consensus.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

constexpr RobustLimits kLimits;

struct Voters {
  std::vector<Vote> votes;
  std::vector<double> scratch;
  Consensus agree() { return robust_mean(votes, kLimits, scratch); }
};

Voters good_voters(int count, double sd_nm, std::mt19937& random) {
  std::normal_distribution<double> normal(0, sd_nm);
  Voters v;
  for (int i = 0; i < count; ++i)
    v.votes.push_back({.value_nm = {normal(random), normal(random)},
                       .variance_nm2 = {sd_nm * sd_nm, sd_nm * sd_nm}});
  v.scratch.resize(v.votes.size());
  return v;
}

TEST_CASE("no votes, no consensus; one vote is the consensus") {
  CHECK(robust_mean({}, kLimits, {}).used == 0);
  std::array<double, 1> scratch{};
  std::array<Vote, 1> one{{{.value_nm = {3, 4}, .variance_nm2 = {4, 9}}}};
  const Consensus c = robust_mean(one, kLimits, scratch);
  CHECK(c.used == 1);
  CHECK(c.value_nm.x == 3);
  CHECK(c.value_nm.y == 4);
  CHECK(c.covariance_nm2.xx == Approx(4));
  CHECK(c.covariance_nm2.yy == Approx(9));
}

TEST_CASE("the weights are those of the mean variance, whichever axis is the worse one") {
  Voters v;
  v.votes = {{.value_nm = {0, 0}, .variance_nm2 = {1, 9}},
             {.value_nm = {1.6, -0.8}, .variance_nm2 = {9, 1}}};
  v.scratch.resize(2);
  const Consensus c = v.agree();
  CHECK(c.value_nm.x == Approx(0.8));
  CHECK(c.value_nm.y == Approx(-0.4));
}

TEST_CASE("a vote's trust is a factor on its weight") {
  Voters v;
  for (int i = 0; i < 3; ++i) v.votes.push_back({.value_nm = {}, .variance_nm2 = {1, 2}});
  v.votes[1].trust = 0.5;
  v.scratch.resize(3);
  v.agree();
  CHECK(v.votes[0].weight == Approx(0.4));
  CHECK(v.votes[1].weight == Approx(0.2));
}

TEST_CASE("scale and covariance are those of the scatter, both axes and their cross term") {
  // Pairs on both sides of the centre, all 2 nm away, so that all weigh the same.
  const double pi = std::acos(-1.0);
  const Vec2 centre{100, -40};
  Voters v;
  double xx = 0, xy = 0, yy = 0;
  for (const double degrees : {20.0, 50.0, 200.0, 230.0}) {
    const Vec2 r{2 * std::cos(degrees * pi / 180), 2 * std::sin(degrees * pi / 180)};
    v.votes.push_back({.value_nm = {centre.x + r.x, centre.y + r.y}, .variance_nm2 = {0.02, 0.08}});
    xx += r.x * r.x;
    xy += r.x * r.y;
    yy += r.y * r.y;
  }
  v.scratch.resize(v.votes.size());
  const Consensus c = v.agree();
  CHECK(c.value_nm.x == Approx(centre.x));
  CHECK(c.value_nm.y == Approx(centre.y));
  CHECK(c.scale == Approx(2 / std::sqrt(0.05) / kRayleighMedian));
  // The mean of four: their scatter, divided by n - 1 and by n.
  CHECK(c.covariance_nm2.xx == Approx(xx / 12));
  CHECK(c.covariance_nm2.xy == Approx(xy / 12));
  CHECK(c.covariance_nm2.yy == Approx(yy / 12));
}

TEST_CASE("a vote is compared with the mean of the others") {
  Voters v;
  for (int i = 0; i < 5; ++i) v.votes.push_back({.value_nm = {}, .variance_nm2 = {3, 5}});
  v.scratch.resize(v.votes.size());
  CHECK(v.agree().others_sd_nm == Approx(1));  // sqrt(4 / 4)
}

TEST_CASE("with good votes it is nearly as good as the mean") {
  std::mt19937 random(5);
  double error2 = 0, predicted2 = 0;
  const int runs = 4000, count = 12;
  for (int run = 0; run < runs; ++run) {
    Voters v = good_voters(count, 1, random);
    const Consensus c = v.agree();
    error2 += c.value_nm.x * c.value_nm.x / runs;
    predicted2 += c.covariance_nm2.xx / runs;
  }
  // Tukey's biweight cut at 4 sigma: at most a tenth less efficient than the mean.
  CHECK(error2 < 1.1 / count);
  CHECK(predicted2 == Approx(error2).epsilon(0.1));
}

TEST_CASE("the noise by the fits is that of the consensus, what its robustness costs included") {
  const int count = GENERATE(1, 4, 16, 100);
  const double sd_nm = GENERATE(0.2, 2.0);  // the limit is the floor; four of them
  CAPTURE(count, sd_nm);
  std::mt19937 random(3);
  double square_nm2 = 0, promised_nm2 = 0;
  constexpr int kFrames = 8000;
  for (int i = 0; i < kFrames; ++i) {
    Voters v = good_voters(count, sd_nm, random);
    for (Vote& vote : v.votes) {  // both are no noise of the frames'
      vote.floor_nm2 = 0.02;
      vote.reference_nm2 = 0.02;
      vote.variance_nm2 = {vote.variance_nm2.x + 0.04, vote.variance_nm2.y + 0.04};
    }
    const Consensus c = v.agree();
    square_nm2 += c.value_nm.x * c.value_nm.x + c.value_nm.y * c.value_nm.y;
    promised_nm2 += c.fit_noise_nm2.x + c.fit_noise_nm2.y;
  }
  CHECK(promised_nm2 / square_nm2 == Approx(1).epsilon(0.05));
}

TEST_CASE("a quarter of wrong votes does not move it, wherever they are") {
  std::mt19937 random(6);
  for (const double far_nm : {20.0, 1e3, 1e9, 1e150}) {
    Voters v = good_voters(16, 1, random);
    const Consensus before = v.agree();
    for (std::size_t i = 0; i < 4; ++i) v.votes[i].value_nm = {far_nm, far_nm};
    const Consensus after = v.agree();
    CHECK(after.used == 12);
    // Four of sixteen votes fewer: what twelve and sixteen votes of 1 nm differ by, at 4 sigma.
    CHECK(std::hypot(after.value_nm.x - before.value_nm.x, after.value_nm.y - before.value_nm.y) <
          4 * std::sqrt(1.0 / 12 - 1.0 / 16) * std::sqrt(2.0));
  }
}

TEST_CASE("one vote that claims to be perfect does not outvote the others") {
  std::mt19937 random(7);
  Voters v = good_voters(4, 1, random);
  v.votes[0].value_nm = {2.5, 0};  // below the floor of 3 nm: no outlier by itself
  v.votes[0].variance_nm2 = {1e-6, 1e-6};
  const Consensus c = v.agree();
  CHECK(v.votes[0].weight <= 0.5);
  CHECK(c.value_nm.x < 2);
}

TEST_CASE("votes that scatter more than they promise widen the covariance, not the exclusions") {
  std::mt19937 random(8);
  Voters v = good_voters(16, 10, random);
  for (Vote& vote : v.votes) vote.variance_nm2 = {0.25, 0.25};
  const Consensus c = v.agree();
  CHECK(c.scale > 10);
  CHECK(c.used >= 14);
  CHECK(std::sqrt(c.covariance_nm2.xx) == Approx(10 / std::sqrt(16.0)).epsilon(0.5));
}

TEST_CASE("the covariance is one: positive, correlation at most 1") {
  std::mt19937 random(9);
  std::uniform_real_distribution<double> any(-50, 50), variance(0.1, 10);
  for (int run = 0; run < 500; ++run) {
    Voters v;
    for (int i = 0; i < 1 + run % 9; ++i)
      v.votes.push_back({.value_nm = {any(random), any(random)},
                         .variance_nm2 = {variance(random), variance(random)}});
    v.scratch.resize(v.votes.size());
    const Covariance2 c = v.agree().covariance_nm2;
    REQUIRE(c.xx > 0);
    REQUIRE(c.yy > 0);
    REQUIRE(c.xy * c.xy <= c.xx * c.yy * (1 + 1e-12));
  }
}

TEST_CASE("the fixed number of iterations has converged") {
  std::mt19937 random(10);
  std::uniform_real_distribution<double> far(-8, 8);
  for (int run = 0; run < 200; ++run) {
    Voters v = good_voters(8, 1, random);
    v.votes[0].value_nm.x += far(random);
    v.votes[1].value_nm.y += far(random);
    const Consensus c = v.agree();
    // One more step of the weights that it ended with stays within a thousandth of a nanometre.
    Vec2 mean;
    for (const Vote& vote : v.votes) {
      mean.x += vote.weight * vote.value_nm.x;
      mean.y += vote.weight * vote.value_nm.y;
    }
    double sum = 0;
    Vec2 next;
    for (const Vote& vote : v.votes) {
      const double r = std::hypot(vote.value_nm.x - c.value_nm.x, vote.value_nm.y - c.value_nm.y);
      const double limit = kLimits.limit_nm(std::hypot(sd_of(vote), c.others_sd_nm), c.scale);
      const double w = biweight(r, limit);
      sum += w;
      next = {next.x + w * vote.value_nm.x, next.y + w * vote.value_nm.y};
    }
    REQUIRE(mean.x == Approx(c.value_nm.x).margin(1e-12));
    REQUIRE(std::hypot(next.x / sum - c.value_nm.x, next.y / sum - c.value_nm.y) < 1e-3);
  }
}

TEST_CASE("the order of the votes does not matter beyond rounding") {
  std::mt19937 random(11);
  Voters v = good_voters(9, 1, random);
  const Consensus before = v.agree();
  std::shuffle(v.votes.begin(), v.votes.end(), random);
  CHECK(v.agree().value_nm.x == Approx(before.value_nm.x).margin(1e-12));
}

}  // namespace
}  // namespace driftd::control
