// SPDX-License-Identifier: MIT
// The line of variance over mean that photons make: from the noise of pixels in tiles and blocks
// (noise_blocks.hpp), by classes of pixels of similar brightness, robustly, with what changed
// otherwise left out. A part of measure_light(); one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "clients/driftctl/camera/noise_blocks.hpp"
#include "clients/driftctl/camera/photon_transfer.hpp"

namespace driftd::clients {

/// Variance before rounding: intercept + slope * mean.
struct VarianceLine {
  double intercept = 0, slope = 0;
  double at(double unit, double light) const { return intercept * unit + slope * light; }
};

class TransferLine {
 public:
  static constexpr std::size_t kGroups = 16;  ///< of tiles, left out in turn for the uncertainty

  /// @param dark  may be null; both have to outlive this
  TransferLine(const NoiseBlocks& noise, const DarkResult* dark, double step,
               double saturation_adu);

  /// @throws CannotCalibrate where there is no line
  void run();

  const VarianceLine& line() const noexcept { return line_; }
  double brightest_adu() const noexcept { return brightest_adu_; }
  double disturbed_share() const noexcept { return disturbed_share_; }

  /// Its uncertainty, from leaving out each group of tiles in turn (jackknife).
  VarianceLine sd() const;

  /// Mean and variance of each class that the line was fitted to.
  std::vector<TransferPoint> curve() const;

 private:
  /// Averages over a class of pixels, of one group of tiles or of all.
  struct Sums {
    double n = 0, mean = 0, variance = 0, unit = 0, light = 0;
    double weight2 = 0;  ///< sum of (predicted variance)^2 / degrees of freedom, times 2
    void add(const Sums& o, double sign) {
      n += sign * o.n;
      mean += sign * o.mean;
      variance += sign * o.variance;
      unit += sign * o.unit;
      light += sign * o.light;
      weight2 += sign * o.weight2;
    }
  };
  using Classes = std::vector<Sums>;

  /// A pixel over all blocks that count.
  struct Pixel {
    double mean = 0, variance = 0, unit = 0, light = 0;
    double neighbours = 0;  ///< mean of the eight around it
    int blocks = 0;
    std::size_t group = 0;
  };

  /// What rounding adds to the variance of pixels of that mean.
  double rounding_of(double mean) const;
  bool dithered(double mean) const;
  bool counts(const Sums& sums) const;

  /// Sums each pixel over its blocks. @param by_median  before it is known which blocks count
  void gather(bool by_median);

  static void add_neighbours(std::vector<Pixel>& tile);

  /// Classes by the brightness of a pixel's neighbours: its own would put a pixel with a high
  /// offset among brighter ones.
  void divide();

  std::size_t class_of(const Pixel& p) const;

  /// Sums over the pixels of each class and group. @param first  over groups, too, and over all
  /// pixels: there is no line yet to judge them by
  Classes sum_classes(bool first);

  static Classes total(const Classes& by_group);

  /// Weighted line through the classes, and the dark where it is known; classes that stand far off
  /// count less (Huber). The weights and the rounding follow the line.
  VarianceLine solve_robustly(const Classes& classes) const;

  void leave_out_disturbed();

  const NoiseBlocks& noise_;
  const DarkResult* dark_;
  double step_, saturation_adu_;
  std::vector<std::vector<bool>> taken_;  ///< by tile and block
  std::vector<Pixel> pixels_;
  std::vector<double> edges_;
  Classes classes_;  ///< class * kGroups + group
  VarianceLine line_;
  double pattern_adu_ = 0, dimmest_adu_ = 0, brightest_adu_ = 0, disturbed_share_ = 0;
};

}  // namespace driftd::clients
