// SPDX-License-Identifier: MIT
// A recording as a file, or several, holds it: frames of one size and pixel type, read a block at a
// time. The replay source and driftfit read recordings through it, each from one thread at a time.
// A file stays open as long as the stack lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "camera/frame_source.hpp"

namespace driftd::camera {

/// A recording that cannot be used. The text names the file, the place in it, what was found and
/// what is allowed.
struct RecordingError : CameraError {
  RecordingError(const std::filesystem::path& path, const std::string& what)
      : CameraError(path.string() + ": " + what), problem(what) {}
  std::string problem;  ///< without the file
};

enum class PixelType : std::uint8_t { U8, U16, F32 };

std::size_t bytes_of(PixelType type) noexcept;
/// "uint8", "uint16", "float32": the names of Picasso and numpy.
const char* name_of(PixelType type) noexcept;
/// How plain pixels may be described.
struct PlainType {
  PixelType type = PixelType::U16;
  bool has_sign = false;  ///< two's complement, of 16 bits
};
/// The type of this name: one of name_of(), such as "int16", or "u8", "u16", "i16", "f32".
std::optional<PlainType> plain_type_named(std::string_view name) noexcept;
constexpr const char* kPlainTypes = "uint8, uint16, int16, float32";

struct StackShape {
  int width_px = 0;
  int height_px = 0;
  std::int64_t frames = 0;
  PixelType type = PixelType::U16;

  std::size_t pixels() const noexcept {
    return static_cast<std::size_t>(width_px) * static_cast<std::size_t>(height_px);
  }
  std::size_t frame_bytes() const noexcept;
};

/// What a file says beyond its shape.
struct StackFacts {
  std::optional<double> recorded_rate_hz;
  std::vector<std::string> notes;  ///< sentences for people: what was chosen, what is missing
  std::vector<std::int64_t> repeats = {};  ///< ascending: see ImageStack::is_repeat()
  /// When each frame was taken, from the metadata's zero on; NaN: they do not say. None: of no
  /// frame.
  std::vector<double> times_s = {};
  std::vector<std::filesystem::path> files = {};  ///< that it is read from; none: as opened
  /// "channel GFP, position 2", of all frames, where the metadata say so, chosen or not.
  std::string place = {};
  /// Where the only frame stands along time and z, as far as the metadata say so by numbers.
  std::optional<double> time_number = std::nullopt, z_number = std::nullopt;
  bool from_int16 = false;  ///< the floats are whole numbers of 16 bits with a sign
};

class ImageStack {
 public:
  virtual ~ImageStack() = default;
  ImageStack(const ImageStack&) = delete;
  ImageStack& operator=(const ImageStack&) = delete;

  const StackShape& shape() const noexcept { return shape_; }
  /// Frames per second by the file's own metadata (ImageJ's `finterval` or `fps`, OME's
  /// TimeIncrement).
  std::optional<double> recorded_rate_hz() const noexcept { return facts_.recorded_rate_hz; }
  const std::vector<std::string>& notes() const noexcept { return facts_.notes; }
  const StackFacts& facts() const noexcept { return facts_; }
  /// Whether the metadata give this frame the page of an earlier one: its own was never recorded.
  bool is_repeat(std::int64_t frame) const noexcept;
  /// Copies frames first .. first + count - 1, row-major without gaps, in the host's byte order, to
  /// `out`. They must be frames of the stack. Reading onwards is quick, going back may be slow.
  /// @throws RecordingError
  virtual void read(std::int64_t first, std::int64_t count, std::byte* out) = 0;
  /// What the file says of one frame alone: Micro-Manager's JSON, of NDTiff's images and of pages
  /// with its tag 51123; "": nothing. @throws RecordingError
  virtual std::string metadata(std::int64_t /*frame*/) { return {}; }
  /// Whether a thread of its own may read while others use files of any format.
  virtual bool reads_beside_others() const noexcept { return true; }

 protected:
  ImageStack(const StackShape& shape, StackFacts facts) : shape_(shape), facts_(std::move(facts)) {}

 private:
  StackShape shape_;
  StackFacts facts_;
};

enum class ByteOrder : std::uint8_t { Little, Big };
enum class StackFormat : std::uint8_t { Tiff, Hdf5, PlainPixels };

/// What the program that reads calls the settings below; sentences for its user name them.
struct StackOptionNames {
  const char* width = "width";
  const char* height = "height";
  const char* type = "type";
  const char* byte_order = "byte_order";
  const char* dataset = "dataset";
  const char* series = "series";
  const char* channel = "channel";
  const char* slice = "slice";
  const char* every_page = "every_page";
  const char* allow_truncated = "allow_truncated";
};

struct StackSettings {
  std::filesystem::path path;                    ///< also a folder of TIFFs, which are one movie
  std::vector<std::filesystem::path> more = {};  ///< further files of the movie: in_series()
  std::optional<StackFormat> format;             ///< nothing: format_of() finds out
  /// Plain pixels only.
  std::int64_t width_px = 0, height_px = 0;
  std::optional<PixelType> type = std::nullopt;
  bool has_sign = false;                               ///< of words: PlainType
  std::optional<ByteOrder> byte_order = std::nullopt;  ///< nothing: little
  std::optional<std::int64_t> frames = std::nullopt;   ///< that there should be, in `path`
  std::vector<std::optional<std::int64_t>> frames_of_more = {};  ///< in each of `more`; or empty
  std::string dataset;  ///< HDF5 only; empty: the only one with three dimensions
  /// TIFF whose metadata tell of several series, channels or positions in z; -1: the only one.
  int series = -1, channel = -1, slice = -1;
  bool every_page = false;       ///< TIFF: each page is a frame, whatever the metadata say
  bool allow_truncated = false;  ///< the whole frames at the beginning of a truncated file will do
  /// The last frame that is of use, -1: all are. HDF5: what was not written behind it is not told.
  std::int64_t last_frame = -1;
  StackOptionNames names = {};
};

/// `settings.format`; else plain pixels by the name's end (.raw, .bin), TIFF or HDF5 by the file's
/// first bytes, and plain pixels by a given width. @throws RecordingError for a file that is none
/// of these
StackFormat format_of(const StackSettings& settings);

/// @throws RecordingError, also for settings that have no meaning for the file
std::unique_ptr<ImageStack> open_stack(const StackSettings& settings);

/// Largest frame that is taken; a damaged header could ask for any size.
constexpr std::int64_t kMaxFramePixels = std::int64_t{1} << 28;

}  // namespace driftd::camera
