// SPDX-License-Identifier: MIT
// The motion predictor's means and equations, each by a sequence whose answer is known.
#include <cmath>
#include <cstddef>
#include <random>

#include "control/stage/motion_predictor.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

constexpr std::size_t kOrder = MotionPredictor::kOrder;
/// New coefficients are there after so many moves at the latest.
constexpr int kToSolve = 70;

/// A past of unequal moves, none of which the next one follows from.
MotionPredictor::Past uneven_past() {
  MotionPredictor::Past past{};
  for (std::size_t i = 0; i < kOrder; ++i)
    past[i] = (i % 3 == 0 ? 0.11 : -0.07) / (1 + 0.2 * static_cast<double>(i));
  return past;
}

/// How far the coefficients are from solving the normal equations of the correlation [0 .. kOrder].
double largest_defect(const MotionPredictor::Past& coefficients,
                      const std::array<double, kOrder + 1>& correlation, double white) {
  double largest = 0;
  for (std::size_t row = 0; row < kOrder; ++row) {
    double defect = -correlation[row + 1] + white * coefficients[row];
    for (std::size_t i = 0; i < kOrder; ++i)
      defect += coefficients[i] * correlation[row > i ? row - i : i - row];
    largest = std::max(largest, std::abs(defect));
  }
  return largest;
}

/// A signal of its own making: what is predicted, and what that leaves.
struct Signal {
  MotionPredictor predictor;
  MotionPredictor::Past past{};

  double innovation(double move) const {
    double rest = move;
    for (std::size_t i = 0; i < kOrder; ++i) rest -= predictor.coefficients()[i] * past[i];
    return rest;
  }
  void go_on(double move) {
    predictor.learn(move, innovation(move), past);
    for (std::size_t i = kOrder - 1; i > 0; --i) past[i] = past[i - 1];
    past[0] = move;
  }
};

TEST_CASE("at the start moves are predicted as differences of white noise") {
  const MotionPredictor predictor;
  CHECK(predictor.variance_nm2() == 4);
  // Without regularization the best predictor of p moves is -(p + 1 - i) / (p + 1) of the i-th.
  std::array<double, kOrder + 1> correlation{};
  correlation[0] = 2;
  correlation[1] = -std::sqrt(1 - 1 / 2000.0);
  CHECK(largest_defect(predictor.coefficients(), correlation, 5e-3 * 2) < 1e-12);
  CHECK(predictor.coefficients()[0] < -0.9);
}

TEST_CASE("the first innovations weigh as one in so many, the later ones as one in 2000") {
  MotionPredictor predictor;
  const MotionPredictor::Past still{};
  predictor.learn(0, 10, still);  // what is assumed weighs as 16 moves
  CHECK(predictor.variance_nm2() == Approx(4 + (100 - 4) / 17.0));
  const double second_nm2 = predictor.variance_nm2();
  predictor.learn(7, -3, still);  // of the innovation, not of the move
  CHECK(predictor.variance_nm2() == Approx(second_nm2 + (9 - second_nm2) / 18));
  for (int i = 0; i < 3000; ++i) predictor.learn(0, 1, still);
  const double before_nm2 = predictor.variance_nm2();
  predictor.learn(0, 11, still);
  CHECK(predictor.variance_nm2() == Approx(before_nm2 + (121 - before_nm2) / 2000));
}

TEST_CASE("the coefficients solve the normal equations of what was learned, each lag its own") {
  MotionPredictor predictor;
  const MotionPredictor::Past past = uneven_past();
  // The means forget the start: e^-15 of it is left.
  for (int i = 0; i < 30'000; ++i) predictor.learn(3, 2, past);
  std::array<double, kOrder + 1> correlation{};
  correlation[0] = 9;
  for (std::size_t i = 0; i < kOrder; ++i)
    correlation[i + 1] = 3 * past[i] * std::pow(1 - 1 / 2000.0, 0.5 * static_cast<double>(i + 1));
  // 0.5 % of the innovations' power, which is less than the moves', is taken to be white.
  CHECK(largest_defect(predictor.coefficients(), correlation, 5e-3 * 4) < 1e-5);
  CHECK(predictor.coefficients()[0] > 0.02);
}

TEST_CASE("an autoregressive signal is recognized, and another one after it") {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  Signal signal;
  const auto run = [&](double first, double second) {
    for (int i = 0; i < 20'000; ++i)
      signal.go_on(first * signal.past[0] + second * signal.past[1] + 0.4 * normal(random));
  };
  run(0.9, -0.5);
  CHECK(signal.predictor.coefficients()[0] == Approx(0.9).margin(0.08));
  CHECK(signal.predictor.coefficients()[1] == Approx(-0.5).margin(0.08));
  CHECK(signal.predictor.variance_nm2() == Approx(0.16).epsilon(0.15));
  run(-0.3, 0.6);
  CHECK(signal.predictor.coefficients()[0] == Approx(-0.3).margin(0.08));
  CHECK(signal.predictor.coefficients()[1] == Approx(0.6).margin(0.08));
}

TEST_CASE("new coefficients come within 65 moves, and not with each") {
  MotionPredictor predictor;
  const MotionPredictor::Past past = uneven_past();
  predictor.learn(3, 2, past);
  const MotionPredictor::Past first = predictor.coefficients();
  for (int i = 0; i < 60; ++i) predictor.learn(3, 2, past);
  CHECK(predictor.coefficients() == first);
  for (int i = 60; i < kToSolve; ++i) predictor.learn(3, 2, past);
  CHECK(predictor.coefficients() != first);
}

TEST_CASE("a pure line is predicted by finite coefficients, and so is a sample that never moves") {
  Signal line;
  for (int i = 0; i < 20'000; ++i) line.go_on(5 * std::sin(0.31 * i));
  for (const double c : line.predictor.coefficients()) CHECK(std::abs(c) < 2);
  CHECK(std::abs(line.innovation(5 * std::sin(0.31 * 20'000))) < 0.1);

  Signal still;
  for (int i = 0; i < 40'000; ++i) still.go_on(0);
  CHECK(still.predictor.variance_nm2() == 1e-6);
  for (const double c : still.predictor.coefficients()) REQUIRE(std::isfinite(c));
}

TEST_CASE("moves that no signal can have leave the coefficients as they are, up or down") {
  for (const double times : {10.0, -10.0}) {
    MotionPredictor predictor;
    MotionPredictor::Past past{};
    for (std::size_t i = 0; i < kOrder; ++i)  // ten times the move: more than its power allows
      past[i] = i % 2 == 0 ? times : 10;
    for (int i = 0; i < 500; ++i) {
      predictor.learn(1, 1, past);
      REQUIRE(predictor.coefficients() == MotionPredictor().coefficients());
    }
    // What can be again is learned again.
    for (int i = 0; i < 30'000; ++i) predictor.learn(3, 2, uneven_past());
    CHECK(predictor.coefficients() != MotionPredictor().coefficients());
  }
}

}  // namespace
}  // namespace driftd::control
