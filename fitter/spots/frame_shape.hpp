// SPDX-License-Identifier: MIT
// One frame as the search for spots sees it: pixels row after row without gaps. Plain values.
#pragma once

#include <cstddef>

#include "fitter/fitter.hpp"
#include "fitter/host_device.hpp"

namespace driftd::fitter {

struct FrameShape {
  int width_px = 0, height_px = 0;
  PixelType type = PixelType::U16;

  DRIFTD_HD std::size_t pixels() const noexcept {
    return static_cast<std::size_t>(width_px) * static_cast<std::size_t>(height_px);
  }
};

}  // namespace driftd::fitter
