// SPDX-License-Identifier: MIT
#include "control/stage/displacement_record.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "control/values/arithmetic.hpp"

namespace driftd::control {
namespace {

constexpr std::array<int, DisplacementRecord::kLags> kLagBlocks = {4, 8, 16, 32, 64};
constexpr std::int64_t kBlockNs = 16'000'000;
/// What is expected of every sample, standard deviations: that it moves by so much at once, and
/// that it begins to drift at such a speed. Less is not learnt.
constexpr double kSuddenSdNm = 2.5;
constexpr double kDriftSdNmPerS = 4;
/// Memory of how far the sample moves: 10 s of blocks.
constexpr int kMemoryBlocks = 640;
constexpr int kSeenEnough = 16;
/// So many times the variance is learnt of a displacement at most.
constexpr double kLearntTimes = 4;
/// What the model may have wrong of a fast way of the stage: its lag.
constexpr double kFastShare = 0.125;

double squared(double v) noexcept {
  return v * v;
}

Vec2 added(Vec2 a, Vec2 b) noexcept {
  return {a.x + b.x, a.y + b.y};
}

Vec2 scaled(Vec2 v, double factor) noexcept {
  return {factor * v.x, factor * v.y};
}

Vec2 larger(Vec2 a, Vec2 b) noexcept {
  return {std::max(a.x, b.x), std::max(a.y, b.y)};
}

}  // namespace

void DisplacementRecord::restart() noexcept {
  first_block_ = blocks_;
  frames_ = 0;
  has_last_ = false;
}

void DisplacementRecord::forget() noexcept {
  restart();
  known_ = {};
}

const DisplacementRecord::Block& DisplacementRecord::block(std::int64_t number) const noexcept {
  return ring_[static_cast<std::size_t>(number) % kRing];
}

bool DisplacementRecord::add(Vec2 moved_nm, Vec2 modelled_nm, Vec2 measured_nm2,
                             std::int64_t taken_ns) noexcept {
  if (frames_ == 0) {
    sum_ = {};
    sum_.taken_ns = taken_ns;
  }
  const std::int64_t period_ns = has_last_ ? taken_ns - last_ns_ : 0;
  last_ns_ = taken_ns;
  has_last_ = true;
  ++frames_;
  sum_.moved_nm = added(sum_.moved_nm, moved_nm);
  sum_.modelled_nm = added(sum_.modelled_nm, modelled_nm);
  sum_.measured_nm2 = added(sum_.measured_nm2, measured_nm2);
  if (taken_ns + period_ns - sum_.taken_ns < kBlockNs) return false;
  const double share = 1.0 / frames_;
  Block& done = ring_[static_cast<std::size_t>(blocks_) % kRing];
  done = {.moved_nm = scaled(sum_.moved_nm, share),
          .modelled_nm = scaled(sum_.modelled_nm, share),
          .measured_nm2 = scaled(sum_.measured_nm2, share * share),
          .taken_ns = sum_.taken_ns};
  if (blocks_ - first_block_ >= kLagBlocks[0]) {
    const Vec2 way = difference(done.modelled_nm, block(blocks_ - kLagBlocks[0]).modelled_nm);
    done.fast_nm = std::max(std::abs(way.x), std::abs(way.y));
  }
  ++blocks_;
  frames_ = 0;
  return true;
}

std::optional<Displacement> DisplacementRecord::over(std::size_t lag) const noexcept {
  const std::int64_t first = last_block() - kLagBlocks[lag];
  if (first < first_block_) return std::nullopt;
  const Block &from = block(first), &to = block(last_block());
  double fast_nm = 0;
  for (std::int64_t i = first + 1; i <= last_block(); ++i)
    fast_nm = std::max(fast_nm, block(i).fast_nm);
  const double own_nm2 =
      squared(kSuddenSdNm) + squared(kDriftSdNmPerS * seconds_between(from.taken_ns, to.taken_ns));
  const Vec2 expected_nm2 = added(added(from.measured_nm2, to.measured_nm2), {own_nm2, own_nm2});
  const double of_model_nm2 = squared(kFastShare * fast_nm);
  return Displacement{
      .moved_nm = difference(to.moved_nm, from.moved_nm),
      .modelled_nm = difference(to.modelled_nm, from.modelled_nm),
      .variance_nm2 = added(larger(expected_nm2, known_nm2(lag)), {of_model_nm2, of_model_nm2}),
      .from_nm = from.modelled_nm,
      .first_block = first};
}

/// Of a lag that was seldom seen, at most twice as far as in half the time: a drift.
Vec2 DisplacementRecord::known_nm2(std::size_t lag) const noexcept {
  double factor = 1;
  while (lag > 0 && known_[lag].count < kSeenEnough) {
    --lag;
    factor *= 4;
  }
  return scaled(known_[lag].mean_nm2, factor);
}

void DisplacementRecord::learn(std::size_t lag, const Displacement& d) noexcept {
  Known& known = known_[lag];
  known.count = std::min(known.count + 1, kMemoryBlocks);
  const Vec2 own = difference(d.moved_nm, d.modelled_nm);
  const auto learn_axis = [&](double& mean_nm2, double own_nm, double variance_nm2) {
    mean_nm2 += (std::min(own_nm * own_nm, kLearntTimes * variance_nm2) - mean_nm2) / known.count;
  };
  learn_axis(known.mean_nm2.x, own.x, d.variance_nm2.x);
  learn_axis(known.mean_nm2.y, own.y, d.variance_nm2.y);
}

}  // namespace driftd::control
