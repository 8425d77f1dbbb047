// SPDX-License-Identifier: MIT
// What a call of Gpufit's interface means to the fitter: its model, options and bounds, some fits
// at a time as a batch in arrays of its own, and the batch's results as Gpufit's. Owned and called
// by one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "fitter/fitter.hpp"
#include "fitter/gpufit/call.hpp"

namespace driftd::fitter::drop_in {

/// Gpufit's rotation, which turns the other way than FitDetails::angle_rad.
constexpr auto kRotation = static_cast<Parameter>(kAngle);

/// A model of Gpufit's that is fitted.
struct ModelRow {
  int id;
  const char* name;
  std::optional<Model> model;        ///< none: a straight line, see straight_line.hpp
  std::span<const Parameter> order;  ///< its parameters in Gpufit's order
};

/// @throws FitterError for a model that is not fitted
const ModelRow& row_of(int model_id);

/// Whether its points lie on a line, and may have places of their own there.
bool is_of_one_dimension(int model_id);

/// Places of a fit's points on the line, or null: their numbers.
const float* places_of(const Call& call, std::size_t fit);

/// Side of the ROI that has the points. Points of one dimension fill it row after row, and may
/// leave the end empty. @throws FitterError
int side_of(const Call& call);

/// @throws FitterError
FitOptions options_of(const Call& call);

/// Sets what depends on the unit of the data, as some of them tell it: the chi-square that is their
/// rounding, and to a likelihood how many electrons the unit is: 1 of counts, as Gpufit has it,
/// more where no point counts anything, so that all would be dark.
void set_unit(const Call& call, DataIn data, FitOptions& options);

/// The fitter's own arrays for some fits of a call.
struct Arrays {
  std::vector<Start> starts;
  std::vector<StartLevels> levels;
  std::vector<Bounds> bounds;
  std::vector<float> variances;
  std::vector<float> pixels;  ///< where ROIs have more pixels than the fits have points
  std::vector<float> places;  ///< of these pixels, where points have their own
  std::vector<Localization> results;
  std::vector<float> angles;  ///< this and the next two: of the rotated model
  std::vector<AngleBounds> angle_bounds;
  std::vector<FitDetails> details;
};

/// Some fits of a call at a time, in arrays of their own.
class Block {
 public:
  Block(const Call& call, const FitOptions& options, Arrays& arrays);

  /// What the fitter is to fit.
  Batch translate(std::size_t first, std::size_t count);
  std::span<Localization> results() { return a_.results; }
  /// The results of what was translated last.
  void write() const;

 private:
  /// From places on a line to the numbers of points that are as far apart on the average.
  struct Scale {
    double first = 0, apart = 1;

    float to(Parameter which, float value) const;
    float from(Parameter which, float value) const;
  };

  Scale scale_of(std::size_t fit) const;
  void set_variances(std::size_t fit, float* variances, std::size_t roi) const;
  void fill_up(const float* of_points, float* of_roi, std::size_t roi) const;
  void set_places(std::size_t fit, float* places, std::size_t roi) const;
  bool is_rotated() const { return options_.model == Model::RotatedGaussian; }
  bool is_bounded(std::size_t j) const;
  bool is_bounded() const;
  bool bounds_axes() const;
  void translate_angle(std::size_t fit, std::size_t i);
  void translate_start(std::size_t fit, Start& start, StartLevels& levels) const;
  Bounds bounds_of(std::size_t fit) const;
  void write(std::size_t fit, const Localization& l, const FitDetails* details) const;

  const Call& call_;
  const FitOptions& options_;
  std::span<const Parameter> order_;
  int side_;
  std::size_t roi_points_;
  Arrays& a_;
  std::size_t first_ = 0;
};

}  // namespace driftd::fitter::drop_in
