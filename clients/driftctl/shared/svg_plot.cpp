// SPDX-License-Identifier: MIT
#include "clients/driftctl/shared/svg_plot.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace driftd::clients {
namespace {

constexpr double kWidth = 860;
constexpr double kLeft = 75, kRight = 845, kTop = 34, kBelow = 50;
constexpr double kCaption = 20;  // px that it takes
constexpr double kTicks = 7;
constexpr std::size_t kMostColumns = 770;  // px of the plot

struct Axis {
  bool log = false;
  double low = std::numeric_limits<double>::infinity();  ///< of the values, log10 where log
  double high = -std::numeric_limits<double>::infinity();
  double begin = 0, end = 0;  ///< px

  double of(double value) const { return log ? std::log10(value) : value; }
  bool shows(double value) const { return std::isfinite(value) && (!log || value > 0); }
  void include(double value) {
    if (!shows(value)) return;
    low = std::min(low, of(value));
    high = std::max(high, of(value));
  }
  double place(double value) const {
    return std::clamp(begin + (of(value) - low) / (high - low) * (end - begin),
                      std::min(begin, end), std::max(begin, end));
  }
};

/// 1, 2 or 5 times a power of ten, so that about kTicks of them span the range.
double tick_of(double range) {
  const double wanted = range / kTicks;
  const double power = std::pow(10.0, std::floor(std::log10(wanted)));
  for (const double digit : {1.0, 2.0, 5.0}) {
    if (digit * power >= wanted) return digit * power;
  }
  return 10 * power;
}

void widen(Axis& axis) {
  if (axis.high > axis.low) return;
  axis.low -= axis.log ? 0.5 : std::max(1e-3, std::abs(axis.low) * 0.1);
  axis.high += axis.log ? 0.5 : std::max(1e-3, std::abs(axis.high) * 0.1);
}

/// Values that carry a number.
std::vector<double> ticks_of(const Axis& axis) {
  std::vector<double> ticks;
  if (axis.log) {
    const double decades = axis.high - axis.low;
    for (int decade = static_cast<int>(std::floor(axis.low)); decade <= std::ceil(axis.high);
         ++decade) {
      for (const double digit : {1.0, 2.0, 5.0}) {
        if (decades > 3 && digit > 1) continue;
        const double value = digit * std::pow(10.0, decade);
        if (axis.of(value) >= axis.low && axis.of(value) <= axis.high) ticks.push_back(value);
      }
    }
    return ticks;
  }
  const double tick = tick_of(axis.high - axis.low);
  constexpr double kSlack = 1e-6;  // of a tick, for the last one
  const auto last = static_cast<long>(std::floor(axis.high / tick + kSlack));
  for (auto i = static_cast<long>(std::ceil(axis.low / tick - kSlack)); i <= last; ++i)
    ticks.push_back(static_cast<double>(i) * tick);
  return ticks;
}

std::string text(double x, double y, const char* look, const std::string& words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, look, escaped(words));
}

std::string axes(const PlotSettings& settings, const Axis& x, const Axis& y) {
  const double top = y.end, bottom = y.begin;
  std::string svg;
  for (const double tick : ticks_of(x)) {
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#e4e4e4\"/>\n",
        x.place(tick), top, bottom);
    svg += text(x.place(tick), bottom + 18, "text-anchor=\"middle\"", fmt::format("{:g}", tick));
  }
  for (const double tick : ticks_of(y)) {
    svg += fmt::format(
        "<line x1=\"{1}\" y1=\"{0:.1f}\" x2=\"{2}\" y2=\"{0:.1f}\" stroke=\"#e4e4e4\"/>\n",
        y.place(tick), kLeft, kRight);
    svg += text(kLeft - 7, y.place(tick) + 4, "text-anchor=\"end\"", fmt::format("{:g}", tick));
  }
  svg += fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#606060\"/>\n",
      kLeft, top, kRight - kLeft, bottom - top);
  svg += text((kLeft + kRight) / 2, bottom + 38, "text-anchor=\"middle\"", settings.x_label);
  const double middle = (top + bottom) / 2;
  svg += text(
      18, middle,
      fmt::format("text-anchor=\"middle\" transform=\"rotate(-90 18 {:.0f})\"", middle).c_str(),
      settings.y_label);
  return svg;
}

/// Keeps the first, lowest, highest and last point of each run that shares a column of pixels.
std::vector<std::size_t> thinned(const Curve& curve, const Axis& x) {
  std::vector<std::size_t> kept;
  const std::size_t count = std::min(curve.x.size(), curve.y.size());
  const auto column = [&](std::size_t i) { return std::floor(x.place(curve.x[i])); };
  for (std::size_t begin = 0; begin < count;) {
    if (count <= 2 * kMostColumns || !x.shows(curve.x[begin]) || !std::isfinite(curve.y[begin])) {
      kept.push_back(begin++);
      continue;
    }
    std::size_t low = begin, high = begin, end = begin;
    for (; end < count && std::isfinite(curve.y[end]) && column(end) == column(begin); ++end) {
      if (curve.y[end] < curve.y[low]) low = end;
      if (curve.y[end] > curve.y[high]) high = end;
    }
    for (const std::size_t i : {begin, std::min(low, high), std::max(low, high), end - 1})
      if (kept.empty() || kept.back() != i) kept.push_back(i);
    begin = end;
  }
  return kept;
}

std::string path_of(const Curve& curve, const Axis& x, const Axis& y) {
  std::string path;
  bool pen_down = false;
  for (const std::size_t i : thinned(curve, x)) {
    const bool known = x.shows(curve.x[i]) && y.shows(curve.y[i]);
    if (known) {
      path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", x.place(curve.x[i]),
                          y.place(curve.y[i]));
    }
    pen_down = known;
  }
  return path;
}

/// The curves, and their names beside the title.
std::string drawn(const std::vector<Curve>& curves, const Axis& x, const Axis& y) {
  std::string svg;
  double legend = kRight - 10;
  for (auto curve = curves.rbegin(); curve != curves.rend(); ++curve) {
    const std::string path = path_of(*curve, x, y);
    if (path.empty()) continue;
    svg += fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.1\" "
        "stroke-linejoin=\"round\"{}/>\n",
        path, curve->colour, curve->dashed ? " stroke-dasharray=\"6 4\"" : "");
    svg += text(legend, 22,
                fmt::format("text-anchor=\"end\" style=\"fill:{}\"", curve->colour).c_str(),
                curve->name);
    legend -= 20 + 7 * static_cast<double>(curve->name.size());
  }
  return svg;
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\n':
      case '\t':
        result += c;
        break;
      default:
        result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  return result;
}

std::string draw_plot(const PlotSettings& settings, const std::vector<Curve>& curves,
                      const std::vector<Band>& bands) {
  const double top = kTop + (settings.caption.empty() ? 0 : kCaption);
  Axis x{.log = settings.log_x, .begin = kLeft, .end = kRight};
  Axis y{.log = settings.log_y, .begin = settings.height_px - kBelow, .end = top};
  for (const Curve& curve : curves) {
    for (std::size_t i = 0; i < std::min(curve.x.size(), curve.y.size()); ++i) {
      if (!x.shows(curve.x[i]) || !y.shows(curve.y[i])) continue;
      x.include(curve.x[i]);
      y.include(curve.y[i]);
    }
  }
  if (!(x.low <= x.high)) return "";
  for (const double value : settings.y_shows) y.include(value);
  widen(x);
  widen(y);
  std::string svg = settings.alone ? "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" : "";
  svg += fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
      "font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" font-size=\"12\" "
      "fill=\"#303030\">\n",
      kWidth, settings.height_px);
  if (settings.alone)
    svg += fmt::format("<rect width=\"{:g}\" height=\"{:g}\" fill=\"#ffffff\"/>\n", kWidth,
                       settings.height_px);
  for (const Band& band : bands) {
    const double left = x.place(band.begin);
    svg +=
        fmt::format("<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/>\n",
                    left, top, std::max(0.5, x.place(band.end) - left), y.begin - top, band.colour);
  }
  svg += axes(settings, x, y);
  svg += text(kLeft, 22, "font-size=\"15\"", settings.title);
  if (!settings.caption.empty()) svg += text(kLeft, 42, "fill=\"#606060\"", settings.caption);
  return svg + drawn(curves, x, y) + "</svg>\n";
}

}  // namespace driftd::clients
