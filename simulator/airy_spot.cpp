// SPDX-License-Identifier: MIT
#include "simulator/airy_spot.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <numbers>
#include <numeric>

namespace driftd::simulator {
namespace {

constexpr double kOpticalUnitsPerSigma = 1.32;
constexpr double kReachSigma = 7;      ///< the second bright ring is the last
constexpr double kProfileStep = 0.02;  ///< optical units: linear interpolation is good to 3e-5

/// h(v) for v = 0, kProfileStep, ... beyond `end`; Simpson's rule over the pupil.
std::vector<double> radial_profile(double end, double defocus_waves) {
  constexpr int kIntervals = 128;
  std::vector<double> profile(static_cast<std::size_t>(end / kProfileStep) + 3);
  for (std::size_t k = 0; k < profile.size(); ++k) {
    const double v = kProfileStep * static_cast<double>(k);
    std::complex<double> sum = 0;
    for (int i = 0; i <= kIntervals; ++i) {
      const double rho = static_cast<double>(i) / kIntervals;
      const bool edge = i == 0 || i == kIntervals;
      const double weight = (edge ? 1.0 : (i % 2 == 1 ? 4.0 : 2.0)) / (3.0 * kIntervals);
      sum += weight * rho * j0(v * rho) *
             std::polar(1.0, 2 * std::numbers::pi * defocus_waves * rho * rho);
    }
    profile[k] = std::norm(2.0 * sum);
  }
  return profile;
}

double interpolated(const std::vector<double>& profile, double v) {
  const double place = v / kProfileStep;
  const auto i = static_cast<std::size_t>(place);
  return profile[i] + (profile[i + 1] - profile[i]) * (place - static_cast<double>(i));
}

}  // namespace

AirySpot::AirySpot(double sigma_px, double defocus_waves)
    : reach_px_(static_cast<int>(std::ceil(kReachSigma * sigma_px))),
      steps_(std::clamp(static_cast<int>(std::ceil(10 / sigma_px)), 2, 32)),
      side_(2 * (reach_px_ + 2) * steps_ + 2) {
  // The density at points half a step beside the table's, summed over the steps^2 points of a
  // pixel.
  const double scale = kOpticalUnitsPerSigma / sigma_px;
  const int points = side_ + steps_;
  const double middle = (reach_px_ + 2) * steps_ - 0.5 + steps_ / 2.0;
  const double farthest = scale * std::numbers::sqrt2 * (points - 1 - middle) / steps_;  // a corner
  const std::vector<double> profile = radial_profile(farthest, defocus_waves);
  const double light = scale * scale / (4 * std::numbers::pi) / (steps_ * steps_);
  const auto index = [](int row, int column, int width) {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(width) +
           static_cast<std::size_t>(column);
  };
  std::vector<double> across(static_cast<std::size_t>(points) * static_cast<std::size_t>(side_));
  std::vector<double> line(static_cast<std::size_t>(points));
  for (int row = 0; row < points; ++row) {
    for (int column = 0; column < points; ++column) {
      const double r = std::hypot(row - middle, column - middle) / steps_;
      line[static_cast<std::size_t>(column)] = light * interpolated(profile, scale * r);
    }
    for (int column = 0; column < side_; ++column) {
      const auto first = line.begin() + column;
      across[index(row, column, side_)] = std::accumulate(first, first + steps_, 0.0);
    }
  }
  table_.resize(static_cast<std::size_t>(side_) * static_cast<std::size_t>(side_));
  for (int row = 0; row < side_; ++row) {
    for (int column = 0; column < side_; ++column) {
      double sum = 0;
      for (int k = 0; k < steps_; ++k) sum += across[index(row + k, column, side_)];
      table_[index(row, column, side_)] = static_cast<float>(sum);
    }
  }
}

void AirySpot::add_row(double first_x_px, double y_px, int count, double electrons,
                       float* line) const noexcept {
  // Between four entries of the table; their weights are the same for all pixels.
  const double x = (first_x_px + reach_px_ + 2) * steps_;
  const double y = (y_px + reach_px_ + 2) * steps_;
  const auto column = static_cast<std::ptrdiff_t>(x);
  const auto row = static_cast<std::ptrdiff_t>(y);
  const auto right = static_cast<float>(x - static_cast<double>(column));
  const auto below = static_cast<float>(y - static_cast<double>(row));
  const auto light = static_cast<float>(electrons);
  const float* upper = table_.data() + row * side_ + column;
  const float* lower = upper + side_;
  for (int i = 0; i < count; ++i, upper += steps_, lower += steps_) {
    const float above_value = upper[0] + right * (upper[1] - upper[0]);
    const float below_value = lower[0] + right * (lower[1] - lower[0]);
    line[i] += light * (above_value + below * (below_value - above_value));
  }
}

}  // namespace driftd::simulator
