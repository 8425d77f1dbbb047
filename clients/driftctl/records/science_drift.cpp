// SPDX-License-Identifier: MIT
#include "clients/driftctl/records/science_drift.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "control/axial/axial_estimator.hpp"

namespace driftd::clients {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
/// Frames on either side of a new zero that are taken for one place.
constexpr std::size_t kJoinFrames = 16;
/// The sample may have gone anywhere in a longer time without a measurement.
constexpr std::int64_t kLongestJoinNs = 1'000'000'000;
/// Between two measured frames as far apart as that the drift is a straight line.
constexpr std::int64_t kLongestGapNs = 200'000'000;

/// So much a second is a clock slewed (chrony: at most 83 ms), and beyond it one that was set.
constexpr double kMostSlew = 0.1;

std::int64_t moved_ns(const record::ClockRow& a, const record::ClockRow& b) {
  return (b.wall_ns - b.time_ns) - (a.wall_ns - a.time_ns);
}

bool is_set_between(const record::ClockRow& a, const record::ClockRow& b) {
  return static_cast<double>(std::abs(moved_ns(a, b))) >
         kMostSlew * static_cast<double>(b.time_ns - a.time_ns);
}

/// Rows between which it was not set.
std::int64_t monotonic_within(std::span<const record::ClockRow> rows, std::int64_t wall_ns) {
  const auto after = std::ranges::upper_bound(rows, wall_ns, {}, &record::ClockRow::wall_ns);
  if (after == rows.begin()) return rows.front().time_ns + (wall_ns - rows.front().wall_ns);
  const record::ClockRow& left = *std::prev(after);
  if (after == rows.end()) return left.time_ns + (wall_ns - left.wall_ns);
  const double share =
      static_cast<double>(wall_ns - left.wall_ns) /
      static_cast<double>(std::max<std::int64_t>(1, after->wall_ns - left.wall_ns));
  return left.time_ns + std::llround(share * static_cast<double>(after->time_ns - left.time_ns));
}

/// What z is relative to: a lock of its own takes a reference, a provisional one at first. Nothing
/// of a frame in which it does neither.
std::optional<ZReference> z_reference_of(const record::FrameRow& row) {
  const std::string state = record::choice_name(record::frames_layout(), "z_state", row.z_state);
  const bool is_taken = state == "locked" || state == "holding";
  if (!is_taken && state != "referencing") return std::nullopt;
  return ZReference{row.z_lock_id, is_taken};
}

}  // namespace

ScienceDrift not_measured() {
  return {.x_nm = kNaN, .y_nm = kNaN, .x_sd_nm = kNaN, .y_sd_nm = kNaN};
}

void DriftCurve::add(std::span<const record::FrameRow> rows) {
  for (const record::FrameRow& row : rows) {
    if (!row.valid || !std::isfinite(row.frame_x_nm) || !std::isfinite(row.frame_y_nm)) continue;
    if (!points_.empty() && row.taken_ns <= points_.back().taken_ns) continue;
    last_ = {row.taken_ns, row.wall_ns, row.frame_id};
    if (points_.empty()) {
      first_ = last_;
      reference_ = row.reference;
    }
    if (row.reference != reference_) begin_zero(row);
    const auto z_reference = z_reference_of(row);
    if (z_reference && *z_reference != z_reference_) begin_z_zero(row, *z_reference);
    points_.push_back({row.taken_ns, row.frame_id, row.frame_x_sd_nm, row.frame_y_sd_nm,
                       row.frame_z_sd_nm, row.frame_x_nm + offset_x_nm_,
                       row.frame_y_nm + offset_y_nm_, row.frame_z_nm + offset_z_nm_});
    has_z_ = has_z_ || std::isfinite(row.frame_z_nm);
    if (!joined_ && points_.size() - zero_begin_ == kJoinFrames) join_zeros();
    if (!z_joined_ && points_.size() - z_zero_begin_ == kJoinFrames) join_z_zeros();
  }
}

void DriftCurve::begin_zero(const record::FrameRow& row) {
  join_zeros();  // one that was too short
  reference_ = row.reference;
  const std::int64_t gap_ns = row.taken_ns - points_.back().taken_ns;
  joined_ = gap_ns > kLongestJoinNs;
  zero_begin_ = points_.size();
  if (joined_) {
    notes_.push_back(
        fmt::format("before frame {} nothing was measured for {:.1f} s and a new reference was "
                    "taken: how far the sample moved meanwhile is not known, and taken for 0",
                    row.frame_id, static_cast<double>(gap_ns) * 1e-9));
    offset_x_nm_ = points_.back().x_nm - row.frame_x_nm;
    offset_y_nm_ = points_.back().y_nm - row.frame_y_nm;
    const double step_z_nm = points_.back().z_nm - row.frame_z_nm;
    if (std::isfinite(step_z_nm)) offset_z_nm_ = step_z_nm;
  }
}

/// The last places against the old zero and the first against the new one are the same places.
void DriftCurve::join_zeros() {
  if (joined_) return;
  joined_ = true;
  struct Mean {
    double x, y;
  };
  const auto mean = [&](std::size_t begin, std::size_t end) {
    double x = 0, y = 0;
    for (std::size_t i = begin; i < end; ++i) {
      x += points_[i].x_nm;
      y += points_[i].y_nm;
    }
    const auto count = static_cast<double>(end - begin);
    return Mean{x / count, y / count};
  };
  const std::size_t before = std::min(kJoinFrames, zero_begin_);
  const auto [old_x, old_y] = mean(zero_begin_ - before, zero_begin_);
  const auto [new_x, new_y] =
      mean(zero_begin_, std::min(points_.size(), zero_begin_ + kJoinFrames));
  step_z(zero_begin_);
  for (std::size_t i = zero_begin_; i < points_.size(); ++i) {
    points_[i].x_nm += old_x - new_x;
    points_[i].y_nm += old_y - new_y;
  }
  offset_x_nm_ += old_x - new_x;
  offset_y_nm_ += old_y - new_y;
}

void DriftCurve::begin_z_zero(const record::FrameRow& row, const ZReference& reference) {
  join_z_zeros();  // one that was too short
  z_reference_ = reference;
  z_zero_begin_ = points_.size();
  if (points_.empty()) return;
  const double step_nm = points_.back().z_nm - row.frame_z_nm;
  z_joined_ = row.taken_ns - points_.back().taken_ns > kLongestJoinNs;
  if (z_joined_ && std::isfinite(step_nm)) offset_z_nm_ = step_nm;
}

void DriftCurve::join_z_zeros() {
  if (!z_joined_) step_z(z_zero_begin_);
  z_joined_ = true;
}

double DriftCurve::mean_z_nm(std::size_t begin, std::size_t end) const {
  double sum_nm = 0, count = 0;
  for (std::size_t i = begin; i < end; ++i) {
    if (!std::isfinite(points_[i].z_nm)) continue;
    sum_nm += points_[i].z_nm;
    ++count;
  }
  return sum_nm / count;
}

void DriftCurve::step_z(std::size_t begin) {
  const double step_nm = mean_z_nm(begin - std::min(kJoinFrames, begin), begin) -
                         mean_z_nm(begin, std::min(points_.size(), begin + kJoinFrames));
  if (!std::isfinite(step_nm)) return;
  for (std::size_t i = begin; i < points_.size(); ++i) points_[i].z_nm += step_nm;
  offset_z_nm_ += step_nm;
}

ScienceDrift DriftCurve::over(const Exposure& exposure) const {
  const auto begin = std::ranges::lower_bound(points_, exposure.begin_ns, {}, &Point::taken_ns);
  const auto end = std::ranges::upper_bound(points_, exposure.end_ns, {}, &Point::taken_ns);
  if (begin < end) {
    ScienceDrift drift{.frames = static_cast<int>(end - begin), .measured = true};
    double z_nm = 0, z_variance_nm2 = 0, with_z = 0;
    for (auto p = begin; p != end; ++p) {
      drift.x_nm += p->x_nm / drift.frames;
      drift.y_nm += p->y_nm / drift.frames;
      drift.x_sd_nm += std::pow(double{p->x_sd_nm} / drift.frames, 2);
      drift.y_sd_nm += std::pow(double{p->y_sd_nm} / drift.frames, 2);
      if (!std::isfinite(p->z_nm)) continue;
      z_nm += p->z_nm;
      z_variance_nm2 += std::pow(double{p->z_sd_nm}, 2);
      ++with_z;
    }
    drift.x_sd_nm = std::sqrt(drift.x_sd_nm);
    drift.y_sd_nm = std::sqrt(drift.y_sd_nm);
    if (with_z > 0) {
      drift.z_nm = z_nm / with_z;
      // What z's scale may be off by is the same in each of them.
      const double of_scale_nm =
          std::min(control::AxialEstimator::kScaleShare * std::abs(drift.z_nm),
                   std::sqrt(z_variance_nm2 / with_z));
      drift.z_sd_nm = std::hypot(std::sqrt(z_variance_nm2) / with_z, of_scale_nm);
    }
    return drift;
  }
  if (begin == points_.begin() || begin == points_.end() ||
      begin->taken_ns - std::prev(begin)->taken_ns > kLongestGapNs) {
    return not_measured();
  }
  const Point& left = *std::prev(begin);
  const Point& right = *begin;
  const double middle = 0.5 * static_cast<double>(exposure.begin_ns - left.taken_ns) +
                        0.5 * static_cast<double>(exposure.end_ns - left.taken_ns);
  const double share = middle / static_cast<double>(right.taken_ns - left.taken_ns);
  const auto between = [share](double a, double b) { return a + share * (b - a); };
  return {between(left.x_nm, right.x_nm),
          between(left.y_nm, right.y_nm),
          std::max(left.x_sd_nm, right.x_sd_nm),
          std::max(left.y_sd_nm, right.y_sd_nm),
          0,
          true,
          between(left.z_nm, right.z_nm),
          double{std::max(left.z_sd_nm, right.z_sd_nm)}};
}

ScienceDrift DriftCurve::at_frame(std::uint64_t frame_id) const {
  // The daemon's numbers rise, across a lost camera too.
  const auto found = std::ranges::lower_bound(points_, frame_id, {}, &Point::frame_id);
  if (found == points_.end() || found->frame_id != frame_id) return not_measured();
  return {found->x_nm, found->y_nm, found->x_sd_nm, found->y_sd_nm,
          1,           true,        found->z_nm,    found->z_sd_nm};
}

WallClock::WallClock(std::vector<record::ClockRow> rows) : rows_(std::move(rows)) {
  std::ranges::sort(rows_, {}, &record::ClockRow::time_ns);
  begins_.push_back(0);
  for (std::size_t i = 1; i < rows_.size(); ++i)
    if (is_set_between(rows_[i - 1], rows_[i])) begins_.push_back(i);
}

std::optional<std::int64_t> WallClock::monotonic_ns(std::int64_t wall_ns) const {
  std::optional<std::int64_t> found;
  for (std::size_t k = 0; k < begins_.size(); ++k) {
    const bool first = k == 0;
    const bool last = k + 1 == begins_.size();
    const auto begin = rows_.begin() + static_cast<std::ptrdiff_t>(begins_[k]);
    const auto end =
        last ? rows_.end() : rows_.begin() + static_cast<std::ptrdiff_t>(begins_[k + 1]);
    // It was set at some time between two rows.
    if (!first && wall_ns < begin->wall_ns - (begin->time_ns - std::prev(begin)->time_ns)) continue;
    if (!last && wall_ns > std::prev(end)->wall_ns + (end->time_ns - std::prev(end)->time_ns))
      continue;
    if (found) return {};
    found = monotonic_within({begin, end}, wall_ns);
  }
  return found;
}

std::int64_t WallClock::uncertainty_ns() const {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    most = std::max(most, rows_[i].read_uncertainty_ns);
    if (i == 0 || is_set_between(rows_[i - 1], rows_[i])) continue;
    most = std::max(most, std::abs(moved_ns(rows_[i - 1], rows_[i])));
  }
  return most;
}

std::int64_t WallClock::utc_error_ns() const {
  std::int64_t most = -1;
  for (const record::ClockRow& row : rows_) {
    if (row.utc_max_error_ns < 0) return -1;
    most = std::max(most, row.utc_max_error_ns);
  }
  return most;
}

}  // namespace driftd::clients
