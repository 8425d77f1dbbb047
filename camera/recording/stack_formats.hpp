// SPDX-License-Identifier: MIT
// The readers behind open_stack(), one for each format. Each throws RecordingError.
#pragma once

#include <memory>

#include "camera/recording/image_stack.hpp"

namespace driftd::camera {

/// Grey pages of 8 and 16 bits and 32 bits float, classic and BigTIFF; OME-TIFF and NDTiff, also of
/// several files; ImageJ's hyperstacks, and its stacks above 4 GB, which have one page; MetaMorph's
/// stacks; what tifffile calls shaped.
std::unique_ptr<ImageStack> open_tiff_stack(const StackSettings& settings);
/// Whether this is HDF5. The library tells, and looks behind user blocks, too.
bool is_hdf5(const std::filesystem::path& path);
/// A dataset (frames, rows, columns), others of one element among these. An empty name means the
/// only dataset with three dimensions.
std::unique_ptr<ImageStack> open_hdf5_stack(const StackSettings& settings);
/// Several files, or a folder of TIFFs, in the order of the numbers in their names.
std::unique_ptr<ImageStack> open_joined_stack(const StackSettings& settings);
/// A file of nothing but pixels, as the settings describe them.
std::unique_ptr<ImageStack> open_raw_stack(const StackSettings& settings);

/// A stack of 16 bits with a sign, which it was read without, as floats.
/// @param zero  0: the words are a two's complement; 0x8000: it is the word of the value 0
std::unique_ptr<ImageStack> open_signed_words(std::unique_ptr<ImageStack> words,
                                              std::uint16_t zero);

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
/// Where a frame's pixels are, and the text that goes with it alone.
struct FramePlace {
  std::size_t file = 0;
  std::uint64_t pixels_at = 0;
  std::uint64_t metadata_at = 0, metadata_bytes = 0;  ///< 0: none
};
/// Plain pixels that stand here and there in some files.
struct ScatteredPixels {
  std::vector<std::filesystem::path> files;
  std::vector<FramePlace> frames;
  ByteOrder byte_order = ByteOrder::Little;
};
/// @param shape  its frames must be there
std::unique_ptr<ImageStack> open_scattered_pixels(ScatteredPixels pixels, const StackShape& shape,
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

/// The note of a stack whose pixels are no longer those of the camera.
/// @param by     what they are packed by
/// @param loses  "loses", "may lose"
std::string lossy_note(const std::string& by, const std::string& loses);

/// @throws RecordingError for no pixels, or more than kMaxFramePixels
void check_frame_size(const std::filesystem::path& path, std::int64_t width_px,
                      std::int64_t height_px);

}  // namespace driftd::camera
