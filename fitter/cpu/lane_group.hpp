// SPDX-License-Identifier: MIT
// The ROIs of a job that lie side by side in lanes, and what is known of each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "fitter/cpu/kernel.hpp"
#include "fitter/cpu/lane_sums.hpp"
#include "fitter/fit_details.hpp"
#include "fitter/fit_values.hpp"
#include "fitter/pixel_type.hpp"

HWY_BEFORE_NAMESPACE();
namespace driftd::fitter::cpu::HWY_NAMESPACE {

/// ROIs side by side, one a lane; the lanes beyond the last ROI fit that one again.
class LaneGroup {
  using Real = LaneSums::Real;
  static constexpr int kLanes = LaneSums::kLanes;

 public:
  /// Numbers from `first` on.
  LaneGroup(const FitJob& job, std::size_t first)
      : job_(job), count_(std::min(job.count - first, std::size_t{kLanes})) {
    for (std::size_t k = 0; k < std::size_t{kLanes}; ++k)
      index_[k] = std::min(first + k, job.count - 1);
  }
  /// @param numbers  at least 1; the first ones, at most kLanes
  LaneGroup(const FitJob& job, std::span<const std::size_t> numbers)
      : job_(job), count_(std::min(numbers.size(), std::size_t{kLanes})) {
    for (std::size_t k = 0; k < std::size_t{kLanes}; ++k)
      index_[k] = numbers[std::min(k, count_ - 1)];
  }

  std::size_t count() const { return count_; }

  template <class Pixels>
  void load(Pixels& pixels) const {
    with_pixels(job_.type, job_.pixels, [&]<class T>(const T*) { load_as<T>(pixels); });
  }

  template <class Pixels>
  void load_map(Pixels& pixels) const {
    const float* maps[kLanes];
    find(job_.variances, maps);
    pixels.load_map(maps, *job_.options);
  }

  /// Loads where the pixels lie on a line, if that is given.
  template <class Pixels>
  void load_places(Pixels& pixels) const {
    if (job_.places == nullptr) return;
    const float* places[kLanes];
    find(job_.places, places);
    pixels.load_places(places);
  }

  StartOf<Real> start() const {
    if (job_.starts == nullptr) return {};
    return {gathered([&](std::size_t i) { return job_.starts[i].x_px; }),
            gathered([&](std::size_t i) { return job_.starts[i].y_px; }),
            gathered([&](std::size_t i) { return job_.starts[i].sigma_x_px; }),
            gathered([&](std::size_t i) { return job_.starts[i].sigma_y_px; })};
  }

  StartLevelsOf<Real> levels() const {
    return {gathered([&](std::size_t i) { return job_.levels[i].amplitude_adu; }),
            gathered([&](std::size_t i) { return job_.levels[i].background_adu; })};
  }

  BoundsOf<Real> bounds() const {
    BoundsOf<Real> b;
    for (int j = 0; j < kParameters; ++j) {
      b.lower[j] = gathered([&](std::size_t i) { return job_.bounds[i].lower[j]; });
      b.upper[j] = gathered([&](std::size_t i) { return job_.bounds[i].upper[j]; });
    }
    return b;
  }

  /// The map and the bounds, as far as there are.
  /// @param memory  of the bounds, which the input then refers to
  template <class Pixels>
  void add_limits(Pixels& pixels, BoundsOf<Real>& memory, FitInputOf<Real>& input) const {
    if (job_.bounds != nullptr) {
      memory = bounds();
      input.bounds = &memory;
    }
    if (job_.variances != nullptr) {
      load_map(pixels);
      input.variances = job_.variances;
    }
  }

  Real angles() const {
    return gathered([&](std::size_t i) { return job_.angles_rad[i]; });
  }

  AngleBoundsOf<Real> angle_bounds() const {
    return {gathered([&](std::size_t i) { return job_.angle_bounds[i].lower_rad; }),
            gathered([&](std::size_t i) { return job_.angle_bounds[i].upper_rad; })};
  }

  /// Calls action(lane, number of the ROI), for each ROI once.
  template <class Action>
  void for_each_roi(const Action& action) const {
    for (std::size_t k = 0; k < count_; ++k) action(k, index_[k]);
  }

  /// The results that are there.
  LocalizationOf<Real> results() const {
    alignas(64) float of[kLocalizationNumbers][kLanes];
    for (int k = 0; k < kLanes; ++k) {
      LocalizationOf<float> one = numbers_of(job_.results[index_[k]]);
      int row = 0;
      for_each_number([&](const float& number) { of[row++][k] = number; }, one);
    }
    LocalizationOf<Real> l;
    int row = 0;
    for_each_number([&](Real& number) { number = Real::load(of[row++]); }, l);
    return l;
  }

  void store(const LocalizationOf<Real>& l) const {
    alignas(64) float of[kLocalizationNumbers][kLanes];
    int row = 0;
    for_each_number([&](const Real& number) { number.store(of[row++]); }, l);
    for_each_roi([&](std::size_t lane, std::size_t i) {
      LocalizationOf<float> one;
      row = 0;
      for_each_number([&](float& number) { number = of[row++][lane]; }, one);
      job_.results[i] = as_localization(one);
    });
  }

  /// @pre the results are stored
  template <int n>
  void store_details(const SymmetricMatrix<n, Real>& covariance) const {
    alignas(64) float of[std::size_t{n}][std::size_t{n}][kLanes];
    for (int j = 0; j < n; ++j)
      for (int k = 0; k <= j; ++k) covariance(j, k).store(of[j][k]);
    for_each_roi([&](std::size_t lane, std::size_t i) {
      SymmetricMatrix<n> one;
      for (int j = 0; j < n; ++j)
        for (int k = 0; k <= j; ++k) one(j, k) = of[j][k][lane];
      set_details(one, job_.results[i], job_.details[i]);
    });
  }

 private:
  template <class T, class Pixels>
  void load_as(Pixels& pixels) const {
    const T* rois[kLanes];
    for (int k = 0; k < kLanes; ++k)
      rois[k] = reinterpret_cast<const T*>(static_cast<const unsigned char*>(job_.pixels) +
                                           index_[k] * job_.stride_bytes);
    pixels.load(rois, job_.options->saturation_adu);
  }

  /// What is of each pixel.
  void find(const float* of_all, const float* (&of_roi)[kLanes]) const {
    const auto side = static_cast<std::size_t>(job_.roi_px);
    for (int k = 0; k < kLanes; ++k) of_roi[k] = of_all + index_[k] * side * side;
  }

  template <class OfRoi>
  Real gathered(const OfRoi& of_roi) const {
    alignas(64) float values[kLanes];
    for (int k = 0; k < kLanes; ++k) values[k] = of_roi(index_[k]);
    return Real::load(values);
  }

  const FitJob& job_;
  std::size_t count_;
  std::size_t index_[kLanes];
};

}  // namespace driftd::fitter::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
