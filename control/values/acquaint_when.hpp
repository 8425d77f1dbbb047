// SPDX-License-Identifier: MIT
// When a lock gets to know its stage (control/lock/acquaintance.hpp). For the configuration, too.
#pragma once

#include <cstdint>

namespace driftd::control {

enum class AcquaintWhen : std::uint8_t {
  First,  ///< before the first correction, unless the stage is known; and when held for it
  Held,   ///< only when it is held for a stage that does not follow
  Never,
};

}  // namespace driftd::control
