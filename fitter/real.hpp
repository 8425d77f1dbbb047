// SPDX-License-Identifier: MIT
// What the mathematics needs of its numbers. It is written once over a type `Real`: a float, which
// is one fit, or cpu/lanes.hpp's vector of floats, which is a fit in every lane. Decisions are
// masks, `bool` of a float, and both sides of a decision are computed: where() takes one. Host and
// device.
#pragma once

#include <cmath>
#include <cstdint>

#include "fitter/host_device.hpp"

namespace driftd::fitter {

/// What comparisons of Reals give.
template <class Real>
struct MaskOf {
  using Type = typename Real::Mask;
};
template <>
struct MaskOf<float> {
  using Type = bool;
};
template <class Real>
using Mask = typename MaskOf<Real>::Type;

DRIFTD_HD bool any(bool mask) {
  return mask;
}
DRIFTD_HD bool all(bool mask) {
  return mask;
}

DRIFTD_HD float where(bool mask, float yes, float no) {
  return mask ? yes : no;
}
DRIFTD_HD bool where(bool mask, bool yes, bool no) {
  return mask ? yes : no;
}

DRIFTD_HD float reciprocal_of(float v) {
  return 1.0f / v;
}
DRIFTD_HD float sqrt_of(float v) {
  return std::sqrt(v);
}
DRIFTD_HD float exp2_of(float v) {
  return std::exp2(v);
}
DRIFTD_HD float cos_of(float v) {
  return std::cos(v);
}
DRIFTD_HD float sin_of(float v) {
  return std::sin(v);
}
DRIFTD_HD float log_of(float v) {
  return std::log(v);
}
/// On a GPU to within 3e-7 from 1/2 to 2, to 2 units in the last place elsewhere.
DRIFTD_HD float log2_of(float v) {
#ifdef __CUDA_ARCH__
  return __log2f(v);
#else
  return std::log2(v);
#endif
}
DRIFTD_HD float abs_of(float v) {
  return std::fabs(v);
}
DRIFTD_HD bool is_finite(float v) {
  return std::isfinite(v);
}
DRIFTD_HD bool is_nan(float v) {
  return std::isnan(v);
}

/// v as 2^exponent (1 + rest), rest from sqrt(1/2) - 1 to sqrt(2) - 1.
template <class Real>
struct BinaryParts {
  Real exponent, rest;
};
/// Bits of sqrt(1/2), for binary_parts(): what is left of a number's own above a multiple of 2^23
/// is 1 + rest. The parts of 0 are {-127, 0}.
constexpr std::int32_t kBitsOfRootHalf = 0x3f3504f3;

/// The second where one of them is no number.
template <class Real>
DRIFTD_HD Real larger(const Real& a, const Real& b) {
  return where(a > b, a, b);
}
template <class Real>
DRIFTD_HD Real smaller(const Real& a, const Real& b) {
  return where(a < b, a, b);
}
/// The limit, which is a number, where the value is none.
template <class Real>
DRIFTD_HD Real at_least(const Real& value, const Real& limit) {
  return larger(value, limit);
}
template <>
DRIFTD_HD float at_least(const float& value, const float& limit) {
  return std::fmax(value, limit);  // one instruction of a GPU
}
/// Likewise.
template <class Real>
DRIFTD_HD Real at_most(const Real& value, const Real& limit) {
  return smaller(value, limit);
}
template <>
DRIFTD_HD float at_most(const float& value, const float& limit) {
  return std::fmin(value, limit);
}
/// NaN stays NaN.
template <class Real>
DRIFTD_HD Real clamped(const Real& value, const Real& low, const Real& high) {
  return where(value < low, low, where(value > high, high, value));
}

}  // namespace driftd::fitter
