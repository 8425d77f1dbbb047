// SPDX-License-Identifier: MIT
#include "control/axial/width_curve.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "control/values/number_text.hpp"

namespace driftd::control {
namespace {

constexpr double kLeastScatter = 0.1, kMostScatter = 100;
/// Widths this share off the curve are still a marker's of this instrument: markers differ in their
/// aberrations. Further off they may be so many standard deviations.
constexpr double kOffCurveShare = 0.1, kOffCurveSd = 5;
/// Two places of the curve explain widths about as well where their misfits differ by less than so
/// many standard deviations, squared, and are the same where they are so close.
constexpr double kAmbiguousSd = 5, kSamePlaceSd = 5;
/// Of a width out of focus on one side: the slope, over the steepest, from which on it is read.
constexpr double kSteepEnough = 0.25;
constexpr int kMostSteps = 30;
constexpr double kSettledNm = 1e-4;

/// Where a spline's slope changes its sign within the pieces, with both ends of the curve.
std::vector<double> turning_points(const std::vector<WidthCurve::Knot>& knots,
                                   const std::vector<CubicPiece>& pieces) {
  std::vector<double> points{knots.front().z_nm};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto& [c0, c1, c2, c3] = pieces[i];
    const double length = knots[i + 1].z_nm - knots[i].z_nm;
    // Of c1 + 2 c2 t + 3 c3 t^2, in the form that keeps digits (Press et al., Numerical Recipes,
    // 5.6).
    const double root = c2 * c2 - 3 * c3 * c1;
    if (!(root > 0)) continue;
    const double q = -(c2 + std::copysign(std::sqrt(root), c2));
    double first = q != 0 ? c1 / q : 0, second = c3 != 0 ? q / (3 * c3) : -1;
    if (first > second) std::swap(first, second);
    for (const double t : {first, second})
      if (t > 0 && t <= length) points.push_back(knots[i].z_nm + t);
  }
  if (points.back() < knots.back().z_nm) points.push_back(knots.back().z_nm);
  return points;
}

void check_knots(const std::vector<WidthCurve::Knot>& knots, AxialMethod method) {
  if (knots.size() < WidthCurve::kFewestKnots || knots.size() > WidthCurve::kMostKnots)
    throw WidthCurveError("the curve has " + std::to_string(knots.size()) + " knots; allowed are " +
                          std::to_string(WidthCurve::kFewestKnots) + " to " +
                          std::to_string(WidthCurve::kMostKnots));
  double before = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < knots.size(); ++i) {
    const WidthCurve::Knot& k = knots[i];
    const bool widths =
        k.sigma_x_px > 0 && std::isfinite(k.sigma_x_px) &&
        (method == AxialMethod::Defocus || (k.sigma_y_px > 0 && std::isfinite(k.sigma_y_px)));
    if (!widths || !std::isfinite(k.z_nm) || !(k.z_nm > before))
      throw WidthCurveError("knot " + std::to_string(i) + " of the curve is " + number(k.z_nm, 1) +
                            ", " + number(k.sigma_x_px, 4) + ", " + number(k.sigma_y_px, 4) +
                            "; z has to ascend and widths are above 0 px");
    before = k.z_nm;
  }
}

}  // namespace

/// C^-1. All 0 where the covariance is none.
struct WidthCurve::Weights {
  double x = 0, xy = 0, y = 0;

  Weights(const WidthVariance& v, AxialMethod method) noexcept {
    constexpr double kLeastShare = 1e-6;  // of the determinant: less is rounding
    const auto is_variance = [](double value) { return value > 0 && std::isfinite(value); };
    if (!is_variance(v.x_px2)) return;
    if (method == AxialMethod::Defocus) {
      x = 1 / v.x_px2;
      return;
    }
    const double determinant = v.x_px2 * v.y_px2 - v.xy_px2 * v.xy_px2;
    if (!is_variance(v.y_px2) || !(determinant > kLeastShare * v.x_px2 * v.y_px2)) return;
    x = v.y_px2 / determinant;
    y = v.x_px2 / determinant;
    xy = -v.xy_px2 / determinant;
  }
  bool any() const noexcept { return x > 0; }
  double product(double ax, double ay, double bx, double by) const noexcept {
    return ax * (x * bx + xy * by) + ay * (xy * bx + y * by);
  }
};

/// A place of the curve that is nearer to the widths than its neighbours.
struct WidthCurve::Match {
  double z_nm = 0, misfit = std::numeric_limits<double>::infinity();
  bool at_end = false;  ///< of the knots, and the widths point beyond
};

WidthCurve::WidthCurve(std::vector<Knot> knots, double scatter_factor, AxialMethod method,
                       Range within)
    : knots_(std::move(knots)), scatter_factor_(scatter_factor), method_(method) {
  if (method != AxialMethod::Astigmatic && method != AxialMethod::Defocus)
    throw WidthCurveError("a curve of widths is for the methods astigmatic and defocus");
  if (!(scatter_factor >= kLeastScatter && scatter_factor <= kMostScatter))
    throw WidthCurveError("the scatter factor is " + number(scatter_factor, 2) + "; allowed are " +
                          number(kLeastScatter, 1) + " to " + number(kMostScatter, 0));
  check_knots(knots_, method);
  std::vector<double> z, x, y;
  for (Knot& knot : knots_) {
    if (knot.scatter == 0) knot.scatter = scatter_factor;
    if (!(knot.scatter >= kLeastScatter && knot.scatter <= kMostScatter))
      throw WidthCurveError("the scatter of the knot at " + number(knot.z_nm, 1) + " nm is " +
                            number(knot.scatter, 2) + "; allowed are " + number(kLeastScatter, 1) +
                            " to " + number(kMostScatter, 0) + ", and 0: the curve's");
    if (method == AxialMethod::Defocus) knot.sigma_y_px = knot.sigma_x_px;
    z.push_back(knot.z_nm);
    x.push_back(knot.sigma_x_px);
    y.push_back(knot.sigma_y_px);
  }
  x_ = cubic_spline(z, x);
  y_ = cubic_spline(z, y);
  pieces_per_nm_ = static_cast<double>(x_.size()) / (z.back() - z.front());
  find_range(within);
}

void WidthCurve::find_range(Range within) {
  const bool astigmatic = method_ == AxialMethod::Astigmatic;
  std::vector<CubicPiece> course = x_;
  if (astigmatic) {
    for (std::size_t i = 0; i < course.size(); ++i)
      for (std::size_t j = 0; j < course[i].size(); ++j) course[i][j] -= y_[i][j];
  }
  const auto value = [&](double z) {
    const std::size_t i = piece_at(z);
    return value_of(course[i], z - knots_[i].z_nm);
  };
  const std::vector<double> turns = turning_points(knots_, course);
  double most = 0;
  for (std::size_t i = 0; i + 1 < turns.size(); ++i) {
    const double begin = value(turns[i]), end = value(turns[i + 1]);
    if (astigmatic && !(begin * end < 0)) continue;
    if (std::abs(end - begin) <= most) continue;
    most = std::abs(end - begin);
    range_ = {turns[i], turns[i + 1]};
  }
  if (!(most > 0))
    throw WidthCurveError(astigmatic ? "the widths of the curve along x and y cross nowhere"
                                     : "the width of the curve is the same everywhere");
  stretch_ = range_;
  if (astigmatic) {
    double low = range_.lower_nm, high = range_.upper_nm;
    const bool falls = value(low) > 0;
    while (high - low > kSettledNm) {
      const double middle = 0.5 * (low + high);
      ((value(middle) > 0) == falls ? low : high) = middle;
    }
    crossing_nm_ = 0.5 * (low + high);
  } else {
    constexpr int kSteps = 1000;
    const double step = (range_.upper_nm - range_.lower_nm) / kSteps;
    double steepest = 0;
    for (int i = 0; i <= kSteps; ++i)
      steepest = std::max(steepest, std::abs(sigma_x_px_per_nm(range_.lower_nm + i * step)));
    const auto is_flat = [&](double z) {
      return std::abs(sigma_x_px_per_nm(z)) < kSteepEnough * steepest;
    };
    while (is_flat(range_.lower_nm)) range_.lower_nm += step;
    while (is_flat(range_.upper_nm)) range_.upper_nm -= step;
  }
  range_.lower_nm = std::max(range_.lower_nm, within.lower_nm);
  range_.upper_nm = std::min(range_.upper_nm, within.upper_nm);
  if (!astigmatic) crossing_nm_ = 0.5 * (range_.lower_nm + range_.upper_nm);
  if (!(range_.lower_nm < crossing_nm_ && crossing_nm_ < range_.upper_nm))
    throw WidthCurveError("z cannot be read from " + number(within.lower_nm, 0) + " to " +
                          number(within.upper_nm, 0) + " nm by this curve, whose widths " +
                          (astigmatic ? "cross at " + number(crossing_nm_, 0) + " nm"
                                      : "do not change steadily there"));
}

/// Of knots at even distances, as most curves have them, without a search.
std::size_t WidthCurve::piece_at(double z_nm) const noexcept {
  const double guess = std::clamp((z_nm - knots_.front().z_nm) * pieces_per_nm_, 0.0,
                                  static_cast<double>(x_.size() - 1));
  if (guess >= 0) {
    const auto piece = static_cast<std::size_t>(guess);
    if (z_nm >= knots_[piece].z_nm && z_nm < knots_[piece + 1].z_nm) return piece;
  }
  const auto next = std::upper_bound(knots_.begin() + 1, knots_.end() - 1, z_nm,
                                     [](double z, const Knot& knot) { return z < knot.z_nm; });
  return static_cast<std::size_t>(next - knots_.begin()) - 1;
}

double WidthCurve::sigma_x_px(double z_nm) const noexcept {
  const double z = std::clamp(z_nm, knots_.front().z_nm, knots_.back().z_nm);
  const std::size_t i = piece_at(z);
  return value_of(x_[i], z - knots_[i].z_nm);
}

double WidthCurve::sigma_y_px(double z_nm) const noexcept {
  const double z = std::clamp(z_nm, knots_.front().z_nm, knots_.back().z_nm);
  const std::size_t i = piece_at(z);
  return value_of(y_[i], z - knots_[i].z_nm);
}

double WidthCurve::sigma_x_px_per_nm(double z_nm) const noexcept {
  const double z = std::clamp(z_nm, knots_.front().z_nm, knots_.back().z_nm);
  const std::size_t i = piece_at(z);
  return slope_of(x_[i], z - knots_[i].z_nm);
}

double WidthCurve::sigma_y_px_per_nm(double z_nm) const noexcept {
  const double z = std::clamp(z_nm, knots_.front().z_nm, knots_.back().z_nm);
  const std::size_t i = piece_at(z);
  return slope_of(y_[i], z - knots_[i].z_nm);
}

double WidthCurve::between_knots(double Knot::*value, double z_nm) const noexcept {
  const double z = std::clamp(z_nm, knots_.front().z_nm, knots_.back().z_nm);
  const std::size_t i = piece_at(z);
  const Knot& low = knots_[i];
  const Knot& high = knots_[i + 1];
  return low.*value + (high.*value - low.*value) * (z - low.z_nm) / (high.z_nm - low.z_nm);
}

double WidthCurve::scatter(double z_nm) const noexcept {
  return between_knots(&Knot::scatter, z_nm);
}

double WidthCurve::dimness(double z_nm) const noexcept {
  return between_knots(&Knot::dimness, z_nm);
}

double WidthCurve::excess(double z_nm) const noexcept {
  return between_knots(&Knot::excess, z_nm);
}

double WidthCurve::misfit(double z_nm, double sigma_x, double sigma_y,
                          const Weights& weights) const noexcept {
  const double x = sigma_x - sigma_x_px(z_nm), y = sigma_y - sigma_y_px(z_nm);
  return weights.product(x, y, x, y);
}

/// Gauss-Newton between the neighbours of a knot that is nearer to the widths than they are; a step
/// that leaves what is known to hold the minimum is replaced by half of that.
WidthCurve::Match WidthCurve::match_near(std::size_t knot, double sigma_x, double sigma_y,
                                         const Weights& weights) const noexcept {
  const std::size_t last = knots_.size() - 1;
  double low = knots_[knot > 0 ? knot - 1 : 0].z_nm;
  double high = knots_[std::min(knot + 1, last)].z_nm;
  Match match{knots_[knot].z_nm};
  for (int step = 0; step < kMostSteps; ++step) {
    const std::size_t i = piece_at(match.z_nm);
    const double t = match.z_nm - knots_[i].z_nm;
    const double dx = slope_of(x_[i], t), dy = slope_of(y_[i], t);
    const double downhill =
        weights.product(dx, dy, sigma_x - value_of(x_[i], t), sigma_y - value_of(y_[i], t));
    if (step == 0 && ((knot == 0 && downhill <= 0) || (knot == last && downhill >= 0))) {
      match.at_end = true;
      break;
    }
    (downhill > 0 ? low : high) = match.z_nm;
    const double steepness = weights.product(dx, dy, dx, dy);
    double next = steepness > 0 ? match.z_nm + downhill / steepness : low;
    if (!(next > low && next < high)) next = 0.5 * (low + high);
    const double moved = std::abs(next - match.z_nm);
    match.z_nm = next;
    if (moved < kSettledNm) break;
  }
  if (!is_other_side(match.z_nm)) match.misfit = misfit(match.z_nm, sigma_x, sigma_y, weights);
  return match;
}

bool WidthCurve::is_other_side(double z_nm) const noexcept {
  constexpr double kRoundedNm = 1;
  return method_ == AxialMethod::Defocus &&
         (z_nm < stretch_.lower_nm - kRoundedNm || z_nm > stretch_.upper_nm + kRoundedNm);
}

bool WidthCurve::belongs(const Match& match, double sigma_x, double sigma_y) const noexcept {
  const double x = sigma_x_px(match.z_nm), y = sigma_y_px(match.z_nm);
  const double off_x = (sigma_x - x) / x;
  const double off_y = method_ == AxialMethod::Astigmatic ? (sigma_y - y) / y : 0;
  const double promised = kOffCurveSd * scatter_factor_;
  return off_x * off_x + off_y * off_y <= kOffCurveShare * kOffCurveShare ||
         match.misfit <= promised * promised;
}

AxialReading WidthCurve::read(double sigma_x, double sigma_y,
                              const WidthVariance& v) const noexcept {
  AxialReading reading;
  const Weights weights(v, method_);
  if (method_ == AxialMethod::Defocus) sigma_y = sigma_x;
  if (!weights.any() || !(sigma_x > 0) || !(sigma_y > 0) || !std::isfinite(sigma_x + sigma_y))
    return reading;
  Match best, other;
  const auto knot_misfit = [&](std::size_t i) {
    const double x = sigma_x - knots_[i].sigma_x_px, y = sigma_y - knots_[i].sigma_y_px;
    return weights.product(x, y, x, y);
  };
  const std::size_t last = knots_.size() - 1;
  double before = std::numeric_limits<double>::infinity(), here = knot_misfit(0);
  for (std::size_t i = 0; i <= last; ++i) {
    const double next = i < last ? knot_misfit(i + 1) : std::numeric_limits<double>::infinity();
    if (here <= before && here < next) {
      const Match match = match_near(i, sigma_x, sigma_y, weights);
      if (match.misfit < best.misfit) {
        other = std::exchange(best, match);
      } else if (match.misfit < other.misfit) {
        other = match;
      }
    }
    before = std::exchange(here, next);
  }
  if (!std::isfinite(best.misfit)) return reading;
  const double sd = sd_nm(best.z_nm, v);
  const double ambiguous = kAmbiguousSd * scatter_factor_;
  const bool one_place = other.misfit - best.misfit > ambiguous * ambiguous ||
                         std::abs(other.z_nm - best.z_nm) < kSamePlaceSd * sd;
  if (!one_place || (!best.at_end && !belongs(best, sigma_x, sigma_y))) return reading;
  if (best.z_nm < range_.lower_nm || (best.at_end && best.z_nm <= knots_.front().z_nm)) {
    reading.side = AxialSide::Below;
  } else if (best.z_nm > range_.upper_nm || best.at_end) {
    reading.side = AxialSide::Above;
  } else if (std::isfinite(sd)) {
    reading = {.measured = true, .z_nm = best.z_nm, .sd_nm = sd, .side = AxialSide::Inside};
  }
  return reading;
}

double WidthCurve::sd_nm(double z_nm, const WidthVariance& v) const noexcept {
  const Weights weights(v, method_);
  const double dx = sigma_x_px_per_nm(z_nm), dy = sigma_y_px_per_nm(z_nm);
  return scatter(z_nm) / std::sqrt(weights.product(dx, dy, dx, dy));
}

}  // namespace driftd::control
