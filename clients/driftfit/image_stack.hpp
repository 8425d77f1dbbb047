// SPDX-License-Identifier: MIT
// A recording as driftfit reads it: frames of one size and pixel type, a block at a time. The file
// stays open for the life of the stack; used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "fitter/fitter.hpp"

namespace driftd::clients {

struct StackShape {
  int width_px = 0;
  int height_px = 0;
  std::int64_t frames = 0;
  fitter::PixelType type = fitter::PixelType::U16;

  std::size_t pixels() const noexcept {
    return static_cast<std::size_t>(width_px) * static_cast<std::size_t>(height_px);
  }
  std::size_t frame_bytes() const noexcept;
};

std::size_t bytes_of(fitter::PixelType type) noexcept;
/// "uint8", "uint16", "float32": the names of Picasso and numpy.
const char* name_of(fitter::PixelType type) noexcept;
/// Also "u8", "u16", "f32".
std::optional<fitter::PixelType> pixel_type_named(std::string_view name) noexcept;

class ImageStack {
 public:
  virtual ~ImageStack() = default;
  ImageStack(const ImageStack&) = delete;
  ImageStack& operator=(const ImageStack&) = delete;

  const StackShape& shape() const noexcept { return shape_; }
  /// Copies frames first .. first + count - 1, row-major without gaps, in the host's byte order, to
  /// `out`. Reading onwards is quick, going back may be slow. @throws InputError
  virtual void read(std::int64_t first, std::int64_t count, std::byte* out) = 0;

 protected:
  ImageStack() = default;
  StackShape shape_;
};

enum class ByteOrder : std::uint8_t { Little, Big };

struct StackSettings {
  std::filesystem::path path;
  /// Of plain pixels, each beside or instead of what the description file (stack.yaml) says.
  int width_px = 0, height_px = 0;  ///< 0: by the description
  std::optional<fitter::PixelType> type;
  std::optional<ByteOrder> byte_order;
  std::string dataset;  ///< HDF5; empty: the only one with three dimensions
};

/// A TIFF or HDF5 file by its first bytes; plain pixels by the name's end (.raw, .bin) or by a
/// given width. @throws InputError
std::unique_ptr<ImageStack> open_stack(const StackSettings& settings);

/// Largest frame that is taken; a damaged header could ask for any size.
constexpr std::int64_t kMaxFramePixels = std::int64_t{1} << 28;
/// @throws InputError for no pixels, or more than that
void check_frame_size(const std::filesystem::path& path, std::int64_t width_px,
                      std::int64_t height_px);

}  // namespace driftd::clients
