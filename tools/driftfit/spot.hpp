// SPDX-License-Identifier: MIT
// One spot in one frame, as it is fitted and as other programs want it: in electrons.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "camera/recording/image_stack.hpp"
#include "fitter/fitter.hpp"
#include "fitter/spots/photons.hpp"

namespace driftd::tools {

/// What came of reading a spot's z from its widths.
enum class HeightReading : std::uint8_t {
  None,  ///< nobody did, or there is no spot
  Read,
  OutOfRange,  ///< of the curve, also by its light: the middle of rings far out of focus
  Unclear,     ///< no place of the curve explains the widths, or more than one does
  TooDim,      ///< its standard deviation would be a large part of the curve's range
  Company,     ///< it became brighter than the others: something shines beside it
};
constexpr std::size_t kHeightReadings = 6;

struct Spot {
  std::int64_t frame = 0;  ///< 0-based, in the file
  int marker = -1;         ///< 0-based; -1: not followed
  int place = 0;           ///< the marker's how manieth, 0-based: it was taken back elsewhere
  double x_px = 0, y_px = 0;
  fitter::Localization fit{};
  float net_gradient = 0;  ///< adu; 0 where none was computed
  /// The largest pixel of its ROI, as it was recorded; NaN: nobody looked.
  float top = std::numeric_limits<float>::quiet_NaN();
  HeightReading reading = HeightReading::None;
  /// On the curve, up where the sample goes up; NaN: not read.
  float z_nm = std::numeric_limits<float>::quiet_NaN();
  float z_sd_nm = std::numeric_limits<float>::quiet_NaN();
};

/// How many markers a frame lacks, by the reason.
struct Absences {
  int outside = 0;     ///< expected beyond the frame's border
  int bad_pixels = 0;  ///< saturated, constant or no numbers
  int not_fitted = 0;  ///< the fit did not converge, or on no spot
  int strayed = 0;     ///< the fit found something else than where the others say it is
  int not_sought = 0;  ///< the frame is before the one that the markers were found in
  int repeated = 0;    ///< the frame is the page of an earlier one, which says nothing of now
};

/// What turns pixels and counts into nanometres and photons.
struct Units {
  double pixel_nm = 100;
  int roi_px = 0;
  fitter::Estimator estimator = fitter::Estimator::ImplicitLeastSquares;
  fitter::NoiseModel noise;  ///< an unknown gain counts as 1: "photons" are then counts
  float excess_noise = 1;    ///< see SpotFitterSettings
  bool has_z = false;        ///< spots were read by a curve: files have columns for z
};

using fitter::Photons;
Photons photons_of(const fitter::Localization& fit, const Units& units);

/// A stack's pixels as the fitter knows them.
fitter::PixelType fitter_type(camera::PixelType type) noexcept;

/// Takes localizations in the order of frames, and writes them. Owned and called by one thread.
class SpotWriter {
 public:
  virtual ~SpotWriter() = default;
  SpotWriter() = default;
  SpotWriter(const SpotWriter&) = delete;
  SpotWriter& operator=(const SpotWriter&) = delete;
  /// @throws OutputError
  virtual void write(std::span<const Spot> spots) = 0;
  /// Makes the files complete, still under their temporary names. @throws OutputError
  virtual void finish() = 0;
};

}  // namespace driftd::tools
