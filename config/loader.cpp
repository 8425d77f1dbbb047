// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/yaml/document.hpp"
#include "base/yaml/mistakes.hpp"
#include "base/yaml/nearest.hpp"
#include "config/drop_ins.hpp"
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

  /// @throws ConfigError
  Origins load(std::span<const Text> texts) {
    bool all_are_yaml = true;
    for (const Text& text : texts) {
      files_.push_back({text.name, {}});
      seen_.clear();
      read_sections_.clear();
      const auto root = yaml::read_document(text.text, mistakes());
      if (root) read_root(*root);
      all_are_yaml = all_are_yaml && root;
    }
    if (all_are_yaml) check_combinations();
    std::string report;
    for (const File& file : files_) {
      if (file.mistakes.empty()) continue;
      report += (report.empty() ? "" : "\n") + file.mistakes.report(file.name);
    }
    if (!report.empty()) throw ConfigError(report);
    return std::move(origins_);
  }

 private:
  struct File {
    std::string name;
    Mistakes mistakes;
  };
  struct FilePlace {
    std::size_t file = 0;  ///< index into files_
    Place place;
  };

  /// The mistakes in the file that is being read.
  Mistakes& mistakes() { return files_.back().mistakes; }
  void set_place(const std::string& key, Place place) { places_[key] = {files_.size() - 1, place}; }
  void read_root(const YAML::Node& root);
  void read_section(const Section& section, const YAML::Node& node);
  /// Reads the section that `name` names within `outer`. False: there is none.
  bool read_inner(std::string_view outer, const YAML::Node& name, const YAML::Node& node);
  void read_option(const Option& option, const YAML::Node& name, const YAML::Node& value);
  void unknown_option(std::string_view section, const YAML::Node& name);
  void check_combinations();

  const Table& table_;
  Settings& settings_;
  std::vector<File> files_;
  std::map<std::string, FilePlace, std::less<>> places_;  ///< of the values that hold
  std::set<std::string, std::less<>> unusable_;           ///< keys that a file gives wrongly
  Origins origins_;
  // What the file that is being read has so far:
  std::set<std::string, std::less<>> seen_;
  std::set<std::string_view> read_sections_;
};

void Loader::read_root(const YAML::Node& root) {
  if (root.IsNull()) return;
  if (!root.IsMap()) {
    mistakes().add(place_of(root), "", describe(root), "a mapping of sections");
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
    mistakes().add(place_of(name), section->name, "found twice; allowed once");
  } else {
    read_section(*section, node);
  }
  return true;
}

void Loader::read_section(const Section& section, const YAML::Node& node) {
  if (node.IsNull()) return;  // a section whose keys are all commented out
  if (!node.IsMap()) {
    mistakes().add(place_of(node), section.name, describe(node), "a mapping of options");
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
  if (!seen_.insert(key).second) {
    mistakes().add(place_of(name), key, "found twice; allowed once");
    return;
  }
  if (value.IsNull()) {  // has no place of its own
    set_place(key, place_of(name));
    unusable_.insert(key);
    mistakes().add(place_of(name), key, "nothing", allowed(option));
    return;
  }
  set_place(key, place_of(value));
  if (value.IsSequence()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      set_place(key + '[' + std::to_string(i) + ']', place_of(value[i]));
    }
  }
  if (const auto read = ValueReader(mistakes()).read(option, value)) {
    option.set(settings_, *read);
    origins_[key].push_back({files_.back().name, place_of(name).line, *read});
  } else {
    unusable_.insert(key);
  }
}

void Loader::unknown_option(std::string_view section, const YAML::Node& name) {
  if (!name.IsScalar()) {
    mistakes().add(place_of(name), section, describe(name), "a name before the colon");
    return;
  }
  const std::string& found = name.Scalar();
  const std::string prefix = section.empty() ? "" : std::string(section) + '.';
  const std::string key = prefix + key_text(name);
  const auto removed = std::ranges::find(table_.removed, key, &RemovedKey::key);
  if (removed != table_.removed.end()) {
    mistakes().add(place_of(name), key,
                   "found a key that is no option any more: " + std::string(removed->instead));
    return;
  }
  // The same name elsewhere is the likeliest slip: an option in the wrong section.
  const auto elsewhere = std::ranges::find(table_.options, std::string_view(found), &Option::name);
  if (elsewhere != table_.options.end()) {
    mistakes().add(place_of(name), key,
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
  mistakes().add(place_of(name), key, yaml::unknown_key(found, candidates, prefix));
}

void Loader::check_combinations() {
  for (const Conflict& conflict : table_.find_conflicts(settings_)) {
    const auto unusable = [this](const std::string& key) { return unusable_.contains(key); };
    if (std::ranges::any_of(conflict.keys, unusable)) continue;
    std::optional<FilePlace> first;
    std::string elsewhere;  // values of other files that take part
    for (const std::string& key : conflict.keys) {
      const auto given = places_.find(key);
      if (given == places_.end()) continue;
      if (!first) first = given->second;
      const auto& [file, place] = given->second;
      if (file != first->file) {
        elsewhere += (elsewhere.empty() ? " (" : ", ") + key + " is from " + files_[file].name +
                     ':' + std::to_string(place.line);
      }
    }
    if (!elsewhere.empty()) elsewhere += ')';
    const FilePlace at = first.value_or(FilePlace{});
    files_[at.file].mistakes.add(at.place, conflict.keys.front(), conflict.found,
                                 conflict.allowed + elsewhere);
  }
}

}  // namespace

Origins read_texts(const Table& table, std::span<const Text> texts, Settings& settings) {
  return Loader(table, settings).load(texts);
}

Config load_texts(std::span<const Text> texts, const std::filesystem::path& folder,
                  Origins* origins) {
  Config config{};
  Origins found = read_texts(table(), texts, config);
  if (origins != nullptr) *origins = std::move(found);
  config.replay.path = path_from(folder, config.replay.path);
  config.axial.curve = path_from(folder, config.axial.curve);
  config.record.directory = path_from(folder, config.record.directory);
  config.access.server_key = path_from(folder, config.access.server_key);
  config.access.clients = path_from(folder, config.access.clients);
  return config;
}

Config load_text(const std::string& text, const std::string& name,
                 const std::filesystem::path& folder) {
  return load_texts(std::array{Text{name, text}}, folder);
}

Config load(const std::filesystem::path& file, Origins* origins) {
  return load_texts(texts_of(file), std::filesystem::absolute(file).parent_path(), origins);
}

Config load(const std::filesystem::path& file) {
  return load(file, nullptr);
}

}  // namespace driftd::config
