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

bool DisplacementRecord::add(const Places& frame) noexcept {
  if (frames_ == 0) {
    sum_ = {};
    sum_.taken_ns = frame.taken_ns;
  }
  const std::int64_t period_ns = has_last_ ? frame.taken_ns - last_.taken_ns : 0;
  last_ = frame;
  has_last_ = true;
  ++frames_;
  sum_.moved_nm = added(sum_.moved_nm, frame.moved_nm);
  sum_.modelled_nm = added(sum_.modelled_nm, frame.modelled_nm);
  sum_.measured_nm2 = added(sum_.measured_nm2, frame.measured_nm2);
  if (frame.taken_ns + period_ns - sum_.taken_ns < kBlockNs) return false;
  const double share = 1.0 / frames_;
  Block& done = ring_[static_cast<std::size_t>(blocks_) % kRing];
  done.mean = {.moved_nm = scaled(sum_.moved_nm, share),
               .modelled_nm = scaled(sum_.modelled_nm, share),
               .measured_nm2 = scaled(sum_.measured_nm2, share * share),
               .taken_ns = sum_.taken_ns};
  done.fast_nm = went_nm(done.mean.modelled_nm, blocks_ - kLagBlocks[0]);
  ++blocks_;
  frames_ = 0;
  return true;
}

/// How far the modelled stage went since that block, if the record knows it.
double DisplacementRecord::went_nm(Vec2 modelled_nm, std::int64_t before) const noexcept {
  if (before < first_block_) return 0;
  const Vec2 way = difference(modelled_nm, block(before).mean.modelled_nm);
  return std::max(std::abs(way.x), std::abs(way.y));
}

std::optional<Displacement> DisplacementRecord::over(std::size_t lag, int ago) const noexcept {
  const std::int64_t last = last_block() - ago, first = last - kLagBlocks[lag];
  if (first < first_block_) return std::nullopt;
  double fast_nm = 0;
  for (std::int64_t i = first + 1; i <= last; ++i) fast_nm = std::max(fast_nm, block(i).fast_nm);
  return between(first, block(last).mean, lag, fast_nm);
}

Displacement DisplacementRecord::between(std::int64_t first, const Places& to, std::size_t lag,
                                         double fast_nm) const noexcept {
  const Places& from = block(first).mean;
  const double own_nm2 =
      squared(kSuddenSdNm) + squared(kDriftSdNmPerS * seconds_between(from.taken_ns, to.taken_ns));
  const Vec2 expected_nm2 = added(added(from.measured_nm2, to.measured_nm2), {own_nm2, own_nm2});
  const double of_model_nm2 = squared(kFastShare * fast_nm);
  return {.moved_nm = difference(to.moved_nm, from.moved_nm),
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
