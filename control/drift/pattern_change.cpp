// SPDX-License-Identifier: MIT
#include "control/drift/pattern_change.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <vector>

#include "base/median.hpp"

namespace driftd::control {
namespace {

/// Of the scatter: up to here a marker has its full weight, and from there none.
constexpr double kFull = 3.5, kNone = 6;
/// With fewer nobody can say which one does not belong to the others.
constexpr std::size_t kFewestToDoubt = 5;
/// A marker of more leverage decides alone: no other one checks it.
constexpr double kMostLeverage = 0.98;

/// Least squares with weights that follow from the residuals.
/// @param Model  size(), promised(i): 1 / variance; fit(weights); residual(i); the number of values
/// a marker gives and of parameters; kMedian, of a residual whose values have unit variance
template <typename Model>
class RobustFit {
 public:
  explicit RobustFit(Model& model) : model_(model), weights_(model.size()), ratios_(model.size()) {
    for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i] = model_.promised(i);
    model_.fit(weights_);
    if (weights_.size() >= kFewestToDoubt) doubt();
  }

  double weight(std::size_t i) const { return weights_[i]; }
  int used() const {
    return static_cast<int>(std::ranges::count_if(weights_, [](double w) { return w > 0; }));
  }
  /// By what the standard deviations grow.
  double scatter() const {
    double squares = 0, values = 0;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      squares += weights_[i] * std::pow(model_.residual(i), 2);
      values += Model::kValues * weights_[i] / model_.promised(i);
    }
    const double free = values - Model::kParameters;
    return free > 0 ? std::sqrt(std::max(1.0, squares / free)) : 1;
  }

 private:
  void measure() {
    for (std::size_t i = 0; i < ratios_.size(); ++i)
      ratios_[i] = model_.residual(i) * std::sqrt(model_.promised(i));
  }
  void doubt() {
    constexpr int kRounds = 20;
    constexpr double kSmall = 0.1;  // of what is promised: no residual counts as less
    for (int round = 0; round < kRounds; ++round) {
      measure();
      for (std::size_t i = 0; i < weights_.size(); ++i)
        weights_[i] = model_.promised(i) / std::max(kSmall, ratios_[i]);
      model_.fit(weights_);
    }
    for (int round = 0; round < kRounds; ++round) {
      measure();
      const double values = Model::kValues * static_cast<double>(weights_.size());
      // Qualified: the consensus has a median of its own, which reorders.
      const double scale = std::max(1.0, driftd::median(ratios_) / Model::kMedian *
                                             std::sqrt(values / (values - Model::kParameters)));
      for (std::size_t i = 0; i < weights_.size(); ++i)
        weights_[i] = model_.promised(i) *
                      std::clamp((kNone - ratios_[i] / scale) / (kNone - kFull), 0.0, 1.0);
      model_.fit(weights_);
    }
  }

  Model& model_;
  std::vector<double> weights_, ratios_;
};

/// d = t + g p, with g = s + i r.
class Similarity {
 public:
  static constexpr double kValues = 2, kParameters = 4;
  static constexpr int kFewestChecked = 3;               ///< of fewer markers one may decide alone
  static constexpr double kMedian = 1.1774100225154747;  // of the length of a 2-D normal vector

  explicit Similarity(std::span<const PatternMarker> markers) : markers_(markers) {}
  std::size_t size() const { return markers_.size(); }
  double promised(std::size_t i) const { return 1 / markers_[i].variance_nm2; }
  double residual(std::size_t i) const {
    return std::abs(moved(i) - mean_moved_ - change_ * (place(i) - centre_));
  }
  void fit(const std::vector<double>& weights) {
    sum_ = spread_ = 0;
    centre_ = mean_moved_ = change_ = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      sum_ += weights[i];
      centre_ += weights[i] * place(i);
      mean_moved_ += weights[i] * moved(i);
    }
    centre_ /= sum_;
    mean_moved_ /= sum_;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::complex<double> arm = place(i) - centre_;
      spread_ += weights[i] * std::norm(arm);
      change_ += weights[i] * (moved(i) - mean_moved_) * std::conj(arm);
    }
    change_ = spread_ > 0 ? change_ / spread_ : 0;
  }
  double leverage(std::size_t i, double weight) const {
    return weight * (1 / sum_ + std::norm(place(i) - centre_) / spread_);
  }
  bool spreads() const { return spread_ > 0; }
  std::complex<double> change() const { return change_; }
  /// Of each part of it.
  double sd() const { return 1 / std::sqrt(spread_); }

 private:
  std::complex<double> place(std::size_t i) const {
    return {markers_[i].place_nm.x, markers_[i].place_nm.y};
  }
  std::complex<double> moved(std::size_t i) const {
    return {markers_[i].moved_nm.x, markers_[i].moved_nm.y};
  }
  std::span<const PatternMarker> markers_;
  double sum_ = 0, spread_ = 0;
  std::complex<double> centre_, mean_moved_, change_;
};

/// z = c + a x + b y.
class Plane {
 public:
  static constexpr double kValues = 1, kParameters = 3;
  static constexpr int kFewestChecked = 5;  ///< four leave one value over, wherever they lie
  static constexpr double kMedian = 0.6744897501960817;  // of the absolute value of a normal number

  explicit Plane(std::span<const PatternMarker> markers) {
    for (const PatternMarker& marker : markers)
      if (std::isfinite(marker.z_moved_nm) && marker.z_variance_nm2 > 0) markers_.push_back(marker);
  }
  std::size_t size() const { return markers_.size(); }
  double promised(std::size_t i) const { return 1 / markers_[i].z_variance_nm2; }
  double residual(std::size_t i) const {
    const Vec2 a = arm(i);
    return std::abs(markers_[i].z_moved_nm - mean_ - slope_.x * a.x - slope_.y * a.y);
  }
  void fit(const std::vector<double>& weights) {
    sum_ = mean_ = 0;
    centre_ = {};
    for (std::size_t i = 0; i < weights.size(); ++i) {
      sum_ += weights[i];
      centre_.x += weights[i] * markers_[i].place_nm.x;
      centre_.y += weights[i] * markers_[i].place_nm.y;
      mean_ += weights[i] * markers_[i].z_moved_nm;
    }
    centre_ = {centre_.x / sum_, centre_.y / sum_};
    mean_ /= sum_;
    spread_ = {};
    Vec2 moment;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const Vec2 a = arm(i);
      const double z = weights[i] * (markers_[i].z_moved_nm - mean_);
      spread_.xx += weights[i] * a.x * a.x;
      spread_.xy += weights[i] * a.x * a.y;
      spread_.yy += weights[i] * a.y * a.y;
      moment.x += z * a.x;
      moment.y += z * a.y;
    }
    const double d = determinant();
    slope_ = spreads() ? Vec2{(spread_.yy * moment.x - spread_.xy * moment.y) / d,
                              (spread_.xx * moment.y - spread_.xy * moment.x) / d}
                       : Vec2{};
  }
  double leverage(std::size_t i, double weight) const {
    const Vec2 a = arm(i);
    return weight * (1 / sum_ + (spread_.yy * a.x * a.x - 2 * spread_.xy * a.x * a.y +
                                 spread_.xx * a.y * a.y) /
                                    determinant());
  }
  /// In two directions: not all on one line.
  bool spreads() const {
    constexpr double kThin = 1e-3;
    const double both = spread_.xx + spread_.yy;
    return determinant() > kThin * both * both;
  }
  Vec2 slope() const { return slope_; }
  Vec2 sd() const {
    return {std::sqrt(spread_.yy / determinant()), std::sqrt(spread_.xx / determinant())};
  }

 private:
  Vec2 arm(std::size_t i) const {
    return {markers_[i].place_nm.x - centre_.x, markers_[i].place_nm.y - centre_.y};
  }
  double determinant() const { return spread_.xx * spread_.yy - spread_.xy * spread_.xy; }

  std::vector<PatternMarker> markers_;
  double sum_ = 0, mean_ = 0;
  Vec2 centre_, slope_;
  Covariance2 spread_;
};

template <typename Model>
bool decides_together(const Model& model, const RobustFit<Model>& fit) {
  if (fit.used() < PatternChange::kFewest || !model.spreads()) return false;
  for (std::size_t i = 0; i < model.size(); ++i)
    if (fit.used() >= Model::kFewestChecked && model.leverage(i, fit.weight(i)) > kMostLeverage)
      return false;
  return true;
}

}  // namespace

PatternChange pattern_change(std::span<const PatternMarker> markers) {
  PatternChange result;
  if (markers.size() < PatternChange::kFewest) return result;
  Similarity similarity(markers);
  const RobustFit fit(similarity);
  result.measured = decides_together(similarity, fit);
  if (result.measured) {
    result.markers = fit.used();
    result.rotation_rad = similarity.change().imag();
    result.scale = similarity.change().real();
    result.rotation_sd_rad = result.scale_sd = fit.scatter() * similarity.sd();
  }
  Plane plane(markers);
  if (plane.size() < PatternChange::kFewest) return result;
  const RobustFit tilt(plane);
  result.tilted = decides_together(plane, tilt);
  if (!result.tilted) return result;
  result.tilt_rad = plane.slope();
  result.tilt_sd_rad = {tilt.scatter() * plane.sd().x, tilt.scatter() * plane.sd().y};
  return result;
}

}  // namespace driftd::control
