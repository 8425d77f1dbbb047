// SPDX-License-Identifier: MIT
// What the fitter's mathematics must come to, the plain way and in double: images of a spot, their
// derivatives by differences, sums by loops over the pixels, and a back end made of such loops. It
// needs no kernel, so a test of it compiles in seconds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "fitter/pixel_sums.hpp"
#include "fitter/pixel_terms.hpp"
#include "fitter/poisson_likelihood.hpp"
#include "fitter/weighted_least_squares.hpp"

namespace driftd::test {

using Image = std::vector<double>;  ///< of a ROI, row-major

inline float f32(double v) {
  return static_cast<float>(v);
}

/// Sum over the pixels of a product of images.
template <class... Images>
double sum(const Image& a, const Images&... others) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += (a[i] * ... * others[i]);
  return total;
}

/// alpha a + beta
inline Image scaled(Image a, double alpha, double beta) {
  for (double& v : a) v = alpha * v + beta;
  return a;
}

inline Image difference(Image a, const Image& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

/// The spot's profile. @param p  x, y, sigma; or x, y, sigma_x, sigma_y
inline Image gaussian(const std::vector<double>& p, int side) {
  const double sigma_x = p[2], sigma_y = p.size() > 3 ? p[3] : p[2];
  Image f;
  for (int row = 0; row < side; ++row)
    for (int column = 0; column < side; ++column)
      f.push_back(std::exp(-0.5 * std::pow((column - p[0]) / sigma_x, 2) -
                           0.5 * std::pow((row - p[1]) / sigma_y, 2)));
  return f;
}

struct Derivatives {
  std::vector<Image> images;
  const Image& operator[](int j) const { return images[static_cast<std::size_t>(j)]; }
};

/// Of image_of(p) by each element of p, from differences.
template <class ImageOf>
Derivatives derivatives(const ImageOf& image_of, const std::vector<double>& p) {
  constexpr double kStep = 1e-4;
  Derivatives d;
  for (std::size_t j = 0; j < p.size(); ++j) {
    std::vector<double> above = p, below = p;
    above[j] += kStep;
    below[j] -= kStep;
    d.images.push_back(scaled(difference(image_of(above), image_of(below)), 0.5 / kStep, 0));
  }
  return d;
}

/// Something of every spatial frequency, other along x than along y; no spot.
inline Image uneven(int side) {
  Image g;
  for (int row = 0; row < side; ++row)
    for (int column = 0; column < side; ++column)
      g.push_back(20 * std::sin(1.7 * column + 0.4 * row * row) + 3 * column - 2 * row);
  return g;
}

/// Shape parameters that differ wherever they can, of a ROI of side 8.
template <class Model>
std::vector<double> some_shape() {
  std::vector<double> p = {3.3, 4.6, 1.2, 1.7};
  p.resize(Model::kShape);
  return p;
}

template <int n>
fitter::Vec<n> as_vec(const std::vector<double>& p) {
  fitter::Vec<n> v;
  for (int j = 0; j < n; ++j) v[j] = f32(p[static_cast<std::size_t>(j)]);
  return v;
}

/// A back end as pixel_sums.hpp describes it.
class ScalarRoi {
 public:
  static constexpr bool kKeepsMoments = false;
  /// @param variances  of the pixels, adu^2, or none
  ScalarRoi(const Image& pixels, int side, double pedestal, Image variances = {})
      : side_(side), pixels_(scaled(pixels, 1, -pedestal)), variances_(std::move(variances)) {
    summary_ = {f32(pedestal), f32(sum(pixels_)), f32(sum(pixels_, pixels_)), true};
  }

  int side() const { return side_; }
  const fitter::PixelSummary& summary() const { return summary_; }

  fitter::SmoothedExtremes smoothed_pixels() const { return smoothed(pixels_); }
  fitter::SmoothedExtremes smoothed_residuals(float alpha, float beta) const {
    return smoothed(residual_image(alpha, beta));
  }

  float count_above(float level) const {
    return static_cast<float>(
        std::count_if(pixels_.begin(), pixels_.end(), [&](double v) { return v > level; }));
  }

  fitter::ProfileMoments set_profile(const fitter::Profile& p) {
    x_ = axis(p.x_px, p.sigma_x_px);
    y_ = axis(p.y_px, p.sigma_y_px);
    f_.clear();
    u_.clear();
    v_.clear();
    for (std::size_t i = 0; i < pixels_.size(); ++i) {
      const std::size_t row = i / x_.f.size(), column = i % x_.f.size();
      f_.push_back(x_.f[column] * y_.f[row]);
      u_.push_back(x_.u[column]);
      v_.push_back(y_.u[row]);
    }
    fitter::ProfileMoments m;
    for (const auto& [to, from] : {std::pair{&m.x, &x_}, {&m.y, &y_}}) {
      moments(*from, 1, to->first);
      moments(*from, 2, to->second);
    }
    m.profile_pixels = f32(sum(f_, pixels_));
    return m;
  }

  fitter::CubicMoments cubic_moments() const {
    fitter::CubicMoments m;
    moments(x_, 3, m.x);
    moments(y_, 3, m.y);
    return m;
  }

  fitter::VarianceSums variance_sums(float alpha, float beta) const {
    const Image r = residual_image(alpha, beta);
    fitter::VarianceSums sums = {};
    for (int k = 0; k < 4; ++k) {
      Image weight = f_;
      for (double& f : weight)
        f = std::pow(f, k) * std::pow(1 + f / double{fitter::kVarianceRatio}, -2);
      sums.w[k] = f32(sum(weight));
      if (k < 2) sums.squares[k] = f32(sum(weight, r, r));
    }
    return sums;
  }

  fitter::ResidualMoments residuals(float alpha, float beta, fitter::ResidualTotals& total) const {
    const Image r = residual_image(alpha, beta);
    total = {f32(sum(r)), f32(sum(r, f_))};
    return {f32(sum(r, r)), f32(sum(r, u_, f_)), f32(sum(r, v_, f_)), f32(sum(r, u_, u_, f_)),
            f32(sum(r, v_, v_, f_))};
  }
  fitter::ResidualMoments residuals(float alpha, float beta) const {
    fitter::ResidualTotals unused;
    return residuals(alpha, beta, unused);
  }

  fitter::WeightedMoments weighted_moments(const fitter::PixelNoise& noise, float alpha,
                                           float beta) const {
    return noise.estimator == fitter::Estimator::PoissonLikelihood
               ? weighted(fitter::PoissonLikelihood<float>(noise), noise, alpha, beta)
               : weighted(fitter::WeightedLeastSquares<float>(noise), noise, alpha, beta);
  }
  fitter::WeightedMoments plain_moments(const fitter::PixelNoise& noise, float alpha,
                                        float beta) const {
    return weighted(fitter::PlainSquares<float>(noise), noise, alpha, beta);
  }

 private:
  struct Axis {
    Image f, u;
  };
  Axis axis(double centre, double sigma) const {
    Axis a;
    for (int i = 0; i < side_; ++i) {
      a.u.push_back(i - centre);
      a.f.push_back(std::exp(-0.5 * std::pow((i - centre) / sigma, 2)));
    }
    return a;
  }

  template <std::size_t n>
  static void moments(const Axis& a, int power, float (&to)[n]) {
    for (std::size_t k = 0; k < n; ++k) {
      double total = 0;
      for (std::size_t i = 0; i < a.f.size(); ++i)
        total += std::pow(a.u[i], k) * std::pow(a.f[i], power);
      to[k] = f32(total);
    }
  }

  Image residual_image(double alpha, double beta) const {
    return difference(pixels_, scaled(f_, alpha, beta));
  }

  template <class Term>
  fitter::WeightedMoments weighted(const Term& term, const fitter::PixelNoise& noise, float alpha,
                                   float beta) const {
    fitter::WeightedMoments m = {};
    for (std::size_t i = 0; i < pixels_.size(); ++i) {
      const float f = f32(f_[i]), u = f32(u_[i]), v = f32(v_[i]);
      const float map =
          noise.mapped ? fitter::map_value(noise.estimator, noise.gain, f32(variances_[i])) : 0.0f;
      const fitter::PixelTerm<float> of = term.of(f32(pixels_[i]), alpha * f + beta, map);
      m.value += of.value;
      m.e += of.residual;
      m.w += of.weight;
      for (int a = 0; a < 5; ++a) {
        for (int b = 0; a + b < 5; ++b) {
          const float power = f * std::pow(u, f32(a)) * std::pow(v, f32(b));
          m.second[a][b] += of.weight * f * power;
          if (a + b > 2) continue;
          m.ef[a][b] += of.residual * power;
          m.wf[a][b] += of.weight * power;
        }
      }
    }
    return m;
  }

  fitter::SmoothedExtremes smoothed(const Image& image) const {
    fitter::SmoothedExtremes e = {-INFINITY, INFINITY, 0, 0};
    for (int row = 1; row + 1 < side_; ++row) {
      for (int column = 1; column + 1 < side_; ++column) {
        double nine = 0;
        for (int k = 0; k < 9; ++k)
          nine += image[static_cast<std::size_t>((row + k / 3 - 1) * side_ + column + k % 3 - 1)];
        const float mean = f32(nine / 9);
        if (mean > e.highest) e = {mean, e.lowest, f32(column), f32(row)};
        e.lowest = std::min(e.lowest, mean);
      }
    }
    return e;
  }

  int side_;
  Image pixels_, variances_;
  fitter::PixelSummary summary_;
  Axis x_, y_;
  Image f_, u_, v_;  ///< of each pixel
};

}  // namespace driftd::test
