// SPDX-License-Identifier: MIT
#include "control/axial/calibration/bead_curve.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "base/dense_solver.hpp"
#include "base/median.hpp"

namespace driftd::control {
namespace {

/// The penalty: over a depth of focus the third derivative of a width is about so much of
/// width / depth^3. Smaller is stiffer. Widths of the likelihood through a pupil need the most of
/// it near the crossing (with 0.05 z is read 14 nm off there); planes further apart than 0.4 of the
/// depth leave open what they cannot tell.
constexpr double kMostThirdDerivative = 1.5, kLeastThirdDerivative = 0.05;
constexpr double kDenseShare = 0.4;
/// Beads differ from each other by such a share of their widths at least.
constexpr double kLeastSdShare = 0.01;
/// Heights are such a share of the depth of focus, about.
constexpr double kHeightShare = 0.5;
/// Beyond the outermost planes, over the depth of focus: where higher and lower beads are.
constexpr double kBeyondShare = 0.3;
constexpr double kLeastScatter = 0.2;
constexpr int kFitRounds = 25;
constexpr double kMadOfNormal = 0.6745, kOutlier = 5;

struct Place {
  std::size_t piece = 0;
  double share = 0;
};

Place place_of(const BeadCurve& curve, double z_nm) {
  const double pieces = static_cast<double>(curve.coefficients[0].size()) - 3;
  const double at = std::clamp((z_nm - curve.low_nm) / curve.piece_nm, 0.0, pieces - 1e-9);
  const double piece = std::floor(at);
  return {static_cast<std::size_t>(piece), at - piece};
}

std::array<double, 4> basis(double t) {
  const double s = 1 - t;
  return {s * s * s / 6, (3 * t * t * t - 6 * t * t + 4) / 6, (3 * s * s * s - 6 * s * s + 4) / 6,
          t * t * t / 6};
}

std::array<double, 4> basis_slope(double t) {
  const double s = 1 - t;
  return {-s * s / 2, (3 * t * t - 4 * t) / 2, -(3 * s * s - 4 * s) / 2, t * t / 2};
}

double sum_at(const std::vector<double>& coefficients, std::size_t piece,
              const std::array<double, 4>& weights) {
  double sum = 0;
  for (std::size_t j = 0; j < 4; ++j) sum += weights[j] * coefficients[piece + j];
  return sum;
}

/// The parabola through the squares of the widths: Gaussian beams have sigma^2 = s^2 (1 + (z /
/// depth)^2). @returns s and depth; where it has no least value, a third of the stack
std::pair<double, double> waist_and_depth(const std::vector<BeadWidths>& widths, std::size_t axis,
                                          double middle_nm, double span_nm) {
  NormalEquations equations(3);
  double least = widths.front().px[axis];
  for (const BeadWidths& w : widths) {
    const double u = (w.z_nm - middle_nm) / span_nm;
    const double square = w.px[axis] * w.px[axis];
    equations.add(std::array<double, 3>{1 / square, u / square, u * u / square}, 1);
    least = std::min(least, w.px[axis]);
  }
  std::vector<double> c;
  if (!equations.solve(1e-9, c) || !(c[2] > 0)) return {least, span_nm / 3};
  const double waist2 = std::max(c[0] - c[1] * c[1] / (4 * c[2]), 0.25 * least * least);
  return {std::sqrt(waist2), std::min(std::sqrt(waist2 / c[2]), 1.0) * span_nm};
}

class Fit {
 public:
  Fit(const std::vector<BeadWidths>& widths, std::size_t beads, int axes)
      : widths_(widths), axes_(static_cast<std::size_t>(axes)) {
    const auto [low, high] = std::minmax_element(
        widths.begin(), widths.end(),
        [](const BeadWidths& a, const BeadWidths& b) { return a.z_nm < b.z_nm; });
    const double span = high->z_nm - low->z_nm, middle = 0.5 * (high->z_nm + low->z_nm);
    double depth = 0;
    for (std::size_t axis = 0; axis < axes_; ++axis) {
      const auto [waist_px, depth_nm] = waist_and_depth(widths, axis, middle, span);
      waist_px_[axis] = waist_px;
      depth += depth_nm / axes;
    }
    curve_.depth_nm = depth;
    std::set<double> planes;
    for (const BeadWidths& w : widths) planes.insert(w.z_nm);
    const double spacing = span / std::max(static_cast<double>(planes.size()) - 1, 1.0);
    third_derivative_ =
        std::clamp(kMostThirdDerivative * std::pow(kDenseShare * depth / spacing, 5),
                   kLeastThirdDerivative, kMostThirdDerivative);
    const double beyond = kBeyondShare * depth;
    const double pieces = std::clamp(std::ceil((span + 2 * beyond) / (depth / 5)), 6.0, 60.0);
    curve_.low_nm = low->z_nm - beyond;
    curve_.piece_nm = (span + 2 * beyond) / pieces;
    for (auto& c : curve_.coefficients) c.assign(static_cast<std::size_t>(pieces) + 3, 0.0);
    curve_.heights_nm.assign(beads, 0.0);
  }

  BeadCurve solve() {
    for (int round = 0; round < kFitRounds; ++round) {
      for (std::size_t axis = 0; axis < axes_; ++axis) solve_curve(axis);
      for (std::size_t axis = 0; axis < axes_; ++axis) scale_[axis] = scatter(axis);
      move_heights();
    }
    for (std::size_t axis = 0; axis < axes_; ++axis) solve_curve(axis);
    if (axes_ == 1) curve_.coefficients[1] = curve_.coefficients[0];
    return curve_;
  }

 private:
  [[nodiscard]] double sd(const BeadWidths& w, std::size_t axis) const {
    return std::max(w.sd_px[axis], kLeastSdShare * w.px[axis]) * scale_[axis];
  }
  [[nodiscard]] double z_of(const BeadWidths& w) const {
    return w.z_nm + curve_.heights_nm[w.bead];
  }
  [[nodiscard]] double off(const BeadWidths& w, std::size_t axis) const {
    return (w.px[axis] - curve_.width_px(static_cast<int>(axis), z_of(w))) / sd(w, axis);
  }

  void solve_curve(std::size_t axis) {
    std::vector<double>& c = curve_.coefficients[axis];
    NormalEquations equations(c.size());
    std::vector<double> row(c.size(), 0.0);
    for (const BeadWidths& w : widths_) {
      if (solved_ && std::abs(off(w, axis)) > kOutlier) continue;
      const auto [piece, share] = place_of(curve_, z_of(w));
      const std::array<double, 4> weights = basis(share);
      const double sd_px = sd(w, axis);
      for (std::size_t j = 0; j < 4; ++j) row[piece + j] = weights[j] / sd_px;
      equations.add(row, w.px[axis] / sd_px);
      for (std::size_t j = 0; j < 4; ++j) row[piece + j] = 0;
    }
    // The integral of the squared third derivative over its expected value.
    const double depths = curve_.depth_nm / curve_.piece_nm;
    const double stiffness = std::pow(depths, 2.5) / (third_derivative_ * waist_px_[axis]);
    for (std::size_t j = 0; j + 3 < c.size(); ++j) {
      row[j] = -stiffness, row[j + 1] = 3 * stiffness;
      row[j + 2] = -3 * stiffness, row[j + 3] = stiffness;
      equations.add(row, 0);
      for (std::size_t k = 0; k < 4; ++k) row[j + k] = 0;
    }
    std::vector<double> solution;
    if (equations.solve(0, solution)) c = solution;
    if (axis + 1 == axes_) solved_ = true;
  }

  /// How much widths scatter over what is promised, by the median of their distances. It may be
  /// less: without a gain the fits promise what the whole of their residuals does.
  [[nodiscard]] double scatter(std::size_t axis) const {
    std::vector<double> distances;
    distances.reserve(widths_.size());
    for (const BeadWidths& w : widths_) distances.push_back(std::abs(off(w, axis)));
    return std::max(scale_[axis] * median(std::move(distances)) / kMadOfNormal, kLeastScatter);
  }

  void move_heights() {
    const double prior = 1 / std::pow(kHeightShare * curve_.depth_nm, 2);
    std::vector<double>& heights = curve_.heights_nm;
    std::vector<double> gain(heights.size(), prior), pull(heights.size());
    for (std::size_t b = 0; b < heights.size(); ++b) pull[b] = -prior * heights[b];
    for (const BeadWidths& w : widths_) {
      for (std::size_t axis = 0; axis < axes_; ++axis) {
        if (std::abs(off(w, axis)) > kOutlier) continue;
        const double slope = curve_.slope_px_per_nm(static_cast<int>(axis), z_of(w)) / sd(w, axis);
        gain[w.bead] += slope * slope;
        pull[w.bead] += slope * off(w, axis);
      }
    }
    double sum = 0;
    const double most = 0.1 * curve_.depth_nm;
    for (std::size_t b = 0; b < heights.size(); ++b)
      sum += heights[b] += std::clamp(pull[b] / gain[b], -most, most);
    for (double& height : heights) height -= sum / static_cast<double>(heights.size());
  }

  const std::vector<BeadWidths>& widths_;
  std::size_t axes_;
  std::array<double, 2> waist_px_ = {}, scale_ = {1, 1};
  double third_derivative_ = kLeastThirdDerivative;
  bool solved_ = false;
  BeadCurve curve_;
};

}  // namespace

double BeadCurve::width_px(int axis, double z_nm) const {
  const auto [piece, share] = place_of(*this, z_nm);
  return sum_at(coefficients[static_cast<std::size_t>(axis)], piece, basis(share));
}

double BeadCurve::slope_px_per_nm(int axis, double z_nm) const {
  const auto [piece, share] = place_of(*this, z_nm);
  return sum_at(coefficients[static_cast<std::size_t>(axis)], piece, basis_slope(share)) / piece_nm;
}

BeadCurve fit_bead_curve(const std::vector<BeadWidths>& widths, std::size_t beads, int axes) {
  return Fit(widths, beads, axes).solve();
}

}  // namespace driftd::control
