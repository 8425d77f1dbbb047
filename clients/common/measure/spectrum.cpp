// SPDX-License-Identifier: MIT
#include "clients/common/measure/spectrum.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/aliases.hpp"
#include "base/median.hpp"
#include "base/welch.hpp"

namespace driftd::clients {
namespace {

constexpr double kLongestSegment_s = 16;
constexpr double kShortestSegment = 16;  // places
/// A line is so many times the median of the bins around it. The highest of 4096 bins of noise
/// alone, a mean of seven segments, reaches some 4 times the median.
constexpr double kLineOverFloor = 8;
constexpr std::ptrdiff_t kAroundBins = 24;
/// Hann's window spreads a line over two bins to either side.
constexpr std::ptrdiff_t kLineBins = 2;

/// The median of such a chi-square over its mean (Wilson & Hilferty 1931).
double median_over_mean(double degrees_of_freedom) {
  return std::pow(1 - 2 / (9 * degrees_of_freedom), 3);
}

double median_between(const std::vector<double>& values, std::ptrdiff_t begin, std::ptrdiff_t end) {
  return median({values.begin() + begin, values.begin() + end});
}

/// The largest power of 2 up to `most`.
std::size_t power_of_two(double most) {
  std::size_t length = 1;
  while (static_cast<double>(2 * length) <= most) length *= 2;
  return length;
}

}  // namespace

Spectrum power_spectrum(const std::vector<double>& places_nm, double rate_hz) {
  const std::size_t length =
      power_of_two(std::max(kShortestSegment, std::min(static_cast<double>(places_nm.size()) / 4,
                                                       kLongestSegment_s * rate_hz)));
  WelchSpectrum found = welch(places_nm, rate_hz, length, Detrend::Mean);
  found.density.resize(length / 2);  // half the rate stands for itself and its image
  return {.spacing_hz = rate_hz / static_cast<double>(length),
          .segments = found.segments,
          .density_nm2_per_hz = std::move(found.density)};
}

double white_noise(const Spectrum& spectrum) {
  const auto bins = static_cast<std::ptrdiff_t>(spectrum.density_nm2_per_hz.size());
  const double density = median_between(spectrum.density_nm2_per_hz, bins / 2, bins) /
                         median_over_mean(2 * static_cast<double>(spectrum.segments));
  return std::sqrt(density * spectrum.spacing_hz * static_cast<double>(bins));
}

std::vector<VibrationLine> vibration_lines(const Spectrum& spectrum, std::size_t most) {
  const std::vector<double>& density = spectrum.density_nm2_per_hz;
  const auto bins = static_cast<std::ptrdiff_t>(density.size());
  std::vector<VibrationLine> lines;
  // Below, the drift's own slope stands in the spectrum.
  for (std::ptrdiff_t k = kLineBins + 1; k < bins; ++k) {
    const auto begin = density.begin() + k - kLineBins;
    const auto end = density.begin() + std::min(bins, k + kLineBins + 1);
    const double height = density[static_cast<std::size_t>(k)];
    if (height < *std::max_element(begin, end)) continue;
    const double floor = median_between(density, std::max<std::ptrdiff_t>(1, k - kAroundBins),
                                        std::min(bins, k + kAroundBins + 1));
    if (!(height > kLineOverFloor * floor)) continue;
    double power = 0, moment = 0;
    for (auto bin = begin; bin != end; ++bin) {
      const double above = std::max(0.0, *bin - floor);
      power += above;
      moment += above * static_cast<double>(bin - density.begin());
    }
    lines.push_back(
        {moment / power * spectrum.spacing_hz, std::sqrt(2 * power * spectrum.spacing_hz)});
  }
  std::sort(lines.begin(), lines.end(), [](const VibrationLine& a, const VibrationLine& b) {
    return a.amplitude_nm > b.amplitude_nm;
  });
  if (lines.size() > most) lines.resize(most);
  return lines;
}

std::string look_alikes_text(double frequency_hz, double rate_hz) {
  constexpr std::size_t kTold = 4;
  std::string text;
  for (const double hz : look_alikes_hz(frequency_hz, rate_hz, kTold))
    text += fmt::format("{}{:.3g}", text.empty() ? ", or " : ", ", hz);
  return text.empty() ? text : text + " Hz";
}

}  // namespace driftd::clients
