// SPDX-License-Identifier: MIT
// Reads the list of another camera's frames: times or numbers, one a line, as a table of text (CSV,
// tabs or blanks) has them in one of its columns. Exact: no time goes through a floating-point
// number.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace driftd::clients {

enum class TimeUnit : std::uint8_t { Seconds, Milliseconds, Microseconds, Nanoseconds };

/// A decimal number of that unit, or a date and time (base/time_text.hpp).
/// @throws std::runtime_error with the text where it is neither
std::int64_t time_ns(const std::string& text, TimeUnit unit);

/// Where the times stand in a file.
struct TimeColumn {
  int column = 1;     ///< 1: the first
  bool told = false;  ///< the user named it, so that a comma between two numbers ends a column
  TimeUnit unit = TimeUnit::Seconds;
  bool decimal_comma = false;     ///< a comma never ends a column
  bool no_decimal_comma = false;  ///< it always does
};

struct FrameTimes {
  std::vector<std::int64_t> ns;
  bool dates = false;              ///< any of them
  std::vector<std::string> notes;  ///< sentences for people: what was taken for what
};

/// The times of that column: a date may have its time and offset in the columns behind it, as
/// blanks make of "2026-11-28 21:50:46.59 -0800". Where ; or a tab ends the columns of the first
/// line, a comma is a decimal sign, and so it is behind the seconds of a date, unless the heading
/// has a name for what follows. @throws std::runtime_error naming file and line; where two numbers
/// with a comma between them may be one, and where what stands behind a time may change it: AM, PM,
/// zones by name, units
FrameTimes read_times(const std::filesystem::path& file, const TimeColumn& where);

/// A frame's number; "12.0", as tables of numbers have it, is 12.
/// @throws std::runtime_error with the text where it is none
std::uint64_t frame_number(const std::string& text);

/// The texts of that column (1: the first), which the user may have told, of all lines but empty
/// ones, comments (#), and a first line that is a heading; numbers without marks between their
/// thousands. @throws std::runtime_error naming file and line
std::vector<std::string> read_column(const std::filesystem::path& file, int column, bool told);

}  // namespace driftd::clients
