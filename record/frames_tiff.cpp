// SPDX-License-Identifier: MIT
#include "record/frames_tiff.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "record/file_writer.hpp"

namespace driftd::record {
namespace {

constexpr std::size_t kHeaderBytes = 256;  // of the file
constexpr std::size_t kDirectoryBytes = 256;
constexpr std::size_t kPixelAlignment = 256;
constexpr std::uint64_t kMostOfClassic = 4'000'000'000;

std::size_t pixel_count(const camera::Frame& frame) {
  return static_cast<std::size_t>(frame.width_px) * static_cast<std::size_t>(frame.height_px);
}

}  // namespace

/// A directory of tags, written to a buffer; little-endian, as every machine of driftd's is.
class FramesTiff::Fields {
 public:
  Fields(std::byte* at, bool big) : at_(at), big_(big) {}
  void number(std::uint64_t value, std::size_t bytes) {
    std::memcpy(at_, &value, bytes);
    at_ += bytes;
  }
  void offset(std::uint64_t value) { number(value, big_ ? 8 : 4); }
  void count(std::uint64_t value) { number(value, big_ ? 8 : 2); }
  void tag(std::uint16_t name, std::uint64_t value) { entry(name, Long, 1, value); }
  void small(std::uint16_t name, std::uint64_t value) { entry(name, Short, 1, value); }
  void text(std::uint16_t name, std::uint64_t bytes, std::uint64_t where) {
    entry(name, Ascii, bytes, where);
  }
  void place(std::uint16_t name, std::uint64_t where) {
    entry(name, big_ ? Long8 : Long, 1, where);
  }

 private:
  enum : std::uint16_t { Ascii = 2, Short = 3, Long = 4, Long8 = 16 };
  void entry(std::uint16_t name, std::uint16_t type, std::uint64_t values, std::uint64_t value) {
    number(name, 2);
    number(type, 2);
    offset(values);
    offset(value);
  }
  std::byte* at_;
  bool big_;
};

FramesTiff::FramesTiff(std::filesystem::path path, const camera::Frame& like,
                       std::uint64_t most_frames)
    : path_(std::move(path)),
      like_(like),
      wide_(camera::bits_per_pixel(like.format) > 8),
      directory_at_((pixel_count(like) * (wide_ ? 2 : 1) + kPixelAlignment - 1) / kPixelAlignment *
                    kPixelAlignment),
      page_(directory_at_ + kDirectoryBytes + kDescriptionBytes),
      pixels_(pixel_count(like)) {
  big_ = kHeaderBytes + most_frames * page_.size() > kMostOfClassic;
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);
  struct stat made {};
  if (fd_ < 0 || fstat(fd_, &made) != 0) fail("made");
  device_ = made.st_dev;
  inode_ = made.st_ino;
  static_cast<void>(flock(fd_, LOCK_SH | LOCK_NB));  // tells is_in_use()
  std::vector<std::byte> header(kHeaderBytes);
  Fields fields(header.data(), big_);
  fields.number(0x4949, 2);
  fields.number(big_ ? 43 : 42, 2);
  if (big_) fields.number(8, 4);  // bytes of an offset, and a zero
  fields.offset(kHeaderBytes + directory_at_);
  try {
    write(header.data(), header.size(), 0);
  } catch (const RecordError&) {
    ::close(fd_);
    unlink(path_.c_str());
    throw;
  }
}

FramesTiff::~FramesTiff() {
  try {
    if (fd_ >= 0) close();
  } catch (const std::exception&) {  // its writer has told why
  }
}

void FramesTiff::fail(const char* doing) const {
  throw RecordError(path_.string() + ": cannot be " + doing + ": " +
                    std::generic_category().message(errno));
}

void FramesTiff::write(const std::byte* data, std::size_t bytes, std::int64_t at) {
  while (bytes > 0) {
    const ssize_t done = pwrite(fd_, data, bytes, at);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail("written");
    data += done;
    bytes -= static_cast<std::size_t>(done);
    at += done;
  }
}

bool FramesTiff::takes(const camera::Frame& frame) const noexcept {
  return frame.width_px == like_.width_px && frame.height_px == like_.height_px &&
         frame.format == like_.format;
}

std::int64_t FramesTiff::bytes() const noexcept {
  return static_cast<std::int64_t>(kHeaderBytes) +
         static_cast<std::int64_t>(frames_) * page_bytes();
}

/// Fills the directory of the page that begins at `at`, and what it says of the frame.
void FramesTiff::fill_directory(std::int64_t at, std::string_view description) {
  std::byte* directory = page_.data() + directory_at_;
  std::memset(directory, 0, kDirectoryBytes + kDescriptionBytes);
  const std::size_t text_bytes = std::min(description.size(), kDescriptionBytes - 1);
  std::memcpy(directory + kDirectoryBytes, description.data(), text_bytes);
  const auto begin = static_cast<std::uint64_t>(at);
  Fields fields(directory, big_);
  fields.count(11);
  fields.tag(256, static_cast<std::uint64_t>(like_.width_px));
  fields.tag(257, static_cast<std::uint64_t>(like_.height_px));
  fields.small(258, wide_ ? 16 : 8);  // bits
  fields.small(259, 1);               // not compressed
  fields.small(262, 1);               // 0 is black
  fields.text(270, text_bytes + 1, begin + directory_at_ + kDirectoryBytes);
  fields.place(273, begin);
  fields.small(277, 1);  // one value a pixel
  fields.tag(278, static_cast<std::uint64_t>(like_.height_px));
  fields.tag(279, pixel_count(like_) * (wide_ ? 2 : 1));
  fields.small(339, 1);  // unsigned
  fields.offset(begin + page_.size() + directory_at_);
}

void FramesTiff::append(const camera::Frame& frame, std::string_view description) {
  const std::int64_t at = bytes();
  fill_directory(at, description);
  std::byte* out = page_.data();
  camera::unpack(frame, pixels_.data());
  if (wide_)
    std::memcpy(out, pixels_.data(), pixels_.size() * sizeof(std::uint16_t));
  else
    std::ranges::transform(pixels_, out, [](std::uint16_t value) { return std::byte(value); });
  write(page_.data(), page_.size(), at);
  ++frames_;
  // Lest the kernel gathers gigabytes and then stops everybody who writes.
  sync_file_range(fd_, at, page_bytes(), SYNC_FILE_RANGE_WRITE);
}

void FramesTiff::close() {
  const int fd = fd_;
  if (frames_ == 0) {
    fd_ = -1;
    ::close(fd);
    unlink(path_.c_str());
    return;
  }
  const std::int64_t last = bytes() - page_bytes() + static_cast<std::int64_t>(directory_at_);
  // No room is needed for that: it overwrites. What a page that was not whole left goes.
  bool whole = ftruncate(fd_, bytes()) == 0;
  const std::uint64_t end = 0;
  const std::int64_t next_at = last + (big_ ? 8 + 11 * 20 : 2 + 11 * 12);
  whole = pwrite(fd_, &end, big_ ? 8 : 4, next_at) > 0 && whole;
  fd_ = -1;
  if (::close(fd) != 0 || !whole) fail("closed");
}

std::string FramesTiff::lost() const {
  return lost_file(path_, device_, inode_);
}

}  // namespace driftd::record
