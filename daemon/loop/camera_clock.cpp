// SPDX-License-Identifier: MIT
#include "daemon/loop/camera_clock.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::daemon {
namespace {

constexpr double kMillisecond = 1e6;
constexpr double kSecond = 1e9;

/// What two readings of a right clock may differ by: arrivals scatter, quartzes run 500 ppm apart.
double tolerance_ns(double elapsed_ns) noexcept {
  return 2 * kMillisecond + std::abs(elapsed_ns) / 1000;
}

constexpr double kNearNs = 5 * kMillisecond;  // less late than this: not late
constexpr double kRise = 500e-6;              // of the floor, beyond its measured slope
constexpr double kMaxSlope = 400e-6;          // quartzes run 250 ppm apart, and some
constexpr double kExplains = 0.25;            // a quarter or less of the change is left open
constexpr double kStretchNs = 0.1 * kSecond;
constexpr int kDisagreements = 6;        // stretches in a row: unusable
constexpr double kRateTolerance = 0.02;  // of two stretches, beside their scatter
/// From the first frame on, delays may grow by a third of the time that passes: a link that carries
/// two thirds of the frames. Beyond that the clock is too slow.
constexpr double kGrowingQueue = 1.0 / 3;
constexpr double kLongestQueueNs = 5 * kSecond;
constexpr double kSlowest = 0.4;  // no slower clock is trusted: the camera says it in other units
constexpr double kFirstSlopeNs = 8 * kSecond, kLongestSlopeNs = 64 * kSecond;

/// a - b for any two times, garbage included: within 70 years, which doubles count in tens of ns.
double difference(std::int64_t a, std::int64_t b) noexcept {
  return static_cast<double>(
      static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b)));
}

}  // namespace

CameraClock::Interval::Interval(const Sighting& from, const Sighting& to, double period_ns) noexcept
    : camera_ns(to.camera_ns - from.camera_ns),
      host_ns(to.arrival_ns - from.arrival_ns),
      counted_ns(static_cast<double>(to.id - from.id) * period_ns) {}

void CameraClock::Period::learn(const Sighting& from, const Sighting& to) noexcept {
  const double value = (to.camera_ns - from.camera_ns) / static_cast<double>(to.id - from.id);
  if (!(value > 0)) return;
  if (seen_++ == 0) ns_ = value;
  const bool odd = std::abs(value - ns_) > std::min(ns_ / 8, tolerance_ns(ns_) / 2);
  odd_share_ += ((odd ? 1.0 : 0.0) - odd_share_) / 16;
  if (!odd)
    ns_ += (value - ns_) / std::min(seen_, 256);
  else if (odd_share_ > 0.5)
    ns_ = value;
}

bool CameraClock::Period::steady() const noexcept {
  return seen_ >= 4 && odd_share_ < 0.125;
}

bool CameraClock::Stretches::add(const Sighting& before, const Sighting& now, double value,
                                 int least_frames) noexcept {
  if (open_.frames == 0) open_ = {before.arrival_ns, value, 0};
  open_.lowest = std::min(open_.lowest, value);
  ++open_.frames;
  if (open_.frames < least_frames || now.arrival_ns - open_.start_ns < kStretchNs) return false;
  before_ = last_;
  last_ = open_;
  open_.frames = 0;
  complete_ = std::min(complete_ + 1, 2);
  return complete_ == 2;
}

bool CameraClock::Stretches::agree(double growth) const noexcept {
  const double elapsed_ns = last_.start_ns - before_.start_ns;
  const double scatter_ns = tolerance_ns(elapsed_ns);
  const double change_ns = last_.lowest - before_.lowest;
  return change_ns >= -scatter_ns - kRateTolerance * elapsed_ns &&
         change_ns <= scatter_ns + growth * elapsed_ns;
}

double CameraClock::Stretches::lowest() const noexcept {
  return std::min(last_.lowest, before_.lowest);
}

bool CameraClock::Unsteady::add(const Sighting& now, double spacing_ns) noexcept {
  if (frames_++ == 0) {
    start_ns_ = now.arrival_ns;
    least_late_ = most_late_ = now.late_ns;
    least_spacing_ = most_spacing_ = spacing_ns;
    return false;
  }
  least_late_ = std::min(least_late_, now.late_ns);
  most_late_ = std::max(most_late_, now.late_ns);
  least_spacing_ = std::min(least_spacing_, spacing_ns);
  most_spacing_ = std::max(most_spacing_, spacing_ns);
  if (frames_ < 6 || now.arrival_ns - start_ns_ < 0.7 * kSecond) return false;
  frames_ = 0;
  return most_spacing_ - least_spacing_ >
         8 * (most_late_ - least_late_ + tolerance_ns(now.arrival_ns - start_ns_));
}

std::int64_t CameraClock::delay_ns(std::uint64_t frame_id, std::int64_t camera_time_ns,
                                   std::int64_t arrival_ns) noexcept {
  absent_ = camera_time_ns == 0;
  if (absent_) return 0;
  if (phase_ == Phase::New || frame_id <= previous_.id) begin(camera_time_ns, arrival_ns);
  const Sighting now{frame_id, difference(camera_time_ns, camera_zero_ns_),
                     difference(arrival_ns, arrival_zero_ns_)};
  double late_ns = 0;
  switch (phase_) {
    case Phase::New:
    case Phase::Checking:
      late_ns = check(now);
      break;
    case Phase::Trusted:
      late_ns = follow(now);
      break;
    case Phase::Suspect:
      late_ns = resolve(now);
      break;
  }
  previous_ = now;
  constexpr double kMost = 1e18;  // of a clock that is off by decades
  return static_cast<std::int64_t>(std::clamp(late_ns, 0.0, kMost));
}

void CameraClock::restart() noexcept {
  phase_ = Phase::New;
  absent_ = unusable_ = condemned_ = false;
  slow_ = 0;
}

ClockTrust CameraClock::trust() const noexcept {
  if (absent_) return ClockTrust::Absent;
  if (phase_ == Phase::Trusted) return ClockTrust::Trusted;
  return unusable_ ? ClockTrust::Unusable : ClockTrust::Checking;
}

void CameraClock::begin(std::int64_t camera_time_ns, std::int64_t arrival_ns) noexcept {
  restart();
  phase_ = Phase::Checking;
  camera_zero_ns_ = camera_time_ns;
  arrival_zero_ns_ = arrival_ns;
  previous_ = {};
  period_ = {};
  stretches_.clear();
}

double CameraClock::check(const Sighting& now) noexcept {
  if (previous_.id != 0) period_.learn(previous_, now);
  if (!stretches_.add(previous_, now, now.offset_ns(), 2)) return 0;
  if (!condemned_ && stretches_.agree(unusable_ ? kRateTolerance : kGrowingQueue))
    trust_from(now, stretches_.lowest());
  else if (++stretches_.disagreements >= kDisagreements)
    unusable_ = true;
  return phase_ == Phase::Trusted ? last_.late_ns : 0;
}

void CameraClock::trust_from(Sighting now, double floor_ns) noexcept {
  phase_ = Phase::Trusted;
  unusable_ = false;
  floor_ns_ = floor_ns;
  slope_ = 0;
  measure_slope_from(now, floor_ns);
  unsteady_.clear();
  doubt_ns_ = 0;
  settle_from(now);
  now.late_ns = std::max(0.0, now.offset_ns() - floor_ns);
  last_ = near_ = now;
}

double CameraClock::floor_at(const Sighting& now) const noexcept {
  if (last_.late_ns <= kNearNs) return floor_ns_;
  return floor_ns_ + slope_ * (now.arrival_ns - last_.arrival_ns);
}

double CameraClock::follow(Sighting now) noexcept {
  now.late_ns = now.offset_ns() - floor_at(now);
  if (judge(now) == Verdict::Wrong) {
    phase_ = Phase::Suspect;
    stretches_.clear();
    counted_.clear();
    lowest_offset_ns_ = now.offset_ns();
    return resolve(now);
  }
  const Sighting before = last_;
  accept(now);
  if (now.late_ns <= kNearNs) period_.learn(before, now);
  // Nothing holds frames for so long while others keep coming.
  const bool never_ends =
      now.late_ns > kLongestQueueNs && now.arrival_ns - near_.arrival_ns > now.late_ns + kSecond;
  const bool slow = slow_as_told(now);
  if (slow) slow_ = rate_.slow;
  if (slow || never_ends) {
    condemned_ = true;
    lose_trust();
    return 0;
  }
  return now.late_ns + doubt_ns_;
}

bool CameraClock::wants_rate() const noexcept {
  return phase_ == Phase::Trusted && last_.late_ns > kNearNs;
}

/// The camera's own word proves its clock slow, and since the last frame without delay the frames
/// fell behind by just that. A queue falls behind by another amount. Up to kRise the floor follows.
bool CameraClock::slow_as_told(const Sighting& now) const noexcept {
  if (!(rate_.slow > rate_.uncertainty + kRise) || rate_.slow > kSlowest) return false;
  const double behind_ns = now.offset_ns() - near_.offset_ns();
  const double told_ns = rate_.slow * (now.arrival_ns - near_.arrival_ns);
  return behind_ns > kNearNs &&
         std::abs(behind_ns - told_ns) <= 2 * kMillisecond + kExplains * behind_ns;
}

CameraClock::Verdict CameraClock::judge(const Sighting& now) noexcept {
  const Interval since(last_, now, period_.ns());
  if (since.camera_ns <= 0) return Verdict::Wrong;  // exposures come one after the other
  const double change_ns = now.late_ns - last_.late_ns;
  if (!period_.steady()) {
    if (now.late_ns < -tolerance_ns(since.host_ns)) return Verdict::Wrong;
    if (now.late_ns <= kNearNs)
      unsteady_.clear();
    else if (unsteady_.add(now, since.camera_ns))
      return Verdict::Wrong;
    return Verdict::Right;
  }
  const double tolerance = tolerance_ns(since.host_ns);
  if (std::abs(change_ns) > tolerance) {
    const double unexplained_ns = kExplains * std::abs(change_ns);
    const bool clock_agrees = std::abs(since.camera_error_ns()) <= unexplained_ns;
    const bool arrivals_agree = std::abs(since.host_error_ns()) <= unexplained_ns;
    if (now.late_ns < -tolerance && !clock_agrees) return Verdict::Wrong;
    if (change_ns > 0 && arrivals_agree) return Verdict::Wrong;
    // Exposures that nobody counted, or a step ahead while frames are late.
    if (change_ns < 0 && !clock_agrees && now.late_ns > tolerance) doubt_ns_ -= change_ns;
  }
  if (left_the_counter(now)) {
    floor_ns_ = floor_at(near_);
    last_ = near_;
    return Verdict::Wrong;
  }
  return Verdict::Right;
}

/// Too slowly for two frames to show it: since the last frame without delay, the clock lost against
/// the counter what the frames seem to be late.
bool CameraClock::left_the_counter(const Sighting& now) const noexcept {
  const Interval since(near_, now, period_.ns());
  if (now.late_ns <= kNearNs || since.host_ns > 10 * kSecond) return false;
  const double change_ns = now.late_ns - near_.late_ns;
  return change_ns > tolerance_ns(since.host_ns) &&
         std::abs(since.host_error_ns()) <= kExplains * change_ns &&
         -since.camera_error_ns() >= change_ns / 2;
}

/// The clock is right for this frame: the floor and its slope follow.
void CameraClock::accept(Sighting& now) noexcept {
  const double elapsed_ns = std::max(0.0, now.arrival_ns - last_.arrival_ns);
  floor_ns_ = floor_at(now);
  const bool drains = now.offset_ns() < settled_offset_ns_ - tolerance_ns(elapsed_ns);
  if (drains || now.late_ns > kNearNs) {
    settle_from(now);
  } else if (now.arrival_ns - settled_since_ns_ >= kStretchNs) {
    doubt_ns_ = 0;
    if (slope_spoilt_) measure_slope_from(now, floor_ns_);
    slope_spoilt_ = false;
    settle_from(now);
  }
  slope_spoilt_ = slope_spoilt_ || drains;
  doubt_ns_ = std::max(0.0, doubt_ns_ + std::min(0.0, now.late_ns));
  if (now.late_ns < 0)
    floor_ns_ = now.offset_ns();
  else if (now.late_ns <= kNearNs)
    floor_ns_ += std::min(now.late_ns, kRise * elapsed_ns);
  now.late_ns = std::max(0.0, now.offset_ns() - floor_ns_);
  last_ = now;
  if (now.late_ns > kNearNs) return;
  near_ = now;
  const double measured_ns = now.arrival_ns - slope_since_ns_;
  if (measured_ns < slope_after_ns_) return;
  const double slope = (floor_ns_ - slope_base_ns_) / measured_ns;
  if (!slope_spoilt_ && std::abs(slope) <= kMaxSlope) slope_ = slope;
  const double next_ns = std::min(2 * slope_after_ns_, kLongestSlopeNs);
  measure_slope_from(now, floor_ns_);
  slope_after_ns_ = next_ns;
}

void CameraClock::settle_from(const Sighting& now) noexcept {
  settled_since_ns_ = now.arrival_ns;
  settled_offset_ns_ = now.offset_ns();
}

void CameraClock::measure_slope_from(const Sighting& now, double floor_ns) noexcept {
  slope_base_ns_ = floor_ns;
  slope_since_ns_ = now.arrival_ns;
  slope_after_ns_ = kFirstSlopeNs;
}

/// The clock is suspected: it comes back by itself (a jump), or stays at another zero (a step).
double CameraClock::resolve(Sighting now) noexcept {
  const Interval since(last_, now, period_.ns());
  const bool steady = period_.steady();
  const double tolerance = tolerance_ns(since.host_ns);
  now.late_ns = now.offset_ns() - floor_at(now);
  // The clock is right again by the counter or, after exposures that nobody counted, by arrivals:
  // this frame is as late as the last one, or not late at all. A steady clock that stepped back by
  // kNearNs would seem so.
  const bool not_late = now.late_ns >= -tolerance && now.late_ns <= (steady ? tolerance : kNearNs);
  const bool by_counter = steady && std::abs(since.camera_error_ns()) <= tolerance;
  const bool as_late = steady && std::abs(since.host_ns - since.camera_ns) <= tolerance;
  const bool back = by_counter || as_late || not_late;
  if (back && since.camera_ns > 0) {
    ++jumps_;
    phase_ = Phase::Trusted;
    accept(now);
    return now.late_ns + doubt_ns_;
  }
  const bool step = settled(now, since.camera_error_ns());
  if (phase_ == Phase::Checking) return 0;
  if (step) follow_step(now);
  if (step) return now.late_ns + doubt_ns_;
  return steady ? std::max(0.0, last_.late_ns + doubt_ns_ + since.host_error_ns()) : 0.0;
}

/// Whether the suspected clock has been at another zero for two stretches: against the counter,
/// which misses exposures that nobody counted, or against the arrivals, which a queue delays.
bool CameraClock::settled(const Sighting& now, double camera_error_ns) noexcept {
  const bool steady = period_.steady();
  lowest_offset_ns_ = std::min(lowest_offset_ns_, now.offset_ns());
  const bool by_arrival = stretches_.add(previous_, now, now.offset_ns(), 2);
  const bool by_counter = steady && counted_.add(previous_, now, camera_error_ns, 1);
  if (by_counter && counted_.agree(kRateTolerance)) {
    step_ns_ = -counted_.lowest();
    return true;
  }
  if (!by_arrival) return false;
  if (stretches_.agree(kRateTolerance) && (!steady || last_.late_ns <= kNearNs)) {
    step_ns_ = stretches_.lowest() - floor_at(now);
    return true;
  }
  if (++stretches_.disagreements >= kDisagreements) lose_trust();
  return false;
}

/// The floor goes with the clock. Where nothing was late before the step, the frame that came
/// earliest since was not late either; otherwise what was late stays late.
void CameraClock::follow_step(Sighting& now) noexcept {
  ++steps_;
  phase_ = Phase::Trusted;
  const double before_ns = floor_at(now);
  floor_ns_ = before_ns + step_ns_;
  if (last_.late_ns <= kNearNs) floor_ns_ = std::max(floor_ns_, lowest_offset_ns_);
  slope_base_ns_ += floor_ns_ - before_ns;
  unsteady_.clear();
  settle_from(now);
  now.late_ns = std::max(0.0, now.offset_ns() - floor_ns_);
  last_ = now;
  if (!period_.steady() || now.late_ns <= kNearNs) near_ = now;
}

void CameraClock::lose_trust() noexcept {
  phase_ = Phase::Checking;
  unusable_ = true;
  stretches_.clear();
}

const char* name_of(ClockTrust trust) noexcept {
  switch (trust) {
    case ClockTrust::Absent:
      return "absent";
    case ClockTrust::Checking:
      return "checking";
    case ClockTrust::Trusted:
      return "trusted";
    case ClockTrust::Unusable:
      return "unusable";
  }
  return "unknown";
}

}  // namespace driftd::daemon
