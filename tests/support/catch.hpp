// SPDX-License-Identifier: MIT
// Catch2 2.13 and 3.x behind one include; `Approx` without a namespace in both.
#pragma once

#if DRIFTD_CATCH2_VERSION == 3
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

#include <string>

/// Matches a string, e.g. an exception's text, that contains `part`.
inline auto contains(const std::string& part) {
#if DRIFTD_CATCH2_VERSION == 3
  return Catch::Matchers::ContainsSubstring(part);
#else
  return Catch::Matchers::Contains(part);
#endif
}
