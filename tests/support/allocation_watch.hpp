// SPDX-License-Identifier: MIT
// Counts what one thread asks of the allocator. Linking allocation_watch.cpp replaces malloc and
// its relatives in the whole executable (not in sanitizer builds, where the sanitizer owns them).
#pragma once

#include <cstdint>

namespace driftd::test {

/// From now on the calling thread's allocations are counted (true) or not (false).
void watch_this_thread(bool on) noexcept;
/// Allocations and releases of all watched threads so far.
std::uint64_t watched_allocations() noexcept;
/// False in sanitizer builds: nothing is counted there. Aborts if the watch does not work.
bool can_watch() noexcept;

}  // namespace driftd::test
