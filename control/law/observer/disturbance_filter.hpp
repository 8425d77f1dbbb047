// SPDX-License-Identifier: MIT
// Kalman's filter for a DisturbanceModel (Kalman 1960, J. Basic Eng. 82:35): from where the sample
// was seen to where it will be. The states come in pairs: (walk nm, velocity nm/s), then one pair
// for each line. The sample's place is the sum of the pairs' first states. The observer owns a
// filter for each axis; the tuner runs others over what was seen. A plain value without heap;
// bounded arithmetic; noexcept.
#pragma once

#include <array>
#include <cstddef>

#include "control/law/observer/disturbance_model.hpp"

namespace driftd::control {

/// What a measurement was against what was expected.
struct Innovation {
  double nm = 0;       ///< measured less expected
  double nm2 = 1;      ///< its variance by the model
  bool heeded = true;  ///< false: so far off that the next frame is waited for
};

class DisturbanceFilter {
 public:
  static constexpr std::size_t kPairs = 1 + kMaxLines;
  /// Two values of a pair.
  struct Pair {
    double first = 0, second = 0;
  };
  using State = std::array<Pair, kPairs>;
  static constexpr double kNeverSure = 1e300;

  explicit DisturbanceFilter(const DisturbanceModel& model = {}) noexcept { start(model, 0, 0); }
  /// Begins anew, and knows little but about where the sample is.
  void start(const DisturbanceModel& model, double place_nm, double velocity_nm_per_s) noexcept;

  /// Lets time pass without a measurement. Ignores times that are not positive and finite.
  void predict(double seconds) noexcept;
  /// Something else has moved the place as well, by so much variance.
  void shake(double nm2) noexcept;
  /// Takes a measurement of the present place. One that is not within a metre changes nothing.
  /// @param more_noise_nm2  its variance beyond the model's noise; at least minus three quarters of
  ///                        that
  /// @param sure_nm  a place farther off than this is believed at once: the jump needs no second
  ///                 one
  Innovation update(double place_nm, double more_noise_nm2 = 0,
                    double sure_nm = kNeverSure) noexcept;
  /// What this filter would make of another input, which it follows in `state` by the gains and
  /// turns of its last predict() and update().
  /// @returns the innovation: how far the input was from what was expected
  double echo(State& state, double input_nm) const noexcept;
  /// From now on the gains stay as they were in the last update(), and variances are not followed:
  /// a tenth of the arithmetic.
  void freeze() noexcept { frozen_ = true; }

  /// The states in a time from now.
  State ahead(double seconds) const noexcept;
  double place_nm() const noexcept;
  /// Variance of the present place, and the gain of the last update for the place.
  double variance_nm2() const noexcept;
  const State& state() const noexcept { return state_; }
  const State& gains() const noexcept { return gains_; }
  /// With the frequencies as they are now.
  const DisturbanceModel& model() const noexcept { return model_; }
  /// Mean over about 64 frames of squared innovations over their variances, each at most 9: 1 where
  /// the model is right.
  double surprise() const noexcept { return surprise_; }

 private:
  /// [[a, b], [c, d]]
  struct Block {
    double a = 0, b = 0, c = 0, d = 0;
  };
  Block turn_of(std::size_t pair, double seconds) const noexcept;
  void find_gains(double noise_nm2) noexcept;
  void shrink() noexcept;
  void track(double innovation_nm) noexcept;
  bool is_jump(double innovation_nm, double sure_nm) noexcept;
  std::size_t pairs() const noexcept { return 1 + model_.line_count; }

  DisturbanceModel model_;
  State state_{};
  std::array<std::array<Block, kPairs>, kPairs> covariance_{};  ///< row <= column used
  State spread_{};                                              ///< covariance of states and place
  State gains_{};
  double innovation_nm2_ = 1;
  std::array<Block, kPairs> turns_{};
  double turned_s_ = 0;  ///< the time that turns_ are for
  double ignored_nm_ = 0;
  bool heeded_ = false;  ///< the last measurement was
  double surprise_ = 1;
  bool frozen_ = false;
  double age_s_ = 0;  ///< since start()
};

/// a * first + b * second of each pair, summed.
double weighted(const DisturbanceFilter::State& weights, const DisturbanceFilter::State& state,
                std::size_t pairs) noexcept;

}  // namespace driftd::control
