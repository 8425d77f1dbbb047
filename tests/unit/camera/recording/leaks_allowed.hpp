// SPDX-License-Identifier: MIT
// Where an outside library forgets memory of its own.
#pragma once

// AddressSanitizer's own, absent without it.
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
extern "C" [[gnu::weak]] void __lsan_disable();
extern "C" [[gnu::weak]] void __lsan_enable();
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

namespace driftd::test {

/// libhdf5 1.10 forgets memory of its own where a file is damaged; AddressSanitizer, where it is
/// linked, does not look at what is allocated in this scope.
struct LeaksAllowed {
  LeaksAllowed() { call(__lsan_disable); }
  ~LeaksAllowed() { call(__lsan_enable); }
  LeaksAllowed(const LeaksAllowed&) = delete;
  LeaksAllowed& operator=(const LeaksAllowed&) = delete;
  static void call(void (*function)()) {
    if (function != nullptr) function();
  }
};

}  // namespace driftd::test
