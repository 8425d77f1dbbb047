// SPDX-License-Identifier: MIT
// Which planes of a recording of several channels and depths are the frames of a movie. Pure
// functions; OME-XML and ImageJ's hyperstacks say the extent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "camera/recording/image_stack.hpp"

namespace driftd::camera {

/// More than that are taken for damage; the products of three extents stay far from overflow.
constexpr std::int64_t kMostPlanes = std::int64_t{1} << 30;

struct PlaneExtent {
  std::string order = "CZT";  ///< how planes follow one another, the fastest first
  std::int64_t z = 1, c = 1, t = 1;
  std::vector<std::string> channels = {};  ///< their names, as far as they have any
};

struct PlaneIndex {
  std::int64_t z = 0, c = 0, t = 0;
};

/// The plane so many planes behind another; may be beyond the extent.
PlaneIndex plane_after(const PlaneExtent& extent, PlaneIndex from, std::int64_t count) noexcept;
/// How many planes are before one.
std::int64_t planes_before(const PlaneExtent& extent, PlaneIndex plane) noexcept;

/// One of several things of a recording, chosen by an option.
struct Choice {
  const char* what;     ///< "channel"
  const char* several;  ///< "channels"
  const char* option;   ///< "--channel"
  int chosen;           ///< below 0: nothing is; then there must be one alone
  std::int64_t count;
  const std::vector<std::string>& names;  ///< as far as they have any
};
/// @throws RecordingError that says what there is
std::int64_t choose_one(const std::filesystem::path& path, const Choice& choice);

/// The planes of one channel, along the time, or along z where there is one time alone.
class PlaneChoice {
 public:
  /// @throws RecordingError that says what there is, where the settings do not choose
  PlaneChoice(const StackSettings& settings, const PlaneExtent& extent);
  std::int64_t frames() const noexcept { return frames_; }
  PlaneIndex plane_of(std::int64_t frame) const noexcept;
  /// -1: the plane is not one of the movie.
  std::int64_t frame_of(PlaneIndex plane) const noexcept;

 private:
  std::int64_t channel_ = 0, z_ = 0, frames_;
  bool along_z_;
};

}  // namespace driftd::camera
