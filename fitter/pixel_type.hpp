// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "fitter/fitter.hpp"
#include "fitter/host_device.hpp"

namespace driftd::fitter {

/// Calls action(pixels) with a pointer to what they are.
template <class Action>
DRIFTD_HD void with_pixels(PixelType type, const void* pixels, const Action& action) {
  switch (type) {
    case PixelType::U8:
      return action(static_cast<const std::uint8_t*>(pixels));
    case PixelType::U16:
      return action(static_cast<const std::uint16_t*>(pixels));
    case PixelType::F32:
      return action(static_cast<const float*>(pixels));
  }
}

}  // namespace driftd::fitter
