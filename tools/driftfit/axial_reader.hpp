// SPDX-License-Identifier: MIT
// z of followed markers, by the curve that --axial-curve names. docs/use/axial.md. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "control/axial/brightness_curves.hpp"
#include "tools/driftfit/options.hpp"
#include "tools/driftfit/spot.hpp"

namespace CLI {
class App;
}

namespace driftd::tools {

/// Reads the curve that the options name, if any, and has the markers fitted as it was: what is not
/// told is the curve's, and what is told otherwise is refused.
/// @throws UsageError, InputError
void fit_as_curve(const CLI::App& app, Options& options);

/// How many fits gave which HeightReading.
using HeightCounts = std::array<std::int64_t, kHeightReadings>;
/// "3 out of the curve's range, 1 too dim to tell z"; "" where all were read.
std::string unread_in_words(const HeightCounts& counts);

class AxialReader {
 public:
  /// @param file  must outlive the reader
  /// @param fit  as the fits have it
  AxialReader(const control::CurveFile& file, const fitter::FitOptions& fit, int roi_px,
              std::size_t markers);

  /// The same spots with z, z_sd and reading; valid until the next call.
  std::span<const Spot> read(std::span<const Spot> spots);
  const HeightCounts& counts() const noexcept { return all_; }
  const HeightCounts& counts_of(std::size_t marker) const noexcept { return counts_[marker]; }

 private:
  void read(Spot& spot) const noexcept;

  control::BrightnessCurves curves_;
  fitter::FitOptions fit_;
  int pixels_;  ///< SpotFit::pixels
  double most_sd_nm_;
  std::vector<Spot> spots_;
  std::vector<HeightCounts> counts_;
  HeightCounts all_{};
};

}  // namespace driftd::tools
