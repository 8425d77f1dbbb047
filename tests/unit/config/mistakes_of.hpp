// SPDX-License-Identifier: MIT
// What the loader says about a text: its mistakes, one line each, or "" when it loads.
#pragma once

#include <string>

#include "config/config.hpp"

namespace driftd::test {

inline std::string mistakes_of(const std::string& text) {
  try {
    config::load_text(text, "f");
    return "";
  } catch (const config::ConfigError& error) {
    return error.what();
  }
}

}  // namespace driftd::test
