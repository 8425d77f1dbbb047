// SPDX-License-Identifier: MIT
// Sets values of a configuration file in place: every byte that is not of a value stays as it is,
// comments, order and line ends among them, and the old file is kept beside the new one. Blocking,
// up to some 10 ms; any thread, one at a time for a file.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "clients/common/yaml_tree.hpp"

namespace driftd::clients {

/// Key as in docs/configuration.md ("stage.delay_us") and value as YAML on one line ("3100",
/// "[[1, 0], [0, 1]]").
using KeyValues = std::vector<std::pair<std::string, std::string>>;

/// The text with these values. A key or section that is missing comes behind the last one of its
/// section. What came out is parsed anew: exactly these values have changed.
/// @throws EditError naming the key, where that cannot be done: anchors, keys that occur twice,
///   comments within a value of another shape
std::string with_values(std::string text, const KeyValues& values);

/// Sets the values in the file, which is replaced at once and as a whole: permissions, owner and a
/// symbolic link to it stay, the old one lies beside it as FILE.before-YYYY-MM-DDTHH-MM-SS. What is
/// written is a configuration that config::load() takes.
/// @returns the old file's new name; empty where all values were there already: nothing is written
/// @throws EditError when it cannot be done, with the file's name; nothing has changed then
std::filesystem::path set_values(const std::filesystem::path& file, const KeyValues& values);

}  // namespace driftd::clients
