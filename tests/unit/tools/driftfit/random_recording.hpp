// SPDX-License-Identifier: MIT
// Recordings of markers to which happens whatever happens to markers: they blink, jump and break
// loose, specks light up beside them, particles pass, the sample drifts and jumps; where it is
// asked for, markers slip for good by less than what is sought around them. The truth is known.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <set>
#include <vector>

#include "camera/recording/image_stack.hpp"
#include "tools/driftfit/picks.hpp"

namespace driftd::test {

class RandomRecording {
 public:
  static constexpr int kFrames = 60, kWidthPx = 128, kHeightPx = 112;

  enum class Slips : std::uint8_t { None, Some };

  /// Slips change nothing else of a seed's recording.
  explicit RandomRecording(unsigned seed, Slips slips = Slips::None) : random_(seed) {
    roi_px_ = 9 + 2 * whole(0, 2);
    sigma_px_ = uniform(1.1, 1.5);
    place_markers(static_cast<std::size_t>(whole(3, 20)));
    draw_drift();
    blink();
    if (chance(0.4)) break_loose();
    if (chance(0.6)) add_specks();
    if (chance(0.3)) add_passer();
    const std::mt19937 before = random_;
    // Where fewer stay, nobody could tell which of them slipped.
    if (slips == Slips::Some && markers() - loose_.size() >= 3) slip();
    random_ = before;
  }

  [[nodiscard]] int roi_px() const { return roi_px_; }
  [[nodiscard]] std::size_t markers() const { return places_.size(); }
  [[nodiscard]] tools::Pick drift(int frame) const { return drift_[at(frame)]; }
  [[nodiscard]] tools::Pick marker(std::size_t m, int frame) const {
    const tools::Pick own = own_[m][at(frame)];
    return {places_[m].x_px + drift(frame).x_px + own.x_px,
            places_[m].y_px + drift(frame).y_px + own.y_px};
  }
  /// Where somebody picked them, a pixel off at most.
  [[nodiscard]] std::vector<tools::Pick> picks() {
    std::vector<tools::Pick> picks;
    for (const tools::Pick& p : places_)
      picks.push_back({p.x_px + uniform(-0.7, 0.7), p.y_px + uniform(-0.7, 0.7)});
    return picks;
  }
  /// Whether any fit should find it: it is lit, and no other spot is near.
  [[nodiscard]] bool is_good(std::size_t m, int frame) const {
    if (!lit_[m][at(frame)]) return false;
    const tools::Pick here = marker(m, frame);
    const auto near = [&](tools::Pick p) {
      return std::hypot(p.x_px - here.x_px, p.y_px - here.y_px) < 0.5 * roi_px_ + 4;
    };
    for (std::size_t other = 0; other < markers(); ++other) {
      if (other != m && lit_[other][at(frame)] && near(marker(other, frame))) return false;
    }
    return std::none_of(others_[at(frame)].begin(), others_[at(frame)].end(),
                        [&](const Spot& s) { return near(s.place); });
  }
  /// Whether it never breaks loose: one that does agrees with the others at most for a while.
  [[nodiscard]] bool stays(std::size_t m) const { return !loose_.contains(m); }
  [[nodiscard]] camera::StackShape shape() const {
    return {.width_px = kWidthPx,
            .height_px = kHeightPx,
            .frames = kFrames,
            .type = camera::PixelType::U16};
  }
  /// With shot noise on a background of 20.
  std::vector<std::uint16_t> frame(int frame) {
    std::vector<float> mean(static_cast<std::size_t>(kWidthPx) * kHeightPx, 20.0f);
    for (std::size_t m = 0; m < markers(); ++m)
      if (lit_[m][at(frame)]) draw(mean, {marker(m, frame), amplitudes_[m]});
    for (const Spot& spot : others_[at(frame)]) draw(mean, spot);
    std::vector<std::uint16_t> pixels;
    pixels.reserve(mean.size());
    std::normal_distribution<float> normal;
    for (const float value : mean) {
      const float noisy = 100 + value + std::sqrt(value) * normal(random_);
      pixels.push_back(static_cast<std::uint16_t>(std::clamp(noisy + 0.5f, 0.0f, 65535.0f)));
    }
    return pixels;
  }

 private:
  struct Spot {
    tools::Pick place;
    double amplitude;
  };
  static constexpr double kBorderPx = 20;

  static std::size_t at(int frame) { return static_cast<std::size_t>(frame); }
  double uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  int whole(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(double share) { return uniform(0, 1) < share; }
  tools::Pick step(double low_px, double high_px) {
    const double length = uniform(low_px, high_px);
    const double angle = uniform(0, 2 * std::numbers::pi);
    return {length * std::cos(angle), length * std::sin(angle)};
  }
  std::size_t any_marker() {
    return static_cast<std::size_t>(whole(0, static_cast<int>(markers()) - 1));
  }

  void place_markers(std::size_t count) {
    for (int tries = 0; places_.size() < count && tries < 2000; ++tries) {
      const tools::Pick p{uniform(kBorderPx, kWidthPx - kBorderPx),
                          uniform(kBorderPx, kHeightPx - kBorderPx)};
      const bool free = std::none_of(places_.begin(), places_.end(), [&](const tools::Pick& other) {
        return std::hypot(p.x_px - other.x_px, p.y_px - other.y_px) < 1.2 * roi_px_;
      });
      if (!free) continue;
      places_.push_back(p);
      amplitudes_.push_back(std::exp(uniform(std::log(60.0), std::log(2000.0))));
    }
    own_.assign(markers(), std::vector<tools::Pick>(kFrames));
    lit_.assign(markers(), std::vector<bool>(kFrames, true));
    others_.resize(kFrames);
  }

  /// At most 8 px in all, so that no marker leaves the frame; a jump stays inside the ROIs.
  void draw_drift() {
    const tools::Pick slow = step(0, 0.05);
    const double walk_px = uniform(0, 0.06);
    const int jump_at = chance(0.4) ? whole(1, kFrames - 1) : kFrames;
    const tools::Pick jump = step(0.5, 0.5 * roi_px_ - 2);
    tools::Pick now{0, 0};
    for (int i = 0; i < kFrames; ++i) {
      drift_.push_back(now);
      const tools::Pick random = step(0, walk_px);
      const double jumps = i + 1 == jump_at ? 1 : 0;
      now.x_px += slow.x_px + random.x_px + jumps * jump.x_px;
      now.y_px += slow.y_px + random.y_px + jumps * jump.y_px;
    }
  }

  void darken(std::size_t m, int first, int frames) {
    for (int i = first; i < std::min(first + frames, kFrames); ++i) lit_[m][at(i)] = false;
  }
  void blink() {
    const bool all = chance(0.4);
    for (std::size_t m = 0; m < markers(); ++m) {
      if (!all && !chance(0.2)) continue;
      for (int i = whole(0, 20); i < kFrames; i += whole(5, 30)) {
        const int frames = chance(0.7) ? whole(1, 2) : whole(3, 20);
        darken(m, i, frames);
        i += frames;
      }
    }
  }

  /// Few of them jump for good, no further than their ROIs show, or walk away.
  void break_loose() {
    const int most = (static_cast<int>(markers()) - 1) / 2;
    for (int n = whole(1, std::max(1, std::min(most, 3))); n > 0; --n) {
      const std::size_t m = any_marker();
      loose_.insert(m);
      const int from = whole(1, kFrames - 10);
      const bool walks = chance(0.4);
      const tools::Pick by = walks ? step(0.05, 0.4) : step(0.5, 0.5 * roi_px_ - 0.5);
      for (int i = from; i < kFrames; ++i) {
        const double times = walks ? i - from : 1;
        own_[m][at(i)].x_px += times * by.x_px;
        own_[m][at(i)].y_px += times * by.y_px;
      }
    }
  }

  /// One at a time, some of them twice, by less than a quarter of a ROI: what a marker may be off.
  void slip() {
    std::vector<int> from;
    for (int n = whole(1, 3); n > 0; --n) {
      const int frame = whole(6, kFrames - 6);
      if (std::all_of(from.begin(), from.end(), [&](int f) { return std::abs(f - frame) > 7; }))
        from.push_back(frame);
    }
    for (const int first : from) {
      const std::size_t m = any_marker();
      const tools::Pick by = step(0.3, 0.25 * roi_px_);
      for (int i = first; i < kFrames; ++i) {
        own_[m][at(i)].x_px += by.x_px;
        own_[m][at(i)].y_px += by.y_px;
      }
    }
  }

  /// Beside markers; often one is dark meanwhile, the same or another.
  void add_specks() {
    for (int n = whole(1, 8); n > 0; --n) {
      const std::size_t m = any_marker();
      const int from = whole(1, kFrames - 1);
      const int frames = chance(0.5) ? 1 : whole(2, 15);
      const tools::Pick off = step(3.5, 7);
      const double amplitude = amplitudes_[m] * uniform(0.4, 3);
      for (int i = from; i < std::min(from + frames, kFrames); ++i) {
        const tools::Pick here = marker(m, i);
        others_[at(i)].push_back({{here.x_px + off.x_px, here.y_px + off.y_px}, amplitude});
      }
      if (chance(0.5)) darken(chance(0.5) ? m : any_marker(), from, frames);
    }
  }

  /// Crosses a marker, or goes by at less than 4 px.
  void add_passer() {
    const std::size_t m = any_marker();
    const int meets = whole(10, kFrames - 10);
    const tools::Pick velocity = step(0.2, 2);
    const tools::Pick off = chance(0.3) ? tools::Pick{0, 0} : step(0, 4);
    const double amplitude = amplitudes_[m] * uniform(0.5, 2);
    for (int i = 0; i < kFrames; ++i) {
      const tools::Pick there = marker(m, meets);
      others_[at(i)].push_back({{there.x_px + off.x_px + (i - meets) * velocity.x_px,
                                 there.y_px + off.y_px + (i - meets) * velocity.y_px},
                                amplitude});
    }
  }

  void draw(std::vector<float>& mean, const Spot& spot) const {
    constexpr int kReachPx = 7;
    const int x0 = static_cast<int>(std::lround(spot.place.x_px));
    const int y0 = static_cast<int>(std::lround(spot.place.y_px));
    const double per = 1 / (2 * sigma_px_ * sigma_px_);
    for (int y = std::max(0, y0 - kReachPx); y <= std::min(kHeightPx - 1, y0 + kReachPx); ++y) {
      for (int x = std::max(0, x0 - kReachPx); x <= std::min(kWidthPx - 1, x0 + kReachPx); ++x) {
        const double u = x - spot.place.x_px;
        const double v = y - spot.place.y_px;
        mean[static_cast<std::size_t>(y) * kWidthPx + static_cast<std::size_t>(x)] +=
            static_cast<float>(spot.amplitude * std::exp(-(u * u + v * v) * per));
      }
    }
  }

  std::mt19937 random_;
  int roi_px_ = 0;
  double sigma_px_ = 0;
  std::vector<tools::Pick> places_, drift_;
  std::vector<double> amplitudes_;
  std::vector<std::vector<tools::Pick>> own_;  ///< [marker][frame], beside the drift
  std::set<std::size_t> loose_;                ///< markers that break loose
  std::vector<std::vector<bool>> lit_;         ///< [marker][frame]
  std::vector<std::vector<Spot>> others_;      ///< [frame]: no markers
};

}  // namespace driftd::test
