// SPDX-License-Identifier: MIT
// What a piezo actuator does with a drive besides obeying it: hysteresis and creep, one object an
// axis, stepped by the Stage on its time grid. In open loop hysteresis is 2 % of a small motion and
// 10 to 15 % of a large one, creep 1 to 2 % per decade (PI piezo tutorial, piceramic.com,
// piezo_tutorial5); a closed-loop stage keeps a small rest of either.
#pragma once

#include <array>

namespace driftd::simulator {

/// Rate-independent hysteresis: the classical Prandtl-Ishlinskii operator, a weighted sum of play
/// operators (Kuhnen 2003, European Journal of Control 9:407, eqs. 1 to 4), with equal weights and
/// thresholds at equal distances:
///
///     y = (1 - h) x + h / n * sum of play(x, r_i),   r_i = R i / n,   i = 1 .. n
///
/// After a reversal y follows (1 - h) of the motion at first and all of it after 2 R; between the
/// two branches of a large loop lie h R (n + 1) / n.
class Hysteresis {
 public:
  Hysteresis() = default;
  /// @param share  h, 0 to below 1; 0: none
  /// @param reach_nm  R, above 0
  Hysteresis(double share, double reach_nm) noexcept;
  /// Moves the input to `input_nm` and returns the output.
  double step(double input_nm) noexcept;

 private:
  static constexpr std::size_t kPlays = 10;
  double share_ = 0;
  std::array<double, kPlays> threshold_nm_{};
  std::array<double, kPlays> play_nm_{};
};

/// Creep of piezoceramics: after a step of the input from rest the place goes on growing as
///
///     y(t) = x (1 + c log10(t / 0.1 s))
///
/// (Vieira 1986, IBM J. Res. Dev. 30:553; Jung and Gweon 2000, Rev. Sci. Instrum. 71:1896). For any
/// input it is a sum of relaxations whose time constants lie at equal distances in log(t) (Krejci
/// and Kuhnen 2001, IEE Proc. Control Theory Appl. 148:185): here two per decade, from 0.3 s to
/// an hour.
class Creep {
 public:
  Creep() = default;
  /// @param share_per_decade  c; 0: none
  Creep(double share_per_decade, double tick_s) noexcept;
  /// Lets a tick pass at `input_nm` and returns what creep adds to it.
  double step(double input_nm) noexcept;

 private:
  static constexpr std::size_t kRelaxations = 9;
  double weight_ = 0;
  std::array<double, kRelaxations> approach_{};  ///< share of the rest that a tick covers
  std::array<double, kRelaxations> state_nm_{};
};

}  // namespace driftd::simulator
