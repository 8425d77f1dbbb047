// SPDX-License-Identifier: MIT
#include "control/axial/cubic_spline.hpp"

#include <cstddef>

namespace driftd::control {
namespace {

/// Second derivatives at the points: the tridiagonal equations of continuous slopes, the outermost
/// unknowns eliminated by the end conditions.
std::vector<double> curvatures_of(std::span<const double> width, std::span<const double> slope) {
  const std::size_t pieces = width.size();
  std::vector<double> curvature(pieces + 1, 0.0);
  if (pieces < 2) return curvature;
  if (pieces == 2) {
    const double all = 2 * (slope[1] - slope[0]) / (width[0] + width[1]);
    return {all, all, all};
  }
  const std::size_t inner = pieces - 1;  // of points between the ends; unknown i is of point i + 1
  std::vector<double> below(inner, 0.0), diagonal(inner), above(inner, 0.0), right(inner);
  for (std::size_t i = 0; i < inner; ++i) {
    below[i] = width[i];
    diagonal[i] = 2 * (width[i] + width[i + 1]);
    above[i] = width[i + 1];
    right[i] = 6 * (slope[i + 1] - slope[i]);
  }
  const double first = width[0] / width[1], last = width[pieces - 1] / width[pieces - 2];
  diagonal[0] += width[0] * (1 + first);
  above[0] -= width[0] * first;
  diagonal[inner - 1] += width[pieces - 1] * (1 + last);
  below[inner - 1] -= width[pieces - 1] * last;
  for (std::size_t i = 1; i < inner; ++i) {
    const double share = below[i] / diagonal[i - 1];
    diagonal[i] -= share * above[i - 1];
    right[i] -= share * right[i - 1];
  }
  for (std::size_t i = inner; i-- > 0;) {
    const double next = i + 1 < inner ? above[i] * curvature[i + 2] : 0;
    curvature[i + 1] = (right[i] - next) / diagonal[i];
  }
  curvature[0] = (1 + first) * curvature[1] - first * curvature[2];
  curvature[pieces] = (1 + last) * curvature[pieces - 1] - last * curvature[pieces - 2];
  return curvature;
}

}  // namespace

std::vector<CubicPiece> cubic_spline(std::span<const double> x, std::span<const double> y) {
  const std::size_t pieces = x.size() - 1;
  std::vector<double> width(pieces), slope(pieces);
  for (std::size_t i = 0; i < pieces; ++i) {
    width[i] = x[i + 1] - x[i];
    slope[i] = (y[i + 1] - y[i]) / width[i];
  }
  const std::vector<double> curvature = curvatures_of(width, slope);
  std::vector<CubicPiece> spline(pieces);
  for (std::size_t i = 0; i < pieces; ++i) {
    const double h = width[i], begin = curvature[i], end = curvature[i + 1];
    spline[i] = {y[i], slope[i] - h * (2 * begin + end) / 6, begin / 2, (end - begin) / (6 * h)};
  }
  return spline;
}

}  // namespace driftd::control
