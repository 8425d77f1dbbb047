// SPDX-License-Identifier: MIT
// Structures of TIFF files in which images follow one another along several axes, in pages or all
// behind the first page: tifffile's shaped files, MetaMorph's stacks (MetaMorph Stack (STK) Image
// File Format, Universal Imaging), Olympus FluoView, ScanImage; and what tells that a file holds
// more than its pages say. Pure functions, but for reading the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "camera/recording/image_axes.hpp"
#include "camera/recording/image_stack.hpp"
#include "camera/recording/tiff_directory.hpp"
#include "camera/recording/tiff_file.hpp"

namespace driftd::camera {

/// Images that follow one another.
struct TiffPlanes {
  ImageAxes axes;                 ///< of each of them
  std::int64_t count = 0;         ///< how many there should be
  std::int64_t first_page = 0;    ///< of the first
  bool behind_one_page = false;   ///< else each has a page
  bool series_is_chosen = false;  ///< a series of arrays: it means no position
  std::uint64_t bytes_apart = 0;  ///< behind one page; 0: as many as one has
  std::string who;                ///< says so: "tifffile", "MetaMorph"
};

/// Nothing where no program is recognised by whom images have another order than that of pages.
/// @throws RecordingError for what is recognised and cannot be read
std::optional<TiffPlanes> planes_of(const StackSettings& settings, TiffFile& file,
                                    FileBytes& bytes);

/// For a file whose pages are taken as they are.
/// @throws RecordingError where it is far larger than they need
void check_bytes_of_pages(const StackSettings& settings, TiffFile& file, FileBytes& bytes);

}  // namespace driftd::camera
