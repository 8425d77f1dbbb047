// SPDX-License-Identifier: MIT
#include "camera/recording/planes.hpp"

#include <algorithm>
#include <array>

#include "base/counted.hpp"

namespace driftd::camera {
namespace {

struct Axis {
  std::int64_t PlaneIndex::*index;
  std::int64_t size;
};

/// Fastest first.
std::array<Axis, 3> axes_of(const PlaneExtent& extent) noexcept {
  std::array<Axis, 3> axes{};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const char letter = i < extent.order.size() ? extent.order[i] : '?';
    if (letter == 'Z') {
      axes[i] = {&PlaneIndex::z, extent.z};
    } else if (letter == 'C') {
      axes[i] = {&PlaneIndex::c, extent.c};
    } else {
      axes[i] = {&PlaneIndex::t, extent.t};
    }
  }
  return axes;
}

}  // namespace

std::int64_t choose_one(const std::filesystem::path& path, const Choice& choice) {
  constexpr std::int64_t kMostShown = 16;
  if (choice.chosen >= 0 && choice.chosen < choice.count) return choice.chosen;
  if (choice.chosen < 0 && choice.count == 1) return 0;
  std::string there;
  for (std::int64_t i = 0; i < std::min(choice.count, kMostShown); ++i) {
    there += (i == 0 ? "" : ", ") + std::to_string(i);
    const auto index = static_cast<std::size_t>(i);
    if (index < choice.names.size() && !choice.names[index].empty()) {
      there += " (" + choice.names[index].substr(0, 60) + ")";
    }
  }
  if (choice.count > kMostShown) there += " ... " + std::to_string(choice.count - 1);
  const std::string option = choice.option;
  throw RecordingError(
      path,
      "has " + counted(choice.count, choice.what, choice.several) + ": " + there +
          (choice.chosen < 0 ? "; choose one by the option " + option
                             : "; the option " + option + " is " + std::to_string(choice.chosen)));
}

PlaneIndex plane_after(const PlaneExtent& extent, PlaneIndex from, std::int64_t count) noexcept {
  count += planes_before(extent, from);
  PlaneIndex plane;
  const auto axes = axes_of(extent);
  for (std::size_t i = 0; i + 1 < axes.size(); ++i) {
    plane.*axes[i].index = count % axes[i].size;
    count /= axes[i].size;
  }
  plane.*axes.back().index = count;
  return plane;
}

std::int64_t planes_before(const PlaneExtent& extent, PlaneIndex plane) noexcept {
  const auto axes = axes_of(extent);
  return plane.*axes[0].index +
         axes[0].size * (plane.*axes[1].index + axes[1].size * (plane.*axes[2].index));
}

PlaneChoice::PlaneChoice(const StackSettings& settings, const PlaneExtent& extent)
    : frames_(extent.t), along_z_(extent.t == 1 && settings.slice < 0) {
  channel_ = choose_one(settings.path, {.what = "channel",
                                        .several = "channels",
                                        .option = settings.names.channel,
                                        .chosen = settings.channel,
                                        .count = extent.c,
                                        .names = extent.channels});
  if (along_z_) {
    frames_ = extent.z;
  } else {
    z_ = choose_one(settings.path, {.what = "position in z at each time",
                                    .several = "positions in z at each time",
                                    .option = settings.names.slice,
                                    .chosen = settings.slice,
                                    .count = extent.z,
                                    .names = {}});
  }
}

PlaneIndex PlaneChoice::plane_of(std::int64_t frame) const noexcept {
  return {along_z_ ? frame : z_, channel_, along_z_ ? 0 : frame};
}

std::int64_t PlaneChoice::frame_of(PlaneIndex plane) const noexcept {
  if (plane.c != channel_) return -1;
  if (along_z_) return plane.t == 0 && plane.z < frames_ ? plane.z : -1;
  return plane.z == z_ && plane.t < frames_ ? plane.t : -1;
}

}  // namespace driftd::camera
