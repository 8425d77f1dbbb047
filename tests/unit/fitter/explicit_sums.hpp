// SPDX-License-Identifier: MIT
// What the fitter's mathematics must come to, the plain way and in double: images of a spot, their
// derivatives by differences, sums by loops over the pixels, and a back end made of such loops. It
// needs no kernel, so a test of it compiles in seconds.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "fitter/dispatch.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/pixel_terms.hpp"

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

/// X of a pixel, and the two that its derivatives are made of: fitter::AxisElement.
struct Element {
  double f, uf, uuf;
};

/// @param u           from the spot's centre to the pixel's
/// @param integrated  over the pixel, by what the integrals are in closed form
inline Element element(double u, double sigma, bool integrated) {
  const auto gaussian = [sigma](double at) { return std::exp(-0.5 * std::pow(at / sigma, 2)); };
  if (!integrated) return {gaussian(u), u * gaussian(u), u * u * gaussian(u)};
  const double low = u - 0.5, high = u + 0.5, variance = sigma * sigma;
  const double root = std::sqrt(2.0) * sigma;
  const double f =
      std::sqrt(std::acos(-1.0)) / 2 * root * (std::erf(high / root) - std::erf(low / root));
  return {f, variance * (gaussian(low) - gaussian(high)),
          variance * (f + low * gaussian(low) - high * gaussian(high))};
}

/// The spot's profile. @param p  x, y, sigma; or x, y, sigma_x, sigma_y
inline Image gaussian(const std::vector<double>& p, int side, bool integrated = false) {
  const double sigma_x = p[2], sigma_y = p.size() > 3 ? p[3] : p[2];
  Image f;
  for (int row = 0; row < side; ++row)
    for (int column = 0; column < side; ++column)
      f.push_back(element(column - p[0], sigma_x, integrated).f *
                  element(row - p[1], sigma_y, integrated).f);
  return f;
}

struct Derivatives {
  std::vector<Image> images;
  const Image& operator[](int j) const { return images[static_cast<std::size_t>(j)]; }
};

/// Derivatives of image_of(p) by each element of p, from differences.
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
  using Real = float;
  static constexpr bool kKeepsMoments = false;
  static constexpr bool kTakesMaps = true;
  /// @param variances  of the pixels, adu^2, or none
  ScalarRoi(const Image& pixels, int side, double pedestal, Image variances = {},
            bool integrated = false)
      : side_(side),
        integrated_(integrated),
        pixels_(scaled(pixels, 1, -pedestal)),
        variances_(std::move(variances)) {
    summary_ = {f32(pedestal), f32(sum(pixels_)), f32(sum(pixels_, pixels_)), true};
  }

  int side() const { return side_; }
  const fitter::PixelSummary& summary() const { return summary_; }

  fitter::SmoothedExtremes smoothed_pixels() const { return smoothed(pixels_); }
  float smoothed_pixel(float x_px, float y_px) const {
    double nine = 0;
    for (int k = 0; k < 9; ++k) {
      const int row = static_cast<int>(y_px) + k / 3 - 1,
                column = static_cast<int>(x_px) + k % 3 - 1;
      nine += pixels_.at(static_cast<std::size_t>(row * side_ + column));
    }
    return f32(nine / 9);
  }
  fitter::SmoothedExtremes smoothed_residuals(float alpha, float beta) const {
    return smoothed(residual_image(alpha, beta));
  }

  float count_above(float level) const {
    return static_cast<float>(
        std::count_if(pixels_.begin(), pixels_.end(), [&](double v) { return v > level; }));
  }

  fitter::ProfileMoments set_profile(const fitter::Profile& p, bool) {
    x_ = axis(p.x_px, p.sigma_x_px);
    y_ = axis(p.y_px, p.sigma_y_px);
    f_ = image_of(0, 0);
    fitter::ProfileMoments m;
    for (const auto& [to, from] : {std::pair{&m.x, &x_}, {&m.y, &y_}}) {
      for (std::size_t k = 0; k < 3; ++k) to->first[k] = f32(sum(from->of[k]));
      for (std::size_t k = 0; k < fitter::kPairs; ++k)
        to->second[k] = f32(sum(from->of[kFirst[k]], from->of[kSecond[k]]));
    }
    m.pixels = {f32(sum(pixels_, f_)), f32(sum(pixels_, image_of(1, 0))),
                f32(sum(pixels_, image_of(0, 1))), f32(sum(pixels_, image_of(2, 0))),
                f32(sum(pixels_, image_of(0, 2)))};
    return m;
  }

  fitter::CubicMoments cubic_moments() const {
    fitter::CubicMoments m;
    for (std::size_t k = 0; k < fitter::kPairs; ++k) {
      m.x[k] = f32(sum(x_.of[0], x_.of[kFirst[k]], x_.of[kSecond[k]]));
      m.y[k] = f32(sum(y_.of[0], y_.of[kFirst[k]], y_.of[kSecond[k]]));
    }
    return m;
  }

  fitter::QuotientSums quotient_sums(float alpha, float beta) const {
    const Image r = residual_image(alpha, beta);
    Image q = f_;
    for (double& of : q) of /= of + double{fitter::kVarianceRatio};
    return {f32(sum(q)), f32(sum(q, q)), f32(sum(q, r, r)), f32(sum(q, q, r, r))};
  }

  float squares(float alpha, float beta) const {
    const Image r = residual_image(alpha, beta);
    return f32(sum(r, r));
  }
  static bool any_of(bool mask) { return mask; }

  fitter::WeightedMoments weighted_moments(const fitter::PixelNoise& noise, float alpha,
                                           float beta) const {
    return fitter::with_weights<float>(noise, [&](const auto& estimator, auto) {
      return weighted(estimator, noise, alpha, beta);
    });
  }
  float values(const fitter::PixelNoise& noise, float alpha, float beta) const {
    return fitter::with_weights<float>(noise, [&](const auto& estimator, auto) {
      double sum = 0;
      for (std::size_t i = 0; i < pixels_.size(); ++i)
        sum += fitter::value_apart(estimator, f32(pixels_[i]), alpha * f32(f_[i]) + beta,
                                   map_of(noise, i));
      return f32(sum);
    });
  }
  fitter::WeightedMoments plain_moments(const fitter::PixelNoise& noise, float alpha,
                                        float beta) const {
    return weighted(fitter::PlainSquares<float>(noise), noise, alpha, beta);
  }

 private:
  /// Which two of X, X_1, X_2 a pair is.
  static constexpr std::size_t kFirst[fitter::kPairs] = {0, 0, 1, 1, 2, 0};
  static constexpr std::size_t kSecond[fitter::kPairs] = {0, 1, 1, 2, 2, 2};

  struct Axis {
    std::array<Image, 3> of;  ///< X, X_1, X_2
  };
  Axis axis(double centre, double sigma) const {
    Axis a;
    for (int i = 0; i < side_; ++i) {
      const Element e = element(i - centre, sigma, integrated_);
      a.of[0].push_back(e.f);
      a.of[1].push_back(e.uf);
      a.of[2].push_back(e.uuf);
    }
    return a;
  }

  /// X_a Y_b
  Image image_of(std::size_t a, std::size_t b) const {
    Image product;
    for (const double y : y_.of[b])
      for (const double x : x_.of[a]) product.push_back(x * y);
    return product;
  }

  float map_of(const fitter::PixelNoise& noise, std::size_t i) const {
    if (!noise.mapped) return 0.0f;
    return fitter::map_value(noise.estimator, noise.gain, f32(variances_[i]));
  }

  Image residual_image(double alpha, double beta) const {
    return difference(pixels_, scaled(f_, alpha, beta));
  }

  template <class Term>
  fitter::WeightedMoments weighted(const Term& term, const fitter::PixelNoise& noise, float alpha,
                                   float beta) const {
    fitter::WeightedMoments m = {};
    Image weights, residuals;
    for (std::size_t i = 0; i < pixels_.size(); ++i) {
      const fitter::PixelTerm<float> of =
          term.of(f32(pixels_[i]), alpha * f32(f_[i]) + beta, map_of(noise, i));
      m.value += of.value;
      m.e += of.residual;
      m.w += of.weight;
      weights.push_back(of.weight);
      residuals.push_back(of.residual);
    }
    for (std::size_t a = 0; a < fitter::kPairs; ++a) {
      for (std::size_t b = 0; b < fitter::kPairs; ++b) {
        m.second[a][b] =
            f32(sum(weights, image_of(kFirst[a], kFirst[b]), image_of(kSecond[a], kSecond[b])));
        if (a > 2 || b > 2) continue;
        m.ef[a][b] = f32(sum(residuals, image_of(a, b)));
        m.wf[a][b] = f32(sum(weights, image_of(a, b)));
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
  bool integrated_;
  Image pixels_, variances_;
  fitter::PixelSummary summary_;
  Axis x_, y_;
  Image f_;  ///< of each pixel
};

}  // namespace driftd::test
