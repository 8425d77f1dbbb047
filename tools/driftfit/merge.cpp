// SPDX-License-Identifier: MIT
#include "tools/driftfit/merge.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "base/counted.hpp"
#include "tools/driftfit/errors.hpp"
#include "tools/driftfit/output_file.hpp"
#include "tools/driftfit/picasso_rows.hpp"
#include "tools/driftfit/shard.hpp"

namespace driftd::tools {
namespace {

constexpr std::size_t kTextBytes = std::size_t{1} << 20;  ///< of a table, in memory
constexpr std::size_t kNamesShown = 5;

struct Part {
  Shard shard;
  ResultNames names;
  Description description;
  std::int64_t first = 0, last = -1;  ///< frames; none where last is before first
};

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

/// "1, 4, 5 and 8 more"
std::string some_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamesShown, names.size()); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kNamesShown) text += fmt::format(" and {} more", names.size() - kNamesShown);
  return text;
}

/// That they are of one number of shards. @throws InputError
void check_one_set(const std::string& output, const std::vector<Shard>& shards) {
  const auto other = std::find_if(shards.begin(), shards.end(), [&](const Shard& shard) {
    return shard.count != shards.front().count;
  });
  if (other == shards.end()) return;
  throw InputError(
      output, fmt::format("there are shards of {} and of {}, {}... and {}...: of one stack cut "
                          "in two ways, or of two runs; allowed is one set. Remove those that "
                          "do not belong",
                          shards.front().count, other->count, shard_prefix(output, shards.front()),
                          shard_prefix(output, *other)));
}

/// That no other process writes a shard, or the results. What killed ones left is removed.
/// @throws InputError
void check_nobody_writes(const std::string& output, const ResultNames& names) {
  for (const std::string& begin : {output + "_shard-", names.table.string() + ".",
                                   names.locs.string() + ".", names.description.string() + "."}) {
    const auto written = still_written(begin);
    if (written.empty()) continue;
    throw InputError(written.front(),
                     "is being written by a driftfit that has not ended; merge "
                     "again when it has");
  }
}

/// Those whose files are whole.
/// @param not_whole  what is wrong with the others
std::vector<Part> whole_parts(const std::string& output, const std::vector<Shard>& shards,
                              std::vector<std::string>& not_whole,
                              const std::function<bool()>& stop) {
  std::vector<Part> parts;
  for (const Shard& shard : shards) {
    if (stop()) throw Interrupted();
    const ResultNames names = results_of(shard_prefix(output, shard));
    const auto description = Description::of_file(names.description);
    const std::string wrong =
        description ? why_not_whole(*description, names)
                    : names.description.string() + " is missing, as it was not finished";
    if (!wrong.empty()) {
      not_whole.push_back(fmt::format("shard {}: {}", shard.name(), wrong));
      continue;
    }
    const std::int64_t first = description->number("First Frame");
    parts.push_back({shard, names, *description, first, description->number("Last Frame")});
  }
  return parts;
}

/// What the merge writes beside its results, by a shard's description.
std::string merged_text(const ResultNames& shard) {
  const std::string text = text_of(shard.description);
  return merged_description(text, Description(text).number("Frames"));
}

/// That all are of one stack, of the same settings, version and processor. @throws InputError
void check_alike(const std::vector<Part>& parts) {
  const std::string text = merged_text(parts.front().names);
  for (const Part& part : parts) {
    const auto differences = part.description.differences(parts.front().description);
    if (differences.empty() && merged_text(part.names) == text) continue;
    if (differences.empty())
      throw InputError(part.names.description,
                       "has other lines than " + parts.front().names.description.string() +
                           ", though the same values: one of them was changed after it was "
                           "written. Do both again with --overwrite");
    throw InputError(
        part.names.description,
        in_words(differences, "here", "in " + parts.front().names.description.string()) +
            ": shards of one run are alike. Do those that are wrong again with "
            "--overwrite" +
            (std::any_of(differences.begin(), differences.end(),
                         [](const auto& difference) { return difference.key == "Instruction Set"; })
                 ? ", all with the same --instruction-set"
                 : ""));
  }
}

/// That the frames of the parts follow one another, from the first to the last of the stack.
/// @throws InputError
void check_frames(const std::string& output, std::vector<Part>& parts,
                  const std::vector<std::string>& not_whole) {
  const std::int64_t count = parts.front().shard.count;
  const std::int64_t frames = parts.front().description.number("Frames");
  std::vector<std::string> missing;
  std::vector<bool> found(static_cast<std::size_t>(count));
  for (const Part& part : parts) found[static_cast<std::size_t>(part.shard.index - 1)] = true;
  for (std::int64_t i = 1; i <= count; ++i) {
    if (found[static_cast<std::size_t>(i - 1)]) continue;
    const ShardFrames range = frames_of({i, count}, frames);
    missing.push_back(range.first == range.end ? fmt::format("{}/{}", i, count)
                                               : fmt::format("{}/{} (frames {} to {})", i, count,
                                                             range.first, range.end - 1));
  }
  if (!missing.empty()) {
    throw InputError(output, fmt::format("{} of {} {} not there, or not whole: --shard {}{}. Run "
                                         "driftfit with each of these again; nothing was merged",
                                         missing.size(), counted(count, "shard"),
                                         missing.size() == 1 ? "is" : "are", some_of(missing),
                                         not_whole.empty() ? "" : "; " + some_of(not_whole)));
  }
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.shard.index < b.shard.index; });
  std::int64_t next = 0;
  for (const Part& part : parts) {
    if (part.first != next || part.last < part.first - 1) {
      throw InputError(
          part.names.description,
          fmt::format("has frames {} to {}, where frame {} comes next: the shards {}", part.first,
                      part.last, next, part.first > next ? "leave a gap" : "overlap"));
    }
    next = part.last + 1;
  }
  if (next != frames) {
    throw InputError(parts.back().names.description,
                     fmt::format("ends with frame {}, the stack with {}", next - 1, frames - 1));
  }
}

/// Lines of a table, handed on with new numbers. The first line names the columns.
class Table {
 public:
  explicit Table(const OutputFile& output) : file_(output) {}

  /// @throws InputError where the table is not what its description says
  void append(const Part& part) {
    const std::filesystem::path& path = part.names.table;
    std::ifstream file(path, std::ios::binary);
    std::string line;
    if (!std::getline(file, line)) throw InputError(path, "has no line with the columns' names");
    if (header_.empty()) {
      header_ = line;
      text_ = line + "\n";
    }
    if (line != header_)
      throw InputError(path, "has the columns " + line + ", the others " + header_);
    std::int64_t rows = 0;
    for (; std::getline(file, line); ++rows) {
      const std::size_t comma = line.find(',');
      if (comma == std::string::npos || file.eof())
        throw InputError(path, fmt::format("line {} is no whole row", rows + 2));
      text_ += std::to_string(++id_);
      text_.append(line, comma);
      text_ += '\n';
      if (text_.size() > kTextBytes) flush();
    }
    const std::int64_t expected = part.description.number("Localizations");
    if (rows != expected)
      throw InputError(
          path, fmt::format("has {}, its description says {}", counted(rows, "row"), expected));
  }
  void finish() {
    flush();
    file_.finish();
  }

 private:
  void flush() {
    file_.write(text_);
    text_.clear();
  }

  TextFile file_;
  std::string header_, text_;
  std::int64_t id_ = 0;
};

/// @throws InputError where the table is not what its description says
void append_locs(PicassoRowsWriter& locs, const Part& part) {
  PicassoRowsReader reader(part.names.locs);
  const std::int64_t expected = part.description.number("Localizations");
  if (static_cast<std::int64_t>(reader.count()) != expected) {
    throw InputError(part.names.locs, fmt::format("has {}, its description says {}",
                                                  counted(reader.count(), "row"), expected));
  }
  for (const auto* rows = &reader.read(); !rows->empty(); rows = &reader.read()) {
    for (const PicassoRow& row : *rows) {
      if (row.frame < part.first || row.frame > part.last)
        throw InputError(part.names.locs, fmt::format("has a row of frame {}, its description says "
                                                      "frames {} to {}",
                                                      row.frame, part.first, part.last));
      locs.write(row);
    }
  }
}

bool same_bytes(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::ifstream left(a, std::ios::binary), right(b, std::ios::binary);
  std::vector<char> from_left(kTextBytes), from_right(kTextBytes);
  while (left && right) {
    left.read(from_left.data(), static_cast<std::streamsize>(from_left.size()));
    right.read(from_right.data(), static_cast<std::streamsize>(from_right.size()));
    if (left.gcount() != right.gcount() ||
        !std::equal(from_left.begin(), from_left.begin() + left.gcount(), from_right.begin()))
      return false;
  }
  return left.eof() && right.eof();
}

/// The description goes last, so that while it is there the others of the shard may not be.
void remove_shard(const ResultNames& names) {
  std::error_code error;
  for (const auto& file : {names.table, names.locs, names.description}) {
    if (!std::filesystem::remove(file, error) && error)
      throw OutputError(file, "cannot be removed after the merge: " + error.message());
  }
}

/// Writes the results under their names. @returns how many localizations
std::int64_t write_results(const MergeOptions& options, const ResultNames& names,
                           const std::vector<Part>& parts, const std::string& description,
                           const std::function<bool()>& stop) {
  std::vector<std::unique_ptr<OutputFile>> files;
  for (const auto& name : {names.table, names.locs, names.description})
    files.push_back(std::make_unique<OutputFile>(name));
  Table table(*files[0]);
  PicassoRowsWriter locs(*files[1], false);
  std::int64_t localizations = 0;
  for (const Part& part : parts) {
    if (stop()) throw Interrupted();
    table.append(part);
    append_locs(locs, part);
    localizations += part.description.number("Localizations");
  }
  table.finish();
  locs.finish();
  TextFile text(*files[2]);
  text.write(description);
  text.finish();
  for (const auto& file : files) {
    // A merge that was killed while it gave its files their names left some of these.
    if (options.overwrite || !is_there(file->path()) || same_bytes(file->path(), file->temporary()))
      continue;
    throw OutputError(file->path(),
                      "exists already, and is not what the shards make; --overwrite replaces it");
  }
  keep_all(files, files[2].get());
  return localizations;
}

/// Whether the results are there, made of the same shards: a merge was ended while it removed
/// them, each one's description last.
bool is_merged(const std::string& output, const std::vector<Shard>& shards,
               const ResultNames& names) {
  for (const auto& file : {names.table, names.locs, names.description}) {
    if (!is_there(file)) return false;
  }
  const std::string there = text_of(names.description);
  return std::all_of(shards.begin(), shards.end(), [&](const Shard& shard) {
    const ResultNames files = results_of(shard_prefix(output, shard));
    return is_there(files.description) && merged_text(files) == there;
  });
}

void remove_all(const std::string& output, const std::vector<Shard>& shards) {
  for (const Shard& shard : shards) remove_shard(results_of(shard_prefix(output, shard)));
}

/// Whether another merge has removed some meanwhile, so that what was missing is not at fault.
bool any_is_gone(const std::string& output, const std::vector<Shard>& shards,
                 const std::vector<Part>& parts) {
  return shards_beside(output).size() != shards.size() ||
         std::any_of(parts.begin(), parts.end(), [](const Part& part) {
           const auto& [table, locs, description] = part.names;
           return !is_there(table) || !is_there(locs) || !is_there(description);
         });
}

/// What is said where there are no shards. @throws InputError
std::string without_shards(const std::string& output, const ResultNames& names) {
  const std::filesystem::path folder =
      names.locs.has_parent_path() ? names.locs.parent_path() : ".";
  std::error_code error;
  const std::filesystem::directory_iterator readable(folder, error);
  if (error) throw InputError(folder, "cannot be searched for shards: " + error.message());
  const auto there = Description::of_file(names.description);
  if (there && there->number("First Frame") == 0 && there->number("Frames") > 0 &&
      there->number("Last Frame") == there->number("Frames") - 1 && is_there(names.table) &&
      is_there(names.locs)) {
    return fmt::format("no shards are left to merge: {} has all {} frames already\n",
                       names.locs.string(), there->number("Frames"));
  }
  throw InputError(output, fmt::format("there are no shards, {}...: driftfit STACK --every-spot "
                                       "--shard I/N -o {} makes one",
                                       shard_prefix(output, {1, 1}), output));
}

/// @param parts  those of the shards that are whole
std::string merge_of(const MergeOptions& options, const ResultNames& names,
                     const std::vector<Shard>& shards, std::vector<Part>& parts,
                     const std::function<bool()>& stop) {
  const std::string& output = options.output;
  check_one_set(output, shards);
  std::vector<std::string> not_whole;
  parts = whole_parts(output, shards, not_whole, stop);
  const bool all_there = static_cast<std::int64_t>(parts.size()) == shards.front().count;
  if (!all_there && is_merged(output, shards, names)) {
    remove_all(output, shards);
    return fmt::format("{} has all frames of these shards already; removed what was left of {}\n",
                       names.locs.string(), counted(shards.size(), "shard"));
  }
  if (parts.empty()) {
    throw InputError(output, "no shard is whole: " + some_of(not_whole) +
                                 ". Run driftfit with each of these again; nothing was merged");
  }
  check_alike(parts);
  check_frames(output, parts, not_whole);
  const std::string description = merged_text(parts.front().names);
  if (!options.overwrite) has_results(names, description, "in the shards");
  const std::int64_t localizations = write_results(options, names, parts, description, stop);
  remove_all(output, shards);
  return fmt::format("{}, {}, {}\nwritten: {}, {}, {}\n", counted(parts.size(), "shard"),
                     counted(parts.front().description.number("Frames"), "frame"),
                     counted(localizations, "localization"), names.table.string(),
                     names.locs.string(), names.description.string());
}

}  // namespace

std::string merge_shards(const MergeOptions& options, const std::function<bool()>& stop) {
  const std::string& output = options.output;
  const ResultNames names = results_of(output);
  const std::vector<Shard> shards = shards_beside(output);
  check_nobody_writes(output, names);
  if (shards.empty()) return without_shards(output, names);
  std::vector<Part> parts;
  try {
    return merge_of(options, names, shards, parts, stop);
  } catch (const InputError&) {
    if (!any_is_gone(output, shards, parts)) throw;
  }
  return merge_shards(options, stop);
}

}  // namespace driftd::tools
