// SPDX-License-Identifier: MIT
// Memory of a device, or pinned, that is as large as was ever asked for.
#pragma once

#include <bit>
#include <cstddef>
#include <optional>

#include "fitter/cuda/runtime.hpp"

namespace driftd::fitter::cuda {

/// Memory that grows to what is asked of it, by twice at least, and then stays.
template <class Memory>
class Growing {
 public:
  /// On the current device; what it held is lost. @throws FitterError
  void reserve(const RuntimeCalls& calls, std::size_t bytes) {
    if (bytes <= bytes_) return;
    memory_.reset();
    bytes_ = 0;
    const std::size_t grown = std::bit_ceil(bytes);
    memory_.emplace(calls, grown);
    bytes_ = grown;
  }
  const Memory& operator*() const { return *memory_; }

 private:
  std::optional<Memory> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace driftd::fitter::cuda
