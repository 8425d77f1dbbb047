// SPDX-License-Identifier: MIT
#include "fitter/options.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "fitter/dispatch.hpp"

namespace driftd::fitter {

namespace {

/// The fewest digits that give the number back: as a float where it is one.
std::string in_digits(double value) {
  std::array<char, 32> text{};
  const auto narrow = static_cast<float>(value);
  const auto written = narrow == value ? std::to_chars(text.begin(), text.end(), narrow)
                                       : std::to_chars(text.begin(), text.end(), value);
  return {text.data(), written.ptr};
}

}  // namespace

void check_range(const char* name, double value, double low, double high) {
  if (value >= low && value <= high) return;  // false for NaN
  throw FitterError(std::string("fitter: ") + name + " is " + in_digits(value) + ", allowed are " +
                    in_digits(low) + " to " + in_digits(high));
}

namespace {

bool unbounded(const Bounds& bounds) {
  for (int j = 0; j < kParameters; ++j)
    if (bounds.lower[j] > -Bounds::kUnbounded || bounds.upper[j] < Bounds::kUnbounded) return false;
  return true;
}

const char* name_of(Parameter p) {
  static constexpr std::array kNames = {"x", "y", "sigma_x", "sigma_y", "amplitude", "background"};
  return kNames[static_cast<std::size_t>(p)];
}

}  // namespace

void check_model_has(Model model, unsigned fixed, const Bounds& bounds) {
  for (int j = 0; j < kParameters; ++j) {
    const auto p = static_cast<Parameter>(j);
    if ((bits_of(model) & bit(p)) != 0) continue;
    const bool bounded =
        bounds.lower[j] > -Bounds::kUnbounded || bounds.upper[j] < Bounds::kUnbounded;
    if ((fixed & bit(p)) != 0 || bounded)
      throw FitterError(std::string("fitter: ") + name_of(p) + " is " +
                        (bounded ? "bounded" : "fixed") +
                        ", and the model has none: what is called sigma_x is its only width");
  }
}

namespace {

/// The search, as against what ends it.
void check_search(const FitOptions& options) {
  if (options.model > kLastModel) throw FitterError("fitter: unknown model");
  if (options.estimator > kLastEstimator) throw FitterError("fitter: unknown estimator");
  const int bits = options.model == Model::RotatedGaussian ? kParameters + 1 : kParameters;
  if ((options.fixed >> bits) != 0)
    throw FitterError("fitter: fixed is " + std::to_string(options.fixed) +
                      ", allowed are bits 0 to " + std::to_string(bits - 1) + " with this model");
  for (int j = 0; j < kParameters; ++j) {
    const float lower = options.bounds.lower[j];
    const float upper = options.bounds.upper[j];
    if (!(lower <= upper))  // true for NaN
      throw FitterError("fitter: bounds of parameter " + std::to_string(j) + " are " +
                        in_digits(lower) + " to " + in_digits(upper) +
                        ", allowed are a lower one and one not below it");
  }
  check_model_has(options.model, options.fixed, options.bounds);
  if (options.estimator == Estimator::ImplicitLeastSquares &&
      (options.fixed != 0 || !unbounded(options.bounds)))
    throw FitterError(
        "fitter: implicit least squares neither fixes nor bounds parameters; least squares, which "
        "has the same minimum, does");
}

}  // namespace

bool needs_variances(Estimator estimator) {
  const PixelNoise mapped = {estimator, true, 1, 0, 1};
  return with_weights<float>(mapped, [](const auto& weighing, auto) { return weighing.kNeedsMap; });
}

void check_roi_px(int roi_px) {
  check_range("roi_px", roi_px, kMinRoiPx, kMaxRoiPx);
}

void check_options(const FitOptions& options) {
  constexpr double kHuge = std::numeric_limits<float>::max();
  check_search(options);
  check_range("max_iterations", options.max_iterations, 1, 255);
  check_range("lambda_start", options.lambda_start, 1e-9, 1e9);
  check_range("lambda_max", options.lambda_max, options.lambda_start, 1e9);
  check_range("min_chi_square", options.min_chi_square, 0, kHuge);
  check_range("min_decrease", options.min_decrease, 0, 1);
  check_range("min_step", options.min_step, 0, 1);
  if (!(options.saturation_adu > 0))  // true for NaN
    throw FitterError("fitter: saturation_adu is " + in_digits(options.saturation_adu) +
                      ", allowed is more than 0");
  if (std::isnan(options.min_background_adu))
    throw FitterError("fitter: min_background_adu is not a number");
  check_range("noise.read_noise_e", options.noise.read_noise_e, 0, kHuge);
  check_range("noise.gain_e_per_adu", options.noise.gain_e_per_adu, -kHuge, kHuge);
  check_range("noise.offset_adu", options.noise.offset_adu, -kHuge, kHuge);
}

std::size_t bytes_per_pixel(PixelType type) {
  switch (type) {
    case PixelType::U8:
      return 1;
    case PixelType::U16:
      return 2;
    case PixelType::F32:
      return 4;
  }
  throw FitterError("fitter: unknown pixel type");
}

Batch part_of(const Batch& all, std::size_t first, std::size_t count) {
  const auto side = static_cast<std::size_t>(all.roi_px);
  const auto skip = [first](auto*& of_all, std::size_t each = 1) {
    if (of_all != nullptr) of_all += first * each;
  };
  Batch part = all;
  part.count = count;
  const auto* pixels = static_cast<const unsigned char*>(all.pixels);
  skip(pixels, side * side * bytes_per_pixel(all.type));
  part.pixels = pixels;
  skip(part.starts);
  skip(part.levels);
  skip(part.variances, side * side);
  skip(part.bounds);
  skip(part.places, side * side);
  skip(part.angles_rad);
  skip(part.angle_bounds);
  skip(part.details);
  return part;
}

void check_live_options(const FitOptions& options) {
  check_options(options);
  if (!is_separable(options.model))
    throw FitterError("fitter: this model is fitted in batches only");
  if (needs_variances(options.estimator))
    throw FitterError(
        "fitter: weighted least squares needs the variance of each pixel, which only a "
        "batch has");
  if (options.fixed != 0)
    throw FitterError("fitter: parameters can be fixed in batches only; bounds hold here too");
}

void check_batch(const Batch& batch, const FitOptions& options, std::size_t results) {
  check_roi_px(batch.roi_px);
  check_options(options);
  if (batch.count > 0 && batch.pixels == nullptr) throw FitterError("fitter: no pixels given");
  constexpr unsigned kLevels = bit(Parameter::Amplitude) | bit(Parameter::Background);
  if ((options.fixed & kLevels) != 0 && batch.levels == nullptr)
    throw FitterError("fitter: a fixed amplitude or background needs start levels");
  if ((options.fixed & ~kLevels) != 0 && batch.starts == nullptr)
    throw FitterError("fitter: a fixed position or width needs start values");
  if (needs_variances(options.estimator) && batch.variances == nullptr)
    throw FitterError("fitter: weighted least squares needs the variances of the pixels");
  if (batch.variances != nullptr && !knows_its_variances(options.estimator))
    throw FitterError(
        "fitter: variances of the pixels are given, which this estimator does not use; weighted "
        "least squares and the Poisson likelihood do");
  if (batch.places != nullptr && options.model != Model::LineGaussian)
    throw FitterError("fitter: places of the pixels are given, which only a line has");
  if (options.estimator == Estimator::ImplicitLeastSquares &&
      (batch.bounds != nullptr || batch.angle_bounds != nullptr))
    throw FitterError("fitter: implicit least squares takes no bounds");
  if (options.model != Model::RotatedGaussian &&
      (batch.angles_rad != nullptr || batch.angle_bounds != nullptr))
    throw FitterError("fitter: angles are given, which only the rotated model has");
  if (batch.angles_rad != nullptr && batch.starts == nullptr)
    throw FitterError("fitter: an angle to start from needs the other start values");
  if (options.model == Model::LineGaussian && (options.spots_only || batch.starts == nullptr))
    throw FitterError("fitter: a line needs start values, and is never a spot");
  if (results != batch.count) {
    throw FitterError("fitter: " + std::to_string(batch.count) + " ROIs but room for " +
                      std::to_string(results) + " results");
  }
}

}  // namespace driftd::fitter
