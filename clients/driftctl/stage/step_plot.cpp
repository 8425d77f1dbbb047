// SPDX-License-Identifier: MIT
#include "clients/driftctl/stage/step_plot.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "clients/driftctl/shared/svg_plot.hpp"

namespace driftd::clients {
namespace {

constexpr const char* kBlack = "#202020";

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
  return draw_plot({.title = "Step response of the stage",
                    .x_label = "time since the command (ms)",
                    .y_label = "place (share of the step)",
                    .caption = caption,
                    .y_shows = {-0.1, 1.1},  // 0 and 1 with room around them
                    .height_px = 500,
                    .alone = true},
                   {{"x, measured", kBlue, response.time_ms, response.x},
                    {"y, measured", kOrange, response.time_ms, response.y},
                    {"model", kBlack, response.time_ms, response.model, true}});
}

}  // namespace driftd::clients
