// SPDX-License-Identifier: MIT
#pragma once

namespace driftd::test {

/// True in sanitizer builds. A case that repeats for minutes there what others do once skips
/// itself: it tests figures, and memory and threads have been looked at by the others.
#ifdef DRIFTD_SANITIZED
inline constexpr bool kInstrumented = true;
#else
inline constexpr bool kInstrumented = false;
#endif

}  // namespace driftd::test
