// SPDX-License-Identifier: MIT
#include "control/axial/calibration/axial_calibration.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/dense_solver.hpp"
#include "base/median.hpp"
#include "control/axial/calibration/bead_curve.hpp"
#include "control/axial/picasso_curve.hpp"

namespace driftd::control {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
/// Planes in which beads have less light than this share of the most are too far out of focus: much
/// of the light is in rings beyond the ROI, and the fit may jump to the middle of them.
constexpr double kLightShare = 0.5;
/// Least squares, which follows the middle of a spot, sees less of it out of focus.
constexpr double kDefocusedLightShare = 0.15;
constexpr double kFittedShare = 0.5;  ///< of the beads, in a plane that is used
constexpr double kKeptShare = 0.8;    ///< of the planes, of a bead that is used
constexpr std::size_t kFewestPlanes = 3;
/// A bead whose readings go by so much faster or slower than the planes is of another curve.
constexpr double kSlopeShare = 0.3;
constexpr double kCrossingInsideNm = 150, kMostTiltNmPerUm = 50, kMostSdNm = 10;
constexpr double kLightChange = 0.1;
/// Planes that the curve was made without may be read off by so much and so many standard
/// deviations, all of them (rms) and each, or by so much of the step.
constexpr double kHeldOutNm = 5, kHeldOutSd = 3, kHeldOutPlaneSd = 4, kHeldOutShare = 0.1;
/// So near to an end of the curve no move of a lock goes (daemon/orders/move_plan.cpp).
constexpr double kMoveMarginNm = 150;
/// A plane tells z by so much worse than the median one at most: where more, a fault of the stage
/// has made the curve flat.
constexpr double kHeldOutWorse = 1.5;
constexpr std::size_t kFewestForHeldOut = 6, kFewestForScatter = 10;
constexpr double kGaussianMad = 0.6745, kLeastScatterFactor = 0.3, kUsualScatter = 3;

class Calibration {
 public:
  Calibration(const ZStackBeads& beads, const CalibrationSettings& settings)
      : all_(beads), settings_(settings), axes_(is_astigmatic() ? 2 : 1) {}

  AxialCalibration run() {
    choose_planes();
    choose_beads();
    BeadCurve fitted = fit(planes_, beads_);
    const WidthCurve first = curve_of(fitted, planes_, 1);
    if (leave_out_strangers(first, fitted)) fitted = fit(planes_, beads_);
    const WidthCurve plain = curve_of(fitted, planes_, 1);
    const double zero = zero_of(plain);
    const double scatter = scatter_of(plain, fitted);
    AxialCalibration result{.curve = shifted(plain, zero, scatter),
                            .zero_nm = zero,
                            .planes = planes_,
                            .beads = beads_,
                            .heights_nm = fitted.heights_nm,
                            .readings = {},
                            .beads_left_out = strangers_,
                            .held_out = held_out(scatter),
                            .warnings = {}};
    check_range(result.curve);
    result.tilt_nm_per_um = tilt(fitted.heights_nm);
    if (!(result.tilt_nm_per_um < kMostTiltNmPerUm))
      throw CalibrationError(
          CalibrationFault::Tilted,
          fmt::format("the beads' heights are tilted by {:.0f} nm/um, allowed are {:g}: put the "
                      "cover glass level, or give {} as it is (a wrong one scales it)",
                      result.tilt_nm_per_um, kMostTiltNmPerUm,
                      cure("the step between planes with --step-nm", "axial.stage.gain")));
    read_all(result);
    check_share(result);
    describe_light(result);
    check_held_out(result);
    result.warnings.insert(result.warnings.begin(), warnings_.begin(), warnings_.end());
    return result;
  }

 private:
  [[nodiscard]] bool is_astigmatic() const { return settings_.method == AxialMethod::Astigmatic; }
  [[nodiscard]] const char* cure(const char* of_a_stack, const char* of_a_sweep) const {
    return settings_.is_sweep ? of_a_sweep : of_a_stack;
  }
  [[nodiscard]] bool is_wanted(std::size_t plane) const {
    if (settings_.planes == PlanesUsed::All) return true;
    return (settings_.step[plane] % 2 == 1) == (settings_.planes == PlanesUsed::Odd);
  }
  [[nodiscard]] std::vector<double> photons_in(std::size_t plane) const {
    std::vector<double> photons;
    for (std::size_t b = 0; b < all_.beads; ++b)
      if (all_.at(plane, b).fitted) photons.push_back(all_.at(plane, b).photons);
    return photons;
  }

  /// Those around the focus without a gap in which most beads are fitted and light is not lost.
  void choose_planes() {
    std::vector<double> light(all_.planes, 0), area(all_.planes, 0);
    for (std::size_t p = 0; p < all_.planes; ++p) {
      const std::vector<double> photons = photons_in(p);
      if (static_cast<double>(photons.size()) < kFittedShare * static_cast<double>(all_.beads))
        continue;
      light[p] = median(photons);
      std::vector<double> areas;
      for (std::size_t b = 0; b < all_.beads; ++b) {
        const BeadFit& fit = all_.at(p, b);
        if (fit.fitted) areas.push_back(fit.sigma_x_px * fit.sigma_y_px);
      }
      area[p] = median(areas);
    }
    const double share = is_astigmatic() ? kLightShare : kDefocusedLightShare;
    const double least = share * *std::max_element(light.begin(), light.end());
    std::size_t focus = all_.planes;
    for (std::size_t p = 0; p < all_.planes; ++p)
      if (light[p] > 0 && light[p] >= least && (focus == all_.planes || area[p] < area[focus]))
        focus = p;
    if (focus == all_.planes) too_few(0);
    std::size_t begin = focus, end = focus + 1;
    while (begin > 0 && light[begin - 1] > 0 && light[begin - 1] >= least) --begin;
    while (end < all_.planes && light[end] > 0 && light[end] >= least) ++end;
    for (std::size_t p = begin; p < end; ++p)
      if (is_wanted(p)) planes_.push_back(p);
    std::vector<std::size_t> steps;
    for (const std::size_t p : planes_) steps.push_back(settings_.step[p]);
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    if (steps.size() < kFewestPlanes) too_few(steps.size());
  }

  [[noreturn]] void too_few(std::size_t count) const {
    throw CalibrationError(
        CalibrationFault::FewPlanes,
        fmt::format("only {} {} of {} show the {} well enough to fit ({:g} of the light, half of "
                    "them), needed are {}: {}",
                    count, cure("planes", "steps"), all_.planes, cure("beads", "markers"),
                    is_astigmatic() ? kLightShare : kDefocusedLightShare, kFewestPlanes,
                    cure("take planes closer together around the focus, or with more light; --roi "
                         "and --spot-sigma of the beads' size may help",
                         "sweep less far about the focus (--range-nm), or give more light")));
  }

  void choose_beads() {
    for (std::size_t b = 0; b < all_.beads; ++b) {
      std::size_t fitted = 0;
      for (const std::size_t p : planes_) fitted += all_.at(p, b).fitted ? 1U : 0U;
      if (static_cast<double>(fitted) >= kKeptShare * static_cast<double>(planes_.size()))
        beads_.push_back(b);
    }
    if (beads_.empty())
      throw CalibrationError(
          CalibrationFault::FewBeads,
          fmt::format("none of {} {} is fitted in {:.0f} % of the {} {} to {}: they leave the "
                      "frame, bleach, or have neighbours in their ROIs of {} px. {}",
                      all_.beads, cure("beads", "markers"), 100 * kKeptShare,
                      cure("planes", "steps"), all_.frames[planes_.front()],
                      all_.frames[planes_.back()], all_.roi_px,
                      cure("Name good ones by --picks, or take planes about the focus alone "
                           "(--first-frame, --last-frame)",
                           "Use others (`driftctl markers`), less light, or sweep less far "
                           "(--range-nm)")));
  }

  [[nodiscard]] BeadCurve fit(const std::vector<std::size_t>& planes,
                              const std::vector<std::size_t>& beads) const {
    std::vector<BeadWidths> widths;
    for (const std::size_t p : planes) {
      for (std::size_t i = 0; i < beads.size(); ++i) {
        const BeadFit& fit = all_.at(p, beads[i]);
        if (!fit.fitted) continue;
        widths.push_back({i,
                          settings_.z_nm[p],
                          {fit.sigma_x_px, fit.sigma_y_px},
                          {std::sqrt(std::max(fit.variance.x_px2, 0.0)),
                           std::sqrt(std::max(fit.variance.y_px2, 0.0))}});
      }
    }
    return fit_bead_curve(widths, beads.size(), axes_);
  }

  /// z along the stack. @throws CalibrationError
  [[nodiscard]] WidthCurve curve_of(const BeadCurve& fitted, const std::vector<std::size_t>& planes,
                                    double scatter) const {
    const auto [one, other] =
        std::minmax(settings_.z_nm[planes.front()], settings_.z_nm[planes.back()]);
    const int count =
        std::clamp(static_cast<int>(std::ceil((other - one) / (fitted.depth_nm / 12))), 12, 400);
    std::vector<WidthCurve::Knot> knots;
    for (int i = 0; i <= count; ++i) {
      const double z = one + (other - one) * i / count;
      knots.push_back({z, fitted.width_px(0, z), fitted.width_px(1, z)});
    }
    try {
      return {std::move(knots), scatter, settings_.method};
    } catch (const WidthCurveError& error) {
      throw CalibrationError(
          CalibrationFault::NoCurve,
          std::string(error.what()) +
              (is_astigmatic()
                   ? fmt::format(", which were fitted from {:.0f} to {:.0f} nm: is the cylinder "
                                 "lens in, and its axis along rows or columns? {}",
                                 one, other,
                                 cure("Take planes on both sides of where spots are round; without "
                                      "a lens, --method defocus",
                                      "Focus to where spots are round and sweep again; without a "
                                      "lens, axial.method: defocus"))
                   : cure(": take planes on one side of the focus at least",
                          ": focus some 500 nm to one side of where spots are smallest, and sweep "
                          "again")));
    }
  }

  [[nodiscard]] double zero_of(const WidthCurve& curve) const {
    if (is_astigmatic()) return curve.crossing_nm();
    const auto& knots = curve.knots();
    return std::min_element(
               knots.begin(), knots.end(),
               [](const auto& a, const auto& b) { return a.sigma_x_px < b.sigma_x_px; })
        ->z_nm;
  }

  [[nodiscard]] static WidthCurve shifted(const WidthCurve& curve, double zero_nm, double scatter) {
    std::vector<WidthCurve::Knot> knots = curve.knots();
    for (auto& knot : knots) knot.z_nm -= zero_nm, knot.scatter = scatter;
    return {std::move(knots), scatter, curve.method()};
  }

  [[nodiscard]] static AxialReading read(const WidthCurve& curve, const BeadFit& fit) {
    return fit.fitted ? curve.read(fit.sigma_x_px, fit.sigma_y_px, fit.variance) : AxialReading{};
  }

  /// Of one bead; NaN where it has no reading. Less what all beads of a plane share: that is the
  /// stage's.
  [[nodiscard]] std::vector<std::vector<double>> errors_of(
      const WidthCurve& curve, const BeadCurve& fitted, const std::vector<std::size_t>& planes,
      std::vector<std::vector<double>>* told = nullptr) const {
    std::vector<std::vector<double>> errors(beads_.size(),
                                            std::vector<double>(planes.size(), kNan));
    if (told != nullptr) *told = errors;
    for (std::size_t k = 0; k < planes.size(); ++k) {
      for (std::size_t i = 0; i < beads_.size(); ++i) {
        const AxialReading reading = read(curve, all_.at(planes[k], beads_[i]));
        if (!reading.measured) continue;
        errors[i][k] = reading.z_nm - settings_.z_nm[planes[k]] - fitted.heights_nm[i];
        if (told != nullptr) (*told)[i][k] = reading.sd_nm;
      }
    }
    return errors;
  }

  /// Beads whose readings do not go with the planes: another slope of their own.
  bool leave_out_strangers(const WidthCurve& curve, const BeadCurve& fitted) {
    const auto errors = errors_of(curve, fitted, planes_);
    std::vector<std::size_t> kept;
    std::size_t judged = 0;
    for (std::size_t i = 0; i < beads_.size(); ++i) {
      double n = 0, z = 0, e = 0, zz = 0, ze = 0;
      for (std::size_t k = 0; k < planes_.size(); ++k) {
        if (std::isnan(errors[i][k])) continue;
        const double at = settings_.z_nm[planes_[k]] - curve.crossing_nm();
        n += 1, z += at, e += errors[i][k], zz += at * at, ze += at * errors[i][k];
      }
      const double spread = n * zz - z * z;
      if (n >= 3 && spread > 0) {
        ++judged;
        if (std::abs((n * ze - z * e) / spread) > kSlopeShare) continue;
      }
      kept.push_back(beads_[i]);
    }
    strangers_ = beads_.size() - kept.size();
    if (2 * strangers_ > judged && !is_astigmatic()) check_one_side(curve);
    if (2 * strangers_ > judged)
      throw CalibrationError(
          CalibrationFault::Strangers,
          fmt::format("{} of {} {} have widths of another slope than their mean by more than "
                      "{:.0f} %: they are no alike single beads, or moved in z by themselves; {}",
                      strangers_, beads_.size(), cure("beads", "markers"), 100 * kSlopeShare,
                      cure("name good ones by --picks",
                           "use markers that are single beads (`driftctl markers`)")));
    if (strangers_ == 0) return false;
    beads_ = std::move(kept);
    return true;
  }

  /// Without a lens both sides of the focus look alike. @throws CalibrationError
  void check_one_side(const WidthCurve& curve) const {
    const double focus_nm = zero_of(curve);
    const std::size_t focus =
        *std::min_element(planes_.begin(), planes_.end(), [&](std::size_t a, std::size_t b) {
          return std::abs(settings_.z_nm[a] - focus_nm) < std::abs(settings_.z_nm[b] - focus_nm);
        });
    if (focus == planes_.front() || focus == planes_.back()) return;
    if (settings_.is_sweep)
      throw CalibrationError(
          CalibrationFault::BothSides,
          fmt::format("the sweep goes through the focus, which is at {:+.0f} nm, and without a "
                      "lens its two sides look alike: focus to one side of it by the sweep's "
                      "range, or sweep less far (--range-nm)",
                      focus_nm));
    throw CalibrationError(
        CalibrationFault::BothSides,
        fmt::format("frames {} to {} go through the focus, which is about frame {}, and without a "
                    "lens its two sides look alike: take one of them, --first-frame {} or "
                    "--last-frame {}",
                    all_.frames[planes_.front()], all_.frames[planes_.back()], all_.frames[focus],
                    all_.frames[focus], all_.frames[focus]));
  }

  /// From each bead's readings: what is not smooth from plane to plane is noise; where there are
  /// few planes, the beads' spread.
  double scatter_of(const WidthCurve& curve, const BeadCurve& fitted) {
    std::vector<std::vector<double>> told;
    auto errors = errors_of(curve, fitted, planes_, &told);
    std::size_t most = 0;
    for (std::size_t k = 0; k < planes_.size(); ++k) {
      std::vector<double> here;
      for (std::size_t i = 0; i < beads_.size(); ++i)
        if (!std::isnan(errors[i][k])) here.push_back(errors[i][k]);
      if (!here.empty()) ++most;
      if (here.size() < 3) continue;
      const double common = median(here);
      const double kept = 1 - 1 / static_cast<double>(here.size());
      for (std::size_t i = 0; i < beads_.size(); ++i)
        errors[i][k] = (errors[i][k] - common) / std::sqrt(kept);
    }
    std::vector<double> ratios;
    for (std::size_t i = 0; i < beads_.size(); ++i) {
      for (std::size_t k = 0; k < planes_.size(); ++k) {
        if (most < 5) {
          // Its height was fitted to these, which took a share of their scatter.
          const double taken =
              std::sqrt(static_cast<double>(most) / (static_cast<double>(most) - 1));
          if (!std::isnan(errors[i][k]) && most > 1)
            ratios.push_back(taken * std::abs(errors[i][k]) / told[i][k]);
          continue;
        }
        if (k == 0 || k + 1 == planes_.size()) continue;
        const double second = errors[i][k] - 0.5 * (errors[i][k - 1] + errors[i][k + 1]);
        if (std::isnan(second)) continue;
        ratios.push_back(std::abs(second) /
                         std::sqrt(std::pow(told[i][k], 2) + 0.25 * std::pow(told[i][k - 1], 2) +
                                   0.25 * std::pow(told[i][k + 1], 2)));
      }
    }
    if (ratios.size() < kFewestForScatter) {
      warnings_.push_back(fmt::format(
          "{} readings are too few to say how much they scatter: their standard deviations are "
          "taken {:g} times as the fits tell, which is cautious. More {}, or smaller steps, help",
          ratios.size(), kUnknownScatter, cure("beads", "markers")));
      return kUnknownScatter;
    }
    const double factor = std::clamp(median(ratios) / kGaussianMad, kLeastScatterFactor, 100.0);
    if (factor > kUsualScatter)
      warnings_.push_back(fmt::format(
          "readings scatter {:.1f} times as much as the fits tell, usual are up to {:g}: {} are "
          "not the camera's, or the spots are no Gaussians in this ROI",
          factor, kUsualScatter,
          cure("--gain, --offset or --read-noise",
               "camera.gain_e_per_adu, offset_adu or read_noise_e (`driftctl calibrate camera`)")));
    return factor;
  }

  void check_range(const WidthCurve& curve) const {
    const double inside =
        std::min(curve.crossing_nm() - curve.lower_nm(), curve.upper_nm() - curve.crossing_nm());
    if (inside >= kCrossingInsideNm || !is_astigmatic()) return;
    throw CalibrationError(
        CalibrationFault::Range,
        fmt::format("z can be read from {:.0f} to {:.0f} nm about the crossing of the widths, "
                    "needed are {:g} nm to either side: farther out a spot's width and height do "
                    "not grow apart any more, or {} end. {} where spots are round; if {}, the "
                    "cylinder lens is too weak, turned, or so strong that its foci lie too far "
                    "apart: 300 to 500 nm are right, and its axis along rows or columns",
                    curve.lower_nm(), curve.upper_nm(), kCrossingInsideNm,
                    cure("the planes", "the steps"),
                    cure("Take planes on both sides of", "Focus to"),
                    cure("there are", "they are round here")));
  }

  /// Largest slope of the heights over the field.
  [[nodiscard]] double tilt(const std::vector<double>& heights) const {
    NormalEquations equations(3);
    std::size_t count = 0;
    for (std::size_t i = 0; i < beads_.size(); ++i) {
      for (const std::size_t p : planes_) {
        const BeadFit& fit = all_.at(p, beads_[i]);
        if (!fit.fitted) continue;
        equations.add(std::array<double, 3>{1, fit.x_px * settings_.pixel_nm / 1000,
                                            fit.y_px * settings_.pixel_nm / 1000},
                      heights[i]);
        ++count;
        break;
      }
    }
    std::vector<double> plane;
    if (count < 4 || !equations.solve(1e-9, plane)) return 0;
    return std::hypot(plane[1], plane[2]);
  }

  void read_all(AxialCalibration& result) const {
    for (std::size_t p = 0; p < all_.planes; ++p) {
      for (std::size_t i = 0; i < beads_.size(); ++i) {
        const BeadFit& fit = all_.at(p, beads_[i]);
        if (!fit.fitted) continue;
        result.readings.push_back({p, beads_[i],
                                   settings_.z_nm[p] + result.heights_nm[i] - result.zero_nm,
                                   read(result.curve, fit),
                                   std::find(planes_.begin(), planes_.end(), p) == planes_.end()});
      }
    }
  }

  /// Without a lens both sides of the focus look alike, and beads have no z.
  void check_share(const AxialCalibration& result) const {
    std::size_t inside = 0, read = 0;
    for (const BeadReading& r : result.readings) {
      if (r.z_nm < result.curve.lower_nm() || r.z_nm > result.curve.upper_nm()) continue;
      ++inside;
      read += r.reading.measured ? 1 : 0;
    }
    if (2 * read >= inside && read > 0) return;
    throw CalibrationError(
        CalibrationFault::NoZ,
        fmt::format("{} of {} spots in the range from {:.0f} to {:.0f} nm tell no z, as two "
                    "heights look alike: is the cylinder lens in, and its axis along rows or "
                    "columns? Without a lens: {}",
                    inside - read, inside, result.curve.lower_nm(), result.curve.upper_nm(),
                    cure("--method defocus", "axial.method: defocus")));
  }

  /// At the crossing, or in the middle of the range, and on both sides of it.
  void describe_light(AxialCalibration& result) const {
    const double at = result.curve.crossing_nm() + result.zero_nm;
    const std::size_t nearest =
        *std::min_element(planes_.begin(), planes_.end(), [&](std::size_t a, std::size_t b) {
          return std::abs(settings_.z_nm[a] - at) < std::abs(settings_.z_nm[b] - at);
        });
    std::vector<double> sds, photons, low, high;
    for (const std::size_t b : beads_) {
      const BeadFit& fit = all_.at(nearest, b);
      if (!fit.fitted) continue;
      sds.push_back(std::sqrt(settings_.frames_averaged) *
                    result.curve.sd_nm(result.curve.crossing_nm(), fit.variance));
      photons.push_back(fit.photons);
    }
    result.photons = median(photons);
    result.predicted_sd_nm = median(sds);
    if (result.predicted_sd_nm > kMostSdNm)
      result.warnings.push_back(fmt::format(
          "a {}'s z has a standard deviation of {:.1f} nm in one frame at this light, wished are "
          "{:g}: more light, a longer exposure, or for the lock more markers",
          cure("bead", "marker"), result.predicted_sd_nm, kMostSdNm));
    for (const std::size_t p : planes_) {
      const double z = settings_.z_nm[p] - result.zero_nm;
      if (z < result.curve.lower_nm() || z > result.curve.upper_nm()) continue;
      (z < result.curve.crossing_nm() ? low : high).push_back(median(photons_in(p)));
    }
    if (low.empty() || high.empty()) return;
    const double change = median(high) / median(low) - 1;
    if (is_astigmatic() && std::abs(change) > kLightChange)
      result.warnings.push_back(fmt::format(
          "{} are {:.0f} % {} above the crossing than below it: where they bleach or the lamp "
          "drifts, their widths off the crossing change with it. Less light, or {}, helps",
          cure("beads", "markers"), 100 * std::abs(change), change > 0 ? "brighter" : "dimmer",
          cure("fewer frames at each plane", "fewer frames (--frames)")));
  }

  /// In the middle half of the range: a lock stands there, and readings are most certain.
  [[nodiscard]] static bool is_central(const WidthCurve& curve, double z_nm) {
    const double off = z_nm - curve.crossing_nm();
    return off > 0.5 * (curve.lower_nm() - curve.crossing_nm()) &&
           off < 0.5 * (curve.upper_nm() - curve.crossing_nm());
  }

  /// Where a move of a lock goes.
  [[nodiscard]] static bool is_reached(const WidthCurve& curve, double z_nm) {
    return z_nm > curve.lower_nm() + kMoveMarginNm && z_nm < curve.upper_nm() - kMoveMarginNm;
  }

  /// The even steps read by the curve of the odd ones.
  [[nodiscard]] std::optional<HeldOut> held_out(double scatter) const {
    if (settings_.planes != PlanesUsed::All) return std::nullopt;
    std::vector<std::size_t> odd, even;
    for (const std::size_t p : planes_) (settings_.step[p] % 2 == 1 ? odd : even).push_back(p);
    if (odd.size() < kFewestPlanes || odd.size() + even.size() < kFewestForHeldOut)
      return std::nullopt;
    try {
      const BeadCurve fitted = fit(odd, beads_);
      const WidthCurve curve = curve_of(fitted, odd, scatter);
      std::vector<std::vector<double>> told;
      const auto errors = errors_of(curve, fitted, even, &told);
      // One or two beads do not tell their noise from the stage's, which may be what is more.
      const double own = beads_.size() < 3 ? std::min(1.0, kUsualScatter / scatter) : 1.0;
      HeldOut result;
      for (std::size_t k = 0; k < even.size(); ++k) {
        std::vector<double> here, sds;
        for (std::size_t i = 0; i < beads_.size(); ++i) {
          if (std::isnan(errors[i][k])) continue;
          here.push_back(errors[i][k]);
          sds.push_back(told[i][k]);
        }
        if (2 * here.size() < beads_.size() || here.empty()) continue;
        const double z_nm = settings_.z_nm[even[k]];
        const bool central = is_central(curve, z_nm);
        if (!central && !is_reached(curve, z_nm)) continue;
        const double of_median = here.size() < 3 ? 1 : 1.25;
        const double noise =
            of_median * own * median(sds) / std::sqrt(static_cast<double>(here.size()));
        result.planes.push_back({even[k], central, median(here), noise});
      }
      if (result.central().empty()) return std::nullopt;
      return result;
    } catch (const CalibrationError&) {
      return std::nullopt;  // the odd planes alone do not reach both sides of the crossing
    }
  }

  void check_held_out(AxialCalibration& result) const {
    if (!result.held_out) {
      if (settings_.planes == PlanesUsed::All)
        result.warnings.emplace_back(
            cure("the planes are too few to check the curve by planes that it was made without: "
                 "take smaller steps",
                 "the steps are too few to check the curve by steps that it was made without: make "
                 "them smaller (--step-nm)"));
      return;
    }
    // By what the fits tell: the beads' own spread grows where the stage is at fault.
    const HeldOut& held = *result.held_out;
    const HeldOut middle{held.central()};
    const double typical = middle.typical_noise_nm();
    const auto limit = [&](double sds, double noise_nm) {
      return std::max(kHeldOutNm + sds * noise_nm, kHeldOutShare * std::abs(settings_.step_nm));
    };
    if (settings_.is_sweep) return;  // it has a check of its own
    const auto check = [](const std::string& planes, double off_nm, double allowed_nm) {
      if (off_nm <= allowed_nm) return;
      throw CalibrationError(
          CalibrationFault::Uneven,
          fmt::format("{} {:.1f} nm off, allowed are {:.1f}: the stage did not make even steps of "
                      "--step-nm (backlash, settling, drift, a plane missing or taken twice), or "
                      "the steps are too coarse. Take them in one direction, smaller, and wait "
                      "longer at each",
                      planes, off_nm, allowed_nm));
    };
    check("planes that a curve was made without are read by it, rms,", middle.rms_nm(),
          limit(kHeldOutSd, typical));
    // Farther out beads tell less, with a stage that is in order, too.
    const double of_all = std::max(typical, held.typical_noise_nm());
    for (const HeldOut::Plane& plane : held.planes)
      check(fmt::format("the plane of frame {} is read by a curve that was made without it",
                        all_.frames[plane.plane]),
            std::abs(plane.off_nm),
            limit(kHeldOutPlaneSd,
                  std::min(plane.noise_nm, kHeldOutWorse * (plane.is_central ? typical : of_all))));
  }

  const ZStackBeads& all_;
  const CalibrationSettings& settings_;
  int axes_;
  std::vector<std::size_t> planes_, beads_;
  std::size_t strangers_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace

std::vector<HeldOut::Plane> HeldOut::central() const {
  std::vector<Plane> found;
  for (const Plane& plane : planes)
    if (plane.is_central) found.push_back(plane);
  return found;
}

double HeldOut::typical_noise_nm() const {
  std::vector<double> noise;
  for (const Plane& plane : planes) noise.push_back(plane.noise_nm);
  return median(std::move(noise));
}

double HeldOut::worst_nm() const {
  double worst = 0;
  for (const Plane& plane : planes) worst = std::max(worst, std::abs(plane.off_nm));
  return worst;
}

double HeldOut::rms_nm() const {
  double squares = 0;
  for (const Plane& plane : planes) squares += plane.off_nm * plane.off_nm;
  return std::sqrt(squares / static_cast<double>(planes.size()));
}

AxialCalibration calibrate_axial(const ZStackBeads& beads, const CalibrationSettings& settings) {
  return Calibration(beads, settings).run();
}

}  // namespace driftd::control
