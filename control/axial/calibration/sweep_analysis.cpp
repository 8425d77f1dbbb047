// SPDX-License-Identifier: MIT
#include "control/axial/calibration/sweep_analysis.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/median.hpp"
#include "control/axial/calibration/curve_picture.hpp"
#include "control/axial/calibration/dimmer_curves.hpp"
#include "control/axial/calibration/sweep_course.hpp"
#include "control/axial/calibration/sweep_fits.hpp"
#include "control/axial/calibration/sweep_stage.hpp"

namespace driftd::control {
namespace {

constexpr double kMostWobbleNm = 30, kWobbleWithinNm = 100, kMostLightChange = 0.1;
/// How far the curve reaches beyond the sample's place.
constexpr double kBesideAstigmaticNm = SweepPlan::kBesideAstigmaticNm,
                 kBesideDefocusNm = SweepPlan::kBesideDefocusNm;
/// So much more than that has to be swept.
constexpr double kSweptMoreNm = 20;
constexpr double kFarFromCrossingNm = 100;
/// The crossing is so near to where coma shifts no spot; markers lie at other heights, too.
constexpr double kFocusWithinNm = 100, kFocusUnknownNm = 250;
/// Widths change by less than so much, and than so many standard deviations of a place: noise.
constexpr double kStillPx = 0.02, kStillSds = 8;
/// A way on which both widths, or the one, change, wherever it is.
constexpr double kWayTold = 60, kWayToldOneWidth = 200;
/// A gain that the curve until now tells otherwise by more is told.
constexpr double kSameGain = 0.05, kLeastSlope = 0.05;
constexpr double kGainWithinNm = 200;
constexpr double kSlopeWithinNm = 150, kFewestForSlope = 6;

/// Steps are even within so much, and noise.
constexpr double kMostUnevenNm = 5, kUnevenSds = 3;
constexpr double kSecondDifference = 1.2247;  ///< its standard deviation, over that of a value

/// By the markers' widths.
class WidthSweep {
 public:
  WidthSweep(const SweepRecord& record, const SweepContext& context, const SweepStage& stage,
             SweepFindings& findings)
      : record_(record),
        context_(context),
        stage_(stage),
        findings_(findings),
        places_(record.plan().places()),
        fits_(record, context, stage) {}

  void measure() {
    const PlaceLooks seen = fits_.looks();
    if (context_.method == AxialMethod::Astigmatic)
      check_followed(record_, stage_, seen, kWayTold);
    else
      check_followed(record_, stage_, seen, kWayToldOneWidth,
                     ", or the focus lies there, about which one width tells nothing");
    see_light();
    check_moved(seen);
    const ZStackBeads beads = fits_.beads_of_steps();
    CalibrationSettings settings{
        .method = context_.method,
        .z_nm = {},
        .step = {},
        .planes = PlanesUsed::All,
        .pixel_nm = context_.fits.pixel_size_nm,
        .step_nm = record_.plan().settings().step_nm,
        .is_sweep = true,
        .frames_averaged = 2.0 * record_.plan().settings().frames_per_place};
    settings.z_nm.resize(beads.planes);
    for (const std::size_t p : stage_.places_of(SweepPart::Up))
      settings.z_nm[places_[p].step] = places_[p].z_nm;
    for (std::size_t s = 0; s < beads.planes; ++s) settings.step.push_back(s);
    // The first curve reads how the sample drifted. With that taken out, the ways up and down are
    // planes of their own.
    const PlaceReadings first = read_all(make_curve(beads, settings));
    check_unbroken(record_, stage_, "z", [&](std::size_t p) -> std::optional<double> {
      if (!first[p]) return std::nullopt;
      return first[p]->z_nm - places_[p].z_nm;
    });
    const std::vector<double> drift = stage_.drift_of(first);
    const ZStackBeads planes = fits_.beads_of_both(drift, settings);
    AxialCalibration made = make_curve(planes, settings);
    made.curve = with_slope(made.curve, slope_near_start(made, planes, settings));
    findings_.warnings = made.warnings;
    const PlaceReadings read = read_all(made);
    judge_settling(made);
    stage_.judge(read);
    check_light();
    check_even(made, beads);
    stage_.check_steps(read);
    judge_wobble(made);
    const double focus_nm = made.zero_nm;
    if (context_.method == AxialMethod::Astigmatic)
      stage_.find_tilt(focus_nm, kFocusWithinNm);
    else
      stage_.find_tilt(0, std::abs(focus_nm));
    describe(made, planes, settings);
    check_lock_point(made.curve);
    stage_.check_noise();
    compare_with_curve(beads);
    draw(made);
  }

 private:
  void see_light() {
    const std::vector<std::size_t> starts = stage_.places_of(SweepPart::Start);
    std::vector<double> changes;
    std::size_t seen = 0;
    for (std::size_t i = 0; i < record_.markers(); ++i) {
      const BeadFit first = fits_.fit_at({starts.front()}, i),
                    last = fits_.fit_at({starts.back()}, i);
      seen += first.fitted ? 1U : 0U;
      if (first.fitted && last.fitted && first.photons > 0)
        changes.push_back(last.photons / first.photons - 1);
    }
    if (seen == 0)
      fail_sweep(CalibrationFault::FewBeads,
                 fmt::format("none of {} markers was fitted where the sweep began: see light and "
                             "focus, `driftctl markers`",
                             record_.markers()));
    if (changes.empty())
      fail_sweep(CalibrationFault::Light,
                 "at the end of the sweep no marker was seen any more that had been at its begin: "
                 "the light went, or the stage is elsewhere than it was told");
    findings_.light_change = median(std::move(changes));
  }

  /// Once it is known that the sample did not drift out of focus.
  void check_light() const {
    const double change = *findings_.light_change;
    if (std::abs(change) > kMostLightChange)
      fail_sweep(CalibrationFault::Light,
                 fmt::format("the markers became {:.0f} % {} from the first visit of the start to "
                             "the last, allowed are {:g} %: they bleach, the lamp or the exposure "
                             "changed, or the stage is elsewhere than it was told; less light, a "
                             "shorter sweep",
                             100 * std::abs(change), change > 0 ? "brighter" : "dimmer",
                             100 * kMostLightChange));
  }

  /// Whether widths go with the stage, by least squares on its place, and on time for the drift.
  void check_moved(const PlaceLooks& looks) const {
    const double range = record_.plan().settings().range_nm;
    double most = 0;
    for (const auto axis : {&Vec2::x, &Vec2::y}) {
      if (axis == &Vec2::y && context_.method != AxialMethod::Astigmatic) continue;
      const auto moved = stage_.parabola_of([&](std::size_t p) -> std::optional<double> {
        if (!looks[p]) return std::nullopt;
        return looks[p]->px.*axis;
      });
      if (!moved) return;
      most = std::max(most, moved->change);
      if (moved->change > std::max(kStillPx, kStillSds * moved->sd)) return;
    }
    fail_sweep(
        CalibrationFault::Still,
        fmt::format("the widths of the markers changed by {:.3f} px over {:g} nm, no more "
                    "than noise: the stage of z does not move the sample, or stopped soon. "
                    "Does its driver run, follow the topic `axial`, and have the right axis?",
                    most, 2 * range));
  }

  /// By the curve, the markers' heights taken out.
  [[nodiscard]] std::optional<PlaceReading> read_at(std::size_t place, const AxialCalibration& made,
                                                    std::vector<BeadReading>* rows = nullptr,
                                                    std::size_t plane = 0) const {
    std::vector<double> z, sd;
    for (std::size_t k = 0; k < made.beads.size(); ++k) {
      const BeadFit fit = fits_.fit_at({place}, made.beads[k]);
      if (!fit.fitted) continue;
      const AxialReading r = made.curve.read(fit.sigma_x_px, fit.sigma_y_px, fit.variance);
      if (rows != nullptr)
        rows->push_back({plane, made.beads[k],
                         places_[place].z_nm + made.heights_nm[k] - made.zero_nm, r,
                         places_[place].part == SweepPart::Down});
      if (!r.measured) continue;
      z.push_back(r.z_nm - made.heights_nm[k]);
      sd.push_back(r.sd_nm);
    }
    if (z.empty() || 2 * z.size() < made.beads.size()) return std::nullopt;
    const double noise = kMedianSd * median(sd) / std::sqrt(static_cast<double>(z.size()));
    return PlaceReading{middle(std::move(z)), std::hypot(noise, kLeastPlaceSdNm)};
  }

  /// Each step against those beside it: unlike markers are off by unlike errors, which change
  /// little from step to step.
  void check_even(const AxialCalibration& made, const ZStackBeads& beads) {
    double squares = 0, count = 0;
    std::vector<double> noises;
    const std::vector<std::size_t> up = stage_.steps_of(SweepPart::Up);
    for (std::size_t s = 1; s + 1 < beads.planes; ++s) {
      std::vector<double> off, sds;
      for (const std::size_t i : made.beads) {
        AxialReading r[3];
        for (std::size_t k = 0; k < 3; ++k) {
          const BeadFit& fit = beads.at(s + k - 1, i);
          if (fit.fitted) r[k] = made.curve.read(fit.sigma_x_px, fit.sigma_y_px, fit.variance);
        }
        if (!r[0].measured || !r[1].measured || !r[2].measured) continue;
        off.push_back(r[1].z_nm - 0.5 * (r[0].z_nm + r[2].z_nm));
        sds.push_back(kSecondDifference * r[1].sd_nm);
      }
      const double z = places_[up[s]].z_nm - made.zero_nm;
      const bool inside = z > made.curve.lower_nm() && z < made.curve.upper_nm();
      if (!inside || off.empty() || 2 * off.size() < made.beads.size()) continue;
      noises.push_back(kMedianSd * median(sds) / std::sqrt(static_cast<double>(off.size())));
      squares += std::pow(middle(std::move(off)) / kSecondDifference, 2), ++count;
    }
    if (count == 0) return;
    const double rms = std::sqrt(squares / count);
    const double allowed = kMostUnevenNm + kUnevenSds * median(std::move(noises));
    findings_.uneven_nm = rms;
    if (rms > allowed)
      fail_sweep(CalibrationFault::Uneven,
                 fmt::format("steps of {:g} nm were made uneven by {:.1f} nm rms, allowed are "
                             "{:.1f}: the stage does not go where it is told, or does not keep "
                             "still. Switch its closed loop (servo) on, make steps that are no "
                             "smaller than its own (--step-nm), and see what shakes it",
                             record_.plan().settings().step_nm, rms, allowed));
  }

  /// Readings over way near the start, of the markers' middle half. Unlike markers pull the common
  /// curve to where its slope is not theirs.
  [[nodiscard]] static double slope_near_start(const AxialCalibration& made,
                                               const ZStackBeads& planes,
                                               const CalibrationSettings& settings) {
    std::vector<double> slopes;
    for (const std::size_t i : made.beads) {
      double n = 0, z = 0, r = 0, zz = 0, zr = 0;
      for (std::size_t s = 0; s < planes.planes; ++s) {
        const BeadFit& fit = planes.at(s, i);
        const double at = settings.z_nm[s];
        if (!fit.fitted || std::abs(at) > kSlopeWithinNm) continue;
        const AxialReading read = made.curve.read(fit.sigma_x_px, fit.sigma_y_px, fit.variance);
        if (!read.measured) continue;
        n += 1, z += at, r += read.z_nm, zz += at * at, zr += at * read.z_nm;
      }
      const double spread = n * zz - z * z;
      if (n >= kFewestForSlope && spread > 0) slopes.push_back((n * zr - z * r) / spread);
    }
    if (slopes.empty()) return 1;
    const double slope = middle(std::move(slopes));
    return slope > 0.5 && slope < 2 ? slope : 1;
  }

  [[nodiscard]] static WidthCurve with_slope(const WidthCurve& curve, double slope) {
    std::vector<WidthCurve::Knot> knots = curve.knots();
    for (WidthCurve::Knot& knot : knots) knot.z_nm /= slope;
    return {std::move(knots), curve.scatter_factor(), curve.method()};
  }

  [[nodiscard]] PlaceReadings read_all(const AxialCalibration& made) const {
    PlaceReadings read(places_.size());
    for (std::size_t p = 0; p < places_.size(); ++p)
      if (places_[p].is_measured()) read[p] = read_at(p, made);
    return read;
  }

  /// Between both halves of the time at a place, along the way that it had come.
  void judge_settling(const AxialCalibration& made) {
    double sum = 0, squares = 0, count = 0;
    for (std::size_t p = 0; p < places_.size(); ++p) {
      const SweepPart part = places_[p].part;
      if (part != SweepPart::Up && part != SweepPart::Down) continue;
      const double z = places_[p].z_nm - made.zero_nm;
      if (z < made.curve.lower_nm() || z > made.curve.upper_nm()) continue;
      std::vector<double> moved;
      for (std::size_t k = 0; k < made.beads.size(); ++k) {
        const MarkerAtPlace& m = record_.at(p, made.beads[k]);
        const auto change = fits_.moved_at(p, made.beads[k]);
        if (!change || !(m.variance_x_px2 > 0)) continue;
        const double at = z + made.heights_nm[k];
        const double sx = made.curve.sigma_x_px_per_nm(at), sy = made.curve.sigma_y_px_per_nm(at);
        const bool two = made.curve.method() == AxialMethod::Astigmatic && m.variance_y_px2 > 0;
        const double wx = 1 / m.variance_x_px2, wy = two ? 1 / m.variance_y_px2 : 0;
        const double gain = sx * sx * wx + sy * sy * wy;
        if (gain > 0) moved.push_back((sx * change->x * wx + sy * change->y * wy) / gain);
      }
      if (moved.empty()) continue;
      const double here = (part == SweepPart::Up ? 1 : -1) * median(moved);
      sum += here, squares += here * here, ++count;
    }
    if (count < 4) return;
    const double mean = sum / count;
    stage_.check_settling(mean, std::sqrt(std::max(squares / count - mean * mean, 0.0) / count));
  }

  void judge_wobble(const AxialCalibration& made) {
    std::vector<double> ranges;
    std::size_t bad = 0;
    for (const std::size_t i : made.beads) {
      double low[2] = {1e9, 1e9}, high[2] = {-1e9, -1e9};
      for (std::size_t p = 0; p < places_.size(); ++p) {
        if (!places_[p].is_measured() || std::abs(places_[p].z_nm) > kWobbleWithinNm) continue;
        const BeadFit own = fits_.fit_at({p}, i);
        if (!own.fitted) continue;
        std::vector<double> x, y;
        for (const std::size_t other : made.beads) {
          const BeadFit fit = fits_.fit_at({p}, other);
          const BeadFit first = fits_.fit_at({stage_.places_of(SweepPart::Start).front()}, other);
          if (!fit.fitted || !first.fitted) continue;
          x.push_back(fit.x_px - first.x_px), y.push_back(fit.y_px - first.y_px);
        }
        if (x.empty()) continue;
        const double off[2] = {own.x_px - median(x), own.y_px - median(y)};
        for (int a = 0; a < 2; ++a)
          low[a] = std::min(low[a], off[a]), high[a] = std::max(high[a], off[a]);
      }
      const double range =
          context_.fits.pixel_size_nm * std::max(high[0] - low[0], high[1] - low[1]);
      if (!(range >= 0)) continue;
      ranges.push_back(range);
      bad += range > kMostWobbleNm ? 1 : 0;
    }
    findings_.wobble_nm = median(ranges);
    if (2 * bad > ranges.size())
      fail_sweep(
          CalibrationFault::Wobble,
          fmt::format("{} of {} markers moved sideways by themselves by more than {:g} nm within "
                      "{:g} nm of z: they are loose or no single beads, or the optics have much "
                      "coma. Use others (`driftctl markers`), or align the optics",
                      bad, ranges.size(), kMostWobbleNm, kWobbleWithinNm));
    if (bad > 0)
      warn(fmt::format(
          "{} of {} markers moved sideways by themselves by more than {:g} nm: they are "
          "loose or no single beads, better use others (`driftctl markers`)",
          bad, ranges.size(), kMostWobbleNm));
  }

  /// The stage's gain by the curve until now: reading over way, of each marker near the start.
  void compare_with_curve(const ZStackBeads& beads) {
    if (context_.curve == nullptr) return;
    const WidthCurve& before = context_.curve->curves().front();
    if (before.method() != context_.method) return;
    std::vector<double> slopes;
    std::vector<double> z_of(beads.planes);
    for (const std::size_t p : stage_.places_of(SweepPart::Up))
      z_of[places_[p].step] = places_[p].z_nm;
    for (std::size_t i = 0; i < beads.beads; ++i) {
      double n = 0, z = 0, r = 0, zz = 0, zr = 0;
      for (std::size_t s = 0; s < beads.planes; ++s) {
        const BeadFit& fit = beads.at(s, i);
        if (!fit.fitted || std::abs(z_of[s]) > kGainWithinNm) continue;
        const AxialReading read = before.read(fit.sigma_x_px, fit.sigma_y_px, fit.variance);
        if (!read.measured) continue;
        n += 1, z += z_of[s], r += read.z_nm, zz += z_of[s] * z_of[s], zr += z_of[s] * read.z_nm;
      }
      const double spread = n * zz - z * z;
      if (n >= 4 && spread > 0) slopes.push_back((n * zr - z * r) / spread);
    }
    if (slopes.empty()) return;
    const double slope = median(slopes);
    if (std::abs(slope) < kLeastSlope) return;
    findings_.gain_by_curve = context_.stage_gain / slope;
    if (std::abs(slope - 1) > kSameGain)
      warn(fmt::format(
          "by the curve until now the sample went {:.2f} times as far as the stage "
          "was told{}: either that curve is wrong, and the new one takes its place, "
          "or axial.stage.gain is to be {:.3g}",
          std::abs(slope), slope < 0 ? ", and the other way" : "", *findings_.gain_by_curve));
  }

  [[nodiscard]] static AxialCalibration make_curve(const ZStackBeads& beads,
                                                   const CalibrationSettings& settings) {
    try {
      return calibrate_axial(beads, settings);
    } catch (const CalibrationError& error) {
      if (beads.saturated == 0)
        fail_sweep(error.fault, std::string(error.what()) +
                                    "; or the stage did not go where it was told: see its driver");
      fail_sweep(error.fault,
                 fmt::format("{} of {} images of markers were saturated, less light or a shorter "
                             "exposure helps; of the others: {}",
                             beads.saturated, beads.planes * beads.beads, error.what()));
    }
  }

  void describe(const AxialCalibration& made, const ZStackBeads& beads,
                const CalibrationSettings& settings) {
    SweepFindings& f = findings_;
    const CurvesByBrightness curves = curves_by_brightness(made, beads, {}, settings);
    f.from_crossing_nm =
        -made.zero_nm -
        (made.curve.method() == AxialMethod::Astigmatic ? made.curve.crossing_nm() : 0.0);
    f.lower_nm = made.curve.lower_nm(), f.upper_nm = made.curve.upper_nm();
    f.crossing_sigma_px = made.curve.sigma_x_px(0);
    f.scatter_factor = made.curve.scatter_factor();
    f.photons = made.photons;
    f.marker_sd_nm = made.predicted_sd_nm;
    f.markers_used = made.beads.size();
    f.markers_left_out = record_.markers() - made.beads.size();
    f.predicted_sd_nm = made.predicted_sd_nm / std::sqrt(static_cast<double>(made.beads.size()));
    double heights = 0;
    for (const double h : made.heights_nm) heights += h * h;
    f.heights_nm = std::sqrt(heights / static_cast<double>(made.heights_nm.size()));
    f.heights_tilt_nm_per_um = made.tilt_nm_per_um;
    f.curve = CurveFile{.curve = curves.curve,
                        .fits = context_.fits,
                        .notes = {.source = context_.source,
                                  .photons = made.photons,
                                  .predicted_sd_nm = made.predicted_sd_nm}};
  }

  void check_lock_point(const WidthCurve& curve) {
    const bool astigmatic = curve.method() == AxialMethod::Astigmatic;
    const double beside = astigmatic ? kBesideAstigmaticNm : kBesideDefocusNm;
    const double at = findings_.from_crossing_nm;
    const double below = at - curve.lower_nm(), above = curve.upper_nm() - at;
    if (below < beside || above < beside) {
      const std::string focus =
          fmt::format("focus so that the sample goes {} by {:.0f} nm, and sweep again",
                      at > curve.crossing_nm() ? "down" : "up", std::abs(at - curve.crossing_nm()));
      const bool is_short = below + above < 2 * (beside + kSweptMoreNm);
      fail_sweep(
          CalibrationFault::LockPoint,
          fmt::format("the sample is at {:+.0f} nm of the curve, which is read from {:.0f} to "
                      "{:.0f} nm, needed are {:g} nm to either side: {}",
                      at, curve.lower_nm(), curve.upper_nm(), beside,
                      is_short ? "sweep farther (--range-nm), if the limits and the optics let it"
                               : focus));
    }
    if (astigmatic && std::abs(at) > kFarFromCrossingNm)
      warn(
          fmt::format("the sample is {:+.0f} nm from where both widths are equal: so far away a "
                      "change of brightness or background reads as z; move it there before the "
                      "lock",
                      at));
  }

  /// Both ways apart: those down are hollow.
  void draw(AxialCalibration made) {
    ZStackBeads beads;
    beads.beads = record_.markers();
    made.readings.clear();
    for (const SweepPart part : {SweepPart::Up, SweepPart::Down}) {
      for (const std::size_t p : stage_.places_of(part)) {
        (void)read_at(p, made, &made.readings, beads.planes++);
        for (std::size_t i = 0; i < beads.beads; ++i) beads.fits.push_back(fits_.fit_at({p}, i));
      }
    }
    findings_.picture = curve_picture(made, beads, context_.source + "; hollow: on the way down");
  }

  void warn(std::string text) { findings_.warnings.push_back(std::move(text)); }

  const SweepRecord& record_;
  const SweepContext& context_;
  const SweepStage& stage_;
  SweepFindings& findings_;
  const std::vector<SweepPlace>& places_;
  SweepFits fits_;
};

}  // namespace

SweepFindings analyse_sweep(const SweepRecord& record, const SweepContext& context) {
  SweepFindings findings;
  const SweepStage stage(record, context, findings);
  stage.check_recorded();
  stage.check_lateral();
  stage.find_tilt(0, context.method == AxialMethod::Reflection ? 0 : kFocusUnknownNm);
  if (context.method == AxialMethod::Reflection)
    measure_spot(record, stage, findings);
  else
    WidthSweep(record, context, stage, findings).measure();
  return findings;
}

}  // namespace driftd::control
