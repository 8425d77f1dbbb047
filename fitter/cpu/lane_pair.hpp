// SPDX-License-Identifier: MIT
// Two Reals as one: what is computed of both alternates, operation by operation, so that a long
// chain of dependent operations has another to overlap with. A core looks too few operations ahead
// to find the next pixel's by itself.
#pragma once

#include <type_traits>

#include "fitter/cpu/lanes.hpp"

HWY_BEFORE_NAMESPACE();
namespace driftd::fitter::cpu::HWY_NAMESPACE {

template <class Real>
struct PairOf {
  struct Mask {
    typename Real::Mask a, b;
  };

  Real a, b;

  PairOf() = default;
  DRIFTD_HD PairOf(const Real& of_a, const Real& of_b) : a(of_a), b(of_b) {}
  DRIFTD_HD PairOf(const Real& of_both) : a(of_both), b(of_both) {}
  DRIFTD_HD PairOf(float of_all) : a(of_all), b(of_all) {}

  DRIFTD_HD friend PairOf operator+(const PairOf& l, const PairOf& r) {
    return {l.a + r.a, l.b + r.b};
  }
  DRIFTD_HD friend PairOf operator-(const PairOf& l, const PairOf& r) {
    return {l.a - r.a, l.b - r.b};
  }
  DRIFTD_HD friend PairOf operator*(const PairOf& l, const PairOf& r) {
    return {l.a * r.a, l.b * r.b};
  }
  DRIFTD_HD PairOf& operator+=(const PairOf& r) { return *this = *this + r; }

  DRIFTD_HD friend Mask operator<(const PairOf& l, const PairOf& r) {
    return {l.a < r.a, l.b < r.b};
  }
  DRIFTD_HD friend Mask operator>(const PairOf& l, const PairOf& r) {
    return {l.a > r.a, l.b > r.b};
  }
  DRIFTD_HD friend PairOf where(const Mask& mask, const PairOf& yes, const PairOf& no) {
    return {where(mask.a, yes.a, no.a), where(mask.b, yes.b, no.b)};
  }

  DRIFTD_HD friend PairOf multiply_add(const PairOf& l, const PairOf& r, const PairOf& c) {
    return {multiply_add(l.a, r.a, c.a), multiply_add(l.b, r.b, c.b)};
  }
  DRIFTD_HD friend PairOf largest_of(const PairOf& l, const PairOf& r) {
    return {largest_of(l.a, r.a), largest_of(l.b, r.b)};
  }
  DRIFTD_HD friend PairOf at_least(const PairOf& value, const PairOf& limit) {
    return {at_least(value.a, limit.a), at_least(value.b, limit.b)};
  }
  DRIFTD_HD friend PairOf at_most(const PairOf& value, const PairOf& limit) {
    return {at_most(value.a, limit.a), at_most(value.b, limit.b)};
  }
  DRIFTD_HD friend PairOf exp2_of(const PairOf& v) { return {exp2_of(v.a), exp2_of(v.b)}; }
  DRIFTD_HD friend PairOf abs_of(const PairOf& v) { return {abs_of(v.a), abs_of(v.b)}; }
  DRIFTD_HD friend PairOf reciprocal_of(const PairOf& v) {
    return {reciprocal_of(v.a), reciprocal_of(v.b)};
  }
  DRIFTD_HD friend BinaryParts<PairOf> binary_parts(const PairOf& v) {
    const BinaryParts<Real> of_a = binary_parts(v.a), of_b = binary_parts(v.b);
    return {{of_a.exponent, of_b.exponent}, {of_a.rest, of_b.rest}};
  }
};

/// Whether there are 32 vector registers: with 16, pairs are kept in memory and slower.
constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64;

/// A pair of both; the first, where a single Real is wanted.
template <class Abreast, class Real>
DRIFTD_HD Abreast joined(const Real& a, const Real& b) {
  if constexpr (std::is_same_v<Abreast, Real>)
    return a;
  else
    return {a, b};
}
template <int k, class D>
DRIFTD_HD const Lanes<D>& part(const Lanes<D>& of) {
  static_assert(k == 0);
  return of;
}
template <int k, class Real>
DRIFTD_HD const Real& part(const PairOf<Real>& of) {
  return k == 0 ? of.a : of.b;
}

}  // namespace driftd::fitter::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
