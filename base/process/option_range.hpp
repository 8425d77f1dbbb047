// SPDX-License-Identifier: MIT
// The range of a number on the command line. Unlike CLI11's own checks it leaves out "nan", and its
// sentence is short where a limit is large. For programs that use CLI11; called by the main thread.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <string>

namespace driftd {

/// Takes numbers from `low` to `high`.
/// @param type  what --help calls them
inline CLI::Validator in_range(double low, double high, const std::string& type) {
  return {[low, high](std::string& text) -> std::string {
            double value = 0;
            const bool is_number = CLI::detail::lexical_cast(text, value);
            if (is_number && value >= low && value <= high) return {};  // false for NaN
            return fmt::format("{} is not in the range {} to {}", text, low, high);
          },
          type};
}

}  // namespace driftd
