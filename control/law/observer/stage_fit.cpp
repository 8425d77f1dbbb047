// SPDX-License-Identifier: MIT
#include "control/law/observer/stage_fit.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace driftd::control {
namespace {

constexpr double kCertain = 2.5, kMoreCertain = 4;  ///< standard deviations

double mean_square(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return sum / static_cast<double>(std::max<std::size_t>(values.size(), 1));
}

void remove_mean(std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  const double mean = sum / static_cast<double>(std::max<std::size_t>(values.size(), 1));
  for (double& v : values) v -= mean;
}

/// A section of second order; the past is 0.
struct Section {
  double b0, b1, b2, a1, a2;
  void run(std::vector<double>& values) const {
    double x1 = 0, x2 = 0, y1 = 0, y2 = 0;
    for (double& v : values) {
      const double y = b0 * v + b1 * x1 + b2 * x2 - a1 * y1 - a2 * y2;
      x2 = x1;
      x1 = v;
      y2 = y1;
      y1 = y;
      v = y;
    }
  }
};

/// Butterworth's, of second order. @param share  of the rate at which it passes half the power
Section high_pass(double share) {
  const double c = 1 / std::tan(std::numbers::pi * share), whole = c * c + c * std::numbers::sqrt2;
  const double n = 1 / (1 + whole);
  return {.b0 = c * c * n,
          .b1 = -2 * c * c * n,
          .b2 = c * c * n,
          .a1 = 2 * (1 - c * c) * n,
          .a2 = (1 + c * c - c * std::numbers::sqrt2) * n};
}

/// Lets a band about a frequency not pass; both as shares of the rate.
Section notch(double share, double width) {
  const double radius = std::max(0.0, 1 - std::numbers::pi * width);
  const double turn = -2 * std::cos(2 * std::numbers::pi * share);
  return {.b0 = 1, .b1 = turn, .b2 = 1, .a1 = radius * turn, .a2 = radius * radius};
}

constexpr double kFast = 1.0 / 8;  ///< of the frame rate
constexpr double kNarrow = 5;      ///< per s: what fades faster is no line
constexpr double kLineWidth = 0.15, kLeastWidthHz = 2;

void leave_lines_out(std::vector<double>& values, const DisturbanceModel& model, double period_s) {
  high_pass(kFast).run(values);
  for (std::size_t i = 0; i < model.line_count; ++i) {
    const Line& line = model.lines[i];
    if (line.fade_per_s > kNarrow) continue;
    notch(line.frequency_hz * period_s,
          std::max(kLineWidth * line.frequency_hz, kLeastWidthHz) * period_s)
        .run(values);
  }
}

struct Solution {
  std::vector<double> value, sd;  ///< empty: there is none
};

/// The weights of `slopes` with which what is left of `errors` is uncorrelated with every
/// instrument. Beforehand each weight is taken to be 0 with a standard deviation of 1. With the
/// slopes as instruments this is least squares.
Solution solve_by(const std::vector<std::vector<double>>& instruments,
                  const std::vector<std::vector<double>>& slopes,
                  const std::vector<double>& errors) {
  const std::size_t n = slopes.size();
  const auto product = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
    return sum;
  };
  // Rows of [Z'X + 1 | 1]: the inverse by Gauss and Jordan.
  std::vector<std::vector<double>> rows(n, std::vector<double>(2 * n));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j)
      rows[i][j] = product(instruments[i], slopes[j]) + (i == j ? 1 : 0);
    rows[i][n + i] = 1;
  }
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k + 1; i < n; ++i)
      if (std::abs(rows[i][k]) > std::abs(rows[pivot][k])) pivot = i;
    std::swap(rows[k], rows[pivot]);
    if (!(std::abs(rows[k][k]) > 1e-9)) return {};
    const double over = 1 / rows[k][k];
    for (double& v : rows[k]) v *= over;
    for (std::size_t i = 0; i < n; ++i) {
      const double f = rows[i][k];
      for (std::size_t j = 0; j < 2 * n && i != k; ++j) rows[i][j] -= f * rows[k][j];
    }
  }
  Solution s{.value = std::vector<double>(n), .sd = std::vector<double>(n)};
  for (std::size_t i = 0; i < n; ++i) {
    double variance = 0;
    for (std::size_t j = 0; j < n; ++j) {
      s.value[i] += rows[i][n + j] * product(instruments[j], errors);
      for (std::size_t l = 0; l < n; ++l) {
        const double both = product(instruments[j], instruments[l]) + (j == l ? 1 : 0);
        variance += rows[i][n + j] * both * rows[i][n + l];
      }
    }
    s.sd[i] = std::sqrt(variance);
  }
  return s;
}

}  // namespace

std::vector<double> fit_stage(const PlaceRecord& record, const DisturbanceModel& model,
                              const std::vector<StageDoubt>& doubts, StageEvidence evidence) {
  const std::size_t n = doubts.size();
  std::vector<double> found(n, 0);
  std::vector<double> errors = innovations_nm(record, model);
  const double unit_nm = std::sqrt(mean_square(errors));
  if (errors.empty() || !(unit_nm > 0)) return found;
  std::vector<std::vector<double>> slopes, instruments;
  PlaceRecord other = record;
  for (const StageDoubt& doubt : doubts) {
    other.place_nm = doubt.place_nm;
    std::vector<double> slope = innovations_nm(other, model);
    for (std::size_t k = 0; k < slope.size(); ++k)
      slope[k] = (errors[k] - slope[k]) / (unit_nm * doubt.by / doubt.sd);
    remove_mean(slope);
    instruments.push_back(slope);
    if (evidence == StageEvidence::BesideLines)
      leave_lines_out(instruments.back(), model, record.period_s);
    slopes.push_back(std::move(slope));
  }
  remove_mean(errors);
  for (double& e : errors) e /= unit_nm;
  const Solution s = solve_by(instruments, slopes, errors);
  const double certain = evidence == StageEvidence::BesideLines ? kMoreCertain : kCertain;
  for (std::size_t i = 0; i < n && !s.value.empty(); ++i) {
    if (std::abs(s.value[i]) < certain * s.sd[i]) continue;
    found[i] = std::clamp(s.value[i] * doubts[i].sd, -doubts[i].most, doubts[i].most);
  }
  return found;
}

}  // namespace driftd::control
