// SPDX-License-Identifier: MIT
#include "control/axial/calibration/sweep_stage.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/dense_solver.hpp"
#include "base/median.hpp"
#include "control/axial/calibration/sweep_course.hpp"

namespace driftd::control {
namespace {

constexpr double kMostHysteresisNm = 10, kMostStageTiltNmPerUm = 50, kMostLockSdNm = 10,
                 kMostSettlingNm = 3;
/// Up against down is judged so near to the start: there drift and markers that are unlike read
/// alike.
constexpr double kHysteresisWithinNm = 150;
constexpr double kLeastSettlingNm = 0.5, kSettlingSds = 3;
constexpr double kTiltSds = 2;
/// Up against down is otherwise than elsewhere by so much, and so many standard deviations.
constexpr double kLeastOddNm = 15, kOddSds = 5, kSdOfMedian = 1.4826;
/// Steps at the end are read within so much, and such a share, and noise.
constexpr double kCheckNm = 2, kCheckShare = 0.04, kSds = 4;

}  // namespace

void fail_sweep(CalibrationFault fault, const std::string& text) {
  throw CalibrationError(fault, text);
}

double direction_of(const SweepPlace& place) noexcept {
  return place.part == SweepPart::Down ? 0.5 : -0.5;
}

double SweepStage::seconds(std::size_t place) const {
  const SweepVisit& visit = record_.visit(place);
  return visit.frames > 0 ? visit.seconds / visit.frames : 0;
}

std::vector<std::size_t> SweepStage::places_of(SweepPart part) const {
  std::vector<std::size_t> found;
  for (std::size_t p = 0; p < places_.size(); ++p)
    if (places_[p].part == part) found.push_back(p);
  return found;
}

std::vector<std::size_t> SweepStage::steps_of(SweepPart part) const {
  std::vector<std::size_t> steps(record_.plan().steps(), 0);
  for (const std::size_t p : places_of(part)) steps[places_[p].step] = p;
  return steps;
}

void SweepStage::check_recorded() const {
  std::size_t measured = 0, seen = 0;
  for (std::size_t p = 0; p < places_.size(); ++p) {
    if (!places_[p].is_measured()) continue;
    ++measured;
    seen += record_.visit(p).frames > 0 ? 1U : 0U;
  }
  if (seen < measured)
    fail_sweep(
        CalibrationFault::Stopped,
        fmt::format("only {} of {} places were measured, as frames did not come, or too late: "
                    "see the camera and `driftctl doctor`, and sweep again",
                    seen, measured));
}

std::optional<PlaceLine> SweepStage::line_of(const PlaceValue& value) const {
  NormalEquations equations(4);
  std::size_t count = 0;
  const double range = record_.plan().settings().range_nm;
  const double last_s = std::max(seconds(places_.size() - 1), 1e-9);
  const auto row = [&](std::size_t p) {
    return std::array<double, 4>{1, places_[p].z_nm / range, seconds(p) / last_s,
                                 direction_of(places_[p])};
  };
  for (std::size_t p = 0; p < places_.size(); ++p) {
    const auto y = value(p);
    if (!y) continue;
    equations.add(row(p), *y);
    ++count;
  }
  std::vector<double> c, inverse;
  if (count < 8 || !equations.solve(1e-12, c) || !equations.invert(inverse)) return std::nullopt;
  const double variance =
      std::max(equations.remaining(c), 0.0) / static_cast<double>(count - c.size());
  return PlaceLine{.value = c[0],
                   .per_nm = c[1] / range,
                   .per_s = c[2] / last_s,
                   .down_less_up = c[3],
                   .per_nm_sd = std::sqrt(std::max(inverse[5], 0.0) * variance) / range,
                   .rms = std::sqrt(variance)};
}

std::optional<SweepStage::Change> SweepStage::parabola_of(const PlaceValue& value) const {
  constexpr std::size_t kTerms = 6;
  NormalEquations equations(kTerms);
  std::size_t count = 0;
  const double range = record_.plan().settings().range_nm;
  const double last_s = std::max(seconds(places_.size() - 1), 1e-9);
  for (std::size_t p = 0; p < places_.size(); ++p) {
    const auto y = places_[p].is_measured() ? value(p) : std::nullopt;
    if (!y) continue;
    const double z = places_[p].z_nm / range, t = 2 * seconds(p) / last_s - 1;
    equations.add(std::array<double, kTerms>{1, z, z * z, t, t * t, t * t * t}, *y);
    ++count;
  }
  std::vector<double> c, inverse;
  if (count < 2 * kTerms || !equations.solve(1e-12, c) || !equations.invert(inverse))
    return std::nullopt;
  const double variance =
      std::max(equations.remaining(c), 0.0) / static_cast<double>(count - kTerms);
  const Change linear{2 * std::abs(c[1]), 2 * std::sqrt(variance * inverse[kTerms + 1])};
  const Change square{std::abs(c[2]), std::sqrt(variance * inverse[2 * (kTerms + 1)])};
  return linear.change * square.sd > square.change * linear.sd ? linear : square;
}

PlaceValue SweepStage::lateral_of(double Vec2::*axis) const {
  return [this, axis](std::size_t p) -> std::optional<double> {
    const SweepVisit& visit = record_.visit(p);
    if (visit.lateral_frames == 0) return std::nullopt;
    return visit.lateral_nm.*axis / visit.lateral_frames;
  };
}

void SweepStage::check_lateral() const {
  check_unbroken(record_, *this, "x", lateral_of(&Vec2::x));
  check_unbroken(record_, *this, "y", lateral_of(&Vec2::y));
}

void SweepStage::find_tilt(double at_nm, double unknown_nm) const {
  const auto along = [&](double Vec2::*axis) {
    return slope_at(record_, *this, lateral_of(axis), at_nm);
  };
  const auto x = along(&Vec2::x), y = along(&Vec2::y);
  if (!x || !y) return;
  findings_.tilt_nm_per_um = Vec2{1000 * x->per_nm, 1000 * y->per_nm};
  findings_.tilt_sd_nm_per_um = {1000 * std::hypot(x->sd, unknown_nm * x->per_nm2),
                                 1000 * std::hypot(y->sd, unknown_nm * y->per_nm2)};
  const double tilt = std::hypot(findings_.tilt_nm_per_um->x, findings_.tilt_nm_per_um->y);
  const double sd = std::hypot(findings_.tilt_sd_nm_per_um.x, findings_.tilt_sd_nm_per_um.y);
  if (tilt > kMostStageTiltNmPerUm + kTiltSds * sd)
    fail_sweep(
        CalibrationFault::StageTilt,
        fmt::format(
            "the stage moves the sample sideways by {:.0f} nm for each micrometre of z, "
            "allowed are {:g}: is it the z axis that moves (its driver's configuration), and "
            "does it stand along the optical axis? Else mount it so",
            tilt, kMostStageTiltNmPerUm));
}

std::vector<double> SweepStage::drift_of(const PlaceReadings& read) const {
  std::vector<std::pair<double, double>> starts;
  for (const std::size_t p : places_of(SweepPart::Start))
    if (read[p]) starts.emplace_back(seconds(p), read[p]->z_nm);
  if (starts.size() < 2)
    fail_sweep(
        CalibrationFault::Stopped,
        std::string("the start could not be read often enough to tell how the sample drifts: the "
                    "markers or the spot were not seen well enough there. See light and focus") +
            (context_.method == AxialMethod::Defocus ? ", which is to be some 500 nm to one side"
                                                     : "") +
            ", and sweep again");
  std::vector<double> drift(places_.size(), 0);
  for (std::size_t p = 0; p < places_.size(); ++p) {
    const double at = seconds(p);
    std::size_t k = 1;
    while (k + 1 < starts.size() && starts[k].first < at) ++k;
    const auto& [t0, z0] = starts[k - 1];
    const auto& [t1, z1] = starts[k];
    const double share = std::clamp((at - t0) / (t1 - t0), 0.0, 1.0);
    drift[p] = z0 + share * (z1 - z0) - starts.front().second;
  }
  return drift;
}

/// Drift goes from one visit of the start to the next.
void SweepStage::check_starts(const PlaceReadings& read) const {
  std::vector<std::size_t> starts = places_of(SweepPart::Start);
  std::erase_if(starts, [&](std::size_t p) { return !read[p]; });
  for (std::size_t k = 1; k + 1 < starts.size(); ++k) {
    const std::size_t before = starts[k - 1], here = starts[k], after = starts[k + 1];
    const double share = (seconds(here) - seconds(before)) / (seconds(after) - seconds(before));
    const double between = read[before]->z_nm + share * (read[after]->z_nm - read[before]->z_nm);
    const double off_nm = read[here]->z_nm - between;
    if (std::abs(off_nm) <
        kLeastOddNm + kOddSds * std::hypot(read[here]->sd_nm, read[after]->sd_nm))
      continue;
    fail_sweep(CalibrationFault::Stuck,
               fmt::format("{:.1f} s after the sweep began its start was read {:+.0f} nm off what "
                           "was read there before and after: either the stage had stuck on its "
                           "way there, or the sample was pushed. See what the stage's driver "
                           "says, and sweep again when it is calm",
                           seconds(here), off_nm));
  }
}

/// Hysteresis is alike from place to place, and nothing at the ends of the way.
void SweepStage::check_alike(const std::vector<Apart>& all) const {
  std::vector<double> values, off;
  for (const Apart& one : all) values.push_back(one.nm);
  const double usual = median(values);
  for (const double nm : values) off.push_back(std::abs(nm - usual));
  const double spread = kSdOfMedian * median(off);
  const Apart* worst = nullptr;
  double worst_nm = 0;
  for (const Apart& one : all) {
    const double odd_nm =
        std::abs(one.nm - std::clamp(one.nm, std::min(usual, 0.0), std::max(usual, 0.0)));
    if (odd_nm < kLeastOddNm + kOddSds * std::hypot(spread, one.sd_nm) || odd_nm < worst_nm)
      continue;
    worst = &one, worst_nm = odd_nm;
  }
  if (worst == nullptr) return;
  fail_sweep(CalibrationFault::Stuck,
             fmt::format("near {:+.0f} nm the way down was read {:+.0f} nm from the way up, "
                         "elsewhere {:+.1f}, {:.1f} and {:.1f} s after the sweep began: either the "
                         "stage stuck there for a moment, or the sample was pushed. See what the "
                         "stage's driver says, and sweep again when it is calm",
                         places_[worst->up].z_nm, worst->nm, usual, seconds(worst->up),
                         seconds(worst->down)));
}

void SweepStage::judge(const PlaceReadings& read) const {
  const std::vector<double> drift = drift_of(read);
  std::vector<std::size_t> starts = places_of(SweepPart::Start);
  std::erase_if(starts, [&](std::size_t p) { return !read[p]; });
  findings_.drift_nm_per_s = drift[starts.back()] / (seconds(starts.back()) - seconds(starts[0]));
  const std::vector<std::size_t> up = steps_of(SweepPart::Up), down = steps_of(SweepPart::Down);
  double sum = 0, squares = 0, count = 0;
  std::vector<Apart> all;
  for (std::size_t s = 0; s < up.size(); ++s) {
    if (!read[up[s]] || !read[down[s]]) continue;
    const double apart = read[down[s]]->z_nm - drift[down[s]] - (read[up[s]]->z_nm - drift[up[s]]);
    all.push_back({up[s], down[s], apart, std::hypot(read[up[s]]->sd_nm, read[down[s]]->sd_nm)});
    if (std::abs(places_[up[s]].z_nm) > kHysteresisWithinNm) continue;
    sum += apart, squares += apart * apart, ++count;
  }
  if (std::abs(findings_.drift_nm_per_s) > context_.max_drift_nm_per_s)
    fail_sweep(CalibrationFault::Drift,
               fmt::format("the sample drifts by {:+.1f} nm/s, allowed are {:g} "
                           "(axial.max_drift_nm_per_s): wait until it has settled",
                           findings_.drift_nm_per_s, context_.max_drift_nm_per_s));
  if (count < 3)
    fail_sweep(CalibrationFault::Stopped,
               "fewer than three places near the start were read both on the way up and on the way "
               "down: the markers or the spot were not seen well enough. See light and focus, and "
               "sweep again");
  const double hysteresis = sum / count;
  findings_.hysteresis_nm = hysteresis;
  check_starts(read);
  check_alike(all);
  // What the drift's course leaves is shared by the steps between two visits of the start.
  const double shared = std::max(1.0, count / static_cast<double>(starts.size()));
  findings_.hysteresis_sd_nm =
      std::sqrt(std::max(squares / count - hysteresis * hysteresis, 0.0) * shared / count);
  if (std::abs(hysteresis) > kMostHysteresisNm && still_moved()) fail_unsettled();
  if (std::abs(hysteresis) > kMostHysteresisNm)
    fail_sweep(
        CalibrationFault::Hysteresis,
        fmt::format("the same place is read {:.1f} nm {} on the way down than on the way up, "
                    "allowed are {:g}: the stage has hysteresis, or the sample was pushed, which "
                    "another sweep does not repeat. Switch the stage's closed loop (servo) on, or "
                    "see what rubs",
                    std::abs(hysteresis), hysteresis > 0 ? "higher" : "lower", kMostHysteresisNm));
}

void SweepStage::check_steps(const PlaceReadings& read) const {
  const std::vector<double> drift = drift_of(read);
  const std::vector<std::size_t> checks = places_of(SweepPart::Check);
  const std::vector<std::size_t> starts = places_of(SweepPart::Start);
  for (const std::size_t p : checks) {
    const double told = places_[p].z_nm;
    double sd = 0;
    for (std::size_t i = starts.size() - 2; i < starts.size(); ++i)
      if (read[starts[i]]) sd = std::max(sd, read[starts[i]]->sd_nm);
    if (!read[p] || !read[starts.front()])
      fail_sweep(
          CalibrationFault::Check,
          fmt::format("the step of {:+g} nm at the end was not read: the markers or the spot "
                      "were not seen well enough, or the stage was elsewhere. See light and "
                      "the stage's driver, and sweep again",
                      told));
    const double z = read[p]->z_nm - drift[p] - read[starts.front()]->z_nm;
    (told > 0 ? findings_.check_up_nm : findings_.check_down_nm) = z;
    const double allowed =
        kCheckNm + kCheckShare * std::abs(told) + kSds * std::hypot(sd, read[p]->sd_nm);
    if (std::abs(z - told) > allowed)
      fail_sweep(
          CalibrationFault::Check,
          fmt::format("a step of {:+g} nm at the end was read as {:+.1f} nm, allowed are {:.1f} "
                      "nm off: the stage did not repeat its steps, or the sample moved by "
                      "itself. Try again when it is calm",
                      told, z, allowed));
  }
}

void SweepStage::fail_unsettled() const {
  fail_sweep(CalibrationFault::Moving,
             fmt::format("at its places the stage still moved on, by {:+.1f} nm while it was "
                         "measured, allowed are {:g}, and where up and down differ {:g}: "
                         "axial.stage.delay_us, time_constant_us, resonance_hz and damping tell "
                         "how long it takes; a longer --settle helps",
                         findings_.settling_nm, kMostSettlingNm, kLeastSettlingNm));
}

void SweepStage::check_settling(double moved_nm, double sd_nm) const {
  findings_.settling_nm = moved_nm;
  findings_.settling_sd_nm = sd_nm;
  if (std::abs(moved_nm) > kMostSettlingNm + kSds * sd_nm) fail_unsettled();
  if (still_moved())
    findings_.warnings.push_back(fmt::format(
        "at its places the stage still moved on, by {:+.1f} +- {:.1f} nm from the first half of "
        "the time there to the second: it is slower than axial.stage says, and hysteresis has it. "
        "It rested {:.0f} ms before: a longer --settle helps",
        moved_nm, sd_nm, 1e3 * record_.plan().settings().settle_s));
}

bool SweepStage::still_moved() const {
  return std::abs(findings_.settling_nm) > kLeastSettlingNm &&
         std::abs(findings_.settling_nm) > kSettlingSds * findings_.settling_sd_nm;
}

void SweepStage::check_noise() const {
  if (findings_.predicted_sd_nm > kMostLockSdNm)
    fail_sweep(
        CalibrationFault::Dim,
        fmt::format("z would have a standard deviation of {:.1f} nm in one frame, allowed are "
                    "{:g}: more light, a longer exposure, or more markers",
                    findings_.predicted_sd_nm, kMostLockSdNm));
}

}  // namespace driftd::control
