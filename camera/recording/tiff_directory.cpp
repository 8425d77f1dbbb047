// SPDX-License-Identifier: MIT
#include "camera/recording/tiff_directory.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

namespace driftd::camera {
namespace {

/// Longer texts are no metadata of ours.
constexpr std::uint64_t kLongestText = std::uint64_t{64} << 20;

/// Bytes of one value of each type of TIFF 6.0 and BigTIFF.
std::uint64_t bytes_of_type(std::uint16_t type) noexcept {
  constexpr std::array<std::uint8_t, 19> kBytes{0, 1, 1, 2, 4, 8, 1, 1, 2, 4,
                                                8, 4, 8, 4, 0, 0, 8, 8, 8};
  return type < kBytes.size() ? kBytes[type] : 0;
}

/// A number in some bytes.
std::uint64_t number_in(std::string_view bytes, bool big_endian) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value = value << 8 | static_cast<unsigned char>(bytes[big_endian ? i : bytes.size() - 1 - i]);
  }
  return value;
}

}  // namespace

FileBytes::FileBytes(const std::filesystem::path& path) {
  file_.rdbuf()->pubsetbuf(nullptr, 0);  // what is read stands here and there
  file_.open(path, std::ios::binary);
  std::error_code error;
  size_ = std::filesystem::file_size(path, error);
  if (error) size_ = 0;
  big_endian_ = text(0, 2) == "MM";
  big_tiff_ = number(2, 2) == 43;
}

std::uint64_t FileBytes::number(std::uint64_t at, std::size_t bytes) {
  const std::string read = text(at, bytes);
  if (read.size() < bytes) return 0;
  return number_in(read, big_endian_);
}

std::string FileBytes::text(std::uint64_t at, std::uint64_t bytes) {
  if (at >= size_) return {};
  std::string read(std::min({bytes, size_ - at, kLongestText}), '\0');
  file_.clear();
  file_.seekg(static_cast<std::streamoff>(at));
  file_.read(read.data(), static_cast<std::streamsize>(read.size()));
  read.resize(static_cast<std::size_t>(file_.gcount()));
  return read;
}

const TiffTag* TiffDirectory::find(std::uint16_t tag) const noexcept {
  const auto found = std::ranges::find(tags, tag, &TiffTag::tag);
  return found == tags.end() ? nullptr : &*found;
}

TiffDirectory read_directory(FileBytes& file, std::uint64_t at) {
  const std::size_t word = file.big_tiff() ? 8 : 4;
  const std::size_t head = file.big_tiff() ? 8 : 2, entry = file.big_tiff() ? 20 : 12;
  constexpr std::uint64_t kMostEntries = 65535;
  const std::uint64_t entries = std::min(file.number(at, head), kMostEntries);
  TiffDirectory directory;
  directory.bytes = head + entry * entries + word;
  const std::string all = file.text(at + head, entry * entries + word);
  const auto number = [&](std::uint64_t begin, std::size_t bytes) -> std::uint64_t {
    return begin + bytes > all.size()
               ? 0
               : number_in(std::string_view(all).substr(begin, bytes), file.big_endian());
  };
  for (std::uint64_t i = 0; i < entries; ++i) {
    const std::uint64_t here = entry * i;
    TiffTag tag{.tag = static_cast<std::uint16_t>(number(here, 2)),
                .type = static_cast<std::uint16_t>(number(here + 2, 2)),
                .count = number(here + 4, word)};
    const std::uint64_t each = bytes_of_type(tag.type);
    tag.bytes = each > 0 && tag.count <= file.size() / each ? each * tag.count : 0;
    tag.at = at + head + here + 4 + word;
    if (tag.bytes > word) {
      tag.at = number(here + 4 + word, word);
      directory.bytes += tag.bytes;
    }
    directory.tags.push_back(tag);
  }
  directory.next = number(entry * entries, word);
  return directory;
}

std::vector<std::string> texts_of(FileBytes& file, const TiffDirectory& directory,
                                  std::uint16_t tag) {
  std::vector<std::string> texts;
  for (const TiffTag& found : directory.tags) {
    if (found.tag != tag) continue;
    std::string text = file.text(found.at, found.bytes);
    text.resize(std::min(text.size(), text.find('\0')));
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace driftd::camera
