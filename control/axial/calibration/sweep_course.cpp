// SPDX-License-Identifier: MIT
#include "control/axial/calibration/sweep_course.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "base/dense_solver.hpp"
#include "base/median.hpp"

namespace driftd::control {
namespace {

/// A jump is so far, and so many standard deviations.
constexpr double kLeastJumpNm = 15, kJumpSds = 5;
/// Widths, and places of the spot, that are the same.
constexpr double kSameWidthPx = 0.02, kSameSpotPx = 0.1, kSameSds = 4;

/// 1, z, z^2, z^3, t, t^2, t^3, the direction, and 1 from a place on where the value is thought to
/// jump there.
constexpr std::size_t kTerms = 8;

struct Row {
  std::size_t place = 0;
  std::array<double, kTerms + 1> terms{};
  double value = 0;
};

struct Fitted {
  std::vector<double> c, inverse;
  double variance = 0;
};

class Course {
 public:
  Course(const SweepRecord& record, const SweepStage& stage, const PlaceValue& value) {
    const double range_nm = record.plan().settings().range_nm;
    const std::vector<SweepPlace>& places = record.plan().places();
    const double half_s = std::max(0.5 * stage.seconds(places.size() - 1), 1e-9);
    for (std::size_t p = 0; p < places.size(); ++p) {
      const auto y = places[p].is_measured() ? value(p) : std::nullopt;
      if (!y) continue;
      const double z = places[p].z_nm / range_nm, t = stage.seconds(p) / half_s - 1;
      rows_.push_back(
          {p, {1, z, z * z, z * z * z, t, t * t, t * t * t, direction_of(places[p]), 0}, *y});
    }
  }

  const std::vector<Row>& rows() const noexcept { return rows_; }
  bool tells() const noexcept { return rows_.size() >= 2 * (kTerms + 1); }

  /// @param jump  the row from which on the value has jumped; nothing: it has not
  std::optional<Fitted> fit(std::optional<std::size_t> jump) const {
    const std::size_t terms = kTerms + (jump ? 1 : 0);
    NormalEquations equations(terms);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      std::array<double, kTerms + 1> row = rows_[i].terms;
      row[kTerms] = jump && i >= *jump ? 1 : 0;
      equations.add(std::span(row).first(terms), rows_[i].value);
    }
    Fitted fitted;
    if (!equations.solve(1e-12, fitted.c) || !equations.invert(fitted.inverse)) return std::nullopt;
    fitted.variance =
        std::max(equations.remaining(fitted.c), 0.0) / static_cast<double>(rows_.size() - terms);
    return fitted;
  }

 private:
  std::vector<Row> rows_;
};

struct Jump {
  double nm = 0;
  std::size_t from = 0, to = 0;  ///< places
};

std::optional<Jump> jump_of(const Course& course) {
  if (!course.tells()) return std::nullopt;
  const std::vector<Row>& rows = course.rows();
  std::optional<Jump> found;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const auto fitted = course.fit(i);
    if (!fitted || fitted->variance >= least) continue;
    least = fitted->variance;
    const double sd = std::sqrt(fitted->inverse.back() * fitted->variance);
    found.reset();
    if (std::abs(fitted->c[kTerms]) > kLeastJumpNm + kJumpSds * sd)
      found = Jump{fitted->c[kTerms], rows[i - 1].place, rows[i].place};
  }
  return found;
}

}  // namespace

void check_unbroken(const SweepRecord& record, const SweepStage& stage, const char* axis,
                    const PlaceValue& value) {
  const auto jump = jump_of(Course(record, stage, value));
  if (jump)
    fail_sweep(CalibrationFault::Jump,
               fmt::format("the sample jumped by about {:+.0f} nm in {}, between {:.1f} and {:.1f} "
                           "s after the sweep began: was something touched, or did the stage "
                           "slip or stand still? Sweep again when it is calm",
                           jump->nm, axis, stage.seconds(jump->from), stage.seconds(jump->to)));
}

std::optional<PlaceSlope> slope_at(const SweepRecord& record, const SweepStage& stage,
                                   const PlaceValue& value, double z_nm) {
  constexpr std::size_t kUnknowns = 5, kPowers = 3;
  const std::vector<SweepPlace>& places = record.plan().places();
  const double range_nm = record.plan().settings().range_nm;
  NormalEquations equations(kUnknowns);
  std::size_t count = 0;
  std::optional<std::size_t> before;
  for (std::size_t p = 0; p < places.size(); ++p) {
    const auto y = places[p].is_measured() ? value(p) : std::nullopt;
    if (!y) continue;
    if (before) {
      const double a = places[*before].z_nm / range_nm, b = places[p].z_nm / range_nm;
      const double took_s = stage.seconds(p) - stage.seconds(*before);
      const double weight = 1 / std::sqrt(std::max(took_s, 1e-9));
      const std::array<double, kUnknowns> row = {
          weight * (b - a), weight * (b * b - a * a), weight * (b * b * b - a * a * a),
          weight * took_s, weight * (direction_of(places[p]) - direction_of(places[*before]))};
      equations.add(row, weight * (*y - *value(*before)));
      ++count;
    }
    before = p;
  }
  std::vector<double> c, inverse;
  if (count < 2 * kUnknowns || !equations.solve(1e-12, c) || !equations.invert(inverse))
    return std::nullopt;
  const double z = z_nm / range_nm;
  const std::array<double, kPowers> by = {1, 2 * z, 3 * z * z};
  double slope = 0, variance = 0;
  for (std::size_t i = 0; i < kPowers; ++i) {
    slope += by[i] * c[i];
    for (std::size_t k = 0; k < kPowers; ++k)
      variance += by[i] * by[k] * inverse[i * kUnknowns + k];
  }
  variance *= std::max(equations.remaining(c), 0.0) / static_cast<double>(count - kUnknowns);
  return PlaceSlope{slope / range_nm, std::sqrt(std::max(variance, 0.0)) / range_nm,
                    (2 * c[1] + 6 * z * c[2]) / (range_nm * range_nm)};
}

std::optional<StartAgain> start_again(const SweepRecord& record) {
  const std::vector<SweepPlace>& places = record.plan().places();
  const auto start = std::ranges::find(places, SweepPart::Start, &SweepPlace::part);
  const auto first = static_cast<std::size_t>(start - places.begin());
  const SweepVisit &before = record.visit(first), &after = record.visit(record.back());
  if (before.spot_frames > 0 && after.spot_frames > 0) {
    const double n = before.spot_frames, m = after.spot_frames;
    const double sd = std::sqrt(before.spot_variance / (n * n) + after.spot_variance / (m * m));
    return StartAgain{std::hypot(before.spot_px.x / n - after.spot_px.x / m,
                                 before.spot_px.y / n - after.spot_px.y / m),
                      kSameSpotPx + kSameSds * sd};
  }
  std::vector<double> x, y, variances;
  for (std::size_t i = 0; i < record.markers(); ++i) {
    const MarkerAtPlace &a = record.at(first, i), &b = record.at(record.back(), i);
    if (a.frames == 0 || b.frames == 0) continue;
    const double n = a.frames, m = b.frames;
    x.push_back(a.sigma_x_px / n - b.sigma_x_px / m);
    y.push_back(a.sigma_y_px / n - b.sigma_y_px / m);
    variances.push_back(std::max(a.variance_x_px2, a.variance_y_px2) / (n * n) +
                        std::max(b.variance_x_px2, b.variance_y_px2) / (m * m));
  }
  if (x.empty()) return std::nullopt;
  const double sd =
      kMedianSd * std::sqrt(median(std::move(variances)) / static_cast<double>(x.size()));
  return StartAgain{std::max(std::abs(median(std::move(x))), std::abs(median(std::move(y)))),
                    kSameWidthPx + kSameSds * sd};
}

}  // namespace driftd::control
