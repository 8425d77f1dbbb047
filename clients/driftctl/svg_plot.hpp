// SPDX-License-Identifier: MIT
// A plot of some curves as an SVG that stands within a page: no script, no style sheet. Long curves
// are thinned so that every peak stays. Pure functions; no file.
#pragma once

#include <string>
#include <vector>

namespace driftd::clients {

struct Curve {
  std::string name;
  const char* colour;
  std::vector<double> x, y;  ///< of the same length; what is not finite parts the curve
};

struct PlotSettings {
  std::string title, x_label, y_label;
  bool log_x = false, log_y = false;  ///< values of 0 and below are then left out
};

/// A span of x with another ground.
struct Band {
  double begin, end;
  const char* colour;
};

/// "" where there is nothing to draw.
std::string draw_plot(const PlotSettings& settings, const std::vector<Curve>& curves,
                      const std::vector<Band>& bands = {});

/// For HTML and SVG.
std::string escaped(const std::string& text);

}  // namespace driftd::clients
