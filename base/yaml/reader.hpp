// SPDX-License-Identifier: MIT
// Reads single values and checks type and range; what is refused becomes a mistake with its place,
// "FILE:LINE:COLUMN: key: found X; allowed Y". Private to those that load files (yaml-cpp shows
// here); used by the thread that loads.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/yaml/mistakes.hpp"
#include "base/yaml/range.hpp"

namespace driftd::yaml {

Place place_of(const YAML::Node& node);
/// What the user wrote, on one line and not too long: `"fast"`, `12`, "a list of 3", "nothing".
std::string describe(const YAML::Node& node);
/// The same without quotes: a key in a message.
std::string key_text(const YAML::Node& node);

/// Each call returns nothing when the node is no such value; why is then among the mistakes.
class Reader {
 public:
  explicit Reader(Mistakes& mistakes) : mistakes_(mistakes) {}

  std::optional<double> number(const std::string& key, const YAML::Node& node, const Range& range);
  /// A whole number; as a double, which holds all that an int or a std::uint32_t does.
  std::optional<double> whole(const std::string& key, const YAML::Node& node, const Range& range);
  /// All 64 bits, which a double does not hold.
  std::optional<std::int64_t> whole64(const std::string& key, const YAML::Node& node,
                                      std::int64_t min);
  /// true or false; "yes", "on" and the like are texts.
  std::optional<bool> boolean(const std::string& key, const YAML::Node& node);
  /// One line; one of the choices when there are any.
  std::optional<std::string> text(const std::string& key, const YAML::Node& node,
                                  std::span<const std::string_view> choices = {});
  /// A list of `count` numbers.
  std::optional<std::vector<double>> numbers(const std::string& key, const YAML::Node& node,
                                             std::size_t count, const Range& range);
  void refuse(const std::string& key, const YAML::Node& node, const std::string& allowed);
  Mistakes& mistakes() { return mistakes_; }

 private:
  Mistakes& mistakes_;
};

}  // namespace driftd::yaml
