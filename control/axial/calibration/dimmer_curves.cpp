// SPDX-License-Identifier: MIT
#include "control/axial/calibration/dimmer_curves.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/median.hpp"
#include "control/axial/brightness_curves.hpp"
#include "control/axial/calibration/bead_curve.hpp"

namespace driftd::control {
namespace {

constexpr double kLevels[] = {3, 9, 20};  // over the beads' own
constexpr double kFewestPhotons = 1000;
/// What is told at a knot is that of so many beads in planes next to it.
constexpr std::size_t kNearest = 40;
/// Of a bead's draws.
constexpr std::size_t kFewestDraws = 4;
constexpr double kLeastDimScatter = 0.3, kMostDimScatter = 10;

/// A value of a bead at a height.
struct Point {
  double z_nm = 0, value = 0, weight = 1;
};

std::vector<Point> nearest(std::vector<Point> points, double z_nm) {
  const auto closer = [&](const Point& a, const Point& b) {
    return std::abs(a.z_nm - z_nm) < std::abs(b.z_nm - z_nm);
  };
  const std::size_t kept = std::min(points.size(), kNearest);
  std::partial_sort(points.begin(), points.begin() + static_cast<std::ptrdiff_t>(kept),
                    points.end(), closer);
  points.resize(kept);
  return points;
}

double median_at(const std::vector<Point>& points, double z_nm) {
  std::vector<double> values;
  for (const Point& point : nearest(points, z_nm)) values.push_back(point.value);
  return values.empty() ? 0 : median(values);
}

class Curves {
 public:
  Curves(const AxialCalibration& made, const CalibrationSettings& settings)
      : made_(made), settings_(settings) {}

  /// Of the beads in the planes that the curve is made of.
  std::vector<Point> points(const ZStackBeads& beads, double BeadFit::*value) const {
    std::vector<Point> all;
    for (const std::size_t p : made_.planes)
      for (std::size_t i = 0; i < made_.beads.size(); ++i)
        if (const BeadFit& fit = beads.at(p, made_.beads[i]); fit.fitted)
          all.push_back({z_nm(p, i), fit.*value});
    return all;
  }

  WidthCurve of_beads(const ZStackBeads& beads) const {
    const auto dimness = points(beads, &BeadFit::dimness);
    const auto excess = points(beads, &BeadFit::excess);
    std::vector<WidthCurve::Knot> knots = made_.curve.knots();
    for (WidthCurve::Knot& knot : knots) {
      knot.dimness = median_at(dimness, knot.z_nm);
      knot.excess = median_at(excess, knot.z_nm);
    }
    return curve_of(std::move(knots), made_.curve.scatter_factor());
  }

  WidthCurve of_dimmer(const DimmerBeads& dimmer) const {
    std::vector<BeadWidths> widths;
    for (const std::size_t p : made_.planes) {
      for (std::size_t i = 0; i < made_.beads.size(); ++i) {
        const BeadFit& fit = dimmer.beads.at(p, made_.beads[i]);
        if (!fit.fitted) continue;
        widths.push_back({i,
                          settings_.z_nm[p],
                          {fit.sigma_x_px, fit.sigma_y_px},
                          {std::sqrt(std::max(fit.variance.x_px2, 0.0)),
                           std::sqrt(std::max(fit.variance.y_px2, 0.0))}});
      }
    }
    if (2 * widths.size() < made_.planes.size() * made_.beads.size())
      throw WidthCurveError("most beads are too dim to fit");
    const BeadCurve fitted = fit_bead_curve(widths, made_.beads.size(), 2);
    const auto dimness = points(dimmer.beads, &BeadFit::dimness);
    std::vector<WidthCurve::Knot> knots;
    for (const WidthCurve::Knot& knot : made_.curve.knots())
      knots.push_back({knot.z_nm, fitted.width_px(0, knot.z_nm + made_.zero_nm),
                       fitted.width_px(1, knot.z_nm + made_.zero_nm), 0,
                       median_at(dimness, knot.z_nm)});
    const WidthCurve plain = curve_of(knots, 1);
    std::vector<Point> scatter, excess;
    for (const DimmedBead& bead : dimmer.dimmed) tell(bead, plain, scatter, excess);
    for (WidthCurve::Knot& knot : knots) {
      double squares = 0, told = 0;
      for (const Point& point : nearest(scatter, knot.z_nm))
        squares += point.value, told += point.weight;
      if (told > 0)
        knot.scatter = std::clamp(std::sqrt(squares / told), kLeastDimScatter, kMostDimScatter);
      if (!excess.empty()) knot.excess = median_at(excess, knot.z_nm);
    }
    return curve_of(std::move(knots), made_.curve.scatter_factor());
  }

 private:
  double z_nm(std::size_t plane, std::size_t bead) const {
    return settings_.z_nm[plane] + made_.heights_nm[bead] - made_.zero_nm;
  }
  WidthCurve curve_of(std::vector<WidthCurve::Knot> knots, double scatter) const {
    return {std::move(knots),
            scatter,
            settings_.method,
            {made_.curve.lower_nm(), made_.curve.upper_nm()}};
  }

  /// What the z of a bead's draws scatters and what it told, as variances.
  void tell(const DimmedBead& bead, const WidthCurve& curve, std::vector<Point>& scatter,
            std::vector<Point>& excess) const {
    const auto place = std::find(made_.beads.begin(), made_.beads.end(), bead.bead);
    const bool used =
        std::find(made_.planes.begin(), made_.planes.end(), bead.plane) != made_.planes.end();
    if (place == made_.beads.end() || !used || !(bead.share < 1)) return;
    const double z = z_nm(bead.plane, static_cast<std::size_t>(place - made_.beads.begin()));
    double n = 0, mean = 0, squares = 0, told = 0;
    std::vector<double> over;
    for (const BeadFit& fit : bead.fits) {
      if (!fit.fitted) continue;
      over.push_back(fit.excess);
      const auto reading = curve.read(fit.sigma_x_px, fit.sigma_y_px, fit.variance);
      if (!reading.measured) continue;
      n += 1, told += reading.sd_nm * reading.sd_nm;
      const double before = reading.z_nm - mean;
      mean += before / n, squares += before * (reading.z_nm - mean);
    }
    if (over.size() < kFewestDraws) return;
    for (const double value : over) excess.push_back({z, value});
    if (n < static_cast<double>(kFewestDraws)) return;
    // Draws share the recorded photons' own noise, which is this share of theirs.
    scatter.push_back({z, squares / (n - 1) / (1 - bead.share), told / n});
  }

  const AxialCalibration& made_;
  const CalibrationSettings& settings_;
};

}  // namespace

std::vector<double> dimmer_levels(const AxialCalibration& made, const ZStackBeads& beads) {
  std::vector<double> own, levels;
  for (const BeadReading& r : made.readings)
    if (std::abs(r.z_nm - made.curve.crossing_nm()) < 100)
      own.push_back(beads.at(r.plane, r.bead).dimness);
  const double dimness = own.empty() ? 0 : median(own);
  for (const double factor : kLevels)
    if (dimness > 0 && std::isfinite(dimness) && made.photons / factor >= kFewestPhotons)
      levels.push_back(factor * dimness);
  return levels;
}

CurvesByBrightness curves_by_brightness(const AxialCalibration& made, const ZStackBeads& beads,
                                        const std::vector<DimmerBeads>& dimmer,
                                        const CalibrationSettings& settings) {
  const Curves curves(made, settings);
  CurvesByBrightness all{made.curve, {}};
  try {
    all.curve = curves.of_beads(beads);
    std::vector<WidthCurve> together{all.curve};
    for (const DimmerBeads& level : dimmer) {
      together.push_back(curves.of_dimmer(level));
      const BrightnessCurves checked(together);
      all.dimmer.push_back(together.back());
    }
  } catch (const WidthCurveError&) {
    // Those until now do.
  }
  return all;
}

}  // namespace driftd::control
