// SPDX-License-Identifier: MIT
#include <spdlog/fmt/fmt.h>

#include "base/yaml/document.hpp"
#include "clients/common/replace_file.hpp"
#include "clients/common/yaml_edit.hpp"
#include "config/config.hpp"

namespace driftd::clients {
namespace {

/// @throws EditError where the file cannot be read, or is no YAML
std::string read_whole(const std::filesystem::path& file) {
  yaml::Mistakes mistakes;
  const auto text = yaml::read_file(file, mistakes);
  if (text) yaml::read_document(*text, mistakes);
  if (!mistakes.empty()) throw EditError(mistakes.report(file.string()));
  return *text;
}

}  // namespace

std::filesystem::path set_values(const std::filesystem::path& file, const KeyValues& values) {
  const std::string before = read_whole(file);
  std::string after;
  try {
    after = with_values(before, values);
    if (after == before) return {};
    config::load_text(after, file.string(), std::filesystem::absolute(file).parent_path());
  } catch (const EditError& error) {
    throw EditError(
        fmt::format("{}: {}: set it by hand; nothing was written", file.string(), error.what()));
  } catch (const config::ConfigError& error) {
    throw EditError(
        fmt::format("nothing was written, because with these values driftd would not "
                    "take the configuration:\n{}",
                    error.what()));
  }
  try {
    return replace_file(file, before, after);
  } catch (const std::runtime_error& error) {
    throw EditError(fmt::format("{}; {} is as it was", error.what(), file.string()));
  }
}

}  // namespace driftd::clients
