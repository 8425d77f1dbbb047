// SPDX-License-Identifier: MIT
#include "camera/recording/tiff_planes.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "base/counted.hpp"
#include "camera/recording/planes.hpp"

namespace driftd::camera {
namespace {

using nlohmann::json;
using Numbers = std::vector<std::int64_t>;

// Tags of TIFF.
constexpr std::uint16_t kDescription = 270;
constexpr std::uint16_t kStripBytes = 279;
constexpr std::uint16_t kSoftware = 305;
constexpr std::uint16_t kTileBytes = 325;
constexpr std::uint16_t kSubDirectories = 330;
constexpr std::uint16_t kImageDepth = 32997;
constexpr std::uint16_t kMetaMorphPlanes = 33629;  ///< UIC2
constexpr std::uint16_t kMetaMorphWavelengths = 33630;
constexpr std::uint16_t kFluoViewHeader = 34361;
constexpr std::uint16_t kZeissLsm = 34412;
constexpr std::uint16_t kExif = 34665;

constexpr std::uint16_t kStripsAt = 273;
constexpr std::uint16_t kTilesAt = 324;

/// Programs begin directories and pixels at blocks of a disk, as driftd's raw frames do.
constexpr std::uint64_t kLargestBlock = 4096;
/// What a file may have beside its pages: little texts, a thumbnail's rest.
constexpr std::uint64_t kBeside = 1024;

/// One of the axes along which planes follow one another.
struct PlaneAxis {
  std::string name;
  std::int64_t size;
};

std::int64_t product(const Numbers& numbers) {
  std::int64_t all = 1;
  for (const std::int64_t n : numbers) {
    if (n < 1 || all > kMostPlanes * kMaxFramePixels / n) return 0;
    all *= n;
  }
  return all;
}

std::string in_words(const Numbers& shape) {
  std::string text;
  for (const std::int64_t n : shape) text += (text.empty() ? "" : " x ") + std::to_string(n);
  return text;
}

/// Planes of which the last axis goes fastest.
void add_planes(ImageAxes& axes, const std::vector<PlaneAxis>& along, std::int64_t count) {
  for (std::int64_t plane = 0; plane < count; ++plane) {
    axes.add_image();
    std::int64_t of_one = count;  // planes that follow one another at one place of the axis
    for (const PlaneAxis& axis : along) {
      of_one /= axis.size;
      axes.place(axis.name, {.number = plane / of_one % axis.size});
    }
  }
}

[[noreturn]] void refuse(const StackSettings& settings, const std::string& what) {
  throw RecordingError(settings.path, what + "; the option " + settings.names.every_page +
                                          " takes its pages as they are");
}

/// An image takes a byte at least, whatever damaged metadata say.
void check_count(const StackSettings& settings, std::int64_t planes, const FileBytes& bytes) {
  if (planes >= 1 && static_cast<std::uint64_t>(planes) <= bytes.size()) return;
  refuse(settings, "its metadata name " + counted(planes, "image") + ", it has " +
                       counted(bytes.size(), "byte"));
}

/// What tifffile says of images: {"shape": [20, 2, 88, 88], "axes": "TCYX"}, or shape=(40, 88, 88).
struct ShapeSaid {
  Numbers shape;
  std::string axes;  ///< "": not said
  bool truncated = false;
};

Numbers numbers_in(std::string_view text) {
  Numbers numbers;
  for (std::size_t at = 0; at < text.size();) {
    std::int64_t value = 0;
    const auto result = std::from_chars(text.data() + at, text.data() + text.size(), value);
    if (result.ec == std::errc()) numbers.push_back(value);
    at = std::max(at + 1, static_cast<std::size_t>(result.ptr - text.data()));
  }
  return numbers;
}

std::optional<ShapeSaid> shape_said(std::string_view text) {
  ShapeSaid said;
  if (text.starts_with("shape=(")) {
    said.shape = numbers_in(text);
    return said;
  }
  if (!text.starts_with('{') || text.find("\"shape\"") == std::string_view::npos) {
    return std::nullopt;
  }
  const json all = json::parse(text, nullptr, false);
  if (!all.is_object() || !all.contains("shape") || !all["shape"].is_array()) return std::nullopt;
  for (const json& n : all["shape"]) {
    if (!n.is_number_integer()) return std::nullopt;
    said.shape.push_back(n.get<std::int64_t>());
  }
  if (all.contains("axes") && all["axes"].is_string()) said.axes = all["axes"].get<std::string>();
  if (said.axes.size() != said.shape.size()) said.axes.clear();
  const auto truncated = all.find("truncated");
  said.truncated = truncated != all.end() && truncated->is_boolean() && truncated->get<bool>();
  return said;
}

/// The shape that the current page's description says, or the second one that it has.
std::optional<ShapeSaid> shape_said_here(const TiffFile& file, FileBytes& bytes) {
  const std::string_view first = file.description();
  if (first.empty()) return std::nullopt;
  if (auto said = shape_said(first)) return said;
  for (const std::string& text :
       texts_of(bytes, read_directory(bytes, file.directory_at()), kDescription)) {
    if (auto said = shape_said(text)) return said;
  }
  return std::nullopt;
}

/// The axes before those of a page's own pixels; nothing where the shape is not of such pages.
std::optional<std::vector<PlaneAxis>> axes_said(const ShapeSaid& said, const StackShape& page) {
  Numbers shape = said.shape;
  std::string letters = said.axes;
  if (shape.size() > 2 && shape.back() == 1 && (letters.empty() || letters.back() == 'S')) {
    shape.pop_back();
    if (!letters.empty()) letters.pop_back();
  }
  if (shape.size() < 2 || shape.back() != page.width_px ||
      shape[shape.size() - 2] != page.height_px || product(shape) == 0 ||
      !(letters.empty() || letters.ends_with("YX"))) {
    return std::nullopt;
  }
  shape.resize(shape.size() - 2);
  const auto several = std::ranges::count_if(shape, [](std::int64_t n) { return n > 1; });
  std::vector<PlaneAxis> along;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const char letter = letters.empty() ? 'Q' : letters[i];
    std::string name = letter == 'T'   ? "time"
                       : letter == 'Z' ? "z"
                       : letter == 'C' ? "channel"
                       : letter == 'P' ? "position"
                                       : std::string("axis ") + letter + " at place " +
                                             std::to_string(i) + " of its shape";
    // Whose axis has no name.
    if ((letter == 'Q' || letter == 'I') && several <= 1) name = "time";
    along.push_back({std::move(name), shape[i]});
  }
  return along;
}

std::int64_t planes_along(const std::vector<PlaneAxis>& along) {
  std::int64_t planes = 1;
  for (const PlaneAxis& axis : along) planes *= axis.size;
  return planes;
}

/// One of the arrays that a file by tifffile holds.
struct ShapedSeries {
  std::int64_t page = 0;
  std::vector<PlaneAxis> along;
  std::int64_t planes = 1;
  bool truncated = false;
};

std::vector<ShapedSeries> shaped_series(const StackSettings& settings, TiffFile& file,
                                        FileBytes& bytes) {
  std::vector<ShapedSeries> all;
  std::string before;
  for (std::int64_t page = 0; page < file.pages() && file.turn_to(page);) {
    // Thousands of frames that were written one by one say the same.
    if (!all.empty() && all.back().planes == 1 && !before.empty() && file.description() == before) {
      all.push_back(all.back());
      all.back().page = page++;
      continue;
    }
    before = file.description();
    const auto said = shape_said_here(file, bytes);
    if (!said) {
      if (all.empty()) return {};
      refuse(settings, "page " + std::to_string(page) +
                           " belongs to none of the arrays that its descriptions name");
    }
    const StackShape shape = file.shape();
    auto along = axes_said(*said, shape);
    if (!along) {
      refuse(settings, "its description names an array of " + in_words(said->shape) +
                           (said->axes.empty() ? "" : " (" + said->axes.substr(0, 20) + ")") +
                           ", page " + std::to_string(page) + " is " +
                           std::to_string(shape.width_px) + " x " +
                           std::to_string(shape.height_px) + " px");
    }
    ShapedSeries series{page, std::move(*along), 1, said->truncated};
    series.planes = planes_along(series.along);
    check_count(settings, series.planes, bytes);
    const bool alone = series.truncated || (series.planes > 1 && file.pages() == 1);
    series.truncated = alone && series.planes > 1;
    page += series.truncated ? 1 : series.planes;
    all.push_back(std::move(series));
  }
  return all;
}

std::optional<TiffPlanes> shaped_planes(const StackSettings& settings, TiffFile& file,
                                        FileBytes& bytes) {
  std::vector<ShapedSeries> all = shaped_series(settings, file, bytes);
  if (all.empty()) return std::nullopt;
  const bool single = std::ranges::all_of(all, [](const auto& s) { return s.planes == 1; });
  if (single && settings.series < 0) return std::nullopt;  // written one by one: each is a frame
  const bool several = all.size() > 1;                     // else the option may mean a position
  const std::int64_t index =
      several ? choose_one(settings.path, {.what = "series",
                                           .several = "series",
                                           .option = settings.names.series,
                                           .chosen = settings.series,
                                           .count = static_cast<std::int64_t>(all.size()),
                                           .names = {}})
              : 0;
  const ShapedSeries& chosen = all[static_cast<std::size_t>(index)];
  TiffPlanes planes{.axes = {},
                    .count = chosen.planes,
                    .first_page = chosen.page,
                    .behind_one_page = chosen.truncated,
                    .series_is_chosen = several,
                    .bytes_apart = 0,
                    .who = "tifffile"};
  add_planes(planes.axes, chosen.along, chosen.planes);
  return planes;
}

std::optional<TiffPlanes> metamorph_planes(const StackSettings& settings, const TiffFile& file,
                                           FileBytes& bytes, const TiffDirectory& first) {
  const TiffTag* said = first.find(kMetaMorphPlanes);
  if (said == nullptr || said->count < 2 || file.pages() > 1) return std::nullopt;
  check_count(settings, static_cast<std::int64_t>(said->count), bytes);
  TiffPlanes planes{.axes = {},
                    .count = static_cast<std::int64_t>(said->count),
                    .first_page = 0,
                    .behind_one_page = true,
                    .series_is_chosen = false,
                    .bytes_apart = 0,
                    .who = "MetaMorph"};
  // The next plane begins behind the last strip.
  if (const TiffTag* strips = first.find(kStripBytes); strips != nullptr && strips->bytes > 0) {
    for (std::uint64_t i = 0; i < strips->count; ++i) {
      const std::uint64_t each = strips->bytes / strips->count;
      planes.bytes_apart += bytes.number(strips->at + i * each, static_cast<std::size_t>(each));
    }
  }
  const TiffTag* colours = first.find(kMetaMorphWavelengths);
  if (colours != nullptr && colours->count != said->count) colours = nullptr;
  for (std::int64_t i = 0; i < planes.count; ++i) {
    planes.axes.add_image();
    planes.axes.place("time", {.number = i});
    if (colours == nullptr) continue;
    const std::uint64_t at = colours->at + 8 * static_cast<std::uint64_t>(i);
    const std::uint64_t over = bytes.number(at, 4), under = bytes.number(at + 4, 4);
    const double colour = static_cast<double>(over) / static_cast<double>(under);
    planes.axes.place("channel", {.text = under == 0 ? "0" : json(colour).dump()});
  }
  return planes;
}

/// Pages along some axes, as far as the pages are so many.
TiffPlanes pages_along(const StackSettings& settings, const TiffFile& file, const std::string& who,
                       const std::vector<PlaneAxis>& along) {
  if (planes_along(along) != file.pages()) {
    std::string said;
    for (const PlaneAxis& axis : along) {
      said += (said.empty() ? "" : " x ") + std::to_string(axis.size) + " along " + axis.name;
    }
    refuse(settings, "has " + counted(file.pages(), "page") + ", " + who + " says " + said);
  }
  TiffPlanes planes{.axes = {},
                    .count = file.pages(),
                    .first_page = 0,
                    .behind_one_page = false,
                    .series_is_chosen = false,
                    .bytes_apart = 0,
                    .who = who};
  add_planes(planes.axes, along, planes.count);
  return planes;
}

std::optional<TiffPlanes> fluoview_planes(const StackSettings& settings, const TiffFile& file,
                                          FileBytes& bytes, const TiffDirectory& first) {
  const TiffTag* header = first.find(kFluoViewHeader);
  if (header == nullptr) return std::nullopt;
  // Ten dimensions of 100 bytes, the fastest first: a name of 16 bytes, a size.
  constexpr std::uint64_t kDimensionsAt = 284, kDimensionBytes = 100, kDimensions = 10;
  std::vector<PlaneAxis> along;
  for (std::uint64_t i = 0; i < kDimensions; ++i) {
    const std::uint64_t at = header->at + kDimensionsAt + i * kDimensionBytes;
    const auto size = static_cast<std::int64_t>(bytes.number(at + 16, 4));
    std::string name = bytes.text(at, 16);
    name.resize(std::min(name.size(), name.find('\0')));
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (name == "X" || name == "Y" || size < 2 || size > kMostPlanes) continue;
    const char* known = name == "T" || name == "TIME"          ? "time"
                        : name == "Z"                          ? "z"
                        : name == "CH" || name == "WAVELENGTH" ? "channel"
                        : name == "XY"                         ? "position"
                                                               : nullptr;
    along.insert(along.begin(), {known != nullptr ? known : "axis " + name, size});
  }
  // Each page is a frame.
  if (along.empty() || (along.size() == 1 && along.front().name == "time")) return std::nullopt;
  return pages_along(settings, file, "FluoView", along);
}

/// How many channels ScanImage saved, one after another for each frame; 0: it did not write this.
std::int64_t scanimage_channels(const std::string& text) {
  for (const std::string_view key : {"SI.hChannels.channelSave = ", "channelsSave = "}) {
    const std::size_t at = text.find(key);
    if (at == std::string::npos) continue;
    const std::size_t end = std::min(text.find('\n', at), text.size());
    return static_cast<std::int64_t>(
        numbers_in(std::string_view(text).substr(at + key.size(), end - at - key.size())).size());
  }
  std::int64_t channels = 0;
  if (!text.starts_with("state.")) return 0;
  for (int i = 1; i <= 4; ++i) {
    const bool saved =
        text.find("state.acq.savingChannel" + std::to_string(i) + "=1") != std::string::npos;
    channels += saved ? 1 : 0;
  }
  return channels;
}

/// How many positions in z ScanImage went to; below 2: it stayed, or did not write this.
std::int64_t scanimage_slices(const std::string& text) {
  const auto says = [&](std::string_view key) {
    return text.find(std::string(key) + "true") != std::string::npos ||
           text.find(std::string(key) + "1") != std::string::npos;
  };
  const auto number = [&](std::string_view key) -> std::int64_t {
    const std::size_t at = text.find(key);
    if (at == std::string::npos) return 0;
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const Numbers numbers =
        numbers_in(std::string_view(text).substr(at + key.size(), end - at - key.size()));
    return numbers.empty() ? 0 : numbers.front();
  };
  if (says("SI.hStackManager.enable = ") || says("SI.hFastZ.enable = "))
    return number("SI.hStackManager.numSlices = ");
  return text.starts_with("state.") ? number("state.acq.numberOfZSlices=") : 0;
}

std::optional<TiffPlanes> scanimage_planes(const StackSettings& settings, const TiffFile& file,
                                           FileBytes& bytes, const TiffDirectory& first) {
  for (const std::uint16_t tag : {kSoftware, kDescription}) {
    for (const std::string& text : texts_of(bytes, first, tag)) {
      if (const std::int64_t slices = scanimage_slices(text); slices > 1) {
        refuse(settings, "ScanImage wrote it at " + std::to_string(slices) +
                             " positions in z, whose order among its pages is not read: save one "
                             "position as a file");
      }
      const std::int64_t channels = scanimage_channels(text);
      if (channels < 2) continue;
      return pages_along(settings, file, "ScanImage",
                         {{"time", file.pages() / channels}, {"channel", channels}});
    }
  }
  return std::nullopt;
}

/// The blocks that pixels and directories of a file begin at, by those of the first page and the
/// next directory: a power of two.
std::uint64_t block_of(FileBytes& bytes, const TiffDirectory& first) {
  const TiffTag* parts = first.find(kStripsAt);
  if (parts == nullptr) parts = first.find(kTilesAt);
  std::uint64_t places = first.next;
  if (parts != nullptr && parts->count > 0)
    places |= bytes.number(parts->at, static_cast<std::size_t>(parts->bytes / parts->count));
  std::uint64_t block = 1;
  while (block < kLargestBlock && places % (2 * block) == 0) block *= 2;
  return block;
}

}  // namespace

std::optional<TiffPlanes> planes_of(const StackSettings& settings, TiffFile& file,
                                    FileBytes& bytes) {
  const TiffDirectory first = read_directory(bytes, file.directory_at());
  const TiffTag* depth = first.find(kImageDepth);
  const std::uint64_t slices = depth == nullptr ? 1 : bytes.number(depth->at, depth->bytes);
  if (slices > 1) {
    refuse(settings, "its pages have " + std::to_string(slices) +
                         " slices each (tag 32997), which are not read: save it with a page for "
                         "each image");
  }
  if (first.find(kZeissLsm) != nullptr) {
    refuse(settings,
           "is a Zeiss LSM file (tag 34412), whose order of pages is not read: save it as "
           "OME-TIFF");
  }
  if (auto planes = metamorph_planes(settings, file, bytes, first)) return planes;
  if (auto planes = shaped_planes(settings, file, bytes)) return planes;
  file.turn_to(0);
  if (auto planes = fluoview_planes(settings, file, bytes, first)) return planes;
  return scanimage_planes(settings, file, bytes, first);
}

void check_bytes_of_pages(const StackSettings& settings, TiffFile& file, FileBytes& bytes) {
  if (!file.chain_is_whole() || !file.turn_to(0)) return;
  const bool compressed = file.is_compressed();
  const std::uint64_t plain = file.plain_bytes();
  const TiffDirectory first = read_directory(bytes, file.directory_at());
  const TiffTag* parts = first.find(kStripBytes);
  if (parts == nullptr) parts = first.find(kTileBytes);
  std::uint64_t stored = 0;
  for (std::uint64_t i = 0; parts != nullptr && parts->bytes > 0 && i < parts->count; ++i) {
    const std::uint64_t each = parts->bytes / parts->count;
    stored += bytes.number(parts->at + i * each, static_cast<std::size_t>(each));
  }
  const StackShape shape = file.shape();
  const std::string of_page = std::to_string(shape.width_px) + " x " +
                              std::to_string(shape.height_px) + " px of " + name_of(shape.type);
  const std::string images =
      ": it may hold images that no page tells of, in an order that is not known here; save it as "
      "OME-TIFF, or by ImageJ";
  if (!compressed && stored >= 2 * plain) {
    refuse(settings, "its first page has " + std::to_string(stored) + " bytes of pixels, " +
                         of_page + " need " + std::to_string(plain) + images);
  }
  const bool has_more =
      file.leaves_out() || first.find(kSubDirectories) != nullptr || first.find(kExif) != nullptr;
  const auto pages = static_cast<std::uint64_t>(file.pages());
  if (has_more || (compressed && pages > 1)) return;
  const std::uint64_t of_pixels = compressed ? stored : plain;
  std::uint64_t need = first.bytes + pages * of_pixels;
  if (pages > 1) need += (pages - 1) * read_directory(bytes, first.next).bytes;
  const std::uint64_t rest = bytes.size() - std::min(bytes.size(), need);
  const std::uint64_t padding = 3 * block_of(bytes, first);  // of a directory, its texts and pixels
  if (rest <= std::max(of_pixels, need / 2) + pages * padding + kBeside) return;
  refuse(settings, "has " + std::to_string(bytes.size()) + " bytes, and its " +
                       counted(pages, "page") + " (" + of_page + ") need " + std::to_string(need) +
                       images);
}

}  // namespace driftd::camera
