// SPDX-License-Identifier: MIT
// The option table: one row for every key of the configuration, with its type, unit, default,
// range, text and place in Config. The loader, --print-config, the JSON Schema and the reference in
// docs/configuration.md are all made from it. Constant after first use; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/yaml/range.hpp"
#include "config/config.hpp"
#include "config/names.hpp"

namespace driftd::config {

using Matrix2 = std::array<std::array<double, 2>, 2>;
/// What an option may hold; the alternative that its default has is the option's type. An option
/// that Config holds as an enumeration is its name here, as in the file.
using Value = std::variant<bool, int, double, std::string, std::filesystem::path, Matrix2,
                           std::vector<ListedMarker>>;

/// May a reload (SIGHUP) change the option, or does it take a restart?
enum class Reload : std::uint8_t {
  Restart,
  Idle,  ///< while the lock is idle
  Live,
};

/// What is allowed, and what it is for.
struct Rules {
  std::string_view text;                                  ///< sentences for the user
  std::string_view unit = {};                             ///< "" for numbers without a unit
  double min = -std::numeric_limits<double>::infinity();  ///< of a number or a matrix element
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;                      ///< `min` itself is not allowed
  bool or_auto = false;                        ///< the word `auto`, too, which Config holds as 0
  std::vector<std::string_view> choices = {};  ///< of a text, made by row(); empty: any text
  Reload reload = Reload::Restart;

  yaml::Range range() const {
    return {.min = min, .max = max, .unit = unit, .above_min = above_min, .or_auto = or_auto};
  }
};

struct Option {
  std::string_view key;  ///< "section.name" or, in a section within a section, "outer.inner.name"
  Value fallback;        ///< the default
  Rules rules;
  Value (*get)(const Config&);
  void (*set)(Config&, const Value&);  ///< the value must hold the fallback's alternative

  std::string_view section() const { return key.substr(0, key.rfind('.')); }
  std::string_view name() const { return key.substr(key.rfind('.') + 1); }
};

struct Section {
  std::string_view name;  ///< "outer.inner" when it stands within another
  std::string_view text;

  /// "" for a section of the file itself.
  std::string_view outer() const {
    const std::size_t dot = name.rfind('.');
    return dot == std::string_view::npos ? "" : name.substr(0, dot);
  }
  std::string_view key() const { return name.substr(name.rfind('.') + 1); }
};

/// A key of one entry of markers.list.
struct ListKey {
  std::string_view name;
  bool required;
  bool whole;               ///< a whole number; otherwise a number, or a text when it has choices
  std::string_view choice;  ///< default of a text
  Rules rules;
};

/// All options, section by section in the order of sections().
std::span<const Option> options();
std::span<const Section> sections();
std::span<const ListKey> marker_keys();
/// Entries that markers.list may have (control::kMaxMarkers).
constexpr std::size_t kMaxListedMarkers = 256;

/// Whether that value of the option is the word `auto`.
bool is_auto(const Option& option, const Value& value);

/// Null when there is no such option.
const Option* find_option(std::string_view key);

/// "a number from 1 to 10000000 us", "one of off, hardware, software", "true or false", ...
std::string allowed(const Option& option);
std::string allowed(const ListKey& list_key);

/// The table's rows, one file of rows per subject (options_*.cpp).
std::vector<Option> source_options();
std::vector<Option> tracking_options();
std::vector<Option> lock_options();
std::vector<Option> service_options();
std::vector<Option> joined(std::vector<std::vector<Option>> parts);

/// Makes a row from the place of its field: row<&Config::log, &Log::level>("log.level",
/// LogLevel::Info, rules). The default has the field's own type; the choices of an enumeration are
/// its names.
template <auto SectionMember, auto FieldMember>
Option row(std::string_view key,
           std::remove_cvref_t<decltype(Config{}.*SectionMember.*FieldMember)> fallback,
           Rules rules) {
  using Field = decltype(fallback);
  if constexpr (HasNames<Field>) {
    rules.choices = names_of<Field>();
    return {key, Value(std::string(text_of(fallback))), std::move(rules),
            [](const Config& config) {
              return Value(std::string(text_of(config.*SectionMember.*FieldMember)));
            },
            [](Config& config, const Value& value) {
              config.*SectionMember.*FieldMember =
                  value_named<Field>(std::get<std::string>(value)).value();
            }};
  } else {
    return {key, Value(std::in_place_type<Field>, std::move(fallback)), std::move(rules),
            [](const Config& config) {
              return Value(std::in_place_type<Field>, config.*SectionMember.*FieldMember);
            },
            [](Config& config, const Value& value) {
              config.*SectionMember.*FieldMember = std::get<Field>(value);
            }};
  }
}

}  // namespace driftd::config
