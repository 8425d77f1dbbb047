// SPDX-License-Identifier: MIT
#include "clients/common/calibration_file.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <stdexcept>

#include "base/yaml/scalar.hpp"
#include "clients/common/replace_file.hpp"
#include "config/drop_ins.hpp"
#include "config/options.hpp"

namespace driftd::clients {
namespace {

namespace fs = std::filesystem;

struct Entry {
  std::string value;
  bool kept;  ///< it was in the file before
};
using Entries = std::map<std::string, Entry, std::less<>>;

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 40> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S%z", &local)};
}

std::string comment(const std::string& text) {
  return "# " + yaml::printable(text) + '\n';
}

/// The names of sections and the value, below what stands before of the same section.
std::string body(const Entries& entries) {
  std::string text, open;  // the section that the text is in
  for (const config::Option& option : config::options()) {
    const auto entry = entries.find(option.key);
    if (entry == entries.end()) continue;
    const std::string section(option.section());
    std::string blanks;
    for (std::size_t begin = 0; begin < section.size(); blanks += "  ") {
      const std::size_t end = std::min(section.find('.', begin), section.size());
      const std::string outer = section.substr(0, end);
      if (open != outer && !open.starts_with(outer + '.'))
        text += blanks + section.substr(begin, end - begin) + ":\n";
      begin = end + 1;
    }
    open = section;
    text += fmt::format("{}{}: {}{}\n", blanks, option.name(), entry->second.value,
                        entry->second.kept ? "  # of an earlier calibration" : "");
  }
  return text;
}

/// @param before  of the configuration as it is
std::string compose(const CalibrationFile& file, const Entries& entries,
                    const config::Origins& before) {
  std::string text = comment(fmt::format("{} by `{}`, {}.", file.how, file.command, date_now()));
  for (const std::string& subject : file.subject) text += comment(subject);
  text += comment("driftd reads it over " + file.config.filename().string() +
                  " (docs/reference/configuration.md, \"Drop-in files\"); the next such command");
  text += comment("writes it anew as a whole, and keeps this one beside it.");
  std::string replaced;
  for (const auto& [key, entry] : entries) {
    const auto given = before.find(key);
    if (given == before.end()) continue;
    for (const config::Given& one : given->second) {
      if (one.name == file.path()) break;
      if (one.name != file.config && !(fs::path(one.name).filename() < fs::path(file.name))) break;
      replaced +=
          comment(fmt::format("  {}: {}  ({}:{})", key,
                              to_yaml(*config::find_option(key), one.value), one.name, one.line));
    }
  }
  if (!replaced.empty()) text += comment("It takes the place of:") + replaced;
  return text + body(entries);
}

/// The texts with that one in its place.
std::vector<config::Text> with(std::vector<config::Text> texts, const config::Text& fresh) {
  std::erase_if(texts, [&](const config::Text& text) { return text.name == fresh.name; });
  const auto name = [](const config::Text& text) {
    return fs::path(text.name).filename().string();
  };
  const auto place = std::find_if(texts.begin() + 1, texts.end(), [&](const config::Text& text) {
    return name(text) > name(fresh);
  });
  texts.insert(place, fresh);
  return texts;
}

const config::Given* given_by(const config::Origins& origins, const std::string& key,
                              const std::string& name) {
  const auto all = origins.find(key);
  if (all == origins.end()) return nullptr;
  const auto one = std::ranges::find(all->second, name, &config::Given::name);
  return one == all->second.end() ? nullptr : &*one;
}

/// What would be written, and what loads without and with it.
struct Draft {
  std::vector<config::Text> texts;  ///< of the configuration as it is
  config::Text fresh;
  config::Config before, after;
  config::Origins origins;  ///< of `after`
  bool in_force;            ///< the configuration has all the values already
};

Draft draft_of(const CalibrationFile& file, const KeyValues& values) {
  const std::string path = file.path().string();
  const fs::path folder = fs::absolute(file.config).parent_path();
  Draft draft;
  draft.texts = config::texts_of(file.config);
  config::Origins before;
  draft.before = config::load_texts(draft.texts, folder, &before);

  Entries entries;
  for (const auto& [key, given] : before) {
    if (const auto* old = given_by(before, key, path))
      entries[key] = {to_yaml(*config::find_option(key), old->value), true};
  }
  for (const auto& [key, value] : values) {
    if (config::find_option(key) == nullptr)
      throw std::runtime_error(key + " is no key of the configuration; nothing was written");
    entries[key] = {value, false};
  }
  draft.fresh = {path, compose(file, entries, before)};
  try {
    draft.after = config::load_texts(with(draft.texts, draft.fresh), folder, &draft.origins);
  } catch (const config::ConfigError& error) {
    throw std::runtime_error(
        fmt::format("nothing was written, because with these values driftd would not take the "
                    "configuration:\n{}",
                    error.what()));
  }
  draft.in_force = std::ranges::all_of(values, [&](const auto& value) {
    return config::find_option(value.first)->get(draft.before) ==
           given_by(draft.origins, value.first, path)->value;
  });
  return draft;
}

}  // namespace

fs::path CalibrationFile::path() const {
  return config::drop_in_folder(config) / name;
}

void check_writable(const CalibrationFile& file) {
  constexpr std::size_t kMostBytes = 4096;  // a file that is written anew has fewer
  check_replaceable(file.path(), file.config, kMostBytes);
}

bool is_configured(const CalibrationFile& file, const KeyValues& values) {
  return draft_of(file, values).in_force;
}

std::optional<WrittenCalibration> write_calibration(const CalibrationFile& file,
                                                    const KeyValues& values) {
  const Draft draft = draft_of(file, values);
  if (draft.in_force) return std::nullopt;
  WrittenCalibration written;
  written.before = draft.before;
  written.after = draft.after;
  const std::string& path = draft.fresh.name;
  for (const auto& [key, value] : values) {
    const config::Given& last = draft.origins.find(key)->second.back();
    if (last.name != path)
      written.overridden.push_back(fmt::format("{} ({}:{})", key, last.name, last.line));
  }
  const auto old = std::ranges::find(draft.texts, path, &config::Text::name);
  written.old = replace_file(path, file.config,
                             old == draft.texts.end() ? std::nullopt : std::optional(old->text),
                             draft.fresh.text);
  return written;
}

}  // namespace driftd::clients
