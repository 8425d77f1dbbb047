// SPDX-License-Identifier: MIT
#include "control/axial/calibration/curve_picture.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace driftd::control {
namespace {

constexpr double kPictureWidth = 760, kPanelHeight = 300, kPanelLeft = 70, kPanelRight = 20,
                 kPanelTop = 40, kPanelGap = 60;
constexpr const char* kColourX = "#1f6fb4";
constexpr const char* kColourY = "#d1601e";

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void widen() {
    const double more = high > low ? 0.05 * (high - low) : 1;
    low -= more, high += more;
  }
};

std::string text_in_xml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

/// A step of 1, 2 or 5 that makes some five parts.
double tick_of(const Extent& span) {
  const double rough = (span.high - span.low) / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

/// The multiples of tick_of() within it.
std::vector<double> ticks_of(const Extent& span) {
  const double step = tick_of(span);
  const auto first = std::lround(std::ceil(span.low / step));
  const auto last = std::lround(std::floor(span.high / step));
  std::vector<double> ticks;
  for (auto i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * step);
  return ticks;
}

class Panel {
 public:
  Panel(std::string& svg, double top, Extent x, Extent y, const std::string& x_name,
        const std::string& y_name)
      : svg_(svg), top_(top), x_(x), y_(y) {
    svg_ += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888\"/>\n",
        kPanelLeft, top, kPictureWidth - kPanelLeft - kPanelRight, kPanelHeight);
    for (const double at : ticks_of(x))
      text(at_x(at), top + kPanelHeight + 16, "middle", fmt::format("{:g}", at));
    for (const double at : ticks_of(y)) {
      text(kPanelLeft - 6, at_y(at) + 4, "end", fmt::format("{:.4g}", at));
      line(x.low, at, x.high, at, "#ddd");
    }
    text(0.5 * kPictureWidth, top + kPanelHeight + 32, "middle", x_name);
    svg_ += fmt::format(
        "<text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
        top + 0.5 * kPanelHeight, y_name);
  }
  void dot(double x, double y, const char* colour, bool hollow) {
    if (!(x >= x_.low && x <= x_.high && y >= y_.low && y <= y_.high)) return;
    svg_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\" fill=\"{}\" stroke=\"{}\"/>\n",
                        at_x(x), at_y(y), hollow ? "none" : colour, colour);
  }
  void line(double x1, double y1, double x2, double y2, const char* colour) {
    svg_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", at_x(x1),
        at_y(y1), at_x(x2), at_y(y2), colour);
  }
  template <class Function>
  void curve(double from, double to, const Function& y, const char* colour) {
    constexpr int kPoints = 200;
    std::string points;
    for (int i = 0; i <= kPoints; ++i) {
      const double x = from + (to - from) * i / kPoints;
      points += fmt::format("{:.1f},{:.1f} ", at_x(x), at_y(std::clamp(y(x), y_.low, y_.high)));
    }
    svg_ +=
        fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                    points, colour);
  }
  void text(double x, double y, const char* anchor, const std::string& what) {
    svg_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y,
                        anchor, what);
  }

 private:
  [[nodiscard]] double at_x(double x) const {
    return kPanelLeft +
           (kPictureWidth - kPanelLeft - kPanelRight) * (x - x_.low) / (x_.high - x_.low);
  }
  [[nodiscard]] double at_y(double y) const {
    return top_ + kPanelHeight * (y_.high - y) / (y_.high - y_.low);
  }
  std::string& svg_;
  double top_;
  Extent x_, y_;
};

}  // namespace

std::string curve_picture(const AxialCalibration& calibration, const ZStackBeads& beads,
                          const std::string& title) {
  const WidthCurve& curve = calibration.curve;
  const bool two = curve.method() == AxialMethod::Astigmatic;
  const double first = curve.knots().front().z_nm, last = curve.knots().back().z_nm;
  Extent z, width, error;
  z.take(first), z.take(last);
  for (const auto& knot : curve.knots()) {
    width.take(knot.sigma_x_px);
    width.take(knot.sigma_y_px);
  }
  std::vector<double> errors;
  for (const BeadReading& r : calibration.readings)
    if (r.reading.measured) errors.push_back(std::abs(r.reading.z_nm - r.z_nm));
  std::sort(errors.begin(), errors.end());
  const double most = errors.empty() ? 1 : 1.2 * errors[errors.size() * 98 / 100] + 1;
  error.take(-most), error.take(most);
  z.widen(), width.widen();
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"white\"/>\n<text x=\"{2}\" y=\"24\" font-size=\"14\">{3}</text>\n",
      kPictureWidth, kPanelTop + 2 * kPanelHeight + 2 * kPanelGap, kPanelLeft, text_in_xml(title));
  Panel widths(svg, kPanelTop, z, width, "z, nm (up: the sample up)", "width of the fit, px");
  for (const BeadReading& r : calibration.readings) {
    const BeadFit& fit = beads.at(r.plane, r.bead);
    widths.dot(r.z_nm, fit.sigma_x_px, kColourX, r.held_out);
    if (two) widths.dot(r.z_nm, fit.sigma_y_px, kColourY, r.held_out);
  }
  widths.curve(
      first, last, [&](double at) { return curve.sigma_x_px(at); }, kColourX);
  if (two)
    widths.curve(
        first, last, [&](double at) { return curve.sigma_y_px(at); }, kColourY);
  for (const double end : {curve.lower_nm(), curve.upper_nm()})
    widths.line(end, width.low, end, width.high, "#444");
  svg += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>\n", kPanelLeft + 10,
                     kPanelTop + 18, kColourX, two ? "sigma x" : "sigma");
  if (two)
    svg += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"{}\">sigma y</text>\n", kPanelLeft + 80,
                       kPanelTop + 18, kColourY);
  Panel residuals(svg, kPanelTop + kPanelHeight + kPanelGap, z, error,
                  "z of the plane and the bead's height, nm", "z read, less that, nm");
  for (const BeadReading& r : calibration.readings)
    if (r.reading.measured) residuals.dot(r.z_nm, r.reading.z_nm - r.z_nm, kColourX, r.held_out);
  residuals.line(z.low, 0, z.high, 0, "#444");
  svg += "</svg>\n";
  return svg;
}

}  // namespace driftd::control
