// SPDX-License-Identifier: MIT
// The readers behind open_stack(), one for each format. Each throws RecordingError.
#pragma once

#include <memory>

#include "camera/recording/image_stack.hpp"

namespace driftd::camera {

/// Grey pages of 8 and 16 bits unsigned and 32 bits float, classic and BigTIFF; OME-TIFF, also of
/// several files; ImageJ's hyperstacks, and its stacks above 4 GB, which have one page.
std::unique_ptr<ImageStack> open_tiff_stack(const StackSettings& settings);
/// A dataset (frames, rows, columns). An empty name means the only dataset with three dimensions.
std::unique_ptr<ImageStack> open_hdf5_stack(const StackSettings& settings);
/// A file of nothing but pixels, as the settings describe them.
std::unique_ptr<ImageStack> open_raw_stack(const StackSettings& settings);

/// Plain pixels within a file.
struct PlainPixels {
  std::filesystem::path path;
  std::uint64_t offset_bytes = 0;
  std::int64_t frames_apart = 1;  ///< 2: every other of the images that follow one another
  ByteOrder byte_order = ByteOrder::Little;
};
/// @param shape  its frames must be there
std::unique_ptr<ImageStack> open_plain_pixels(const PlainPixels& pixels, const StackShape& shape,
                                              StackFacts facts);
/// How many whole images there are in a file from a byte on.
std::int64_t whole_images(const std::filesystem::path& path, std::uint64_t offset_bytes,
                          const StackShape& shape);

/// The note of a stack that is read up to where its file breaks off.
/// @param said    how many frames there should be, if that is known
/// @param detail  what is missing
/// @throws RecordingError with the same, unless the settings allow it and there is a whole frame
std::string truncated_note(const StackSettings& settings, std::int64_t whole,
                           std::optional<std::int64_t> said, const std::string& detail);

/// @throws RecordingError for no pixels, or more than kMaxFramePixels
void check_frame_size(const std::filesystem::path& path, std::int64_t width_px,
                      std::int64_t height_px);

}  // namespace driftd::camera
