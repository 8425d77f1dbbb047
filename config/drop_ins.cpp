// SPDX-License-Identifier: MIT
#include "config/drop_ins.hpp"

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "base/yaml/document.hpp"
#include "base/yaml/mistakes.hpp"
#include "base/yaml/scalar.hpp"

namespace driftd::config {
namespace {

namespace fs = std::filesystem;

Text read_whole(const fs::path& file) {
  yaml::Mistakes mistakes;
  auto text = yaml::read_file(file, mistakes);
  if (!text) throw ConfigError(mistakes.report(file.string()));
  return {file.string(), *std::move(text)};
}

std::string place_of(const Given& given) {
  return given.name + ':' + std::to_string(given.line);
}

}  // namespace

fs::path drop_in_folder(const fs::path& file) {
  fs::path folder = file;
  return folder += ".d";
}

bool is_drop_in(const std::string& name) {
  return name.ends_with(".yaml") && !name.starts_with('.');
}

std::vector<fs::path> drop_ins_of(const fs::path& file) {
  const fs::path folder = drop_in_folder(file);
  std::vector<fs::path> files;
  std::error_code error;
  // A link that leads nowhere is there.
  if (fs::symlink_status(folder, error).type() == fs::file_type::not_found) return files;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_drop_in(entry->path().filename().string())) files.push_back(entry->path());
  }
  if (error) {
    yaml::Mistakes mistakes;
    mistakes.add({}, "",
                 "cannot be listed: " + error.message() +
                     "; allowed a folder of YAML files that may be read, or nothing");
    throw ConfigError(mistakes.report(folder.string()));
  }
  std::ranges::sort(files, {}, [](const fs::path& path) { return path.filename().string(); });
  return files;
}

std::vector<Text> texts_of(const fs::path& file) {
  std::vector<Text> texts = {read_whole(file)};
  for (const fs::path& drop_in : drop_ins_of(file)) texts.push_back(read_whole(drop_in));
  return texts;
}

std::string no_mistakes(const fs::path& file, const Origins& origins) {
  std::string text = file.string() + ": no mistakes\n";
  for (const fs::path& drop_in : drop_ins_of(file)) text += drop_in.string() + ": no mistakes\n";
  for (const auto& [key, given] : origins) {
    for (std::size_t i = 0; i + 1 < given.size(); ++i) {
      text += place_of(given[i]) + ": " + key + ": " + place_of(given.back()) +
              " takes the place of it\n";
    }
  }
  return text;
}

std::string with_drop_ins(const fs::path& file, const Origins& origins) {
  std::set<std::string> names;
  for (const auto& [key, given] : origins) {
    for (const Given& one : given)
      if (one.name != file) names.insert(fs::path(one.name).filename().string());
  }
  std::string text = file.string();
  for (const std::string& name : names)
    text += (name == *names.begin() ? " with " : ", ") + yaml::printable(name);
  return text;
}

std::string origin_of(const std::string& key, const fs::path& file, const Origins& origins) {
  const auto given = origins.find(key);
  return given == origins.end() ? file.string() : place_of(given->second.back());
}

}  // namespace driftd::config
