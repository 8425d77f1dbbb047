// SPDX-License-Identifier: MIT
#include "daemon/events/debounced.hpp"

#include "support/catch.hpp"

using driftd::daemon::Debounced;

TEST_CASE("a change is told once, when it has lasted", "[settled]") {
  Debounced<int> value(0);
  CHECK_FALSE(value.update(0, 0, 100));
  CHECK_FALSE(value.update(1, 10, 100));
  CHECK_FALSE(value.update(1, 109, 100));
  CHECK(value.update(1, 110, 100));
  CHECK_FALSE(value.update(1, 500, 100));
}

TEST_CASE("a flicker is not told, and what follows counts anew", "[settled]") {
  Debounced<int> value(0);
  for (int t = 0; t < 1000; t += 60) CHECK_FALSE(value.update(t / 60 % 2, t, 100));
  CHECK_FALSE(value.update(2, 1000, 100));
  CHECK_FALSE(value.update(1, 1090, 100));
  CHECK_FALSE(value.update(1, 1189, 100));
  CHECK(value.update(1, 1190, 100));
}
