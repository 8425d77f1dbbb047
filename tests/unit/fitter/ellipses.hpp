// SPDX-License-Identifier: MIT
// Images of ellipses in any direction, drawn from their formula in double precision, and fits of
// them with their details.
#pragma once

#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "fitter/fitter.hpp"
#include "support/catch.hpp"

namespace driftd::test {

using fitter::Batch;
using fitter::Estimator;
using fitter::FitDetails;
using fitter::FitOptions;
using fitter::Localization;
using fitter::Model;

constexpr double kPi = std::numbers::pi;

struct Ellipse {
  double x_px, y_px, sigma_x_px, sigma_y_px, angle_rad, amplitude, background;
};

/// An ellipse with the sine and the cosine of its angle.
class Shape {
 public:
  explicit Shape(const Ellipse& e) : e_(e), c_(std::cos(e.angle_rad)), s_(std::sin(e.angle_rad)) {}
  double operator()(double x, double y) const {
    const double u = x - e_.x_px, v = y - e_.y_px;
    const double along = (u * c_ + v * s_) / e_.sigma_x_px;
    const double beside = (v * c_ - u * s_) / e_.sigma_y_px;
    return e_.amplitude * std::exp(-0.5 * (along * along + beside * beside)) + e_.background;
  }

 private:
  Ellipse e_;
  double c_, s_;
};

/// @param integrated  over each pixel: by Gauss's three places along each axis, which for widths of
///                    0.7 pixels and more is right to 1e-4
inline std::vector<double> image(const Ellipse& e, int side, bool integrated = false) {
  const Shape shape(e);
  const double apart = std::sqrt(0.15);
  const std::array<double, 3> place = {-apart, 0, apart}, weight = {5.0 / 18, 8.0 / 18, 5.0 / 18};
  std::vector<double> pixels;
  for (int row = 0; row < side; ++row) {
    for (int c = 0; c < side; ++c) {
      double sum = integrated ? 0 : shape(c, row);
      for (std::size_t i = 0; integrated && i < 9; ++i)
        sum += weight[i % 3] * weight[i / 3] * shape(c + place[i % 3], row + place[i / 3]);
      pixels.push_back(sum);
    }
  }
  return pixels;
}

struct Fit {
  Localization l;
  FitDetails d;
};

inline std::vector<Fit> fit(Batch batch, const FitOptions& options, int threads = 1) {
  std::vector<Localization> results(batch.count);
  std::vector<FitDetails> details(batch.count);
  batch.details = details.data();
  fitter::fit_batch_cpu(batch, options, results, threads);
  std::vector<Fit> fits;
  for (std::size_t i = 0; i < batch.count; ++i) fits.push_back({results[i], details[i]});
  return fits;
}

inline FitOptions rotated(Estimator estimator) {
  FitOptions options;
  options.model = Model::RotatedGaussian;
  options.estimator = estimator;
  options.noise = {1, 0, 0};
  return options;
}

constexpr std::array kEstimators = {Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                                    Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood};

inline Estimator any_estimator() {
  return GENERATE(from_range(kEstimators.begin(), kEstimators.end()));
}

inline void is(float found, double truth, double error) {
  CHECK(static_cast<double>(found) == Approx(truth).epsilon(0).margin(error));
}

}  // namespace driftd::test
