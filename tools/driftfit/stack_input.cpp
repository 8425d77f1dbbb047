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

void complete_plain_pixels(camera::StackSettings& settings) {
  const std::filesystem::path beside =
      std::filesystem::path(settings.path).replace_extension(".yaml");
  std::error_code error;
  RawDescription description;
  if (std::filesystem::exists(beside, error)) description = read_raw_description(beside);
  std::string missing;
  if (settings.width_px == 0) settings.width_px = description.width_px.value_or(0);
  if (settings.width_px == 0) missing += " --width";
  if (settings.height_px == 0) settings.height_px = description.height_px.value_or(0);
  if (settings.height_px == 0) missing += " --height";
  if (!settings.type) settings.type = description.type;
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
  settings.frames = description.frames;
}

}  // namespace

std::unique_ptr<camera::ImageStack> open_input(camera::StackSettings settings) {
  settings.names = kOptionNames;
  std::error_code error;
  const bool plain = std::filesystem::is_regular_file(settings.path, error) &&
                     format_of(settings) == camera::StackFormat::PlainPixels;
  if (plain) complete_plain_pixels(settings);
  return open_stack(settings);
}

}  // namespace driftd::tools
