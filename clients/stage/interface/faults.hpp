// SPDX-License-Identifier: MIT
// Several things that are wrong with a stage at once: which one decides, and all of them for
// people. Used by what owns a Stage, on its thread.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "clients/stage/interface/stage.hpp"

namespace driftd::stage {

/// Disconnected, servo off or not referenced, error, limit, ready: the first that holds decides
/// whether targets are sent.
inline int rank(Condition condition) {
  switch (condition) {
    case Condition::Disconnected:
      return 4;
    case Condition::ServoOff:
    case Condition::NotReferenced:
      return 3;
    case Condition::Error:
      return 2;
    case Condition::Limit:
      return 1;
    case Condition::Ready:
      break;
  }
  return 0;
}

/// One more thing that is wrong: the worst condition stays, and all texts.
inline void add_fault(Health& health, Condition condition, const std::string& text) {
  if (rank(condition) > rank(health.condition)) health.condition = condition;
  if (!health.text.empty()) health.text += "; ";
  health.text += text;
}

/// The same, wrong with one axis alone. What is wrong with the controller has been told before.
inline void add_axis_fault(Health& health, AxisFault fault) {
  if (health.of_axes.empty()) health.common = {health.condition, health.text, health.error};
  add_fault(health, fault.condition, fault.text);
  if (health.error == 0) health.error = fault.error;
  health.of_axes.push_back(std::move(fault));
}

/// What to do about a servo that is off, after all that is wrong.
inline void add_hint(Health& health, const std::string& hint) {
  health.text += hint;
  health.hint = hint;
}

/// What is wrong with so many axes from the first on, and with the controller.
/// @param with_common  false: leaves that out
inline Health health_part(const Health& health, std::size_t first, std::size_t count,
                          bool with_common = true) {
  Health part{.on_target = health.on_target, .tells_on_target = health.tells_on_target, .text = {}};
  if (health.of_axes.empty()) {
    if (with_common) part = health;
    return part;
  }
  if (with_common) {
    part.condition = health.common.condition;
    part.error = health.common.error;
    part.text = health.common.text;
  }
  std::string last;
  for (const AxisFault& fault : health.of_axes) {
    if (fault.axis < first || fault.axis >= first + count || fault.text == last) continue;
    add_fault(part, fault.condition, fault.text);
    if (part.error == 0) part.error = fault.error;
    last = fault.text;
  }
  if (part.condition == Condition::ServoOff) part.text += health.hint;
  return part;
}

}  // namespace driftd::stage
