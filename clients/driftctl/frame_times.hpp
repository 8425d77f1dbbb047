// SPDX-License-Identifier: MIT
// Reads the list of another camera's frames: times or numbers, one a line, as a table of text (CSV
// or blanks) has them in one of its columns. Exact: no time goes through a floating-point number.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace driftd::clients {

enum class TimeUnit : std::uint8_t { Seconds, Milliseconds, Microseconds, Nanoseconds };

/// A decimal number, or a date like 2026-11-23T09:47:12.345Z, which is UTC.
/// @throws std::runtime_error with the text where it is neither
std::int64_t time_ns(const std::string& text, TimeUnit unit);

/// A frame's number; "12.0", as tables of numbers have it, is 12.
/// @throws std::runtime_error with the text where it is none
std::uint64_t frame_number(const std::string& text);

/// The texts of that column (1: the first) of all lines but empty ones, comments (#), and a first
/// line that is a heading. @throws std::runtime_error naming file and line
std::vector<std::string> read_column(const std::filesystem::path& file, int column);

}  // namespace driftd::clients
