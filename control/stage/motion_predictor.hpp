// SPDX-License-Identifier: MIT
// Predicts how far one axis of the sample moves from one frame to the next, from the moves before:
// an autoregressive model fitted while running. Its innovations are the yardstick of the stage
// monitor, which owns it. Tracking loop; no allocation; noexcept.
//
// The coefficients solve the normal equations of the autocorrelation of the moves (Durbin 1960;
// Makhoul 1975, "Linear prediction", Proc. IEEE 63, eq. 38). The autocorrelation is a mean with
// exponential forgetting.
#pragma once

#include <array>
#include <cstddef>

namespace driftd::control {

class MotionPredictor {
 public:
  /// A tenth of a second at 500 frames/s, which tells lines 10 Hz apart.
  static constexpr std::size_t kOrder = 48;
  /// Moves of the past, newest first.
  using Past = std::array<double, kOrder>;

  /// Knows nothing yet: noise of 1 nm, innovations of kStartSdNm.
  MotionPredictor() noexcept;

  /// The next move is predicted as the sum of coefficients()[i] times the i-th last move.
  const Past& coefficients() const noexcept { return coefficients_; }
  /// Mean square of the innovations learned, nm^2; > 0.
  double variance_nm2() const noexcept { return variance_nm2_; }
  /// Mean square of the moves themselves: of innovations where nothing is known of the past.
  double power_nm2() const noexcept { return correlation_nm2_[0]; }
  /// One more move, with the past and the innovation that it had. Outliers are the caller's to
  /// clip.
  void learn(double move_nm, double innovation_nm, const Past& past_nm) noexcept;

 private:
  void solve() noexcept;

  Past coefficients_{};
  std::array<double, kOrder + 1> correlation_nm2_{};
  double variance_nm2_;
  double learned_;  ///< moves in the means
  int until_solve_ = 0;
};

}  // namespace driftd::control
