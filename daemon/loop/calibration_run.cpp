// SPDX-License-Identifier: MIT
#include "daemon/loop/calibration_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace driftd::daemon {
namespace {

/// At the start again, the sample is watched for so long: where has it come to?
constexpr std::int64_t kSettlingNs = 300'000'000;
/// One frame in which the sample seems far away is a mistaken marker.
constexpr int kFarFrames = 5;
constexpr double kRoomNm = 50;  // vibration, and jumps of a marker among few
/// More frames than the period promises are not recorded. A busy computer told a rate too low.
constexpr double kFramesInReserve = 1.6;
constexpr double kMostFrames = 200'000;

std::size_t frames_of(std::int64_t duration_ns, std::int64_t frame_period_ns) {
  const double frames = static_cast<double>(duration_ns + kSettlingNs) /
                        static_cast<double>(std::max<std::int64_t>(frame_period_ns, 1));
  return static_cast<std::size_t>(std::min(kFramesInReserve * frames + 100, kMostFrames));
}

}  // namespace

CalibrationRun::CalibrationRun(const control::StageExcitation& excitation,
                               const CalibrationSettings& settings)
    : StageRun(settings.bad_frames_to_end), settings_(settings), excitation_(excitation) {
  const std::size_t frames = frames_of(excitation.duration_ns(), settings.frame_period_ns);
  record_.samples.reserve(frames);
  record_.moves.reserve(frames);
  record_.exposure_ns = settings.exposure_ns;
}

std::optional<control::Vec2> CalibrationRun::next_nm(std::int64_t now_ns) noexcept {
  const std::int64_t since_ns = now_ns - begun_ns();
  if (since_ns >= excitation_.duration_ns()) return std::nullopt;
  if (since_ns >= excitation_.quiet_ns()) begin_to_move();
  return excitation_.wanted_nm(since_ns);
}

bool CalibrationRun::told(std::int64_t now_ns, control::Vec2 total_nm) noexcept {
  if (record_.moves.size() >= record_.moves.capacity()) return false;
  record_.moves.push_back({now_ns, total_nm});
  return true;
}

void CalibrationRun::see(const control::FrameFacts& facts) noexcept {
  if (!facts.stale) ++fresh_frames_;
  if (facts.stale || facts.drift == nullptr || !facts.drift->valid) return;
  const control::Vec2 moved_nm = facts.drift->frame_drift_nm;
  if (!std::isfinite(moved_nm.x) || !std::isfinite(moved_nm.y)) return;
  if (record_.samples.size() < record_.samples.capacity())
    record_.samples.push_back({facts.taken_ns, moved_nm, facts.drift->frame_covariance_nm2});
}

/// How far the sample may have moved by now.
double CalibrationRun::allowed_nm() const noexcept {
  const double reach_nm = excitation_.reach_nm(elapsed_ns());
  return kRoomNm + settings_.most_drift_nm_per_s * seconds() + settings_.most_moved * reach_nm;
}

bool CalibrationRun::is_too_far(const control::FrameFacts& facts) noexcept {
  if (facts.stale || facts.drift == nullptr || !facts.drift->valid || record_.samples.empty()) {
    far_frames_ = 0;
    return false;
  }
  const control::Vec2 now_nm = facts.drift->frame_drift_nm;
  const control::Vec2 start_nm = record_.samples.front().moved_nm;
  const double far_nm = std::hypot(now_nm.x - start_nm.x, now_nm.y - start_nm.y);
  if (!(far_nm > allowed_nm())) {
    far_frames_ = 0;
    return false;
  }
  farthest_nm_ = std::max(farthest_nm_, far_nm);
  return ++far_frames_ >= kFarFrames;
}

std::optional<CalibrationEnd> CalibrationRun::what_ends_it(
    const control::FrameFacts& facts) noexcept {
  if (!is_too_far(facts)) return std::nullopt;
  return excitation_.reach_nm(elapsed_ns()) > 0 ? CalibrationEnd::MovedTooFar
                                                : CalibrationEnd::SampleMoved;
}

void CalibrationRun::saw_markers(std::span<const control::MarkerResult> results,
                                 const control::DriftEstimate& drift) noexcept {
  const control::Vec2 d = drift.frame_drift_nm;
  const bool moved = drift.valid && std::isfinite(d.x) && std::isfinite(d.y);
  if (moved) {
    markers_used_ += drift.markers_used;
    ++frames_used_;
  }
  const std::size_t count = std::min(results.size(), courses_.size());
  for (std::size_t i = 0; i < count; ++i) {
    MarkerCourse& c = courses_[i];
    const bool good = results[i].health == control::MarkerHealth::Good;
    const control::Vec2 r = results[i].residual_nm;
    if (good && c.has_last) {
      const double x_nm = r.x - c.last_nm.x;
      const double y_nm = r.y - c.last_nm.y;
      c.sum_nm2 += x_nm * x_nm + y_nm * y_nm;
      ++c.differences;
    }
    c.last_nm = r;
    c.has_last = good;
    if (!good || !moved) continue;
    ++c.frames;
    c.d = {c.d.x + d.x, c.d.y + d.y};
    c.rx += r.x;
    c.ry += r.y;
    c.rx_d = {c.rx_d.x + r.x * d.x, c.rx_d.y + r.x * d.y};
    c.ry_d = {c.ry_d.x + r.y * d.x, c.ry_d.y + r.y * d.y};
    c.dx_dx += d.x * d.x;
    c.dx_dy += d.x * d.y;
    c.dy_dy += d.y * d.y;
  }
}

double CalibrationRun::marker_noise_nm(std::size_t marker) const noexcept {
  const MarkerCourse& course = courses_[marker];
  if (course.differences == 0) return std::numeric_limits<double>::quiet_NaN();
  constexpr double kTermsOfASquare = 4;  // two axes, and a difference has twice the variance
  return std::sqrt(course.sum_nm2 / (kTermsOfASquare * course.differences));
}

double CalibrationRun::image_gain_sd() const noexcept {
  constexpr double kSeenThroughout = 0.8;
  constexpr int kFewest = 3;
  double squares = 0;
  int markers = 0;
  for (std::size_t i = 0; i < courses_.size(); ++i) {
    const MarkerCourse& c = courses_[i];
    if (c.frames < 2 || c.frames < kSeenThroughout * frames_used_) continue;
    const double xx = c.dx_dx - c.d.x * c.d.x / c.frames;
    const double xy = c.dx_dy - c.d.x * c.d.y / c.frames;
    const double yy = c.dy_dy - c.d.y * c.d.y / c.frames;
    const double determinant = xx * yy - xy * xy;
    if (!(determinant > 0)) continue;
    // The two elements of a row, and what the marker's noise alone would make of their squares.
    const auto add_row = [&](double r, control::Vec2 r_d) {
      const double rx = r_d.x - r * c.d.x / c.frames, ry = r_d.y - r * c.d.y / c.frames;
      const double along_x = (yy * rx - xy * ry) / determinant;
      const double along_y = (xx * ry - xy * rx) / determinant;
      squares += along_x * along_x + along_y * along_y;
    };
    add_row(c.rx, c.rx_d);
    add_row(c.ry, c.ry_d);
    squares -= 2 * std::pow(marker_noise_nm(i), 2) * (xx + yy) / determinant;
    ++markers;
  }
  if (markers < kFewest || !(squares > 0)) return 0;
  const double of_one = squares / (4 * (markers - 1));
  return std::sqrt(of_one * frames_used_ / std::max(markers_used_, frames_used_));
}

void CalibrationRun::untold(std::int64_t sent_ns) noexcept {
  for (; !record_.moves.empty() && record_.moves.back().sent_ns > sent_ns; ++late_moves_)
    record_.moves.pop_back();
}

void CalibrationRun::left_at(std::int64_t sent_ns) noexcept {
  if (record_.moves.empty()) return;
  std::int64_t& told_ns = record_.moves.back().sent_ns;
  if (sent_ns <= told_ns) return;
  ++late_moves_;
  longest_ns_ = std::max(longest_ns_, sent_ns - told_ns);
  told_ns = sent_ns;
}

CalibrationStrain CalibrationRun::strain() const noexcept {
  const double moves = std::max(static_cast<double>(record_.moves.size()), 1.0);
  const double due = 1 + 1e9 * seconds() / static_cast<double>(settings_.frame_period_ns);
  return {.late_share = std::min(late_moves_ / moves, 1.0),
          .longest_s = 1e-9 * static_cast<double>(longest_ns_),
          .lost_share = !has_begun() ? 0 : std::max(0.0, 1 - fresh_frames_ / due)};
}

double CalibrationRun::share_done() const noexcept {
  const double duration_ns = static_cast<double>(excitation_.duration_ns());
  if (!(duration_ns > 0)) return 1;
  return std::clamp(static_cast<double>(elapsed_ns()) / duration_ns, 0.0, 1.0);
}

}  // namespace driftd::daemon
