// SPDX-License-Identifier: MIT
// Tables of text as other programs write them: their lines, and numbers with parted thousands.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace driftd {

/// The lines of a file, which end as they do on any computer: by "\n", "\r\n" or "\r"; without the
/// mark that UTF-8 may begin with. @throws std::runtime_error, without the file's name, where it
/// cannot be read or is no text of UTF-8
std::vector<std::string> text_lines(const std::filesystem::path& file);

/// "1234.5" of "1 234.5", "1'234.5", "1,234.5", "1234,5" of "1.234,5": without blanks (also those
/// of typesetters) or marks between the thousands. A point or comma is one only before decimals
/// behind the other, or where there are several: "1,234" stays, as any other text does.
std::string without_thousands(const std::string& text);

}  // namespace driftd
