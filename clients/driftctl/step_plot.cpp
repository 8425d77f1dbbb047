// SPDX-License-Identifier: MIT
#include "clients/driftctl/step_plot.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace driftd::clients {
namespace {

constexpr double kWidth = 800, kHeight = 500;
constexpr double kLeft = 80, kRight = 770, kTop = 70, kBottom = 430;
constexpr int kTicks = 8;  // about so many on an axis

struct Axis {
  double low, high;   ///< of the values
  double begin, end;  ///< of the picture, px
  double tick;

  double place(double value) const { return begin + (value - low) / (high - low) * (end - begin); }
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

Axis time_axis(const std::vector<double>& time_ms) {
  const auto [low, high] = std::ranges::minmax(time_ms);
  return {low, high, kLeft, kRight, tick_of(high - low)};
}

/// From a whole tick to a whole tick, 0 and 1 with room around them among the values.
Axis value_axis(const StepResponse& response) {
  double low = -0.1, high = 1.1;
  for (const auto* curve : {&response.x, &response.y, &response.model}) {
    for (const double value : *curve) {
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  const double tick = tick_of(high - low);
  return {std::floor(low / tick) * tick, std::ceil(high / tick) * tick, kBottom, kTop, tick};
}

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
      default:  // XML knows no other control characters than blanks and line ends
        result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  return result;
}

std::string line(double x1, double y1, double x2, double y2, const char* look) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, look);
}

std::string text(double x, double y, const char* look, const std::string& words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, look, escaped(words));
}

constexpr const char* kGrid = "stroke=\"#e4e4e4\"";
constexpr const char* kFrame = "stroke=\"#606060\"";

/// The values of an axis that carry a number.
std::vector<double> ticks_of(const Axis& axis) {
  std::vector<double> ticks;
  constexpr double kSlack = 1e-6;  // of a tick, for the last one
  const auto first = static_cast<long>(std::ceil(axis.low / axis.tick - kSlack));
  const auto last = static_cast<long>(std::floor(axis.high / axis.tick + kSlack));
  for (long i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * axis.tick);
  return ticks;
}

std::string axes(const Axis& time, const Axis& value) {
  std::string svg;
  for (const double tick : ticks_of(time)) {
    const double x = time.place(tick);
    svg += line(x, kTop, x, kBottom, kGrid) + line(x, kBottom, x, kBottom + 5, kFrame);
    svg += text(x, kBottom + 20, "text-anchor=\"middle\"", fmt::format("{:g}", tick));
  }
  for (const double tick : ticks_of(value)) {
    const double y = value.place(tick);
    svg += line(kLeft, y, kRight, y, kGrid) + line(kLeft - 5, y, kLeft, y, kFrame);
    svg += text(kLeft - 9, y + 4, "text-anchor=\"end\"", fmt::format("{:g}", tick));
  }
  svg += line(kLeft, kBottom, kRight, kBottom, kFrame) + line(kLeft, kTop, kLeft, kBottom, kFrame);
  svg += text((kLeft + kRight) / 2, kBottom + 45, "text-anchor=\"middle\"",
              "time since the command (ms)");
  const double middle = (kTop + kBottom) / 2;
  svg += text(
      25, middle,
      fmt::format("text-anchor=\"middle\" transform=\"rotate(-90 25 {:.1f})\"", middle).c_str(),
      "place (share of the step)");
  return svg;
}

std::string curve(const Axis& time, const Axis& value, const std::vector<double>& time_ms,
                  const std::vector<double>& values, const char* look) {
  std::string path;
  bool pen_down = false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool known = std::isfinite(values[i]) && std::isfinite(time_ms[i]);
    if (known) {
      path += fmt::format("{}{:.2f} {:.2f}",
                          pen_down       ? " L"
                          : path.empty() ? "M"
                                         : " M",
                          time.place(time_ms[i]), value.place(values[i]));
    }
    pen_down = known;
  }
  if (path.empty()) return "";
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke-linejoin=\"round\" {}/>\n", path, look);
}

struct Look {
  const char* name;
  const char* stroke;
};
constexpr Look kX{"x, measured", "stroke=\"#1660a8\" stroke-width=\"1.6\""};
constexpr Look kY{"y, measured", "stroke=\"#d1541b\" stroke-width=\"1.6\""};
constexpr Look kModel{"model", "stroke=\"#202020\" stroke-width=\"1.6\" stroke-dasharray=\"6 4\""};

/// At the lower right, where a step response is not.
std::string legend() {
  constexpr double kX0 = 610, kY0 = 350, kSpacing = 22;
  std::string svg = fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"150\" height=\"72\" fill=\"#ffffff\" stroke=\"#c0c0c0\"/>\n",
      kX0, kY0);
  double y = kY0 + 18;
  for (const Look& look : {kX, kY, kModel}) {
    svg += line(kX0 + 10, y, kX0 + 45, y, look.stroke) + text(kX0 + 53, y + 4, "", look.name);
    y += kSpacing;
  }
  return svg;
}

void check(const StepResponse& response) {
  const std::size_t points = response.time_ms.size();
  for (const auto* curve : {&response.x, &response.y, &response.model}) {
    if (!curve->empty() && curve->size() != points) {
      throw std::runtime_error("the step response has curves of different lengths");
    }
  }
  const bool all_known =
      std::ranges::all_of(response.time_ms, [](double t) { return std::isfinite(t); });
  if (points < 2 || !all_known ||
      !(std::ranges::max(response.time_ms) > std::ranges::min(response.time_ms))) {
    throw std::runtime_error("there is no step response to draw");
  }
}

}  // namespace

std::string draw_step_response(const StepResponse& response, const std::string& caption) {
  check(response);
  const Axis time = time_axis(response.time_ms);
  const Axis value = value_axis(response);
  std::string svg = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
      "viewBox=\"0 0 {0:g} {1:g}\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" "
      "font-size=\"13\" fill=\"#303030\">\n"
      "<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"#ffffff\"/>\n",
      kWidth, kHeight);
  svg += text(kLeft, 32, "font-size=\"17\"", "Step response of the stage");
  svg += text(kLeft, 53, "fill=\"#606060\"", caption);
  svg += axes(time, value);
  svg += curve(time, value, response.time_ms, response.x, kX.stroke);
  svg += curve(time, value, response.time_ms, response.y, kY.stroke);
  svg += curve(time, value, response.time_ms, response.model, kModel.stroke);
  return svg + legend() + "</svg>\n";
}

}  // namespace driftd::clients
