// SPDX-License-Identifier: MIT
// z of followed markers, by the curve that --axial-curve names. docs/use/axial.md. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "camera/recording/image_stack.hpp"
#include "control/axial/brightness_curves.hpp"
#include "control/axial/fit_light.hpp"
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
  /// @param shape  of the frames
  AxialReader(const control::CurveFile& file, const fitter::FitOptions& fit, int roi_px,
              std::size_t markers, const camera::StackShape& shape);

  /// The same spots with z, z_sd and reading; valid until the next call. Light is judged as a lock
  /// judges it, against that of the frames before: frames come in their order.
  /// @param frame  its pixels; null: what lies around the spots is not known
  std::span<const Spot> read(std::span<const Spot> spots, const std::byte* frame);
  const HeightCounts& counts() const noexcept { return all_; }
  const HeightCounts& counts_of(std::size_t marker) const noexcept { return counts_[marker]; }

 private:
  void read(Spot& spot) const noexcept;
  void judge_light(Spot& spot, const std::byte* frame) noexcept;
  void refuse_grown() noexcept;

  control::BrightnessCurves curves_;
  fitter::FitOptions fit_;
  int pixels_;  ///< SpotFit::pixels
  int roi_px_;
  camera::StackShape shape_;
  double most_sd_nm_;
  std::vector<Spot> spots_;
  std::vector<control::FitLight> lights_;  ///< of each marker
  std::vector<double> changes_;
  std::vector<HeightCounts> counts_;
  HeightCounts all_{};
};

}  // namespace driftd::tools
