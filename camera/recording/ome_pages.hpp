// SPDX-License-Identifier: MIT
// Which pages of which files are the frames of a TIFF recording.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "camera/recording/ome_xml.hpp"
#include "camera/recording/tiff_file.hpp"

namespace driftd::camera {

struct PagePlace {
  std::size_t file = 0;
  std::int64_t page = 0;
  bool operator==(const PagePlace&) const = default;
};

struct PagedFrames {
  std::vector<std::filesystem::path> files;  ///< the first is the one that was opened
  std::vector<PagePlace> places;             ///< of the frames that are there, from the first on
  std::int64_t said = 0;                     ///< how many frames there should be
  std::string missing;                       ///< why there are fewer; "": there are not
  OmePlaneShape shape_said = {};             ///< of each frame
};

/// Why there are fewer pages than there were: of a file whose chain of directories breaks off.
std::string broken_chain_in_words(const TiffFile& file);

/// The frames of the series, channel and z that the settings choose. Files that were split are
/// sought beside `file`, by name alone.
/// @param facts  gets the frame rate, what was chosen where there is a choice, and the repeats
/// @throws RecordingError
PagedFrames ome_pages(const StackSettings& settings, const TiffFile& file,
                      const OmeMetadata& metadata, StackFacts& facts);

}  // namespace driftd::camera
