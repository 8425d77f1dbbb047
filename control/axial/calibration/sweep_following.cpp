// SPDX-License-Identifier: MIT
#include "control/axial/calibration/sweep_following.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/median.hpp"

namespace driftd::control {
namespace {

/// A way on which the look changes by less than this share of what it usually does was not made,
/// as far as the usual change is so many standard deviations of a place.
constexpr double kStillShare = 0.1, kTellingSds = 8, kNoWaySds = 5, kSeenSds = 6, kAlike = 0.25;
/// A place looks otherwise than at another time by such a share of the usual change, or that of so
/// many steps.
constexpr double kOtherShare = 0.3, kOtherSteps = 2;
constexpr std::size_t kStepsBefore = 3;
constexpr double kFollowShare = 0.5;
/// The stage had not arrived where it still went so far while it was measured, at so many places.
constexpr double kUnderWayNm = 10, kUnderWaySds = 6;
constexpr std::size_t kPlacesUnderWay = 3;
/// Half of the frames less the other half, over the standard deviation of the mean of all.
constexpr double kHalvesSd = 2;
/// It turned round where so many places, over such a way, look as their mirror images did before,
/// so many times nearer (squares) than others to what was seen before where they were told to be.
constexpr int kFewestTurned = 8;
constexpr std::size_t kTurnsTried = 200;
constexpr double kTurnedWayNm = 100, kTurnedTimes = 25;
constexpr double kSameNm = 1e-6;

/// A stretch of places at which the look stays what it is.
struct Stretch {
  std::size_t first = 0, last = 0;  ///< in the order in which they were made
  bool found = false;
};

class Following {
 public:
  Following(const SweepRecord& record, const SweepStage& stage, const PlaceLooks& looks,
            double least_way_nm, const char* or_else)
      : places_(record.plan().places()),
        looks_(looks),
        stage_(stage),
        step_nm_(record.plan().settings().step_nm),
        least_way_nm_(std::max(least_way_nm, 2 * step_nm_)),
        or_else_(or_else),
        up_(stage.steps_of(SweepPart::Up)),
        down_(stage.steps_of(SweepPart::Down)) {
    std::reverse(down_.begin(), down_.end());
    for (std::size_t p = 0; p < places_.size(); ++p)
      if (looks_[p]) seen_.push_back(p);
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

  void check() const {
    if (!(change_px_ > kSeenSds * sd_px_)) return;  // steps are not seen, moved or not
    check_arrived();
    check_ends();
    check_stuck();
    check_direction();
  }

 private:
  /// Far ways take a stage longest whose speed is limited.
  void check_arrived() const {
    double farthest_nm = 0;
    std::size_t count = 0;
    for (const std::size_t p : seen_) {
      const double px = std::hypot(looks_[p]->moved_px.x, looks_[p]->moved_px.y);
      const double nm = px / change_px_ * step_nm_;
      if (nm < kUnderWayNm || px < kUnderWaySds * kHalvesSd * looks_[p]->sd_px) continue;
      farthest_nm = std::max(farthest_nm, nm), ++count;
    }
    if (count < kPlacesUnderWay) return;
    fail_sweep(
        CalibrationFault::Moving,
        fmt::format("at {} of {} places the stage was still on its way when it was measured, "
                    "and went {:.0f} nm or more in half of the time there: it is slower "
                    "than axial.stage and axial.rate_limit_nm_per_s say. Tell its speed "
                    "there, or let it rest longer (--settle)",
                    count, seen_.size(), farthest_nm));
  }

  void check_ends() const {
    const Stretch up = still_on(up_), down = still_on(down_);
    const bool at_top = up.found && down.found && up.last + 1 == up_.size() && down.first == 0;
    const bool at_bottom = up.found && down.found && up.first == 0 && down.last + 1 == down_.size();
    if (at_top != at_bottom && lie_alike(up, down) &&
        (at_top ? begins_suddenly(up_, up.first) : begins_suddenly(down_, down.first)))
      fail_at_end(at_top, up, down);
  }

  /// The look goes back on the way down, as far as it does anything but drift.
  bool goes_back() const {
    const auto &low = looks_[up_.front()], &high = looks_[up_.back()],
               &high_again = looks_[down_.front()], &low_again = looks_[down_.back()];
    if (!low || !high || !high_again || !low_again) return true;
    const Vec2 up = {high->px.x - low->px.x, high->px.y - low->px.y},
               down = {low_again->px.x - high_again->px.x, low_again->px.y - high_again->px.y};
    return std::hypot(up.x - down.x, up.y - down.y) >
           kFollowShare * std::hypot(up.x + down.x, up.y + down.y);
  }

  void check_stuck() const {
    if (!goes_back()) return;
    for (const auto* way : {&up_, &down_, &seen_}) {
      const Stretch still = still_on(*way);
      if (!still.found || !is_otherwise(*way, still)) continue;
      fail_sweep(
          CalibrationFault::Stuck,
          fmt::format("the stage stood still when it was told to go from {:+.0f} to {:+.0f} "
                      "nm, {:.1f} s after the sweep began: it stuck, is far slower than told, "
                      "or did not hear what it was told. See what its driver and its "
                      "controller say",
                      z_of(*way, still.first), z_of(*way, still.last),
                      stage_.seconds((*way)[still.first])));
    }
  }

  /// Compares what was seen from a place on with what was seen before it where the stage would be
  /// if it had turned round there.
  void check_direction() const {
    double best = std::numeric_limits<double>::infinity();
    std::size_t turned = 0;
    const std::size_t stride = 1 + seen_.size() / kTurnsTried;
    for (std::size_t t = kFewestTurned; t + kFewestTurned <= seen_.size(); t += stride) {
      const double from_nm = places_[seen_[t - 1]].z_nm, to_nm = places_[seen_[t]].z_nm;
      for (const double at_nm : {from_nm, to_nm, 0.5 * (from_nm + to_nm), 0.0}) {
        const double off = times_nearer_told(t, at_nm);
        if (off < best) best = off, turned = t;
      }
    }
    if (best * kTurnedTimes > 1) return;
    fail_sweep(CalibrationFault::Stuck,
               fmt::format("from {:.1f} s after the sweep began on, the stage went the other way "
                           "than it was told: its driver or its controller turned its axis round. "
                           "See what they say, and sweep again",
                           stage_.seconds(seen_[turned])));
  }

  /// How near the places from the t-th on look to their mirror images about a height (mean
  /// square), over how near they look to what was seen where they were told to be. Infinite:
  /// nothing is told.
  double times_nearer_told(std::size_t t, double about_nm) const {
    double mirrored = 0, direct = 0, images = 0, told = 0, low = 1e9, high = -1e9;
    for (std::size_t i = t; i < seen_.size(); ++i) {
      const double z = places_[seen_[i]].z_nm;
      const Vec2 px = looks_[seen_[i]]->px;
      if (const auto here = seen_before(t, z))
        direct += std::pow(px.x - here->x, 2) + std::pow(px.y - here->y, 2), ++told;
      if (const auto there = seen_before(t, 2 * about_nm - z)) {
        mirrored += std::pow(px.x - there->x, 2) + std::pow(px.y - there->y, 2), ++images;
        low = std::min(low, z), high = std::max(high, z);
      }
    }
    const double least_px = std::max(kTellingSds * sd_px_, kOtherSteps * change_px_);
    if (told < kFewestTurned || images < kFewestTurned || high - low < kTurnedWayNm ||
        direct < told * least_px * least_px)
      return std::numeric_limits<double>::infinity();
    return mirrored / images * told / direct;
  }

  /// The look of a height at the places before the t-th, between those next to it.
  std::optional<Vec2> seen_before(std::size_t t, double z_nm) const {
    std::optional<std::size_t> below, above;
    for (std::size_t i = 0; i < t; ++i) {
      const double z = places_[seen_[i]].z_nm;
      if (z <= z_nm && (!below || z >= places_[*below].z_nm)) below = seen_[i];
      if (z >= z_nm && (!above || z <= places_[*above].z_nm)) above = seen_[i];
    }
    if (!below || !above) return std::nullopt;
    const double way_nm = places_[*above].z_nm - places_[*below].z_nm;
    if (way_nm > 2 * step_nm_) return std::nullopt;
    const double share = way_nm > 0 ? (z_nm - places_[*below].z_nm) / way_nm : 0;
    const Vec2 a = looks_[*below]->px, b = looks_[*above]->px;
    return Vec2{a.x + share * (b.x - a.x), a.y + share * (b.y - a.y)};
  }

  /// The one of the longest way.
  Stretch still_on(const std::vector<std::size_t>& way) const {
    Stretch longest;
    double longest_nm = 0;
    for (std::size_t i = 0; i < way.size(); ++i) {
      Vec2 low{1e9, 1e9}, high{-1e9, -1e9};
      double lowest_nm = 1e9, highest_nm = -1e9;
      for (std::size_t k = i; k < way.size() && looks_[way[k]]; ++k) {
        const Vec2 px = looks_[way[k]]->px;
        low = {std::min(low.x, px.x), std::min(low.y, px.y)};
        high = {std::max(high.x, px.x), std::max(high.y, px.y)};
        lowest_nm = std::min(lowest_nm, z_of(way, k));
        highest_nm = std::max(highest_nm, z_of(way, k));
        const double way_nm = highest_nm - lowest_nm;
        const double usual_px = way_nm / step_nm_ * change_px_;
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

  /// Its heights look otherwise at another time: it is not the optics that show no change.
  bool is_otherwise(const std::vector<std::size_t>& way, const Stretch& still) const {
    double most_px = 0, low = 1e9, high = -1e9;
    const std::size_t from = way[still.first], to = way[still.last];
    for (std::size_t i = still.first; i <= still.last; ++i) {
      const std::size_t p = way[i];
      low = std::min(low, places_[p].z_nm), high = std::max(high, places_[p].z_nm);
      for (const std::size_t other : seen_)
        if ((other < from || other > to) &&
            std::abs(places_[other].z_nm - places_[p].z_nm) < kSameNm)
          most_px = std::max(most_px, apart_px(p, other));
    }
    const double usual_px = change_px_ * (high - low) / step_nm_;
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
                           "stuck{}. Sweep less far (--range-nm), or begin farther from that end",
                           end_nm, places_[at_top ? up_.back() : up_.front()].z_nm, or_else_));
  }

  const std::vector<SweepPlace>& places_;
  const PlaceLooks& looks_;
  const SweepStage& stage_;
  double step_nm_, least_way_nm_;
  const char* or_else_;
  std::vector<std::size_t> up_, down_, seen_;  ///< places, in the order in which they were made
  double change_px_ = 0, sd_px_ = 0;           ///< of the look, from step to step: usual, and noise
};

}  // namespace

void check_followed(const SweepRecord& record, const SweepStage& stage, const PlaceLooks& looks,
                    double least_way_nm, const char* or_else) {
  Following(record, stage, looks, least_way_nm, or_else).check();
}

}  // namespace driftd::control
