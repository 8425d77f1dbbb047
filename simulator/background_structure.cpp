// SPDX-License-Identifier: MIT
#include "simulator/background_structure.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "simulator/random.hpp"

namespace driftd::simulator {
namespace {

constexpr int kWaves = 64;
constexpr double kRedrawPx = 0.02;

struct Wave {
  double x = 0, y = 0, phase = 0;  ///< radians per pixel, radians
};

}  // namespace

BackgroundStructure::BackgroundStructure(const BackgroundModel& model, const CameraModel& camera,
                                         std::uint64_t seed) {
  if (model.structure_share <= 0) return;
  const double longest = std::max({static_cast<double>(camera.width_px),
                                   static_cast<double>(camera.height_px), 4 * model.grain_px});
  period_px_ = std::bit_ceil(static_cast<std::size_t>(std::ceil(longest)));
  const double unit = 2 * std::numbers::pi / static_cast<double>(period_px_);
  Random random(seed, 80);
  const auto on_the_grid = [&](double wanted) { return unit * std::round(wanted / unit); };
  std::vector<double> sum(period_px_ * period_px_, 1.0);
  std::vector<double> cosine(period_px_);
  std::vector<double> sine(period_px_);
  const double amplitude = model.structure_share * std::sqrt(2.0 / kWaves);
  for (int i = 0; i < kWaves; ++i) {
    Wave wave;
    while (wave.x == 0 && wave.y == 0) {
      wave.x = on_the_grid(random.normal() / model.grain_px);
      wave.y = on_the_grid(random.normal() / model.grain_px);
    }
    wave.phase = 2 * std::numbers::pi * random.uniform();
    for (std::size_t x = 0; x < period_px_; ++x) {
      cosine[x] = amplitude * std::cos(wave.x * static_cast<double>(x));
      sine[x] = amplitude * std::sin(wave.x * static_cast<double>(x));
    }
    for (std::size_t y = 0; y < period_px_; ++y) {
      const double c = std::cos(wave.y * static_cast<double>(y) + wave.phase);
      const double s = std::sin(wave.y * static_cast<double>(y) + wave.phase);
      double* line = &sum[y * period_px_];
      for (std::size_t x = 0; x < period_px_; ++x) line[x] += c * cosine[x] - s * sine[x];
    }
  }
  table_.reserve(sum.size());
  for (const double value : sum) table_.push_back(static_cast<float>(std::max(0.0, value)));
}

const std::vector<float>& BackgroundStructure::relative(const SensorSettings& settings,
                                                        Vec2 shift_px) {
  const bool same_region =
      relative_.size() == settings.pixels() && drawn_.offset_x_px == settings.offset_x_px &&
      drawn_.offset_y_px == settings.offset_y_px && drawn_.width_px == settings.width_px;
  if (!same_region ||
      std::hypot(shift_px.x - drawn_shift_px_.x, shift_px.y - drawn_shift_px_.y) > kRedrawPx) {
    draw(settings, shift_px);
  }
  return relative_;
}

void BackgroundStructure::draw(const SensorSettings& settings, Vec2 shift_px) {
  drawn_ = settings;
  drawn_shift_px_ = shift_px;
  relative_.resize(settings.pixels());
  const std::size_t wrap = period_px_ - 1;  // the period is a power of two
  const double left = std::floor(settings.offset_x_px - shift_px.x);
  const double top = std::floor(settings.offset_y_px - shift_px.y);
  const auto right_weight = static_cast<float>(settings.offset_x_px - shift_px.x - left);
  const auto below_weight = static_cast<float>(settings.offset_y_px - shift_px.y - top);
  const auto first_x = static_cast<std::size_t>(static_cast<std::int64_t>(left));
  const auto first_y = static_cast<std::size_t>(static_cast<std::int64_t>(top));
  const auto width = static_cast<std::size_t>(settings.width_px);
  for (std::size_t row = 0; row < static_cast<std::size_t>(settings.height_px); ++row) {
    const float* upper = &table_[((first_y + row) & wrap) * period_px_];
    const float* lower = &table_[((first_y + row + 1) & wrap) * period_px_];
    float* line = &relative_[row * width];
    for (std::size_t i = 0; i < width; ++i) {
      const std::size_t a = (first_x + i) & wrap;
      const std::size_t b = (a + 1) & wrap;
      const float above = upper[a] + right_weight * (upper[b] - upper[a]);
      const float below = lower[a] + right_weight * (lower[b] - lower[a]);
      line[i] = above + below_weight * (below - above);
    }
  }
}

}  // namespace driftd::simulator
