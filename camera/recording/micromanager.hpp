// SPDX-License-Identifier: MIT
// Recordings in which each image says where it stands along axes: NDTiff (Micro-Manager 2, by the
// format's own description at github.com/micro-manager/NDTiffStorage), of any number of files, and
// Micro-Manager's older files without OME-XML. Each image's own metadata, JSON, can be read by
// ImageStack::metadata().
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "camera/recording/ome_pages.hpp"
#include "camera/recording/stack_formats.hpp"
#include "camera/recording/tiff_directory.hpp"

namespace driftd::camera {

/// The tag of a page that has the JSON.
constexpr std::uint32_t kMicroManagerTag = 51123;
constexpr const char* kNdTiffIndex = "NDTiff.index";

/// Whether this is NDTiff, by the number behind the header.
bool is_ndtiff(FileBytes& file);
/// All files that the index beside `settings.path` names; itself may be one, or their folder.
/// @throws RecordingError
std::unique_ptr<ImageStack> open_ndtiff(const StackSettings& settings);

/// `ElapsedTime-ms` of one image's JSON, in s; nothing: it does not say. One within another value
/// (`UserData`) is somebody else's.
std::optional<double> elapsed_s(std::string_view json) noexcept;

/// The pages of a file whose pages each say where they stand; nothing where none does.
/// @throws RecordingError, also where some of them say it and others do not
std::optional<PagedFrames> micromanager_pages(const StackSettings& settings, TiffFile& file,
                                              StackFacts& facts);

}  // namespace driftd::camera
