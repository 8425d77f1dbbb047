// SPDX-License-Identifier: MIT
// A TIFF file, page by page, with the last thing libtiff complained about. Owned by one thread; the
// only file that names libtiff is tiff_file.cpp. Every function that reads throws RecordingError
// naming the file and the page.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "camera/recording/image_stack.hpp"

struct tiff;  // libtiff's

namespace driftd::camera {

class TiffFile {
 public:
  explicit TiffFile(const std::filesystem::path& path);
  TiffFile(const TiffFile&) = delete;
  TiffFile& operator=(const TiffFile&) = delete;
  ~TiffFile();

  const std::filesystem::path& path() const noexcept { return path_; }
  /// Pages that the chain of directories leads to.
  std::int64_t pages() const noexcept { return pages_; }
  /// Whether that chain ends as it should; else why not.
  bool chain_is_whole() const noexcept { return chain_complaint_.empty(); }
  const std::string& chain_complaint() const noexcept { return chain_complaint_; }
  bool big_endian() const noexcept;

  /// Counts no pages from here on that are thumbnails or other images of less resolution of what
  /// other pages show, by their own tag. Where the first two pages and the last are none, the
  /// others are not asked.
  void leave_out_reduced();
  bool leaves_out() const noexcept { return !full_.empty(); }

  /// Makes a page the current one; false where it cannot be read. Going on is quick.
  bool turn_to(std::int64_t page);
  /// The current page's shape, without the number of frames; signed words count as unsigned ones,
  /// doubles as floats.
  /// @throws RecordingError also for a compression that this libtiff cannot undo
  StackShape shape() const;
  /// Whether the current page's 16 bits have a sign.
  bool is_signed() const;
  /// Whether the current page is a thumbnail or mask of another.
  bool is_reduced() const;
  /// Whether all pixels of the current page are within the file.
  bool page_is_whole() const;
  /// Copies the pixels of the current page, which must be of that shape.
  void read(const StackShape& shape, std::byte* out) const;
  /// The current page's; valid until the next turn.
  std::string_view description() const;
  /// Any other text of the current page, such as a program's own tag; "": it has none.
  std::string text_of(std::uint32_t tag) const;
  /// Where the current page's pixels begin, if they are plain: uncompressed, as its shape says, in
  /// strips that follow one another.
  std::optional<std::uint64_t> plain_pixels_at() const;
  /// Bytes of the current page's strips or tiles, uncompressed.
  std::uint64_t plain_bytes() const;
  bool is_compressed() const;
  /// What the current page's tags say of its pixels that changes what they are worth, as sentences:
  /// a compression that loses, rows or columns that begin elsewhere.
  std::vector<std::string> notes_on_pixels() const;
  /// Where the current page's directory is.
  std::uint64_t directory_at() const;

  [[noreturn]] void fail(const std::string& what) const;

 private:
  struct Complaints;
  struct Closer {
    void operator()(tiff* file) const;
  };
  [[noreturn]] void fail_here(const std::string& what) const;
  std::string loop_in_words();
  std::uint16_t small_tag(std::uint32_t tag) const;
  std::uint32_t large_tag(std::uint32_t tag) const;
  void check_grey() const;
  bool is_double() const;
  void read_parts(const StackShape& shape, std::size_t pixel_bytes, std::byte* out) const;
  void read_strips(std::byte* out, std::size_t bytes) const;
  void read_tiles(const StackShape& shape, std::size_t pixel_bytes, std::byte* out) const;

  std::filesystem::path path_;
  std::unique_ptr<Complaints> complaints_;
  std::unique_ptr<tiff, Closer> tiff_;
  std::int64_t pages_ = 0, page_ = 0;
  bool turned_ = true;              ///< to page_: else libtiff may be at any
  std::vector<std::int64_t> full_;  ///< pages that are not left out; none: all
  std::string chain_complaint_;
};

}  // namespace driftd::camera
