// SPDX-License-Identifier: MIT
// A vector of floats with the operators that the mathematics needs: the Real of fitter/real.hpp
// with a fit in every lane. Its namespace is that of the instruction set which its source file is
// compiled for, so that nothing made of it meets its like of another (see CMakeLists.txt).
#pragma once

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "fitter/real.hpp"

HWY_BEFORE_NAMESPACE();
namespace driftd::fitter::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// @tparam D  a Highway tag of floats, of a size that the compiler knows
template <class D>
struct Lanes {
  static constexpr D d{};
  static constexpr int kCount = static_cast<int>(hn::MaxLanes(D()));

  struct Mask {
    hn::Mask<D> m;

    Mask() = default;
    DRIFTD_HD Mask(hn::Mask<D> of) : m(of) {}
    DRIFTD_HD explicit Mask(bool set) : m(hn::Lt(hn::Zero(d), hn::Set(d, set ? 1.0f : 0.0f))) {}
    DRIFTD_HD friend Mask operator&&(const Mask& a, const Mask& b) { return hn::And(a.m, b.m); }
    DRIFTD_HD friend Mask operator||(const Mask& a, const Mask& b) { return hn::Or(a.m, b.m); }
    DRIFTD_HD friend Mask operator!(const Mask& a) { return hn::Not(a.m); }
    DRIFTD_HD friend bool any(const Mask& a) { return !hn::AllFalse(d, a.m); }
    DRIFTD_HD friend bool all(const Mask& a) { return hn::AllTrue(d, a.m); }
    DRIFTD_HD friend int count_of(const Mask& a) { return static_cast<int>(hn::CountTrue(d, a.m)); }
    DRIFTD_HD friend Mask where(const Mask& mask, const Mask& yes, const Mask& no) {
      return (mask && yes) || (!mask && no);
    }
  };

  hn::Vec<D> v;

  Lanes() = default;
  DRIFTD_HD Lanes(hn::Vec<D> of) : v(of) {}
  DRIFTD_HD Lanes(float of_all) : v(hn::Set(d, of_all)) {}

  DRIFTD_HD static Lanes load(const float* aligned) { return hn::Load(d, aligned); }
  DRIFTD_HD void store(float* aligned) const { hn::Store(v, d, aligned); }

  DRIFTD_HD friend Lanes operator+(const Lanes& a, const Lanes& b) { return hn::Add(a.v, b.v); }
  DRIFTD_HD friend Lanes operator-(const Lanes& a, const Lanes& b) { return hn::Sub(a.v, b.v); }
  DRIFTD_HD friend Lanes operator*(const Lanes& a, const Lanes& b) { return hn::Mul(a.v, b.v); }
  DRIFTD_HD friend Lanes operator/(const Lanes& a, const Lanes& b) { return hn::Div(a.v, b.v); }
  DRIFTD_HD friend Lanes operator-(const Lanes& a) { return hn::Neg(a.v); }
  DRIFTD_HD Lanes& operator+=(const Lanes& b) { return *this = *this + b; }
  DRIFTD_HD Lanes& operator-=(const Lanes& b) { return *this = *this - b; }
  DRIFTD_HD Lanes& operator*=(const Lanes& b) { return *this = *this * b; }

  DRIFTD_HD friend Mask operator<(const Lanes& a, const Lanes& b) { return hn::Lt(a.v, b.v); }
  DRIFTD_HD friend Mask operator<=(const Lanes& a, const Lanes& b) { return hn::Le(a.v, b.v); }
  DRIFTD_HD friend Mask operator>(const Lanes& a, const Lanes& b) { return hn::Gt(a.v, b.v); }
  DRIFTD_HD friend Mask operator>=(const Lanes& a, const Lanes& b) { return hn::Ge(a.v, b.v); }

  DRIFTD_HD friend Lanes where(const Mask& mask, const Lanes& yes, const Lanes& no) {
    return hn::IfThenElse(mask.m, yes.v, no.v);
  }
  /// Either where one is no number.
  DRIFTD_HD friend Lanes largest_of(const Lanes& a, const Lanes& b) { return hn::Max(a.v, b.v); }
  /// The limit where the value is no number, as these instructions of an x86 have it.
  DRIFTD_HD friend Lanes at_least(const Lanes& value, const Lanes& limit) {
    if constexpr (HWY_ARCH_X86) return hn::Max(value.v, limit.v);
    return larger(value, limit);
  }
  DRIFTD_HD friend Lanes at_most(const Lanes& value, const Lanes& limit) {
    if constexpr (HWY_ARCH_X86) return hn::Min(value.v, limit.v);
    return smaller(value, limit);
  }
  DRIFTD_HD friend Lanes sqrt_of(const Lanes& a) { return hn::Sqrt(a.v); }
  /// 2^a to within 1.7e-7 of it, for -126 < a < 127; 1 of 0. In half the time of Highway's Exp: the
  /// sum with kShift rounds to a whole number, whose bits move into the exponent as they are.
  DRIFTD_HD friend Lanes exp2_of(const Lanes& a) {
    constexpr float kShift = 12582912;  // 1.5 * 2^23
    const hn::RebindToSigned<D> bits;
    const Lanes shifted = a + kShift;
    const Lanes part = a - (shifted - kShift);  // -0.5 .. 0.5
    // Least relative error with a constant of 1: 9.1e-8.
    Lanes p = 1.32647272e-3f;
    for (const float c : {9.67151269e-3f, 5.55073374e-2f, 0.240222421f, 0.693146978f, 1.0f})
      p = multiply_add(p, part, c);
    const auto exponent = hn::ShiftLeft<23>(hn::BitCast(bits, shifted.v));
    return hn::BitCast(d, hn::Add(hn::BitCast(bits, p.v), exponent));
  }
  DRIFTD_HD friend Lanes cos_of(const Lanes& a) { return hn::Cos(d, a.v); }
  DRIFTD_HD friend Lanes sin_of(const Lanes& a) { return hn::Sin(d, a.v); }
  DRIFTD_HD friend Lanes log_of(const Lanes& a) { return hn::Log(d, a.v); }
  DRIFTD_HD friend BinaryParts<Lanes> binary_parts(const Lanes& a) {
    const hn::RebindToSigned<D> bits;
    const auto of_a = hn::BitCast(bits, a.v);
    const auto exponent = hn::ShiftRight<23>(hn::Sub(of_a, hn::Set(bits, kBitsOfRootHalf)));
    const Lanes scaled = hn::BitCast(d, hn::Sub(of_a, hn::ShiftLeft<23>(exponent)));
    return {hn::ConvertTo(d, exponent), scaled - 1.0f};
  }
  /// 1 / a to within a unit in the last place or two.
  DRIFTD_HD friend Lanes reciprocal_of(const Lanes& a) {
    if constexpr (HWY_ARCH_ARM) return 1.0f / a;  // whose approximation has eight bits
    const Lanes near = hn::ApproximateReciprocal(a.v);
    return near * Lanes(hn::NegMulAdd(near.v, a.v, hn::Set(d, 2.0f)));
  }
  DRIFTD_HD friend Lanes abs_of(const Lanes& a) { return hn::Abs(a.v); }
  DRIFTD_HD friend Mask is_finite(const Lanes& a) { return hn::IsFinite(a.v); }
  DRIFTD_HD friend Mask is_nan(const Lanes& a) { return hn::IsNaN(a.v); }
  /// a b + c, rounded once where the processor can.
  DRIFTD_HD friend Lanes multiply_add(const Lanes& a, const Lanes& b, const Lanes& c) {
    return hn::MulAdd(a.v, b.v, c.v);
  }
};

}  // namespace driftd::fitter::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
