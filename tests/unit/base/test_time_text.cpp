// SPDX-License-Identifier: MIT
#include "base/time_text.hpp"

#include <string>

#include "support/catch.hpp"

namespace driftd {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
/// 2026-11-28 21:50:46 UTC, a Saturday.
constexpr std::int64_t kThen = 1'795'902'646 * kSecond;

std::int64_t ns_of(const std::string& text) {
  const auto time = parse_date_time(text);
  INFO(text);
  REQUIRE(time);
  return time->ns;
}

TEST_CASE("a date and time is read in each form of ISO 8601, and of what programs make of it") {
  for (const char* text : {"2026-11-28T21:50:46Z",
                           "2026-11-28T21:50:46",
                           "2026-11-28 21:50:46",
                           "20261128T215046Z",
                           "20261128T215046",
                           "2026-W48-6T21:50:46Z",
                           "2026W486T215046",
                           "2026-332T21:50:46",
                           "2026332T215046Z",
                           "2026-11-28t21:50:46z",
                           "2026-11-28 21:50:46 UTC",
                           "2026-11-28T21:50:46+00:00",
                           "2026-11-28T21:50:46-00:00",
                           "2026-11-28 13:50:46 -0800",
                           "2026-11-28T13:50:46-08:00",
                           "2026-11-28T13:50:46-08",
                           "2026-11-29T03:20:46+05:30",
                           "20261129T032046+0530",
                           "2026-11-28 21:51:16.5+00:00:30.5",
                           "2026-11-28  21:50:46"})
    CHECK(ns_of(text) == kThen);
  for (const char* text : {"2026-11-28 21:50:46.59", "2026-11-28T21:50:46,590Z",
                           "20261128T215046.5900000009", "2026-11-28 13:50:46.590 -0800"})
    CHECK(ns_of(text) == kThen + 590'000'000);
  CHECK(ns_of("2026-11-28 9:50:46") == kThen - 12 * 3600 * kSecond);
  CHECK(ns_of("2026-11-28T21:50") == kThen - 46 * kSecond);
  CHECK(ns_of("2026-11-28T21:50.75") == kThen - kSecond);
  CHECK(ns_of("2026-11-28T21,25Z") == kThen - (35 * 60 + 46) * kSecond);
  CHECK(ns_of("2026-11-28T21") == kThen - (50 * 60 + 46) * kSecond);
  CHECK(ns_of("2026-11-28T24:00:00") == ns_of("2026-11-29"));
  CHECK(ns_of("2016-12-31T23:59:60Z") == ns_of("2017-01-01T00:00:00Z"));
  CHECK(ns_of("2020-W53-7") == ns_of("2021-01-03"));
  CHECK(ns_of("2024-366") == ns_of("2024-12-31"));
  CHECK(ns_of("1969-12-31T23:59:59.75") == -250'000'000);
  CHECK(parse_date_time("2026-11-28T21:50:46Z")->has_offset);
  CHECK_FALSE(parse_date_time("2026-11-28T21:50:46")->has_offset);
}

TEST_CASE("what is no time, or none that there is, is not read") {
  for (const char* text : {"",
                           "soon",
                           "2026",
                           "2026-11",
                           "2026-02-30T09:47:12Z",
                           "2026-13-01T09:47:12Z",
                           "2026-00-01",
                           "2026-11-00",
                           "2026-11-23T09:61:12Z",
                           "2026-11-23T09:47:61Z",
                           "2026-11-23T09:30:60Z",
                           "2026-11-23T25:00:00Z",
                           "2026-11-23T24:00:01Z",
                           "2026-11-23T09:47:12+24:00",
                           "2026-11-23T09:47:12+01:60",
                           "2026-11-23T09:47:12+1",
                           "2026-11-23T09:47:12.",
                           "2026-11-23T09:47:12.Z",
                           "2026-11-23T09:47:12Z0",
                           "2026-366",
                           "2026-W54-1",
                           "2025-W53-1",
                           "2026-W48-0",
                           "2026-W48-8",
                           "2026-11-23T9:47:12",
                           "2026-11-23 9",
                           "2026-11-23 21.50",
                           "2026-11-23 21-05",
                           "2026-11-23 94712",
                           "2026-11-23 9:47:12 PM",
                           "2026-11-23T09:47:12 soon",
                           "1677-12-31T00:00:00Z",
                           "2262-01-01T00:00:00Z",
                           "21:50:46"})
    CHECK_FALSE(parse_date_time(text));
}

TEST_CASE("a time is written as it is read") {
  for (const char* text : {"1970-01-01T00:00:00.000Z", "2026-11-23T09:47:12.345Z",
                           "1969-12-31T23:59:59.999Z", "2024-02-29T23:00:00.070Z"})
    CHECK(date_time_text(parse_date_time(text)->ns) == text);
  CHECK(date_time_text(1'999'999) == "1970-01-01T00:00:00.001Z");
  CHECK(date_time_text(-1) == "1969-12-31T23:59:59.999Z");
}

TEST_CASE("decimal numbers are read exactly, with point, comma and exponent") {
  CHECK(parse_decimal_ns("1795427232.123456789", 9) == 1'795'427'232'123'456'789);
  CHECK(parse_decimal_ns("1.795427232123456789e+09", 9) == 1'795'427'232'123'456'789);
  CHECK(parse_decimal_ns("1795427232123456789", 0) == 1'795'427'232'123'456'789);
  CHECK(parse_decimal_ns("12,5", 6) == 12'500'000);
  CHECK(parse_decimal_ns("-0.25", 9) == -250'000'000);
  CHECK(parse_decimal_ns("+.5", 3) == 500);
  CHECK(parse_decimal_ns("125E-3", 9) == 125'000'000);
  CHECK(parse_decimal_ns("0", 9) == 0);
  CHECK(parse_decimal_ns("0000000000000000000000012", 0) == 12);
  CHECK(parse_decimal_ns("1e-99", 9) == 0);
  CHECK(parse_decimal_ns("9223372036.854775807", 9) == 9'223'372'036'854'775'807);
  for (const char* text : {"", "-", ".", "e5", "1e", "1e+", "1.2.3", "12 ", "0x10", "nan", "inf",
                           "9223372036.854775808", "99999999999999999999", "1e99", "1e99999"})
    CHECK_FALSE(parse_decimal_ns(text, 9));
}

}  // namespace
}  // namespace driftd
