// SPDX-License-Identifier: MIT
#include "camera/recording/imagej_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <system_error>
#include <vector>

#include "base/counted.hpp"

namespace driftd::camera {
namespace {

bool is_scifio(std::string_view description) {
  return description.starts_with("SCIFIO=");
}

/// What stands behind `key=` on a line of its own; "": nothing does.
std::string_view text_said(std::string_view description, std::string_view key) {
  for (std::size_t begin = 0; begin < description.size();) {
    const std::size_t end = std::min(description.find('\n', begin), description.size());
    const std::string_view line = description.substr(begin, end - begin);
    if (line.starts_with(key) && line.substr(key.size()).starts_with('='))
      return line.substr(key.size() + 1);
    begin = end + 1;
  }
  return {};
}

/// The number that a text begins with.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// The same if it is above 0.
template <class Number>
std::optional<Number> size_said(std::string_view description, std::string_view key) {
  const auto value = number_in<Number>(text_said(description, key));
  return value && *value > 0 ? value : std::nullopt;
}

std::vector<std::string_view> list_of(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at < text.size(); at += parts.back().size() + 1)
    parts.push_back(text.substr(at, std::min(text.find(',', at), text.size()) - at));
  return parts;
}

/// SCIFIO lists its axes in their order, the fastest first, with their lengths:
/// axes=X,Y,Time,Channel and lengths=512,512,40,2. Without these lists: `extent`.
PlaneExtent by_lists(const StackSettings& settings, std::string_view description,
                     PlaneExtent extent) {
  const std::vector<std::string_view> axes = list_of(text_said(description, "axes"));
  const std::vector<std::string_view> lengths = list_of(text_said(description, "lengths"));
  if (!is_scifio(description) || axes.empty() || axes.size() != lengths.size()) return extent;
  extent = {.order = "", .channels = {}};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::string_view axis = axes[i];
    const std::int64_t length =
        std::clamp(number_in<std::int64_t>(lengths[i]).value_or(1), std::int64_t{1}, kMostPlanes);
    std::int64_t PlaneExtent::*size = nullptr;
    if (axis == "Channel") size = &PlaneExtent::c;
    if (axis == "Z") size = &PlaneExtent::z;
    if (axis == "Time") size = &PlaneExtent::t;
    if (size != nullptr) {
      extent.*size = length;
      extent.order += axis.front();
    } else if (axis != "X" && axis != "Y" && length > 1) {
      throw RecordingError(settings.path, "has images along " + std::string(axis.substr(0, 40)) +
                                              " by SCIFIO, which is not read; the option " +
                                              settings.names.every_page + " takes each page");
    }
  }
  for (const char axis : std::string_view("CZT")) {
    if (extent.order.find(axis) == std::string::npos) extent.order += axis;
  }
  return extent;
}

}  // namespace

bool is_imagej(std::string_view description) {
  return description.starts_with("ImageJ=") || is_scifio(description);
}

std::optional<double> number_said(std::string_view description, std::string_view key) {
  return number_in<double>(text_said(description, key));
}

std::int64_t images_said(std::string_view description) {
  if (!is_imagej(description)) return 1;
  return size_said<std::int64_t>(description, "images").value_or(1);
}

PlaneExtent extent_said(const StackSettings& settings, std::string_view description,
                        std::int64_t images) {
  PlaneExtent extent;
  extent.t = images;
  if (!is_imagej(description)) return extent;
  const auto said = [&](std::string_view key) {
    return std::min(size_said<std::int64_t>(description, key).value_or(1), kMostPlanes);
  };
  PlaneExtent hyperstack =
      by_lists(settings, description,
               {.z = said("slices"), .c = said("channels"), .t = said("frames"), .channels = {}});
  const std::int64_t at_each_time =
      hyperstack.c <= kMostPlanes / hyperstack.z ? hyperstack.c * hyperstack.z : 0;
  if (at_each_time > 0 && at_each_time * hyperstack.t == images) return hyperstack;
  // The numbers of one axis alone say nothing that the pages do not.
  if (hyperstack.c > 1 || (hyperstack.z > 1 && hyperstack.t > 1)) {
    throw RecordingError(settings.path, "has " + counted(images, "image") +
                                            ", its description says " +
                                            counted(hyperstack.c, "channel") + ", " +
                                            counted(hyperstack.z, "slice") + " and " +
                                            counted(hyperstack.t, "frame") + "; the option " +
                                            settings.names.every_page + " takes each page");
  }
  return extent;
}

std::optional<double> rate_said_hz(std::string_view description) {
  const auto interval_s = size_said<double>(description, "finterval");
  if (interval_s && std::isfinite(1 / *interval_s)) return 1 / *interval_s;
  return size_said<double>(description, "fps");
}

}  // namespace driftd::camera
