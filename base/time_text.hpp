// SPDX-License-Identifier: MIT
// Times as people and programs write them. Exact: no time goes through a floating-point number, and
// digits below a nanosecond are left out. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace driftd {

struct DateTime {
  std::int64_t ns = 0;      ///< since 1970 UTC
  bool has_offset = false;  ///< from UTC; without, the time is taken as UTC
};

/// A date and time by ISO 8601, extended or basic, by day, week or day of the year, with decimals
/// of the smallest part behind a point or comma: 2026-11-28T21:50:46.59Z, 20261128T215046,59-0800,
/// 2026-W48-6T21:50, 2026-332T21. As Python, pandas and Micro-Manager write it, too: blanks instead
/// of the T and before the offset, seconds in the offset, "UTC"; behind a blank an hour of one
/// digit, 9:50:46, and none with decimals or offset right behind it: 21.50, 21-05 may be 21:50,
/// 21:05. A date alone is its beginning. Nothing for another text, a day that is not there, and
/// years beyond 1678 to 2261.
std::optional<DateTime> parse_date_time(std::string_view text);

/// "-12.5", "12,5", "1.25e+01" of a unit of 10^places ns, in ns. Nothing where it is no such number
/// or too large.
std::optional<std::int64_t> parse_decimal_ns(std::string_view text, int places);

/// "2026-11-23T09:47:12.345Z" of ns since 1970 UTC; digits below a millisecond are left out.
std::string date_time_text(std::int64_t ns);

}  // namespace driftd
