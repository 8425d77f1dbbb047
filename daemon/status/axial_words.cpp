// SPDX-License-Identifier: MIT
#include "daemon/status/axial_words.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "config/names.hpp"
#include "daemon/setup/reflection_region.hpp"
#include "daemon/wire/number_or_null.hpp"

namespace driftd::daemon {
namespace {

using control::AxialMethod;
using control::AxialReason;

/// Farther from the crossing the likelihood's widths read brightness for z (docs/use/axial.md).
constexpr double kFarFromCrossingNm = 100;
/// So near to an end of the curve z is soon out of its range.
constexpr double kNearEndNm = 100;
/// What a change of light or background may have z off by before it is said.
constexpr double kMuchDimmedNm = 3;
/// Markers that differ in their aberrations are some 2 % off the curve each, not in the mean.
constexpr double kFarOffCurve = 0.03;

std::string why_no_z(const control::AxialEstimate& z, int needed) {
  // Enough may be read, and not be of one z.
  const std::string few =
      fmt::format("z of {} of {} tracking markers is read", z.in_range, z.markers_total) +
      (z.in_range < needed ? fmt::format(", and {} are needed (drift.min_markers)", needed) : "");
  switch (z.reason) {
    case AxialReason::Measured:
      return "";
    case AxialReason::NoReference:
      return z.in_range < needed ? few : "its reference is being taken";
    case AxialReason::OutOfRange:
      return few +
             ": most of the others are beyond the range of the curve; focus nearer to where "
             "it was made";
    case AxialReason::Unclear:
      return few +
             ": the curve has no such widths, or has them twice, or there are other spots beside "
             "the markers; see whether it is of this lens, and make it anew by `driftfit "
             "calibrate-z`";
    case AxialReason::Saturated:
      return few + ": most of the others are saturated; less light or exposure helps";
    case AxialReason::Dark:
      return few + ": most of the others are not seen, or too dim";
    case AxialReason::Implausible:
      return few +
             ": most of the others look otherwise than at their reference, or have left the "
             "others";
    case AxialReason::Apart:
      return few + ": the markers do not agree on a z";
    case AxialReason::NoMarkers:
      return "there are no markers yet";
    case AxialReason::NotCalibrated:
      return "z is not calibrated: `driftctl calibrate z --write` makes a curve";
  }
  return "";
}

std::string why_no_reflection(AxialReason reason) {
  switch (reason) {
    case AxialReason::Measured:
      return "";
    case AxialReason::NoReference:
      return "its reference is being taken";
    case AxialReason::OutOfRange:
      return "the spot is at the edge of its region (axial.reflection), or the region is not in "
             "the camera's: bring the spot back to its middle by the focus, or the stage of z by "
             "its controller";
    case AxialReason::Saturated:
      return "the spot is saturated: less of its light helps";
    case AxialReason::NotCalibrated:
      return "z is not calibrated: `driftctl calibrate z --write` measures the spot's way";
    case AxialReason::Implausible:
      return "the spot is much wider, narrower, brighter or dimmer than at its reference, or off "
             "its line (axial.reflection.angle_deg)";
    default:
      return "no spot is seen in the region of axial.reflection";
  }
}

/// By the likelihood, whose widths depend on brightness, without curves of dimmer markers.
bool reads_brightness(const config::Axial& axial) {
  const bool has_dimmer = axial.read && axial.read->curves().size() > 1;
  return axial.method == AxialMethod::Astigmatic && !has_dimmer;
}

std::string place_warning(const control::AxialEstimate& z, const config::Axial& axial) {
  const double end_nm = std::min(z.curve_below_nm, z.curve_above_nm);
  if (end_nm < kNearEndNm)
    return fmt::format("the markers are {:.0f} nm from an end of the curve's range",
                       std::max(0.0, end_nm));
  const double off_nm = std::abs(z.from_crossing_nm);
  if (reads_brightness(axial) && off_nm > kFarFromCrossingNm)
    return fmt::format(
        "the markers are {:.0f} nm from where both widths are equal: so far away a change of "
        "brightness or background reads as z",
        off_nm);
  return "";
}

std::string curve_warning(const control::AxialEstimate& z, const config::Axial& axial) {
  const bool is_dimmed = z.dimmed_nm > kMuchDimmedNm;
  const std::string off =
      !is_dimmed && z.off_curve > kFarOffCurve
          ? fmt::format("the markers' widths are {:.0f} % off the curve", 100 * z.off_curve)
          : "";
  if (axial.of_unknown_fits)
    return "the curve's file (Picasso's) does not say by which fits and in which ROI it was made" +
           (off.empty() ? "" : ", and " + off) +
           ": z may be scaled; make one by `driftfit calibrate-z`";
  if (is_dimmed)
    return fmt::format(
        "the light of the markers, or what lies behind them, is another one than when the zero of "
        "z "
        "was taken: by a curve without dimmer markers z may be off by some {:.0f} nm, as its "
        "standard deviation says. `lock` takes a new zero; a curve by `driftfit calibrate-z` of a "
        "stack (docs/use/axial.md) reads the same z in any light",
        z.dimmed_nm);
  if (!off.empty())
    return off +
           ": see whether it is of this lens, and make it anew (`driftctl calibrate z`, or "
           "`driftfit calibrate-z` of a stack)";
  return "";
}

std::string both(const std::string& one, const std::string& other) {
  return one + (one.empty() || other.empty() ? "" : "; ") + other;
}

std::string warning_of(const control::AxialEstimate& z, const config::Axial& axial) {
  return both(place_warning(z, axial), curve_warning(z, axial));
}

std::string reflection_warning(const control::AxialEstimate& z) {
  if (!z.has_company) return "";
  return fmt::format(
      "something beside the spot shines in the region of axial.reflection, at x {:.0f}, y {:.0f}: "
      "move the sample or the region, so that it holds the spot alone",
      z.company_px.x, z.company_px.y);
}

}  // namespace

std::string why_no_z(const LoopReport& loop, const config::Config& config, bool current) {
  if (!current) return "no frames come";
  return config.axial.by_widths() ? why_no_z(loop.axial, config.drift.min_markers)
                                  : why_no_reflection(loop.axial.reason);
}

std::string limit_warning(const config::Config& config) {
  if (!config.axial.read) return "";
  constexpr double kMarginNm = 150;  // some markers reach the end before the others
  const control::WidthCurve& curve = config.axial.read->curves().front();
  const double reach_nm = std::abs(config.axial.range_limit_nm / config.axial_stage.gain);
  const double room_nm =
      std::min(curve.crossing_nm() - curve.lower_nm(), curve.upper_nm() - curve.crossing_nm()) -
      kMarginNm;
  if (reach_nm <= room_nm) return "";
  return fmt::format(
      "axial.range_limit_nm {:g} lets the stage move the sample by {:.0f} nm, and the curve has "
      "room for {:.0f}: beyond it z is not measured, and its lock holds",
      config.axial.range_limit_nm, reach_nm, std::max(0.0, room_nm));
}

nlohmann::json axial_json(const LoopReport& loop, const config::Config& config, bool current,
                          const std::string& left) {
  const config::Axial& axial = config.axial;
  if (axial.method == AxialMethod::None) return nullptr;
  const control::AxialEstimate& z = loop.axial;
  const bool placed = current && z.in_range > 0 && axial.by_widths();
  const auto spot = current ? reflection_room(config, loop) : std::nullopt;
  const bool valid = current && z.valid;
  return {
      {"method", config::text_of(axial.method)},
      {"curve", axial.by_widths() ? nlohmann::json(axial.curve.string()) : nullptr},
      {"valid", valid},
      {"reason", current ? control::name_of(z.reason) : control::name_of(AxialReason::NoMarkers)},
      {"text", why_no_z(loop, config, current)},
      {"z_nm", number_or_null(z.z_nm, valid)},
      {"sd_nm", number_or_null(z.sd_nm(), valid)},
      {"witness_z_nm", number_or_null(z.witness_z_nm, valid && z.witness_valid)},
      {"in_range", current ? z.in_range : 0},
      {"markers_used", valid ? z.markers_used : 0},
      {"markers_total", z.markers_total},
      {"distance_from_crossing_nm",
       number_or_null(z.from_crossing_nm, placed && axial.method == AxialMethod::Astigmatic)},
      {"range_below_nm", number_or_null(spot ? spot->below_nm : z.curve_below_nm, spot || placed)},
      {"range_above_nm", number_or_null(spot ? spot->above_nm : z.curve_above_nm, spot || placed)},
      {"warning", both(left, placed                          ? warning_of(z, axial)
                             : current && !axial.by_widths() ? reflection_warning(z)
                                                             : "")}};
}

}  // namespace driftd::daemon
