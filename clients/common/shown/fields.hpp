// SPDX-License-Identifier: MIT
// What a message says at a place, for people. Pure; any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace driftd::clients::shown {

/// Null when there is nothing at `pointer`, a JSON pointer.
const nlohmann::json* find(const nlohmann::json& object, const char* pointer);
/// The number at `pointer` by an fmt format; "-" when there is none.
std::string number(const nlohmann::json& object, const char* pointer,
                   const char* format = "{:.0f}");
/// "-" when there is none.
std::string text(const nlohmann::json& object, const char* pointer);
/// "" when there is none.
std::string text_or_nothing(const nlohmann::json& object, const char* pointer);
bool is_true(const nlohmann::json& object, const char* pointer);
/// 0 when there is none.
std::uint64_t count(const nlohmann::json& object, const char* pointer);
/// Formats seconds out of a message, which may be any number.
std::string duration(double seconds);

}  // namespace driftd::clients::shown
