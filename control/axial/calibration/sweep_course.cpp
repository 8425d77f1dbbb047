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

/// A way on which the look changes by less than this share of what it usually does was not made,
/// as far as the usual change is so many standard deviations of a place.
constexpr double kStillShare = 0.1, kTellingSds = 8, kNoWaySds = 5, kSeenSds = 6, kAlike = 0.25;
/// Up and down look otherwise by such a share of the usual change, or that of so many steps.
constexpr double kOtherShare = 0.3, kOtherSteps = 2;
constexpr std::size_t kStepsBefore = 3;
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

/// A stretch of steps at which the look stays what it is.
struct Stretch {
  std::size_t first = 0, last = 0;  ///< of the steps in the order in which they were made
  bool found = false;
};

class Following {
 public:
  Following(const SweepRecord& record, const SweepStage& stage, const PlaceLooks& looks,
            double least_way_nm)
      : places_(record.plan().places()),
        looks_(looks),
        step_nm_(record.plan().settings().step_nm),
        least_way_nm_(std::max(least_way_nm, 2 * step_nm_)),
        up_(stage.steps_of(SweepPart::Up)),
        down_(stage.steps_of(SweepPart::Down)) {
    std::reverse(down_.begin(), down_.end());
    std::vector<double> changes, sds;
    for (const auto* way_of : {&up_, &down_}) {
      const auto& way = *way_of;
      for (std::size_t i = 0; i + 1 < way.size(); ++i) {
        const auto &a = looks_[way[i]], &b = looks_[way[i + 1]];
        if (!a || !b) continue;
        changes.push_back(std::hypot(a->px.x - b->px.x, a->px.y - b->px.y));
        sds.push_back(std::hypot(a->sd_px, b->sd_px));
      }
    }
    change_px_ = value_above(std::move(changes), 9, 10), sd_px_ = median(std::move(sds));
  }

  void check(const SweepStage& stage) const {
    if (change_px_ < kSeenSds * sd_px_) return;  // steps are not seen, moved or not
    const Stretch up = still_on(up_), down = still_on(down_);
    const bool at_top = up.found && down.found && up.last + 1 == up_.size() && down.first == 0;
    const bool at_bottom = up.found && down.found && up.first == 0 && down.last + 1 == down_.size();
    if (at_top != at_bottom && lie_alike(up, down) &&
        (at_top ? begins_suddenly(up_, up.first) : begins_suddenly(down_, down.first)))
      fail_at_end(at_top, up, down);
    const bool on_up = up.found && is_otherwise(up_, up, down_);
    const bool on_down = down.found && is_otherwise(down_, down, up_);
    if (!on_up && !on_down) return;
    // Where it stood still to the end of the way up, it did so from there on.
    const bool from_up = on_up || (up.found && up.last + 1 == up_.size());
    const Stretch& still = from_up ? up : down;
    const std::vector<std::size_t>& way = from_up ? up_ : down_;
    fail_sweep(CalibrationFault::Stuck,
               fmt::format("the stage stood still when it was told to go from {:+.0f} to {:+.0f} "
                           "nm, {:.1f} s after the sweep began: it stuck, or did not hear what it "
                           "was told. See what its driver and its controller say",
                           z_of(way, still.first), z_of(way, still.last),
                           stage.seconds(way[still.first])));
  }

 private:
  /// The longest, on a way.
  Stretch still_on(const std::vector<std::size_t>& way) const {
    Stretch longest;
    double longest_nm = 0;
    for (std::size_t i = 0; i < way.size(); ++i) {
      Vec2 low{1e9, 1e9}, high{-1e9, -1e9};
      for (std::size_t k = i; k < way.size() && looks_[way[k]]; ++k) {
        const Vec2 px = looks_[way[k]]->px;
        low = {std::min(low.x, px.x), std::min(low.y, px.y)};
        high = {std::max(high.x, px.x), std::max(high.y, px.y)};
        const double way_nm = static_cast<double>(k - i) * step_nm_;
        const double usual_px = static_cast<double>(k - i) * change_px_;
        if (way_nm < least_way_nm_ || usual_px < kTellingSds * sd_px_) continue;
        if (std::hypot(high.x - low.x, high.y - low.y) >
            std::max(kStillShare * usual_px, kNoWaySds * sd_px_))
          break;
        if (way_nm > longest_nm) longest_nm = way_nm, longest = {i, k, true};
      }
    }
    return longest;
  }

  double z_of(const std::vector<std::size_t>& way, std::size_t i) const {
    return places_[way[i]].z_nm;
  }

  double apart_px(std::size_t a, std::size_t b) const {
    if (!looks_[a] || !looks_[b]) return 0;
    return std::hypot(looks_[a]->px.x - looks_[b]->px.x, looks_[a]->px.y - looks_[b]->px.y);
  }

  /// Its heights look otherwise on the other way: it is not the optics that show no change.
  bool is_otherwise(const std::vector<std::size_t>& way, const Stretch& still,
                    const std::vector<std::size_t>& other) const {
    double most_px = 0;
    for (std::size_t i = still.first; i <= still.last; ++i)
      most_px = std::max(most_px, apart_px(way[i], other[way.size() - 1 - i]));
    const double usual_px = change_px_ * static_cast<double>(still.last - still.first);
    return most_px > std::max(std::min(kOtherShare * usual_px, kOtherSteps * change_px_),
                              kTellingSds * sd_px_);
  }

  /// The steps before it are as large as others: optics become blind by and by.
  bool begins_suddenly(const std::vector<std::size_t>& way, std::size_t first) const {
    return first >= kStepsBefore && apart_px(way[first - kStepsBefore], way[first]) > change_px_;
  }

  /// The same heights on the way up as on the way down.
  bool lie_alike(const Stretch& up, const Stretch& down) const {
    const double up_low = z_of(up_, up.first), up_high = z_of(up_, up.last);
    const double down_low = z_of(down_, down.last), down_high = z_of(down_, down.first);
    const double allowed_nm =
        std::max(2 * step_nm_, kAlike * std::max(up_high - up_low, down_high - down_low));
    return std::abs(up_low - down_low) <= allowed_nm && std::abs(up_high - down_high) <= allowed_nm;
  }

  [[noreturn]] void fail_at_end(bool at_top, const Stretch& up, const Stretch& down) const {
    const double end_nm = at_top ? 0.5 * (z_of(up_, up.first) + z_of(down_, down.last))
                                 : 0.5 * (z_of(up_, up.last) + z_of(down_, down.first));
    fail_sweep(CalibrationFault::Stuck,
               fmt::format("the stage went no farther than about {:+.0f} nm from its start, told "
                           "was {:+.0f} nm: its travel or its driver's limits end there, or it "
                           "stuck. Sweep less far (--range-nm), or begin farther from that end",
                           end_nm, places_[at_top ? up_.back() : up_.front()].z_nm));
  }

  const std::vector<SweepPlace>& places_;
  const PlaceLooks& looks_;
  double step_nm_, least_way_nm_;
  std::vector<std::size_t> up_, down_;  ///< places, in the order in which they were made
  double change_px_ = 0, sd_px_ = 0;    ///< of the look, from step to step: usual, and its noise
};

}  // namespace

void check_followed(const SweepRecord& record, const SweepStage& stage, const PlaceLooks& looks,
                    double least_way_nm) {
  Following(record, stage, looks, least_way_nm).check(stage);
}

void check_unbroken(const SweepRecord& record, const SweepStage& stage, const char* axis,
                    const PlaceValue& value) {
  const auto jump = jump_of(Course(record, stage, value));
  if (jump)
    fail_sweep(CalibrationFault::Jump,
               fmt::format("the sample jumped by about {:+.0f} nm in {}, between {:.1f} and {:.1f} "
                           "s after the sweep began: was something touched, or did the stage "
                           "slip? Sweep again when it is calm",
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
