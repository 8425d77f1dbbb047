// SPDX-License-Identifier: MIT
// A plot of some curves as an SVG that stands within a page or alone: no script, no style sheet, no
// font of its own. Long curves are thinned so that every peak stays. Pure functions; no file.
#pragma once

#include <string>
#include <vector>

namespace driftd::clients {

inline constexpr const char* kBlue = "#1660a8";    ///< of what is x
inline constexpr const char* kOrange = "#d1541b";  ///< of what is y
inline constexpr const char* kViolet = "#6b3fa0";  ///< of what is z
inline constexpr const char* kGrey = "#8a8a8a";

struct Curve {
  std::string name;
  const char* colour;
  std::vector<double> x, y;  ///< of the same length; what is not finite parts the curve
  bool dashed = false;
};

struct PlotSettings {
  std::string title, x_label, y_label;
  bool log_x = false, log_y = false;  ///< values of 0 and below are then left out
  std::string caption = {};           ///< below the title
  std::vector<double> y_shows = {};   ///< values that the axis reaches in any case
  double height_px = 300;
  bool alone = false;  ///< a file of its own, not a part of a page
};

/// A span of x with another ground.
struct Band {
  double begin, end;
  const char* colour;
};

/// "" where there is nothing to draw.
std::string draw_plot(const PlotSettings& settings, const std::vector<Curve>& curves,
                      const std::vector<Band>& bands = {});

/// For HTML and SVG; control characters that XML does not know become blanks.
std::string escaped(const std::string& text);

}  // namespace driftd::clients
