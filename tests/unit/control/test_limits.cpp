// SPDX-License-Identifier: MIT
#include <limits>

#include "control/law/limits.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

constexpr CorrectionLimits kLimits{.step_nm = 5, .low_nm = {-40, -70}, .high_nm = {30, 60}};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST_CASE("a step keeps the limits up to exactly the limit, each axis and direction by its own") {
  CHECK(keeps(kLimits, {0, 0}, {5, -5}));
  CHECK(keeps(kLimits, {0, 0}, {-5, 5}));
  CHECK_FALSE(keeps(kLimits, {0, 0}, {5.1, 0}));
  CHECK_FALSE(keeps(kLimits, {0, 0}, {-5.1, 0}));
  CHECK_FALSE(keeps(kLimits, {0, 0}, {0, 5.1}));
  CHECK_FALSE(keeps(kLimits, {0, 0}, {0, -5.1}));
  CHECK(keeps(kLimits, {28, 58}, {30, 60}));
  CHECK(keeps(kLimits, {-38, -68}, {-40, -70}));
  CHECK_FALSE(keeps(kLimits, {28, 58}, {30.1, 60}));
  CHECK_FALSE(keeps(kLimits, {28, 58}, {30, 60.1}));
  CHECK_FALSE(keeps(kLimits, {-38, -68}, {-40.1, -70}));
  CHECK_FALSE(keeps(kLimits, {-38, -68}, {-40, -70.1}));
}

TEST_CASE("outside a range that was made narrower only steps towards it keep the limits") {
  CHECK(keeps(kLimits, {90, -200}, {86, -196}));
  CHECK(keeps(kLimits, {90, -200}, {90, -200}));
  CHECK_FALSE(keeps(kLimits, {90, -200}, {91, -200}));
  CHECK_FALSE(keeps(kLimits, {90, -200}, {90, -201}));
}

TEST_CASE("what is not finite keeps no limit") {
  for (const double bad : {kNan, kInf, -kInf}) {
    CHECK_FALSE(keeps(kLimits, {0, 0}, {bad, 0}));
    CHECK_FALSE(keeps(kLimits, {0, 0}, {0, bad}));
  }
  CHECK_FALSE(keeps({.step_nm = kNan, .low_nm = {-1, -1}, .high_nm = {1, 1}}, {0, 0}, {0, 0}));
}

TEST_CASE("what limit_axis makes keeps the limits, from anywhere to anywhere") {
  for (double from = -100; from <= 100; from += 7.3) {
    for (double wanted = -150; wanted <= 150; wanted += 6.1) {
      const LimitedAxis axis = limit_axis(wanted, from, -40, 30, 5, 4);
      CHECK(keeps({.step_nm = 4, .low_nm = {-40, 0}, .high_nm = {30, 0}}, {from, 0},
                  {axis.total_nm, 0}));
      CHECK((axis.limited == kLimitNone) == (axis.total_nm == wanted));
    }
  }
}

}  // namespace
}  // namespace driftd::control
