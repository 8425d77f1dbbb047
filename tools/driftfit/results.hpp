// SPDX-License-Identifier: MIT
// The files that a run leaves: all of those asked for, or none. One thread.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/driftfit/axial_reader.hpp"
#include "tools/driftfit/drift_trace.hpp"
#include "tools/driftfit/localization_files.hpp"
#include "tools/driftfit/options.hpp"
#include "tools/driftfit/spot.hpp"

namespace driftd::tools {

/// What a description says of a run beside its options.
struct RunFacts {
  std::int64_t first_frame = 0, last_frame = 0;
  std::string back_end, instruction_set = {};  ///< of SpotFitter
  std::optional<HeightCounts> heights = {};    ///< with a curve
};

/// What the results are made of, to tell another stack of the same name.
struct InputFacts {
  std::int64_t bytes = 0;   ///< of all
  std::uint64_t stamp = 0;  ///< made of the name, size, time and some bytes of each, in order
  std::int64_t last_change_ns = 0;  ///< for a look at the same computer alone

  bool operator==(const InputFacts&) const = default;
};

class Results {
 public:
  /// Looks before any work is done whether the files can be written.
  /// @param files  that the recording is read from, beside those of the options: never a result
  /// @throws OutputError
  Results(const Options& options, const camera::StackShape& shape,
          const std::vector<std::filesystem::path>& files);

  void write(std::span<const Spot> spots);
  std::int64_t written() const noexcept { return written_; }
  /// Completes the files and gives them their names.
  /// @param trace  null without markers
  void finish(const DriftTrace* trace, const RunFacts& facts);
  /// The description that finish() writes, but for what a shard says of itself.
  std::string description(const RunFacts& facts) const;
  /// "a.csv, b.txt"
  std::string names() const;

 private:
  /// A shard of a stack that changed meanwhile would say of which it is, and be of both.
  /// @throws InputError
  void check_unchanged() const;
  /// Null where `path` is empty.
  OutputFile* add(const std::filesystem::path& path);

  const Options& options_;
  camera::StackShape shape_;
  std::vector<std::filesystem::path> inputs_;
  InputFacts input_facts_;
  std::vector<std::unique_ptr<OutputFile>> files_;
  std::vector<std::unique_ptr<SpotWriter>> writers_;
  OutputFile *table_ = nullptr, *locs_ = nullptr;
  OutputFile* description_ = nullptr;
  OutputFile* drift_ = nullptr;
  OutputFile* drift_csv_ = nullptr;
  std::int64_t written_ = 0;
};

/// How the spots were found and fitted, for Picasso's description.
std::vector<YamlEntry> settings_of(const Options& options, const RunFacts& facts,
                                   const InputFacts& inputs);

}  // namespace driftd::tools
