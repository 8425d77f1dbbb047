// SPDX-License-Identifier: MIT
// Drift, vibration and measurement noise as an autoregressive process: what a frame shows beyond
// what the frames before it let one expect is white. The same linear operation on the measured
// motion and on the modelled one turns a fit in coloured noise into ordinary least squares. Frames
// that are missing or do not count are passed over: their place is taken by the expectation. Used
// by the calibration of the stage; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace driftd::control {

/// What a slot of the time grid is good for.
enum class SlotUse : std::uint8_t {
  Missing,  ///< no frame, or one that does not count
  History,  ///< known, but too little is known before it: it gives no equation
  Counts,
};

/// Frames on a grid of equal periods; a value an axis belongs to each slot.
struct FrameSlots {
  double period_s = 0;
  std::vector<SlotUse> use;
  std::vector<std::size_t> frame;  ///< [slot]: index of the sample; meaningless when missing
  std::size_t present() const noexcept;
};
/// Puts frames on a grid, a slot for each distance of neighbours. Empty when there are too few.
FrameSlots slots_of(const std::vector<double>& middle_s);
/// Marks what is good for an autoregression of `order`: not the first frames, and not those after a
/// gap over which nothing can be expected.
void mark_history(FrameSlots& slots, std::size_t order);

class Whitening {
 public:
  /// Fits `order` coefficients to the slots from `begin` to `end`.
  void fit(const std::vector<double>& noise, const std::vector<SlotUse>& use, std::size_t order,
           std::size_t begin, std::size_t end);
  /// Standard deviation of what is left.
  double sd() const noexcept { return sd_; }
  void set_sd(double sd) noexcept { sd_ = sd; }
  std::size_t order() const noexcept { return coefficients_.size(); }
  /// The whitened values in units of sd(); 0 where a slot gives no equation. Linear in `values`.
  std::vector<double> apply(const std::vector<double>& values,
                            const std::vector<SlotUse>& use) const;

 private:
  /// `values` with expectations where slots are missing, and what is left where they count.
  void pass(std::vector<double>& values, const std::vector<SlotUse>& use,
            std::vector<double>& left) const;

  std::vector<double> coefficients_;  ///< [0]: of the slot before
  double sd_ = 1;
};

}  // namespace driftd::control
