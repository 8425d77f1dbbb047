// SPDX-License-Identifier: MIT
#include "tools/driftfit/stack_input.hpp"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

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

/// @param note  what is not known, for the user
void complete_plain_pixels(camera::StackSettings& settings, std::string& note) {
  const std::filesystem::path beside =
      std::filesystem::path(settings.path).replace_extension(".yaml");
  std::error_code error;
  RawDescription told;
  if (settings.width_px != 0) told.width_px = settings.width_px;
  if (settings.height_px != 0) told.height_px = settings.height_px;
  if (settings.type) told.type = {.type = *settings.type, .has_sign = settings.has_sign};
  told.byte_order = settings.byte_order;
  RawDescription description = told;
  try {
    if (std::filesystem::exists(beside, error)) description = read_raw_description(beside, told);
  } catch (const InputError& unreadable) {
    if (!told.width_px || !told.height_px || !told.type) throw;
    note = std::string(unreadable.what()) + "; the options count, and the file's length";
    const bool one_byte = told.type->type == camera::PixelType::U8;
    if (!told.byte_order && !one_byte) note += ", and the low byte is taken to come first";
  }
  std::string missing;
  if (settings.width_px == 0) settings.width_px = description.width_px.value_or(0);
  if (settings.width_px == 0) missing += " --width";
  if (settings.height_px == 0) settings.height_px = description.height_px.value_or(0);
  if (settings.height_px == 0) missing += " --height";
  if (!settings.type && description.type) {
    settings.type = description.type->type;
    settings.has_sign = description.type->has_sign;
  }
  if (!settings.type) missing += " --type";
  if (settings.byte_order && settings.type == camera::PixelType::U8) {
    throw InputError(settings.path,
                     "the option --byte-order has no meaning for pixels of one byte");
  }
  if (!settings.byte_order) settings.byte_order = description.byte_order;
  if (!missing.empty()) {
    throw InputError(settings.path, "plain pixels need a description, " + beside.string() +
                                        ", or the options" + missing);
  }
  if (settings.more.empty()) settings.frames = description.frames;
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
