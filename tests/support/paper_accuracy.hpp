// SPDX-License-Identifier: MIT
// The accuracy of Leutenegger & Weber 2021: their stop criteria, their Table 1 (rows
// Fit2DGaussian), and errors summarized as there.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "fitter/fitter.hpp"
#include "support/spots.hpp"

namespace driftd::test {

/// The paper's stop criteria (chi-square below a third of the ROI's area), for photon counts.
inline fitter::FitOptions paper_options(int side) {
  fitter::FitOptions options;
  options.min_chi_square = static_cast<float>(side * side) / 3.0f;
  options.min_background_adu = 0;
  return options;
}

struct ErrorSummary {
  double median, mean, sd;
};

inline ErrorSummary summarize(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return {values[values.size() / 2], mean, std::sqrt(squares / (count - 1))};
}

struct PaperRow {
  double signal, background;
  ErrorSummary position, sigma;  ///< of the absolute errors, in units of the true sigma
};
/// 100,000 spots a row.
inline constexpr std::array kPaperTable1 = {
    PaperRow{400, 40, {0.0464, 0.0550, 0.0418}, {0.0420, 0.0506, 0.0396}},
    PaperRow{1600, 40, {0.0228, 0.0270, 0.0205}, {0.0203, 0.0244, 0.0190}},
    PaperRow{1600, 0, {0.0228, 0.0269, 0.0203}, {0.0198, 0.0238, 0.0186}}};
inline constexpr int kPaperSidePx = 9;
inline constexpr std::size_t kPaperSpots = 100'000;

/// Absolute errors over the true sigma; x and y together.
struct RelativeErrors {
  std::vector<double> position, sigma;
};

inline RelativeErrors relative_errors(std::span<const fitter::Localization> fits,
                                      std::span<const Spot> truth) {
  RelativeErrors e;
  for (std::size_t i = 0; i < fits.size(); ++i) {
    e.position.push_back(std::fabs(fits[i].x_px - truth[i].x_px) / truth[i].sigma_px);
    e.position.push_back(std::fabs(fits[i].y_px - truth[i].y_px) / truth[i].sigma_px);
    e.sigma.push_back(std::fabs(fits[i].sigma_x_px - truth[i].sigma_px) / truth[i].sigma_px);
  }
  return e;
}

}  // namespace driftd::test
