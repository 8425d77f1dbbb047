// SPDX-License-Identifier: MIT
#include "daemon/loop/sweep_run.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace driftd::daemon {
namespace {

/// What is told is there.
constexpr double kThereNm = 1e-3;
/// A place takes a fraction of this at the slowest rates of frames and limits.
constexpr std::int64_t kMostPerPlaceNs = 60'000'000'000;
/// Of the markers, in a frame that counts.
constexpr double kLeastShareFitted = 0.5;
/// At the start again, once it has settled there.
constexpr std::int64_t kSeenAgainNs = 200'000'000;

}  // namespace

SweepRun::SweepRun(control::SweepPlan plan, std::size_t markers, const SweepRunSettings& settings)
    : StageRun(settings.bad_frames_to_end,
               std::max<std::int64_t>(kLeastRestNs,
                                      kSeenAgainNs + std::llround(1e9 * plan.settings().settle_s))),
      settings_(settings),
      record_(std::move(plan), markers),
      settle_ns_(std::llround(1e9 * record_.plan().settings().settle_s)) {}

double SweepRun::wanted_stage_nm() const noexcept {
  return settings_.stage_gain * record_.plan().places()[place_].z_nm;
}

std::optional<control::Vec2> SweepRun::next_nm(std::int64_t now_ns) noexcept {
  begin_to_move();
  if (place_ >= record_.plan().places().size()) return std::nullopt;
  if (set_out_ns_ == 0) set_out_ns_ = now_ns;
  return control::Vec2{wanted_stage_nm(), 0};
}

bool SweepRun::told(std::int64_t now_ns, control::Vec2 total_nm) noexcept {
  if (!goes_on()) back_ns_ = total_nm.x != 0 ? 0 : back_ns_ == 0 ? now_ns : back_ns_;
  if (!goes_on() || place_ >= record_.plan().places().size()) return true;
  if (std::abs(total_nm.x - wanted_stage_nm()) > kThereNm)
    arrived_ns_ = 0;
  else if (arrived_ns_ == 0)
    arrived_ns_ = now_ns;
  return true;
}

void SweepRun::untold(std::int64_t /*sent_ns*/) noexcept {
  arrived_ns_ = back_ns_ = 0;
}

void SweepRun::left_at(std::int64_t sent_ns) noexcept {
  if (arrived_ns_ != 0) arrived_ns_ = std::max(arrived_ns_, sent_ns);
  if (back_ns_ != 0) back_ns_ = std::max(back_ns_, sent_ns);
}

bool SweepRun::sees(const FrameSight& sight) const noexcept {
  if (settings_.by_spot)
    return sight.spot != nullptr && sight.spot->reason == control::AxialReason::Measured;
  const auto fitted = std::count_if(sight.markers.begin(), sight.markers.end(),
                                    [](const auto& marker) { return marker.fitted; });
  return fitted > 0 &&
         static_cast<double>(fitted) >= kLeastShareFitted * static_cast<double>(record_.markers());
}

void SweepRun::look(const FrameSight& sight) noexcept {
  sees_ = sees(sight);
  if (!marker_set_) marker_set_ = sight.marker_set;
  has_others_ = !settings_.by_spot && *marker_set_ != sight.marker_set;
  if (has_others_) return;
  if (!goes_on()) return look_at_start(sight);
  if (arrived_ns_ == 0 || place_ >= record_.plan().places().size()) return;
  if (sight.taken_ns < arrived_ns_ + settle_ns_) return;
  if (!record_.plan().places()[place_].is_measured()) return go_on();
  if (!sees_) return;
  record(place_, sight);
  if (record_.visit(place_).frames >= record_.plan().places()[place_].frames) go_on();
}

void SweepRun::look_at_start(const FrameSight& sight) noexcept {
  if (sees_ && back_ns_ != 0 && sight.taken_ns >= back_ns_ + settle_ns_)
    record(record_.back(), sight);
}

void SweepRun::record(std::size_t place, const FrameSight& sight) noexcept {
  control::SweepFrame frame{.seconds = 1e-9 * static_cast<double>(sight.taken_ns - begun_ns()),
                            .markers = sight.markers,
                            .units = sight.units,
                            .has_lateral = sight.has_lateral,
                            .lateral_nm = sight.lateral_nm};
  if (sight.spot != nullptr && sight.spot->reason == control::AxialReason::Measured) {
    frame.has_spot = true;
    frame.spot_px = {sight.spot->x_px, sight.spot->y_px};
    frame.spot_variance_px2 =
        0.5 * (std::pow(sight.spot->x_sd_px, 2) + std::pow(sight.spot->y_sd_px, 2));
  }
  record_.add(place, frame);
}

void SweepRun::go_on() noexcept {
  ++place_;
  arrived_ns_ = set_out_ns_ = 0;
}

/// z itself need not be measured: it is what is calibrated.
bool SweepRun::is_good(control::LockEvent verdict) const noexcept {
  const bool is_passed =
      place_ < record_.plan().places().size() && !record_.plan().places()[place_].is_measured();
  return (sees_ || is_passed) && verdict != control::LockEvent::NotSent &&
         verdict != control::LockEvent::StaleFrame;
}

std::optional<CalibrationEnd> SweepRun::what_ends_it(const control::FrameFacts& facts) noexcept {
  if (has_others_) return CalibrationEnd::MarkersChanged;
  if (goes_on() && set_out_ns_ != 0 && facts.now_ns - set_out_ns_ > kMostPerPlaceNs)
    return CalibrationEnd::NotSent;
  return std::nullopt;
}

double SweepRun::share_done() const noexcept {
  return static_cast<double>(place_) /
         static_cast<double>(std::max<std::size_t>(record_.plan().places().size(), 1));
}

}  // namespace driftd::daemon
