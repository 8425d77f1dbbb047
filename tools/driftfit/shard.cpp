// SPDX-License-Identifier: MIT
#include "tools/driftfit/shard.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>

#include "tools/driftfit/errors.hpp"

namespace driftd::tools {
namespace {

constexpr const char* kFirst = "First Frame";
constexpr const char* kLast = "Last Frame";
/// Of a shard alone.
constexpr const char* kShard = "Shard";
constexpr const char* kLocalizations = "Localizations";
constexpr const char* kTableBytes = "Table Bytes";
constexpr const char* kLocsBytes = "Locs Bytes";
constexpr const char* kTableSum = "Table Sum";
constexpr const char* kLocsSum = "Locs Sum";
constexpr std::array kOwnKeys{kFirst,      kLast,      kShard,    kLocalizations,
                              kTableBytes, kLocsBytes, kTableSum, kLocsSum};

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::int64_t bytes_in(const std::filesystem::path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? -1 : static_cast<std::int64_t>(size);
}

/// Of all bytes of a file, eight at a time, as FNV-1a but turned: any change within eight shows.
std::string sum_of(const std::filesystem::path& path) {
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> block(kBlock);
  std::uint64_t sum = 0xcbf29ce484222325;
  while (file) {
    file.read(block.data(), static_cast<std::streamsize>(kBlock));
    const auto count = static_cast<std::size_t>(file.gcount());
    for (std::size_t at = 0; at < count; at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, block.data() + at, std::min(sizeof word, count - at));
      sum = std::rotl(sum ^ word, 29) * 0x100000001b3;
    }
  }
  return fmt::format("0x{:016x}", sum);
}

/// Where a file has not as many bytes as it should: how many it has.
std::string wrong_size(const std::filesystem::path& path, std::int64_t expected) {
  const std::int64_t found = bytes_in(path);
  if (found == expected) return {};
  return path.string() + (found < 0
                              ? std::string(" is missing")
                              : fmt::format(" has {} bytes, written were {}", found, expected));
}

/// Where a file has not the bytes that were written: what it has.
std::string wrong_bytes(const std::filesystem::path& path, std::int64_t bytes,
                        const std::string& sum) {
  std::string wrong = wrong_size(path, bytes);
  if (wrong.empty() && sum_of(path) != sum)
    wrong = path.string() + " has other bytes than were written, though as many";
  return wrong;
}

}  // namespace

std::string Shard::name() const {
  return fmt::format("{} of {}", index, count);
}

std::optional<Shard> shard_named(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const auto index = whole_number(std::string_view(text).substr(0, slash));
  const auto count = whole_number(std::string_view(text).substr(slash + 1));
  if (!index || !count || *index < 1 || *index > *count || *count > kMostShards)
    return std::nullopt;
  return Shard{*index, *count};
}

ShardFrames frames_of(const Shard& shard, std::int64_t frames) noexcept {
  // Without the product of both, which may be more than a number holds.
  const auto begin = [&](std::int64_t before) {
    return frames / shard.count * before + frames % shard.count * before / shard.count;
  };
  return {begin(shard.index - 1), begin(shard.index)};
}

ResultNames results_of(const std::string& prefix) {
  return {prefix + "_thunderstorm.csv", prefix + "_locs.hdf5", prefix + "_locs.yaml"};
}

std::string shard_prefix(const std::string& output, const Shard& shard) {
  const std::string count = std::to_string(shard.count);
  return fmt::format("{}_shard-{:0{}}-of-{}", output, shard.index, count.size(), count);
}

std::vector<Shard> shards_beside(const std::string& output) {
  const std::filesystem::path path(output);
  const std::string name = path.filename().string();
  static const std::regex rest(
      R"(_shard-(\d{1,6})-of-(\d{1,6})_(thunderstorm\.csv|locs\.hdf5|locs\.yaml))");
  std::set<std::pair<std::int64_t, std::int64_t>> found;
  std::error_code error;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string file = entry->path().filename().string();
    std::smatch match;
    if (file.rfind(name, 0) != 0) continue;
    const std::string tail = file.substr(name.size());
    if (!std::regex_match(tail, match, rest)) continue;
    const Shard shard{std::stoll(match[1]), std::stoll(match[2])};
    if (shard.index < 1 || shard.index > shard.count) continue;
    if (shard_prefix(name, shard) + "_" + match[3].str() == file)
      found.insert({shard.count, shard.index});
  }
  std::vector<Shard> shards;
  shards.reserve(found.size());
  for (const auto& [count, index] : found) shards.push_back({index, count});
  return shards;
}

Description::Description(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos)
      entries_.emplace_back(line.substr(0, colon), line.substr(colon + 2));
  }
}

std::optional<Description> Description::of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return std::nullopt;
  return Description(text.str());
}

const std::string& Description::value(const std::string& key) const noexcept {
  static const std::string none;
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const auto& entry) { return entry.first == key; });
  return found == entries_.end() ? none : found->second;
}

std::int64_t Description::number(const std::string& key) const noexcept {
  return whole_number(value(key)).value_or(-1);
}

std::vector<Description::Difference> Description::differences(const Description& other) const {
  std::vector<Difference> found;
  const auto is_own = [](const std::string& key) {
    return std::find(kOwnKeys.begin(), kOwnKeys.end(), key) != kOwnKeys.end();
  };
  for (const auto& [key, here] : entries_) {
    if (!is_own(key) && other.value(key) != here) found.push_back({key, here, other.value(key)});
  }
  for (const auto& [key, there] : other.entries_) {
    if (!is_own(key) && value(key).empty() && !there.empty()) found.push_back({key, "", there});
  }
  return found;
}

std::string shard_document(const Shard& shard, std::int64_t localizations,
                           const std::filesystem::path& table, const std::filesystem::path& locs) {
  return yaml_document({{kShard, fmt::format("{}/{}", shard.index, shard.count)},
                        {kLocalizations, localizations},
                        {kTableBytes, bytes_in(table)},
                        {kLocsBytes, bytes_in(locs)},
                        {kTableSum, sum_of(table)},
                        {kLocsSum, sum_of(locs)}});
}

std::string merged_description(const std::string& text, std::int64_t frames) {
  std::istringstream lines(text);
  std::string merged, document;
  bool is_own = false;
  const auto end_document = [&] {
    if (!is_own) merged += document;
    document.clear();
    is_own = false;
  };
  for (std::string line; std::getline(lines, line);) {
    if (line == "---") end_document();
    const std::string key = line.substr(0, line.find(": "));
    if (key == kShard) is_own = true;
    if (key == kFirst) line = fmt::format("{}: 0", kFirst);
    if (key == kLast) line = fmt::format("{}: {}", kLast, frames - 1);
    document += line + "\n";
  }
  end_document();
  return merged;
}

std::string why_not_whole(const Description& description, const ResultNames& names) {
  if (description.value(kShard).empty())
    return names.description.string() + " does not say which shard it is of";
  std::string wrong =
      wrong_bytes(names.table, description.number(kTableBytes), description.value(kTableSum));
  if (!wrong.empty()) return wrong;
  return wrong_bytes(names.locs, description.number(kLocsBytes), description.value(kLocsSum));
}

std::string in_words(const std::vector<Description::Difference>& differences,
                     const std::string& here, const std::string& there) {
  const auto said = [](const std::string& value) { return value.empty() ? "not said" : value; };
  std::string text;
  for (const auto& difference : differences) {
    text += fmt::format("{}{} is {} {} and {} {}", text.empty() ? "" : "; ", difference.key,
                        said(difference.here), here, said(difference.there), there);
  }
  return text;
}

bool is_done(const ResultNames& names, const Description& expected) {
  const auto found = Description::of_file(names.description);
  if (!found || !why_not_whole(*found, names).empty()) return false;
  auto differences = found->differences(expected);
  for (const char* key : {kFirst, kLast}) {
    if (found->value(key) != expected.value(key))
      differences.push_back({key, found->value(key), expected.value(key)});
  }
  if (differences.empty()) return true;
  throw OutputError(names.description, "this shard is there already, and of something else: " +
                                           in_words(differences, "there", "now") +
                                           "; --overwrite replaces it");
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) throw InputError(path, "cannot be read");
  return text.str();
}

bool has_results(const ResultNames& names, const std::string& description,
                 const std::string& where) {
  std::error_code error;
  if (!std::filesystem::exists(names.description, error)) return false;
  const std::string there = text_of(names.description);
  if (there == description) {
    return std::filesystem::exists(names.table, error) &&
           std::filesystem::exists(names.locs, error);
  }
  const auto differences = Description(there).differences(Description(description));
  throw OutputError(names.description,
                    "exists already, and is of something else" +
                        (differences.empty() ? fmt::format(": frames {} to {}",
                                                           Description(there).value("First Frame"),
                                                           Description(there).value("Last Frame"))
                                             : ": " + in_words(differences, "there", where)) +
                        "; --overwrite replaces it");
}

}  // namespace driftd::tools
