// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <set>

#include "base/yaml/document.hpp"
#include "base/yaml/mistakes.hpp"
#include "base/yaml/nearest.hpp"
#include "config/options.hpp"
#include "config/value_reader.hpp"

namespace driftd::config {
namespace {

using yaml::describe;
using yaml::key_text;
using yaml::Mistakes;
using yaml::Place;
using yaml::place_of;

class Loader {
 public:
  Loader(const Table& table, Settings& settings) : table_(table), settings_(settings) {
    set_defaults(table, settings);
  }

  void load(const std::string& text, const std::string& name) {
    if (const auto root = yaml::read_document(text, mistakes_)) {
      read_root(*root);
      check_combinations();
    }
    if (!mistakes_.empty()) throw ConfigError(mistakes_.report(name));
  }

 private:
  void read_root(const YAML::Node& root);
  void read_section(const Section& section, const YAML::Node& node);
  /// Reads the section that `name` names within `outer`. False: there is none.
  bool read_inner(std::string_view outer, const YAML::Node& name, const YAML::Node& node);
  void read_option(const Option& option, const YAML::Node& name, const YAML::Node& value);
  void unknown_option(std::string_view section, const YAML::Node& name);
  void check_combinations();

  const Table& table_;
  Settings& settings_;
  Mistakes mistakes_;
  std::map<std::string, Place, std::less<>> places_;  ///< of the values that the file gives
  std::set<std::string, std::less<>> unusable_;       ///< keys that the file gives wrongly
  std::set<std::string_view> read_sections_;
};

void Loader::read_root(const YAML::Node& root) {
  if (root.IsNull()) return;
  if (!root.IsMap()) {
    mistakes_.add(place_of(root), "", describe(root), "a mapping of sections");
    return;
  }
  for (const auto& entry : root) {
    if (!read_inner("", entry.first, entry.second)) unknown_option("", entry.first);
  }
}

bool Loader::read_inner(std::string_view outer, const YAML::Node& name, const YAML::Node& node) {
  const std::string key = name.IsScalar() ? name.Scalar() : "";
  const auto section = std::ranges::find_if(
      table_.sections, [&](const Section& s) { return s.outer() == outer && s.key() == key; });
  if (section == table_.sections.end()) return false;
  if (!read_sections_.insert(section->name).second) {
    mistakes_.add(place_of(name), section->name, "found twice; allowed once");
  } else {
    read_section(*section, node);
  }
  return true;
}

void Loader::read_section(const Section& section, const YAML::Node& node) {
  if (node.IsNull()) return;  // a section whose keys are all commented out
  if (!node.IsMap()) {
    mistakes_.add(place_of(node), section.name, describe(node), "a mapping of options");
    return;
  }
  for (const auto& entry : node) {
    const std::string key = std::string(section.name) + '.' +
                            (entry.first.IsScalar() ? entry.first.Scalar() : std::string());
    const auto option = std::ranges::find(table_.options, key, &Option::key);
    if (option != table_.options.end()) {
      read_option(*option, entry.first, entry.second);
    } else if (!read_inner(section.name, entry.first, entry.second)) {
      unknown_option(section.name, entry.first);
    }
  }
}

void Loader::read_option(const Option& option, const YAML::Node& name, const YAML::Node& value) {
  const std::string& key = option.key;
  if (places_.contains(key)) {
    mistakes_.add(place_of(name), key, "found twice; allowed once");
    return;
  }
  if (value.IsNull()) {  // has no place of its own
    places_[key] = place_of(name);
    unusable_.insert(key);
    mistakes_.add(place_of(name), key, "nothing", allowed(option));
    return;
  }
  places_[key] = place_of(value);
  if (value.IsSequence()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      places_[key + '[' + std::to_string(i) + ']'] = place_of(value[i]);
    }
  }
  if (const auto read = ValueReader(mistakes_).read(option, value)) {
    option.set(settings_, *read);
  } else {
    unusable_.insert(key);
  }
}

void Loader::unknown_option(std::string_view section, const YAML::Node& name) {
  if (!name.IsScalar()) {
    mistakes_.add(place_of(name), section, describe(name), "a name before the colon");
    return;
  }
  const std::string& found = name.Scalar();
  const std::string prefix = section.empty() ? "" : std::string(section) + '.';
  const std::string key = prefix + key_text(name);
  // The same name elsewhere is the likeliest slip: an option in the wrong section.
  const auto elsewhere = std::ranges::find(table_.options, std::string_view(found), &Option::name);
  if (elsewhere != table_.options.end()) {
    mistakes_.add(place_of(name), key,
                  "found an unknown key; did you mean " + elsewhere->key + '?');
    return;
  }
  std::vector<std::string_view> candidates;
  for (const Section& known : table_.sections) {
    if (known.outer() == section) candidates.push_back(known.key());
  }
  for (const Option& option : table_.options) {
    if (option.section() == section) candidates.push_back(option.name());
  }
  mistakes_.add(place_of(name), key, yaml::unknown_key(found, candidates, prefix));
}

void Loader::check_combinations() {
  for (const Conflict& conflict : table_.find_conflicts(settings_)) {
    const auto unusable = [this](const std::string& key) { return unusable_.contains(key); };
    if (std::ranges::any_of(conflict.keys, unusable)) continue;
    const auto given = std::ranges::find_if(
        conflict.keys, [this](const std::string& key) { return places_.contains(key); });
    const Place place = given == conflict.keys.end() ? Place{} : places_.find(*given)->second;
    mistakes_.add(place, conflict.keys.front(), conflict.found, conflict.allowed);
  }
}

}  // namespace

void read_text(const Table& table, const std::string& text, const std::string& name,
               Settings& settings) {
  Loader(table, settings).load(text, name);
}

std::string text_of_file(const std::filesystem::path& file) {
  Mistakes mistakes;
  auto text = yaml::read_file(file, mistakes);
  if (!text) throw ConfigError(mistakes.report(file.string()));
  return *std::move(text);
}

Config load_text(const std::string& text, const std::string& name,
                 const std::filesystem::path& folder) {
  Config config{};
  read_text(table(), text, name, config);
  config.replay.path = path_from(folder, config.replay.path);
  config.record.directory = path_from(folder, config.record.directory);
  config.access.server_key = path_from(folder, config.access.server_key);
  config.access.clients = path_from(folder, config.access.clients);
  return config;
}

Config load(const std::filesystem::path& file) {
  return load_text(text_of_file(file), file.string(),
                   std::filesystem::absolute(file).parent_path());
}

}  // namespace driftd::config
