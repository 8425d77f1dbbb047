// SPDX-License-Identifier: MIT
#include "fitter/gpufit/straight_line.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "fitter/gpufit/gpufit.h"
#include "fitter/gpufit/translation.hpp"

namespace driftd::fitter::drop_in {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Line {
  double offset, slope;

  double at(double x) const { return offset + slope * x; }
};

struct Point {
  double x, y, weight;
};

/// Limits of offset and slope; a parameter that is not fitted has its value as both.
struct Box {
  std::array<double, 2> lower = {-kInfinity, -kInfinity}, upper = {kInfinity, kInfinity};

  bool is_none() const { return !(lower[0] <= upper[0] && lower[1] <= upper[1]); }
  bool is_free(std::size_t j) const { return lower[j] < upper[j]; }
  double limited(std::size_t j, double value) const {
    return std::clamp(value, lower[j], upper[j]);
  }
};

/// sum w (offset + slope x - y)^2, as a function of the line; x counts from their mean place.
class Squares {
 public:
  explicit Squares(const std::vector<Point>& points) {
    double wx = 0;
    for (const Point& p : points) {
      w_ += p.weight;
      wx += p.weight * p.x;
    }
    middle_ = w_ > 0 ? wx / w_ : 0;
    for (const Point& p : points) {
      const double u = p.x - middle_;
      wuu_ += p.weight * u * u;
      wy_ += p.weight * p.y;
      wuy_ += p.weight * u * p.y;
    }
  }

  double slope_given(double offset) const {
    const double wxx = wuu_ + w_ * middle_ * middle_;
    return (wuy_ + middle_ * (wy_ - w_ * offset)) / wxx;
  }
  double offset_given(double slope) const { return wy_ / w_ - slope * middle_; }
  Line best() const {
    const double slope = wuy_ / wuu_;
    return {offset_given(slope), slope};
  }
  /// Less what does not depend on the line.
  double of(const Line& line) const {
    const double height = line.at(middle_);  // at u = 0
    return w_ * height * height - 2 * height * wy_ + line.slope * line.slope * wuu_ -
           2 * line.slope * wuy_;
  }

  /// Where they are least within the box: at the best line or on an edge, as they are convex. None
  /// where the points do not tell what is free.
  std::optional<Line> least(const Box& box) const {
    if (box.is_free(0) && box.is_free(1)) {
      const Line line = best();
      if (!std::isfinite(line.offset) || !std::isfinite(line.slope)) return std::nullopt;
      if (line.offset == box.limited(0, line.offset) && line.slope == box.limited(1, line.slope))
        return line;
    }
    std::optional<Line> least;
    const auto offer = [&](const Line& line) {
      if (std::isfinite(line.offset) && std::isfinite(line.slope) &&
          (!least || of(line) < of(*least)))
        least = line;
    };
    for (const double offset : {box.lower[0], box.upper[0]})
      if (std::isfinite(offset))
        offer({offset, box.is_free(1) ? box.limited(1, slope_given(offset)) : box.lower[1]});
    for (const double slope : {box.lower[1], box.upper[1]})
      if (std::isfinite(slope))
        offer({box.is_free(0) ? box.limited(0, offset_given(slope)) : box.lower[0], slope});
    return least;
  }

 private:
  double w_ = 0, middle_ = 0, wuu_ = 0, wy_ = 0, wuy_ = 0;
};

/// Poisson's deviance; a line counts as not less than `floor`, where a count has no likelihood.
class Deviance {
 public:
  explicit Deviance(const std::vector<Point>& points) : points_(points) {
    double sum = 0;
    for (const Point& p : points) sum += std::max(p.y, 0.0);
    floor_ = 1e-6 * sum / static_cast<double>(points.size());
  }

  double model(const Line& line, double x) const { return std::max(line.at(x), floor_); }
  double of(const Line& line) const {
    double sum = 0;
    for (const Point& p : points_) {
      const double y = std::max(p.y, 0.0), m = model(line, p.x);
      sum += m - y + (y > 0 ? y * std::log(y / m) : 0);
    }
    return 2 * sum;
  }
  /// The points with the weights of squares whose least is nearer to the deviance's.
  std::vector<Point> weighed(const Line& line) const {
    std::vector<Point> points = points_;
    for (Point& p : points) p = {p.x, std::max(p.y, 0.0), 1 / model(line, p.x)};
    return points;
  }
  /// Nothing is expected, and nothing found: any weight is infinite.
  bool is_dark() const { return !(floor_ > 0); }

 private:
  const std::vector<Point>& points_;
  double floor_;
};

struct Result {
  Line line;
  double chi_square;
  int state, iterations;
};

/// By squares again and again, each weighted by the line before: Fisher's scoring.
std::optional<Result> most_likely(const std::vector<Point>& points, const Box& box,
                                  const Call& call) {
  const Deviance deviance(points);
  if (deviance.is_dark()) return std::nullopt;
  std::optional<Line> line = Squares(points).least(box);
  if (!line) return std::nullopt;
  double value = deviance.of(*line);
  constexpr double kRounding = 1e-14, kShortest = 1e-6;
  const double tolerance = std::clamp(static_cast<double>(call.tolerance), kRounding, 1.0);
  for (int iterations = 1; iterations <= call.max_n_iterations; ++iterations) {
    const std::optional<Line> best = Squares(deviance.weighed(*line)).least(box);
    if (!best) return std::nullopt;
    double next_value = kInfinity;
    Line next = *line;
    for (double part = 1; !(next_value <= value) && part > kShortest; part /= 2) {
      next = {line->offset + part * (best->offset - line->offset),
              line->slope + part * (best->slope - line->slope)};
      next_value = deviance.of(next);
    }
    if (!(next_value <= value)) return Result{*line, value, CONVERGED, iterations};
    const double decrease = value - next_value;
    line = next;
    value = next_value;
    if (decrease <= tolerance * value || value < kRounding)
      return Result{*line, value, CONVERGED, iterations};
  }
  return Result{*line, value, MAX_ITERATION, call.max_n_iterations};
}

std::optional<Result> least_squares(const std::vector<Point>& points, const Box& box) {
  const std::optional<Line> line = Squares(points).least(box);
  if (!line) return std::nullopt;
  double chi_square = 0;
  for (const Point& p : points) {
    const double r = line->at(p.x) - p.y;
    chi_square += p.weight * r * r;
  }
  return Result{*line, chi_square, CONVERGED, 1};
}

/// @return false: a number is none, or a weight negative
bool read_points(const Call& call, std::size_t fit, std::vector<Point>& points) {
  const float* const places = places_of(call, fit);
  const std::size_t first = fit * call.n_points;
  const bool weighted = call.weights != nullptr && call.estimator_id == LSE;
  for (std::size_t k = 0; k < call.n_points; ++k) {
    const float x = places != nullptr ? places[k] : static_cast<float>(k);
    const float y = call.data[first + k], weight = weighted ? call.weights[first + k] : 1.0f;
    points[k] = {static_cast<double>(x), static_cast<double>(y), static_cast<double>(weight)};
    if (!std::isfinite(x) || !std::isfinite(y) || !std::isfinite(weight) || weight < 0)
      return false;
  }
  return true;
}

Box box_of(const Call& call, std::size_t fit) {
  Box box;
  for (std::size_t j = 0; j < 2; ++j) {
    const std::size_t place = 2 * fit + j;
    if (call.parameters_to_fit[j] == 0) {
      box.lower[j] = box.upper[j] = static_cast<double>(call.initial_parameters[place]);
    } else if (call.constraints != nullptr) {
      const float* const pair = call.constraints + 2 * place;
      const int type = call.constraint_types[j];
      if ((type & LOWER) != 0) box.lower[j] = static_cast<double>(pair[LOWER_BOUND]);
      if ((type & UPPER) != 0) box.upper[j] = static_cast<double>(pair[UPPER_BOUND]);
    }
  }
  return box;
}

std::optional<Result> fit_line(const Call& call, std::size_t fit, std::vector<Point>& points) {
  const Box box = box_of(call, fit);
  if (box.is_none() || !read_points(call, fit, points)) return std::nullopt;
  const auto free = static_cast<std::ptrdiff_t>(box.is_free(0)) + box.is_free(1);
  if (std::count_if(points.begin(), points.end(), [](const Point& p) { return p.weight > 0; }) <
      free)
    return std::nullopt;
  return call.estimator_id == LSE ? least_squares(points, box) : most_likely(points, box, call);
}

}  // namespace

void fit_straight_lines(const Call& call, std::size_t first, std::size_t count) {
  std::vector<Point> points(call.n_points);
  for (std::size_t fit = first; fit < first + count; ++fit) {
    const std::optional<Result> result = fit_line(call, fit, points);
    constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
    call.output_states[fit] = result ? result->state : SINGULAR_HESSIAN;
    call.output_chi_squares[fit] = result ? static_cast<float>(result->chi_square) : kNone;
    call.output_n_iterations[fit] = result ? result->iterations : 0;
    const Line line = result ? result->line : Line{};
    for (std::size_t j = 0; j < 2; ++j) {
      const std::size_t place = 2 * fit + j;
      const bool kept = !result || call.parameters_to_fit[j] == 0;
      call.output_parameters[place] = kept ? call.initial_parameters[place]
                                           : static_cast<float>(j == 0 ? line.offset : line.slope);
    }
  }
}

}  // namespace driftd::fitter::drop_in
