// SPDX-License-Identifier: MIT
// Several things that are wrong with a stage at once: which one decides, and all of them for
// people. Used by what owns a Stage, on its thread.
#pragma once

#include <string>

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

}  // namespace driftd::stage
