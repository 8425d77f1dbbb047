// SPDX-License-Identifier: MIT
// The sums of the CPU back end from which the pixels' variance is estimated. Included by
// roi_sums.hpp alone.
#pragma once

HWY_BEFORE_NAMESPACE();
namespace driftd::fitter::cpu::HWY_NAMESPACE {

template <class D, int kVectors>
VarianceSums RoiSums<D, kVectors>::variance_sums(float alpha, float beta) const {
  const V zero = hn::Zero(d_), ratio = hn::Set(d_, kVarianceRatio);
  V w = zero, wf = zero, wff = zero, wfff = zero, squares = zero, squares_f = zero;
  for (int c = 0; c < stride(); c += lanes()) {
    const auto inside = columns_below(c, side_);
    const V background = hn::IfThenElseZero(inside, hn::Set(d_, beta));
    const V ratio_inside = hn::IfThenElseZero(inside, ratio);
    const V x = hn::Load(d_, w_->x[0] + c);
    const V scaled = hn::Mul(x, hn::Set(d_, alpha));
    for (int row = 0; row < side_; ++row) {
      const V y = hn::Set(d_, w_->y[0][row]);
      const V g = hn::Load(d_, row_of(w_->pixels, row) + c);
      const V r = hn::NegMulAdd(scaled, y, hn::Sub(g, background));
      const V root = hn::Mul(ratio_inside, hn::ApproximateReciprocal(hn::MulAdd(x, y, ratio)));
      const V f = hn::Mul(x, y);
      const V root_r = hn::Mul(root, r);
      const V root_f = hn::Mul(root, f);
      const V root_rf = hn::Mul(root_r, f);
      w = hn::MulAdd(root, root, w);
      wf = hn::MulAdd(root, root_f, wf);
      wff = hn::MulAdd(root_f, root_f, wff);
      wfff = hn::MulAdd(root_f, hn::Mul(root_f, f), wfff);
      squares = hn::MulAdd(root_r, root_r, squares);
      squares_f = hn::MulAdd(root_r, root_rf, squares_f);
    }
  }
  float t[kVarianceSums + kMaxLanes];
  totals(t, w, wf, wff, wfff, squares, squares_f);
  return {{t[0], t[1], t[2], t[3]}, {t[4], t[5]}};
}

}  // namespace driftd::fitter::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
