// SPDX-License-Identifier: MIT
// One mapping of a file whose keys the code asks for one by one: what is absent keeps its value,
// what is wrong is a mistake, and finish() reports the keys that nobody asked for. Private to those
// that load files (yaml-cpp shows here); used by the thread that loads.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/yaml/reader.hpp"

namespace driftd::yaml {

class Section {
 public:
  /// @param node  a mapping; null or undefined when the file leaves the section out
  /// @param path  of the section in messages; empty for the file itself
  Section(const YAML::Node& node, std::string path, Mistakes& mistakes);

  void number(const std::string& key, double& value, const Range& range);
  void integer(const std::string& key, int& value, const Range& range);
  void integer64(const std::string& key, std::int64_t& value,
                 std::int64_t min = std::numeric_limits<std::int64_t>::min());
  void boolean(const std::string& key, bool& value);
  void text(const std::string& key, std::string& value,
            std::span<const std::string_view> choices = {});
  /// A list of `count` numbers; nothing when the key is absent or wrong.
  std::optional<std::vector<double>> numbers(const std::string& key, std::size_t count,
                                             const Range& range);
  Section section(const std::string& key);
  /// Calls `read` with each item of a list and its path.
  void each(const std::string& key,
            const std::function<void(const YAML::Node&, const std::string&)>& read);
  bool has(const std::string& key) const;
  /// Notes a mistake in a key's value; of a key that is not there, found is `absent`.
  void reject(const std::string& key, const std::string& allowed,
              const std::string& absent = "the default");
  Reader& reader() { return reader_; }
  void finish();

 private:
  struct Entry {
    YAML::Node name, value;
  };
  std::optional<Entry> find(const std::string& key) const;
  /// The key's value, or nothing when it is absent; a key without a value is a mistake.
  std::optional<YAML::Node> take(const std::string& key, const std::string& allowed);
  std::string full(const std::string& key) const;

  YAML::Node node_;
  std::string path_;
  Reader reader_;
  std::vector<std::string> known_;
};

}  // namespace driftd::yaml
