// SPDX-License-Identifier: MIT
// The sums of the CPU back end from which the pixels' variance is estimated. Included by
// roi_sums.hpp alone.
#pragma once

HWY_BEFORE_NAMESPACE();
namespace driftd::fitter::cpu::HWY_NAMESPACE {

template <class D, int kVectors>
QuotientSums RoiSums<D, kVectors>::quotient_sums(float alpha, float beta) const {
  const V ratio = hn::Set(d_, kVarianceRatio), background = hn::Set(d_, beta);
  V q = hn::Zero(d_), qq = q, q_rr = q, qq_rr = q;
  for (int c = 0; c < stride(); c += lanes()) {
    const V x = hn::Load(d_, w_->x[0] + c);
    const V scaled = hn::Mul(x, hn::Set(d_, alpha));
    for (int row = 0; row < side_; ++row) {
      const V y = hn::Set(d_, w_->y[0][row]);
      const V g = hn::Load(d_, row_of(w_->pixels, row) + c);
      const V r = hn::NegMulAdd(scaled, y, hn::Sub(g, background));
      const V f = hn::Mul(x, y);  // 0 beyond the ROI
      const V here = hn::Mul(f, reciprocal_of(Lanes<D>(hn::Add(f, ratio))).v);
      const V qr = hn::Mul(here, r);
      q = hn::Add(q, here);
      qq = hn::MulAdd(here, here, qq);
      q_rr = hn::MulAdd(qr, r, q_rr);
      qq_rr = hn::MulAdd(qr, qr, qq_rr);
    }
  }
  float t[kQuotientSums + kMaxLanes];
  totals(t, q, qq, q_rr, qq_rr);
  return {t[0], t[1], t[2], t[3]};
}

}  // namespace driftd::fitter::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
