// SPDX-License-Identifier: MIT
#include "tools/driftfit/stack_input.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tools/driftfit/errors.hpp"
#include "tools/driftfit/yaml_files.hpp"

namespace driftd::tools {
namespace {

constexpr camera::StackOptionNames kOptionNames{.width = "--width",
                                                .height = "--height",
                                                .type = "--type",
                                                .byte_order = "--byte-order",
                                                .dataset = "--dataset",
                                                .series = "--series",
                                                .channel = "--channel",
                                                .slice = "--slice",
                                                .every_page = "--every-page",
                                                .allow_truncated = "--allow-truncated"};

std::filesystem::path description_of(const std::filesystem::path& file) {
  return std::filesystem::path(file).replace_extension(".yaml");
}

/// What is beside a file, where there is something.
/// @param told  by the user
/// @param note  what cannot be read where the user told enough is added to it
/// @throws InputError
std::optional<RawDescription> description_beside(const std::filesystem::path& file,
                                                 const RawDescription& told, std::string& note) {
  const std::filesystem::path beside = description_of(file);
  std::error_code error;
  if (!std::filesystem::exists(beside, error)) return std::nullopt;
  try {
    return read_raw_description(beside, told);
  } catch (const InputError& unreadable) {
    if (!told.width_px || !told.height_px || !told.type) throw;
    note += (note.empty() ? "" : "\n") + std::string(unreadable.what()) +
            "; the options count, and the file's length";
    return std::nullopt;
  }
}

/// "Width 64, Byte Order <": what differs from another file's, which is then refused.
std::string differing(const RawDescription& here, const RawDescription& other) {
  std::string text;
  const auto add = [&](const char* key, const std::string& value) {
    text += (text.empty() ? "" : ", ") + std::string(key) + " " + value;
  };
  const auto number = [&](const char* key, std::optional<std::int64_t> one,
                          std::optional<std::int64_t> another) {
    if (one && another && *one != *another) add(key, std::to_string(*one));
  };
  number("Width", here.width_px, other.width_px);
  number("Height", here.height_px, other.height_px);
  const auto type = [](const RawDescription& d) {
    return d.type->has_sign ? "int16" : name_of(d.type->type);
  };
  if (here.type && other.type && std::string_view(type(here)) != type(other)) {
    add("Data Type", type(here));
  }
  using camera::ByteOrder;
  const ByteOrder order = here.byte_order.value_or(ByteOrder::Little);
  const auto is_byte = [](const RawDescription& d) {
    return d.type && d.type->type == camera::PixelType::U8;
  };
  if (!is_byte(here) && !is_byte(other) && order != other.byte_order.value_or(ByteOrder::Little)) {
    add("Byte Order", order == ByteOrder::Little ? "<" : ">");
  }
  return text;
}

/// The description common to all files that have one; what none of them says stays open. `frames`
/// gets how many frames each file has, in the order of `files`.
/// @throws InputError where they contradict one another
RawDescription common_description(const std::vector<std::filesystem::path>& files,
                                  const RawDescription& told, std::string& note,
                                  std::vector<std::optional<std::int64_t>>& frames) {
  RawDescription common = told;
  std::vector<std::pair<std::filesystem::path, RawDescription>> known;
  for (const std::filesystem::path& file : files) {
    const auto here = description_beside(file, told, note);
    frames.push_back(here ? here->frames : std::nullopt);
    if (!here) continue;
    for (const auto& [beside, other] : known) {
      const std::string found = differing(*here, other);
      if (found.empty()) continue;
      throw InputError(description_of(file), "says " + found + ", " + beside.string() + " says " +
                                                 differing(other, *here) +
                                                 ": files of one movie are alike");
    }
    if (!common.width_px) common.width_px = here->width_px;
    if (!common.height_px) common.height_px = here->height_px;
    if (!common.type) common.type = here->type;
    if (!common.byte_order) common.byte_order = here->byte_order;
    known.emplace_back(description_of(file), *here);
  }
  return common;
}

/// @param note  what is not known, for the user
void complete_plain_pixels(camera::StackSettings& settings, std::string& note) {
  RawDescription told;
  if (settings.width_px != 0) told.width_px = settings.width_px;
  if (settings.height_px != 0) told.height_px = settings.height_px;
  if (settings.type) told.type = {.type = *settings.type, .has_sign = settings.has_sign};
  told.byte_order = settings.byte_order;
  std::vector<std::filesystem::path> files{settings.path};
  files.insert(files.end(), settings.more.begin(), settings.more.end());
  std::vector<std::optional<std::int64_t>> frames;
  const RawDescription description = common_description(files, told, note, frames);
  std::string missing;
  settings.width_px = description.width_px.value_or(0);
  if (settings.width_px == 0) missing += " --width";
  settings.height_px = description.height_px.value_or(0);
  if (settings.height_px == 0) missing += " --height";
  if (description.type) {
    settings.type = description.type->type;
    settings.has_sign = description.type->has_sign;
  }
  if (!settings.type) missing += " --type";
  if (told.byte_order && settings.type == camera::PixelType::U8) {
    throw InputError(settings.path,
                     "the option --byte-order has no meaning for pixels of one byte");
  }
  settings.byte_order = description.byte_order;
  if (!note.empty() && !settings.byte_order && settings.type != camera::PixelType::U8)
    note += ", and the low byte is taken to come first";
  if (!missing.empty()) {
    throw InputError(settings.path, "plain pixels need a description, " +
                                        description_of(settings.path).string() +
                                        ", or the options" + missing);
  }
  settings.frames = frames.front();
  settings.frames_of_more.assign(frames.begin() + 1, frames.end());
}

}  // namespace

std::unique_ptr<camera::ImageStack> open_input(camera::StackSettings settings, std::string* note) {
  settings.names = kOptionNames;
  std::error_code error;
  const bool plain = std::filesystem::is_regular_file(settings.path, error) &&
                     format_of(settings) == camera::StackFormat::PlainPixels;
  std::string unknown;
  if (plain) complete_plain_pixels(settings, unknown);
  if (note != nullptr) *note = unknown;
  return open_stack(settings);
}

}  // namespace driftd::tools
