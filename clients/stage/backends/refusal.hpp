// SPDX-License-Identifier: MIT
// What a backend remembers of a target that was not taken until health() has told it. Owned by a
// backend, used on its thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "clients/stage/interface/faults.hpp"
#include "clients/stage/interface/stage.hpp"
#include "clients/stage/transport/numbers.hpp"

namespace driftd::stage {

struct Refusal {
  Condition condition = Condition::Ready;
  int code = 0;
  std::string text;

  bool happened() const { return condition != Condition::Ready; }
  /// The refusal, if any, as health; forgotten here.
  void move_into(Health& health) {
    if (!happened()) return;
    health.condition = condition;
    health.error = code;
    health.text = std::exchange(text, {});
    condition = Condition::Ready;
    code = 0;
  }
};

/// What to do about a servo that is off.
inline constexpr const char* kServoHint = "; `switch_servo_on` switches it on when connecting";

/// Whether each is a finite number or says that its axis stays, and some axis moves.
inline bool are_targets(std::span<const double> nm) {
  return std::ranges::all_of(nm, [](double one) { return std::isfinite(one) || stays(one); }) &&
         (nm.empty() || !std::ranges::all_of(nm, stays));
}

inline std::string text_nm(double nm) {
  std::string text;
  append_fixed(text, nm, 1);
  return text + " nm";
}

/// A target that this driver must not send, for controllers that would clip it or worse.
inline Refusal beyond_travel(const Axis& axis, double nm) {
  return {.condition = Condition::Limit,
          .code = 0,
          .text = "axis " + axis.name + ": target " + text_nm(nm) + " is outside " +
                  text_nm(axis.min_nm) + " to " + text_nm(axis.max_nm)};
}

inline Refusal not_a_number() {
  return {.condition = Condition::Error, .code = 0, .text = "a target is not a finite number"};
}

/// Refuses targets that are not finite or outside their axes' travel; happened() tells whether.
inline Refusal refusal_of(std::span<const double> nm, std::span<const Axis> axes) {
  if (!are_targets(nm)) return not_a_number();
  for (std::size_t i = 0; i < nm.size(); ++i) {
    if (nm[i] < axes[i].min_nm || nm[i] > axes[i].max_nm) return beyond_travel(axes[i], nm[i]);
  }
  return {};
}

}  // namespace driftd::stage
