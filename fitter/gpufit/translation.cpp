// SPDX-License-Identifier: MIT
#include "fitter/gpufit/translation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "fitter/cuda_fitter.hpp"
#include "fitter/gpufit/gpufit.h"

namespace driftd::fitter::drop_in {
namespace {

constexpr int kMostIterations = 255;
/// Ends fits whose chi-square is at its rounding error, where no decrease is small beside it: a
/// step that a float hardly resolves.
constexpr float kSmallestStep = 1e-5f;

constexpr float kLargest = std::numeric_limits<float>::max();

using enum Parameter;
constexpr Parameter kLine[] = {Amplitude, X, SigmaX, Background};
constexpr Parameter kCircular[] = {Amplitude, X, Y, SigmaX, Background};
constexpr Parameter kElliptical[] = {Amplitude, X, Y, SigmaX, SigmaY, Background};
constexpr Parameter kRotated[] = {Amplitude, X, Y, SigmaX, SigmaY, Background, kRotation};
constexpr Parameter kStraight[] = {Background, Amplitude};
constexpr ModelRow kModels[] = {
    {GAUSS_1D, "GAUSS_1D", Model::LineGaussian, kLine},
    {GAUSS_2D, "GAUSS_2D", Model::CircularGaussian, kCircular},
    {GAUSS_2D_ELLIPTIC, "GAUSS_2D_ELLIPTIC", Model::EllipticalGaussian, kElliptical},
    {GAUSS_2D_ROTATED, "GAUSS_2D_ROTATED", Model::RotatedGaussian, kRotated},
    {CAUCHY_2D_ELLIPTIC, "CAUCHY_2D_ELLIPTIC", Model::EllipticalCauchy, kElliptical},
    {LINEAR_1D, "LINEAR_1D", std::nullopt, kStraight},
};

void require(bool good, const char* text) {
  if (!good) throw FitterError(std::string("gpufit: ") + text);
}

std::size_t pixels_of(int side) {
  return static_cast<std::size_t>(side) * static_cast<std::size_t>(side);
}

/// A model with a negative width is the same as with a positive one.
void set_start(Parameter which, float value, Start& start, StartLevels& levels) {
  if (which == kRotation) return;
  switch (which) {
    case X:
      start.x_px = value;
      break;
    case Y:
      start.y_px = value;
      break;
    case SigmaX:
      start.sigma_x_px = start.sigma_y_px = std::fabs(value);
      break;
    case SigmaY:
      start.sigma_y_px = std::fabs(value);
      break;
    case Amplitude:
      levels.amplitude_adu = value;
      break;
    case Background:
      levels.background_adu = value;
      break;
  }
}

/// @param details  null but of the rotated model
float value_of(Parameter which, const Localization& l, const FitDetails* details) {
  if (which == kRotation) return details != nullptr ? -details->angle_rad : 0.0f;
  switch (which) {
    case X:
      return l.x_px;
    case Y:
      return l.y_px;
    case SigmaX:
      return l.sigma_x_px;
    case SigmaY:
      return l.sigma_y_px;
    case Amplitude:
      return l.amplitude_adu;
    case Background:
      return l.background_adu;
  }
  return std::numeric_limits<float>::quiet_NaN();
}

int state_of(FitStatus status) {
  if (converged(status)) return CONVERGED;
  return status == FitStatus::BadInput ? SINGULAR_HESSIAN : MAX_ITERATION;
}

}  // namespace

const ModelRow& row_of(int model_id) {
  std::string fitted;
  for (const ModelRow& row : kModels) {
    if (row.id == model_id) return row;
    fitted += (fitted.empty() ? "" : ", ") + std::to_string(row.id) + " (" + row.name + ")";
  }
  throw FitterError("gpufit: model_id is " + std::to_string(model_id) + ", fitted are " + fitted);
}

bool is_of_one_dimension(int model_id) {
  return model_id == GAUSS_1D || model_id == LINEAR_1D;
}

const float* places_of(const Call& call, std::size_t fit) {
  if (call.user_info == nullptr || call.user_info_size == 0) return nullptr;
  const bool shared = call.user_info_size == call.n_points * sizeof(float);
  return reinterpret_cast<const float*>(call.user_info) + (shared ? 0 : fit * call.n_points);
}

int side_of(const Call& call) {
  const std::size_t n_points = call.n_points;
  if (call.model_id == LINEAR_1D) {  // has none
    if (n_points < 2)
      throw FitterError("gpufit: n_points is " + std::to_string(n_points) +
                        ", a straight line is fitted to 2 points or more");
    return kMinRoiPx;
  }
  if (is_of_one_dimension(call.model_id)) {
    constexpr std::size_t kFewest = 5, kMost = std::size_t{kMaxRoiPx} * kMaxRoiPx;
    if (n_points < kFewest || n_points > kMost)
      throw FitterError("gpufit: n_points is " + std::to_string(n_points) +
                        ", fitted in one dimension are 5 to 4096 points");
    const double root = std::ceil(std::sqrt(static_cast<double>(n_points)));
    return std::max(static_cast<int>(root), kMinRoiPx);
  }
  const int side = static_cast<int>(std::lround(std::sqrt(static_cast<double>(n_points))));
  if (side < kMinRoiPx || side > kMaxRoiPx || pixels_of(side) != n_points)
    throw FitterError("gpufit: n_points is " + std::to_string(n_points) +
                      ", fitted are square images of 4x4 to 64x64 points");
  return side;
}

FitOptions options_of(const Call& call) {
  const ModelRow& row = row_of(call.model_id);
  if (call.estimator_id != LSE && call.estimator_id != MLE)
    throw FitterError("gpufit: estimator_id is " + std::to_string(call.estimator_id) +
                      ", allowed are 0 (LSE) and 1 (MLE)");
  require(!std::isnan(call.tolerance), "tolerance is not a number");
  if (call.max_n_iterations < 1)
    throw FitterError("gpufit: max_n_iterations is " + std::to_string(call.max_n_iterations) +
                      ", allowed is 1 or more");
  FitOptions options;
  options.model = row.model.value_or(options.model);
  const bool weighted = call.weights != nullptr || pixels_of(side_of(call)) > call.n_points;
  options.estimator = call.estimator_id == MLE ? Estimator::PoissonLikelihood
                      : weighted               ? Estimator::WeightedLeastSquares
                                               : Estimator::LeastSquares;
  for (std::size_t j = 0; j < row.order.size(); ++j)
    if (call.parameters_to_fit[j] == 0)
      options.fixed = static_cast<std::uint8_t>(options.fixed | bit(row.order[j]));
  if (options.model == Model::LineGaussian) {  // the ROI may have more pixels
    const auto points = static_cast<float>(call.n_points);
    options.bounds.upper[static_cast<int>(X)] = points - 0.5f;
    options.bounds.upper[static_cast<int>(SigmaX)] = 0.5f * points;
  }
  options.spots_only = false;
  options.max_iterations = std::min(call.max_n_iterations, kMostIterations);
  options.min_decrease = std::clamp(call.tolerance, 0.0f, 1.0f);
  options.min_step = kSmallestStep;
  return options;
}

void set_unit(const Call& call, DataIn data, FitOptions& options) {
  if (call.estimator_id == LSE && call.weights != nullptr) return;  // chi-square has no unit
  constexpr float kRounding = 2e-7f, kNoCounts = 2, kBrightest = 100;
  const std::size_t fits =
      std::min(data == DataIn::Device ? std::size_t{1} : std::size_t{16}, call.n_fits);
  std::vector<float> points(call.n_points);
  float largest = 0;
  for (std::size_t k = 0; k < fits; ++k) {
    const float* const from = call.data + k * call.n_fits / fits * call.n_points;
    if (data == DataIn::Device)
      cuda_copy(points.data(), from, points.size() * sizeof(float));
    else
      std::copy_n(from, points.size(), points.begin());
    for (const float point : points)
      if (std::isfinite(point)) largest = std::max(largest, std::fabs(point));
  }
  if (!(largest > std::numeric_limits<float>::min())) return;
  if (call.estimator_id == MLE) {
    if (largest <= kNoCounts) options.noise.gain_e_per_adu = kBrightest / largest;
  } else {
    const float rounded = kRounding * largest;
    options.min_chi_square =
        std::min(static_cast<float>(call.n_points) * rounded * rounded, kLargest);
  }
}

float Block::Scale::to(Parameter which, float value) const {
  if (which == X) return static_cast<float>((static_cast<double>(value) - first) / apart);
  return which == SigmaX ? static_cast<float>(static_cast<double>(value) / apart) : value;
}

float Block::Scale::from(Parameter which, float value) const {
  if (which == X) return static_cast<float>(static_cast<double>(value) * apart + first);
  return which == SigmaX ? static_cast<float>(static_cast<double>(value) * apart) : value;
}

Block::Block(const Call& call, const FitOptions& options, Arrays& arrays)
    : call_(call),
      options_(options),
      order_(row_of(call.model_id).order),
      side_(side_of(call)),
      roi_points_(pixels_of(side_)),
      a_(arrays) {}

Batch Block::translate(std::size_t first, std::size_t count) {
  const std::size_t roi = roi_points_;
  const bool filled_up = roi > call_.n_points;
  const bool mapped = filled_up || options_.estimator == Estimator::WeightedLeastSquares;
  const bool placed = places_of(call_, 0) != nullptr;
  const bool bounded = is_bounded();
  const bool rotated = is_rotated();
  first_ = first;
  a_.angles.resize(rotated ? count : 0);
  a_.angle_bounds.resize(rotated && bounds_axes() ? count : 0);
  a_.details.resize(rotated ? count : 0);
  a_.starts.resize(count);
  a_.levels.resize(count);
  if (bounded) a_.bounds.resize(count);
  if (mapped) a_.variances.resize(count * roi);
  if (filled_up) a_.pixels.resize(count * roi);
  if (placed) a_.places.resize(count * roi);
  a_.results.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    translate_start(first + i, a_.starts[i], a_.levels[i]);
    if (bounded) a_.bounds[i] = bounds_of(first + i);
    if (rotated) translate_angle(first + i, i);
    if (mapped) set_variances(first + i, &a_.variances[i * roi], roi);
    if (filled_up) fill_up(call_.data + (first + i) * call_.n_points, &a_.pixels[i * roi], roi);
    if (placed) set_places(first + i, &a_.places[i * roi], roi);
  }
  return {.pixels = filled_up ? a_.pixels.data() : call_.data + first * call_.n_points,
          .type = PixelType::F32,
          .roi_px = side_,
          .count = count,
          .starts = a_.starts.data(),
          .levels = a_.levels.data(),
          .variances = mapped ? a_.variances.data() : nullptr,
          .bounds = bounded ? a_.bounds.data() : nullptr,
          .places = placed ? a_.places.data() : nullptr,
          .bounds_widths = bounds_axes(),
          .angles_rad = rotated ? a_.angles.data() : nullptr,
          .angle_bounds = a_.angle_bounds.empty() ? nullptr : a_.angle_bounds.data(),
          .details = rotated ? a_.details.data() : nullptr};
}

void Block::write() const {
  for (std::size_t i = 0; i < a_.results.size(); ++i)
    write(first_ + i, a_.results[i], is_rotated() ? &a_.details[i] : nullptr);
}

/// Places that are no numbers, or all one, make a start that is none.
Block::Scale Block::scale_of(std::size_t fit) const {
  const float* const places = places_of(call_, fit);
  if (places == nullptr) return {};
  const auto [lowest, highest] = std::minmax_element(places, places + call_.n_points);
  Scale scale = {static_cast<double>(*lowest),
                 (static_cast<double>(*highest) - static_cast<double>(*lowest)) /
                     static_cast<double>(call_.n_points - 1)};
  const auto is_number = [](float place) { return std::isfinite(place); };
  if (!std::all_of(places, places + call_.n_points, is_number) || !(scale.apart > 0))
    scale.first = std::numeric_limits<double>::quiet_NaN();
  return scale;
}

/// Pixels that are no points are not there.
void Block::set_variances(std::size_t fit, float* variances, std::size_t roi) const {
  const bool likelihood = options_.estimator == Estimator::PoissonLikelihood;
  const float* const weights =
      likelihood || call_.weights == nullptr ? nullptr : call_.weights + fit * call_.n_points;
  for (std::size_t k = 0; k < call_.n_points; ++k)
    variances[k] = weights != nullptr ? 1.0f / weights[k] : likelihood ? 0.0f : 1.0f;
  std::fill(variances + call_.n_points, variances + roi, std::numeric_limits<float>::infinity());
}

void Block::fill_up(const float* of_points, float* of_roi, std::size_t roi) const {
  std::copy_n(of_points, call_.n_points, of_roi);
  std::fill(of_roi + call_.n_points, of_roi + roi, of_points[0]);
}

void Block::set_places(std::size_t fit, float* places, std::size_t roi) const {
  fill_up(places_of(call_, fit), places, roi);
  const Scale scale = scale_of(fit);
  for (std::size_t k = 0; k < roi; ++k) places[k] = scale.to(X, places[k]);
}

/// Whether parameter j has bounds.
bool Block::is_bounded(std::size_t j) const {
  return call_.constraints != nullptr && call_.constraint_types[j] != NONE &&
         call_.parameters_to_fit[j] != 0;
}

bool Block::is_bounded() const {
  bool is = false;
  for (std::size_t j = 0; j < order_.size(); ++j) is = is || is_bounded(j);
  return is;
}

/// Whether a width or the rotation has.
bool Block::bounds_axes() const {
  bool is = false;
  for (std::size_t j = 0; j < order_.size(); ++j) {
    const Parameter p = order_[j];
    const bool of_axes = p == SigmaX || p == SigmaY || p == kRotation;
    is = is || (of_axes && is_bounded(j));
  }
  return is;
}

/// Into place `i` of the arrays. The rotation is the last parameter.
void Block::translate_angle(std::size_t fit, std::size_t i) {
  const std::size_t last = order_.size() - 1;
  a_.angles[i] = -call_.initial_parameters[fit * order_.size() + last];
  if (a_.angle_bounds.empty()) return;
  AngleBounds& bounds = a_.angle_bounds[i] = {};
  if (call_.parameters_to_fit[last] == 0) return;
  const float* const pair = call_.constraints + (fit * order_.size() + last) * 2;
  const int type = call_.constraint_types[last];
  if ((type & LOWER) != 0) bounds.upper_rad = -pair[LOWER_BOUND];
  if ((type & UPPER) != 0) bounds.lower_rad = -pair[UPPER_BOUND];
}

void Block::translate_start(std::size_t fit, Start& start, StartLevels& levels) const {
  const float* value = call_.initial_parameters + fit * order_.size();
  const Scale scale = scale_of(fit);
  start = {};
  for (const Parameter p : order_) set_start(p, scale.to(p, *value++), start, levels);
}

Bounds Block::bounds_of(std::size_t fit) const {
  Bounds bounds;
  const Scale scale = scale_of(fit);
  const float* pair = call_.constraints + fit * order_.size() * 2;
  for (std::size_t j = 0; j < order_.size(); ++j, pair += 2) {
    if (call_.parameters_to_fit[j] == 0 || order_[j] == kRotation) continue;
    const auto place = static_cast<std::size_t>(order_[j]);
    const int type = call_.constraint_types[j];
    if ((type & LOWER) != 0) bounds.lower[place] = scale.to(order_[j], pair[LOWER_BOUND]);
    if ((type & UPPER) != 0) bounds.upper[place] = scale.to(order_[j], pair[UPPER_BOUND]);
  }
  return bounds;
}

void Block::write(std::size_t fit, const Localization& l, const FitDetails* details) const {
  const float gain = options_.noise.gain_e_per_adu;
  const Scale scale = scale_of(fit);
  call_.output_states[fit] = state_of(l.status);
  call_.output_chi_squares[fit] = gain > 0 ? l.chi_square / gain : l.chi_square;
  call_.output_n_iterations[fit] = l.iterations;
  for (std::size_t j = 0; j < order_.size(); ++j) {
    const std::size_t place = fit * order_.size() + j;
    const bool kept = l.status == FitStatus::BadInput || call_.parameters_to_fit[j] == 0;
    call_.output_parameters[place] = kept ? call_.initial_parameters[place]
                                          : scale.from(order_[j], value_of(order_[j], l, details));
  }
}

}  // namespace driftd::fitter::drop_in
