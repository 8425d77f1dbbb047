// SPDX-License-Identifier: MIT
#include "control/identification/stage_excitation.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {
namespace {

constexpr double kShortestS = 5;
constexpr double kLongestQuietS = 3;
constexpr double kRestAtEndS = 0.4;
/// Below the limits, so that a frame that comes a little early is not held back.
constexpr double kShareOfLimit = 0.9;
/// A stroke takes at least so many frames.
constexpr double kFewestFramesAStroke = 4;
/// Share of the moving part in which the strokes grow to the whole excursion.
constexpr double kGrowing = 0.2;
constexpr double kFirstReach = 1.0 / 7;
constexpr double kLongestRestS = 0.1;
constexpr double kRestShare = 0.06;
/// How rare long strokes are: short ones show a fast stage, long ones gains and slow stages.
constexpr double kPower = 2;

double or_default(double value, double standard) {
  return value > 0 && std::isfinite(value) ? value : standard;
}

/// splitmix64 (Steele, Lea and Flood 2014): the same sequence at every run.
class Sequence {
 public:
  explicit Sequence(std::uint64_t seed) : state_(seed) {}
  double uniform() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111eb;
    return std::ldexp(static_cast<double>((z ^ (z >> 31U)) >> 11U), -53);
  }
  /// Frames, from 1 to `longest`, n of them with a probability of n^-kPower.
  int frames(double longest) {
    const double end = std::pow(std::max(longest, 1.0) + 1, 1 - kPower);
    return static_cast<int>(std::pow(1 - uniform() * (1 - end), 1 / (1 - kPower)));
  }

 private:
  std::uint64_t state_;
};

/// One axis: moves up or down at one speed or rests, each for a random time.
class Telegraph {
 public:
  Telegraph(std::uint64_t seed, double step_nm, double longest_frames, double longest_rest_frames)
      : sequence_(seed),
        step_nm_(step_nm),
        longest_frames_(longest_frames),
        longest_rest_frames_(longest_rest_frames) {}

  double next(double reach_nm) {
    if (left_ <= 0) choose();
    --left_;
    const double wanted = place_nm_ + slope_ * step_nm_;
    if (slope_ != 0 && std::abs(wanted) > reach_nm) {
      slope_ = -slope_;
      left_ = std::min(left_, sequence_.frames(longest_frames_));
    }
    place_nm_ = std::clamp(place_nm_ + slope_ * step_nm_, -reach_nm, reach_nm);
    return place_nm_;
  }

 private:
  void choose() {
    const bool rest = slope_ != 0 && sequence_.uniform() < kRestShare;
    if (rest) {
      before_rest_ = slope_;
      slope_ = 0;
      left_ = sequence_.frames(longest_rest_frames_);
      return;
    }
    if (slope_ == 0)
      slope_ = sequence_.uniform() < 0.5 ? before_rest_ : -before_rest_;
    else
      slope_ = -slope_;
    left_ = sequence_.frames(longest_frames_);
  }

  Sequence sequence_;
  double step_nm_, longest_frames_, longest_rest_frames_;
  double place_nm_ = 0, slope_ = 0, before_rest_ = 1;
  int left_ = 0;
};

double towards_zero(double from_nm, double step_nm) {
  return from_nm > 0 ? std::max(0.0, from_nm - step_nm) : std::min(0.0, from_nm + step_nm);
}

}  // namespace

StageExcitation::StageExcitation(const StageExcitationSettings& given)
    : period_ns_(std::clamp<std::int64_t>(given.frame_period_ns, 100'000, 1'000'000'000)) {
  const StageExcitationSettings standard;
  const double excursion_nm = or_default(given.excursion_nm, standard.excursion_nm);
  const double seconds = std::max(kShortestS, or_default(given.seconds, standard.seconds));
  const double period_s = 1e-9 * static_cast<double>(period_ns_);
  const double rate = or_default(given.rate_limit_nm_per_s, standard.rate_limit_nm_per_s);
  const double limit =
      std::min(rate * period_s, or_default(given.step_limit_nm, standard.step_limit_nm));
  const double step_nm = std::min(kShareOfLimit * limit, excursion_nm / kFewestFramesAStroke);

  const auto frames = static_cast<std::size_t>(seconds / period_s);
  const double return_s = excursion_nm / step_nm * period_s;
  quiet_ = static_cast<std::size_t>(std::min(kLongestQuietS, 0.2 * seconds) / period_s);
  const auto ending = static_cast<std::size_t>((return_s + kRestAtEndS) / period_s) + 1;
  returning_ = std::max(quiet_ + 1, frames > ending ? frames - ending : 0);

  wanted_nm_.reserve(returning_ + ending);
  reach_nm_.reserve(returning_ + ending);
  Telegraph x(1, step_nm, 2 * excursion_nm / step_nm, kLongestRestS / period_s);
  Telegraph y(2, step_nm, 2 * excursion_nm / step_nm, kLongestRestS / period_s);
  for (std::size_t frame = 0; frame < returning_ + ending; ++frame) {
    if (frame < quiet_) {
      wanted_nm_.push_back({});
      reach_nm_.push_back(0);
    } else if (frame < returning_) {
      const double moving =
          static_cast<double>(frame - quiet_) / static_cast<double>(returning_ - quiet_);
      const double reach =
          excursion_nm * std::min(1.0, kFirstReach + (1 - kFirstReach) * moving / kGrowing);
      wanted_nm_.push_back({x.next(reach), y.next(reach)});
      reach_nm_.push_back(static_cast<float>(reach));
    } else {
      const Vec2 last = wanted_nm_.back();
      wanted_nm_.push_back({towards_zero(last.x, step_nm), towards_zero(last.y, step_nm)});
      reach_nm_.push_back(static_cast<float>(excursion_nm));
    }
  }
}

std::size_t StageExcitation::frame_at(std::int64_t elapsed_ns) const noexcept {
  if (elapsed_ns <= 0) return 0;
  // The middle of a period counts as its frame: frames come a little early or late.
  const auto frame = static_cast<std::size_t>((elapsed_ns + period_ns_ / 2) / period_ns_);
  return std::min(frame, wanted_nm_.size() - 1);
}

Vec2 StageExcitation::wanted_nm(std::int64_t elapsed_ns) const noexcept {
  return wanted_nm_[frame_at(elapsed_ns)];
}
double StageExcitation::reach_nm(std::int64_t elapsed_ns) const noexcept {
  return static_cast<double>(reach_nm_[frame_at(elapsed_ns)]);
}
std::int64_t StageExcitation::duration_ns() const noexcept {
  return period_ns_ * static_cast<std::int64_t>(wanted_nm_.size());
}
std::int64_t StageExcitation::quiet_ns() const noexcept {
  return period_ns_ * static_cast<std::int64_t>(quiet_);
}
std::int64_t StageExcitation::returning_ns() const noexcept {
  return period_ns_ * static_cast<std::int64_t>(returning_);
}

}  // namespace driftd::control
