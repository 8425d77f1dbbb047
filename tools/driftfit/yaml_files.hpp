// SPDX-License-Identifier: MIT
// Picasso's YAML files: the description beside plain pixels, picks, and the description beside
// localizations. Keys that are not needed are left alone: other programs add their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "camera/recording/image_stack.hpp"
#include "tools/driftfit/picks.hpp"

namespace driftd::tools {

struct RawDescription {
  std::optional<std::int64_t> width_px, height_px, frames;
  std::optional<camera::PlainType> type;
  std::optional<camera::ByteOrder> byte_order;
};

/// Width, Height, Frames, Data Type, Byte Order ('<' or '>').
/// @param told  by the user: of these the file may say what it will
/// @throws InputError
RawDescription read_raw_description(const std::filesystem::path& path, RawDescription told = {});

/// `Shape: Circle` and `Centers: [[x, y], ...]`; the centres of squares, rectangles, polygons and
/// boxes. @throws InputError
std::vector<Pick> read_yaml_picks(const std::filesystem::path& path);

using YamlEntry = std::pair<std::string, std::variant<std::int64_t, double, std::string>>;
/// One document of keys and values, beginning with ---.
std::string yaml_document(const std::vector<YamlEntry>& entries);

}  // namespace driftd::tools
