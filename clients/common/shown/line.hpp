// SPDX-License-Identifier: MIT
// A line of text that a person is shown, and how texts are broken into lines. Pure; any thread.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace driftd::clients {

enum class Tone { Plain, Heading, Dim, Good, Warning, Bad };

struct Line {
  std::string text;
  Tone tone = Tone::Plain;
};

namespace shown {

constexpr std::size_t kColumns = 80;

/// A label with a value of x and one of y, nm, and what follows them.
Line pair(const char* label, const std::string& x, const std::string& y, const std::string& rest);
/// Breaks a text into lines of whole words, below what they belong to.
void add_words(std::string rest, Tone tone, std::vector<Line>& lines);
/// A text of `status`; none where it is empty.
void add_text(const nlohmann::json& status, const char* pointer, Tone tone,
              std::vector<Line>& lines);

}  // namespace shown
}  // namespace driftd::clients
