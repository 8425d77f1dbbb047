// SPDX-License-Identifier: MIT
// The readers behind open_stack(), one for each format; each throws InputError.
#pragma once

#include <memory>

#include "clients/driftfit/image_stack.hpp"

namespace driftd::clients {

/// 8 and 16 bit unsigned and 32 bit float pages, classic and BigTIFF, and ImageJ's stacks above
/// 4 GB, which have one page.
std::unique_ptr<ImageStack> open_tiff_stack(const StackSettings& settings);
/// A dataset (n, rows, columns).
std::unique_ptr<ImageStack> open_hdf5_stack(const StackSettings& settings);
/// Plain pixels described by a Picasso YAML file beside them, by the settings, or by both.
std::unique_ptr<ImageStack> open_raw_stack(const StackSettings& settings);

/// Plain pixels within a file.
struct PlainPixels {
  std::filesystem::path path;
  std::uint64_t offset_bytes = 0;
  ByteOrder byte_order = ByteOrder::Little;
};
std::unique_ptr<ImageStack> open_plain_pixels(const PlainPixels& pixels, const StackShape& shape);

}  // namespace driftd::clients
