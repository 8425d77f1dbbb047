// SPDX-License-Identifier: MIT
// A shard: one of n contiguous parts of a stack's frames, whose results have files of their own
// until `driftfit merge` joins them. The files are all there is to know: a shard is there when its
// description is, which is written last, and says how large the others are. Pure functions, but for
// looks at the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/driftfit/yaml_files.hpp"

namespace driftd::tools {

constexpr std::int64_t kMostShards = 10'000;

struct Shard {
  std::int64_t index = 0, count = 0;  ///< from 1; 0 of 0: the whole stack

  bool is_part() const noexcept { return count > 0; }
  /// "3 of 7"
  std::string name() const;
};

/// "3/7"; nothing of another text, or another number than 1 to 7 of 7.
std::optional<Shard> shard_named(const std::string& text);

/// Where its frames begin, and those of the next.
struct ShardFrames {
  std::int64_t first = 0, end = 0;
};
ShardFrames frames_of(const Shard& shard, std::int64_t frames) noexcept;

/// The files of a run with --every-spot, beginning with what --output says.
struct ResultNames {
  std::filesystem::path table, locs, description;
};
ResultNames results_of(const std::string& prefix);

/// "OUT_shard-3-of-7", with as many digits as 7 has.
std::string shard_prefix(const std::string& output, const Shard& shard);

/// The shards of which at least one file is there, in order.
std::vector<Shard> shards_beside(const std::string& output);

/// Keys and values of a description, of all its documents.
class Description {
 public:
  explicit Description(const std::string& text);
  /// Nothing where there is no such file, or it cannot be read.
  static std::optional<Description> of_file(const std::filesystem::path& path);

  /// "" where there is no such key
  const std::string& value(const std::string& key) const noexcept;
  /// -1 where the value is no whole number from 0.
  std::int64_t number(const std::string& key) const noexcept;

  struct Difference {
    std::string key, here, there;
  };
  /// In what the results depend on: all but the shard's own frames and sizes.
  std::vector<Difference> differences(const Description& other) const;

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

/// What a shard's description says of itself, in a document of its own.
std::string shard_document(const Shard& shard, std::int64_t localizations,
                           const std::filesystem::path& table, const std::filesystem::path& locs);

/// Without the shard's own document, of all frames: what one run would have written.
std::string merged_description(const std::string& text, std::int64_t frames);

/// Whether the files of a shard are there, whole, and what it would be done to.
/// @param expected  its description but for its own document
/// @throws OutputError where they are whole and of something else, with what differs
bool is_done(const ResultNames& names, const Description& expected);

/// @throws InputError
std::string text_of(const std::filesystem::path& path);

/// Whether the results of all frames are there, by their description.
/// @param where  that description is: "in the shards"
/// @throws OutputError where there are some of something else, with what differs
bool has_results(const ResultNames& names, const std::string& description,
                 const std::string& where);

/// "Box Size is 7 here and 9 there; ..."
std::string in_words(const std::vector<Description::Difference>& differences,
                     const std::string& here, const std::string& there);

/// What is wrong with the files of a shard whose description is this, "": nothing.
std::string why_not_whole(const Description& description, const ResultNames& names);

}  // namespace driftd::tools
