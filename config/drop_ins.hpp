// SPDX-License-Identifier: MIT
// The files that a configuration is made of: the one that `--config FILE` names, and its drop-ins,
// all `*.yaml` in the folder FILE.d in the order of their names by bytes, which are read over it
// (docs/reference/configuration.md, "Drop-in files"). Blocking; any thread.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "config/table.hpp"

namespace driftd::config {

/// FILE.d, beside the name as it was given: not beside what a symbolic link leads to.
std::filesystem::path drop_in_folder(const std::filesystem::path& file);
/// Whether the loader reads a file of that name in such a folder.
bool is_drop_in(const std::string& name);
/// The file's drop-ins in the order in which they are read; none where there is no folder.
/// @throws ConfigError where what is there is no folder or cannot be listed
std::vector<std::filesystem::path> drop_ins_of(const std::filesystem::path& file);
/// The file's text and its drop-ins', each by its path. @throws ConfigError naming one that cannot
/// be read
std::vector<Text> texts_of(const std::filesystem::path& file);

/// As load() and load_text(). Relative paths are seen from `folder`, whichever text has them.
Config load_texts(std::span<const Text> texts, const std::filesystem::path& folder,
                  Origins* origins = nullptr);
Config load(const std::filesystem::path& file, Origins* origins);

/// What --check-config prints where there are no mistakes: a line for each file, and one for each
/// value that a later file takes the place of.
std::string no_mistakes(const std::filesystem::path& file, const Origins& origins);
/// "FILE", or "FILE with A.yaml, B.yaml", the drop-ins that give values; for a log.
std::string with_drop_ins(const std::filesystem::path& file, const Origins& origins);
/// "FILE:LINE" of the key's value; `file` where it has its default.
std::string origin_of(const std::string& key, const std::filesystem::path& file,
                      const Origins& origins);

}  // namespace driftd::config
