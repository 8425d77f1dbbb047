// SPDX-License-Identifier: MIT
#include "control/stage/motion_predictor.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {
namespace {

constexpr double kStartSdNm = 2;
constexpr double kStartNoiseNm = 1;
/// The weight of the start's assumptions, and the longest memory, both in moves.
constexpr double kStartMoves = 16;
constexpr double kMemoryMoves = 2000;
/// New coefficients after so many moves: they take a few us.
constexpr int kMovesToSolve = 64;
/// Keeps the normal equations solvable whatever was measured: a share of the moves' power that is
/// taken to be white, and a power that no measurement goes below.
constexpr double kWhiteShare = 5e-3;
constexpr double kLeastNm2 = 1e-6;

}  // namespace

MotionPredictor::MotionPredictor() noexcept
    : variance_nm2_(kStartSdNm * kStartSdNm), learned_(kStartMoves) {
  // Differences of white noise.
  correlation_nm2_[0] = 2 * kStartNoiseNm * kStartNoiseNm;
  correlation_nm2_[1] = -kStartNoiseNm * kStartNoiseNm;
  solve();
}

void MotionPredictor::learn(double move_nm, double innovation_nm, const Past& past_nm) noexcept {
  learned_ = std::min(learned_ + 1, kMemoryMoves);
  const double share = 1 / learned_;
  variance_nm2_ += share * (innovation_nm * innovation_nm - variance_nm2_);
  variance_nm2_ = std::max(variance_nm2_, kLeastNm2);
  correlation_nm2_[0] += share * (move_nm * move_nm - correlation_nm2_[0]);
  for (std::size_t i = 0; i < kOrder; ++i)
    correlation_nm2_[i + 1] += share * (move_nm * past_nm[i] - correlation_nm2_[i + 1]);
  if (until_solve_-- > 0) return;
  until_solve_ = kMovesToSolve;
  solve();
}

/// Levinson and Durbin's recursion. Weighted by half the forgetting of its lag, the correlation is
/// that of a finite signal, hence positive definite; learning with gaps may still upset it, and
/// then the coefficients before stay.
void MotionPredictor::solve() noexcept {
  Past solved{};
  const double fade = std::sqrt(1 - 1 / kMemoryMoves);
  std::array<double, kOrder + 1> correlation_nm2 = correlation_nm2_;
  double weight = 1;
  for (double& lag : correlation_nm2) {
    lag *= weight;
    weight *= fade;
  }
  double error_nm2 = correlation_nm2[0] + kWhiteShare * std::min(variance_nm2_, correlation_nm2[0]);
  for (std::size_t order = 0; order < kOrder; ++order) {
    double rest_nm2 = correlation_nm2[order + 1];
    for (std::size_t i = 0; i < order; ++i) rest_nm2 -= solved[i] * correlation_nm2[order - i];
    const double reflection = rest_nm2 / error_nm2;
    if (!(std::abs(reflection) < 1)) return;
    const auto before = solved;
    solved[order] = reflection;
    for (std::size_t i = 0; i < order; ++i)
      solved[i] = before[i] - reflection * before[order - 1 - i];
    error_nm2 *= 1 - reflection * reflection;
  }
  coefficients_ = solved;
}

}  // namespace driftd::control
