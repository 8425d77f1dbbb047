// SPDX-License-Identifier: MIT
// What an option table is: one row for every key of a file, with its type, unit, default, range,
// text and place in the struct that it fills. The loader, --print-config, the JSON Schema and the
// reference page are made from any table; driftd's own is config/options.hpp, driftd-stage's
// clients/stage/config.hpp. Tables are constant after first use; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
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
/// that the struct holds as an enumeration is its name here, as in the file.
using Value = std::variant<bool, int, double, std::string, std::filesystem::path, Matrix2,
                           std::vector<ListedMarker>, Endpoints>;
/// That an option may have.
constexpr std::size_t kMostEndpoints = 8;

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
  bool above_min = false;  ///< `min` itself is not allowed
  bool or_auto = false;    ///< the word `auto`, too, which the struct holds as 0
  std::vector<std::string_view> choices = {};  ///< of a text, made by row(); empty: any text
  Reload reload = Reload::Restart;

  yaml::Range range() const {
    return {.min = min, .max = max, .unit = unit, .above_min = above_min, .or_auto = or_auto};
  }
};

struct Option {
  std::string key;  ///< "section.name" or, in a section within a section, "outer.inner.name"
  Value fallback;   ///< the default
  Rules rules;
  /// Works on the struct that the table fills, and on no other.
  Value (*get)(const Settings&);
  void (*set)(Settings&, const Value&);  ///< the value must hold the fallback's alternative

  std::string_view section() const { return std::string_view(key).substr(0, key.rfind('.')); }
  std::string_view name() const { return std::string_view(key).substr(key.rfind('.') + 1); }
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

/// Values that are each allowed and make no sense together.
struct Conflict {
  /// The keys that take part; the first one is named in the message. An entry of the marker list
  /// is "markers.list[2]".
  std::vector<std::string> keys;
  std::string found;
  std::string allowed;
};

/// A key that earlier versions had.
struct RemovedKey {
  std::string_view key;
  std::string_view instead;  ///< a sentence's end: what holds now, and what to do
};

struct Table {
  std::string_view title;           ///< of the schema
  std::span<const Option> options;  ///< section by section in the order of `sections`
  std::span<const Section> sections;
  bool reloads;  ///< whether the reference says what a reload may change
  /// Looks at the struct that the table fills; empty when it makes sense.
  std::vector<Conflict> (*find_conflicts)(const Settings&);
  std::span<const RemovedKey> removed = {};
};

/// Whether that value of the option is the word `auto`.
bool is_auto(const Option& option, const Value& value);

/// "a number from 1 to 10000000 us", "one of off, hardware, software", "true or false", ...
std::string allowed(const Option& option);

/// What a file holds; `name` stands for it in messages.
struct Text {
  std::string name, text;
};
/// A value as one of the texts gives it.
struct Given {
  std::string name;  ///< of the text
  int line;          ///< where its key stands
  Value value;
};
/// What the texts give for each key, in their order: the last one holds. A key that is not here has
/// its default.
using Origins = std::map<std::string, std::vector<Given>, std::less<>>;

/// Sets every option to its default.
void set_defaults(const Table& table, Settings& settings);
/// Reads the texts over the defaults, each over those before it, key by key; a list is one value.
/// @throws ConfigError with the mistakes of all
Origins read_texts(const Table& table, std::span<const Text> texts, Settings& settings);
/// `path` as seen from `folder`, where both are given.
std::filesystem::path path_from(const std::filesystem::path& folder,
                                const std::filesystem::path& path);
/// YAML that read_texts() reads back to the same settings. With `origins` each value has a comment
/// that says where it is from.
std::string to_yaml(const Table& table, const Settings& settings, const Origins* origins = nullptr);
/// A value of the option on one line.
std::string to_yaml(const Option& option, const Value& value);

std::vector<Option> joined(std::vector<std::vector<Option>> parts);

template <typename Member>
struct MemberOf;
template <typename Class, typename Type>
struct MemberOf<Type Class::*> {
  using Owner = Class;
  using Held = Type;
};

/// Makes a row from the place of its field: row<&Config::log, &Log::level>("log.level",
/// LogLevel::Info, rules). The default has the field's own type; the choices of an enumeration are
/// its names.
template <auto SectionMember, auto FieldMember>
Option row(std::string key, typename MemberOf<decltype(FieldMember)>::Held fallback, Rules rules) {
  using Owner = typename MemberOf<decltype(SectionMember)>::Owner;
  using Field = decltype(fallback);
  if constexpr (HasNames<Field>) {
    rules.choices = names_of<Field>();
    return {std::move(key), Value(std::string(text_of(fallback))), std::move(rules),
            [](const Settings& settings) {
              const auto& owner = static_cast<const Owner&>(settings);
              return Value(std::string(text_of(owner.*SectionMember.*FieldMember)));
            },
            [](Settings& settings, const Value& value) {
              static_cast<Owner&>(settings).*SectionMember.*FieldMember =
                  value_named<Field>(std::get<std::string>(value)).value();
            }};
  } else {
    return {std::move(key), Value(std::in_place_type<Field>, std::move(fallback)), std::move(rules),
            [](const Settings& settings) {
              const auto& owner = static_cast<const Owner&>(settings);
              return Value(std::in_place_type<Field>, owner.*SectionMember.*FieldMember);
            },
            [](Settings& settings, const Value& value) {
              static_cast<Owner&>(settings).*SectionMember.*FieldMember = std::get<Field>(value);
            }};
  }
}

}  // namespace driftd::config
