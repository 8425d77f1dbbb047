// SPDX-License-Identifier: MIT
#include "camera/recording/micromanager.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/counted.hpp"
#include "camera/recording/image_axes.hpp"

namespace driftd::camera {
namespace {

using nlohmann::json;

constexpr std::uint64_t kNdTiffMagic = 483729;
/// Longer texts in an index are damage.
constexpr std::uint64_t kLongestIndexText = std::uint64_t{1} << 20;

/// The axis value of a number, whole or not; nothing for one that is too large to be counted along
/// an axis.
std::optional<AxisValue> value_of(double number) {
  constexpr double kMost = 1e15;
  if (!(std::abs(number) < kMost)) return std::nullopt;
  const double whole = std::floor(number);
  return AxisValue{.number = static_cast<std::int64_t>(whole), .fraction = number - whole};
}

/// Along time and z a text may be a number, too; what channels and positions are called is a name.
AxisValue value_of(std::string_view axis, const json& value) {
  if (value.is_number_integer()) return {.number = value.get<std::int64_t>()};
  if (value.is_number_float()) {
    if (const auto number = value_of(value.get<double>())) return *number;
  }
  if (value.is_string() && (axis == "time" || axis == "z")) {
    std::string_view text = value.get_ref<const std::string&>();
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ')));
    text = text.substr(0, text.find_last_not_of(' ') + 1);
    double read = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), read);
    const bool all = result.ec == std::errc() && result.ptr == text.data() + text.size();
    if (const auto number = all ? value_of(read) : std::nullopt) return *number;
  }
  if (value.is_string() && !value.get_ref<const std::string&>().empty()) {
    return {.text = value.get<std::string>()};
  }
  // Lists within lists would be written by as many calls within calls.
  return {.text = value.is_structured()
                      ? std::string("a list")
                      : value.dump(-1, ' ', false, json::error_handler_t::replace)};
}

/// An entry of an index: an image, and where it is.
struct IndexEntry {
  json axes;
  std::string file;
  std::uint64_t pixels_at = 0, width = 0, height = 0, type = 0, compression = 0;
  std::uint64_t metadata_at = 0, metadata_bytes = 0, metadata_compression = 0;
};

/// Little-endian words and texts, one after another.
class IndexReader {
 public:
  explicit IndexReader(const std::filesystem::path& path) : file_(path, std::ios::binary) {
    if (!file_) throw RecordingError(path, "cannot be opened");
  }

  /// False at the end, or where it breaks off.
  bool next(IndexEntry& entry) {
    std::string axes;
    if (!text(axes) || !text(entry.file)) return false;
    for (std::uint64_t* value :
         {&entry.pixels_at, &entry.width, &entry.height, &entry.type, &entry.compression,
          &entry.metadata_at, &entry.metadata_bytes, &entry.metadata_compression}) {
      if (!word(*value)) return false;
    }
    entry.axes = json::parse(axes, nullptr, false);
    broken_ = !entry.axes.is_object();
    return !broken_;
  }
  /// Whether it ended within an entry.
  [[nodiscard]] bool is_broken() const { return broken_; }

 private:
  bool word(std::uint64_t& value) {
    std::array<unsigned char, 4> bytes{};
    file_.read(reinterpret_cast<char*>(bytes.data()), bytes.size());
    broken_ = broken_ || file_.gcount() > 0;
    if (!file_) return false;
    value = bytes[0] | std::uint64_t{bytes[1]} << 8 | std::uint64_t{bytes[2]} << 16 |
            std::uint64_t{bytes[3]} << 24;
    return true;
  }
  bool text(std::string& value) {
    std::uint64_t bytes = 0;
    if (!word(bytes) || bytes > kLongestIndexText) return false;
    value.resize(bytes);
    file_.read(value.data(), static_cast<std::streamsize>(bytes));
    return static_cast<bool>(file_);
  }

  std::ifstream file_;
  bool broken_ = false;
};

std::string in_words(const IndexEntry& entry) {
  return std::to_string(entry.width) + " x " + std::to_string(entry.height) + " px of type " +
         std::to_string(entry.type);
}

/// The types of NDTiff: 0 is 8 bits, 1 and 3 to 6 are 16 bits of which so many are used, 2 is RGB.
StackShape shape_of(const std::filesystem::path& path, const IndexEntry& entry) {
  constexpr std::uint64_t kRgb = 2, kMostType = 6;
  if (entry.type > kMostType || entry.type == kRgb) {
    throw RecordingError(path, "its images are " + in_words(entry) +
                                   "; allowed are grey images of 8 and 16 bits (0, 1, 3 to 6)");
  }
  if (entry.compression != 0) {
    throw RecordingError(path, "its pixels are packed, by compression " +
                                   std::to_string(entry.compression) + "; allowed is none (0)");
  }
  check_frame_size(path, static_cast<std::int64_t>(entry.width),
                   static_cast<std::int64_t>(entry.height));
  return {.width_px = static_cast<int>(entry.width),
          .height_px = static_cast<int>(entry.height),
          .frames = 0,
          .type = entry.type == 0 ? PixelType::U8 : PixelType::U16};
}

/// An index, and the files that it names.
class NdTiff {
 public:
  explicit NdTiff(std::filesystem::path folder)
      : folder_(std::move(folder)), index_(folder_ / kNdTiffIndex) {
    IndexReader reader(index_);
    for (IndexEntry entry; reader.next(entry);) {
      // A name alone: an index does not lead out of the folder.
      entry.file = std::filesystem::path(entry.file).filename().string();
      axes_.add_image();
      for (const auto& [name, value] : entry.axes.items()) axes_.place(name, value_of(name, value));
      entry.axes = nullptr;
      names_.try_emplace(entry.file, names_.size());
      entries_.push_back(std::move(entry));
    }
    if (entries_.empty()) throw RecordingError(index_, "names no image");
    broken_ = reader.is_broken();
  }

  [[nodiscard]] bool names(const std::filesystem::path& file) const {
    return names_.contains(file.filename().string());
  }

  std::unique_ptr<ImageStack> open(const StackSettings& settings) {
    StackFacts facts;
    const std::vector<std::size_t> frames = axes_.frames(settings, facts.notes);
    facts.place = axes_.place_of(frames.front());
    StackShape shape = shape_of(index_, entries_[frames.front()]);
    std::vector<std::filesystem::path> files(names_.size());
    for (const auto& [name, number] : names_) files[number] = folder_ / name;
    std::vector<FramePlace> places;
    for (const std::size_t frame : frames) {
      const IndexEntry& entry = entries_[frame];
      const StackShape here = shape_of(index_, entry);
      if (here.width_px != shape.width_px || here.height_px != shape.height_px ||
          here.type != shape.type) {
        throw RecordingError(index_, "has images of " + in_words(entries_[frames.front()]) +
                                         " and of " + in_words(entry));
      }
      places.push_back({.file = names_.at(entry.file),
                        .pixels_at = entry.pixels_at,
                        .metadata_at = entry.metadata_compression == 0 ? entry.metadata_at : 0,
                        .metadata_bytes = entry.metadata_bytes});
    }
    const std::string missing = drop_missing(files, places, shape.frame_bytes());
    if (!missing.empty()) {
      facts.notes.push_back(
          truncated_note(settings, static_cast<std::int64_t>(places.size()),
                         broken_ && places.size() == frames.size()
                             ? std::nullopt
                             : std::optional(static_cast<std::int64_t>(frames.size())),
                         missing));
    }
    shape.frames = static_cast<std::int64_t>(places.size());
    FileBytes first(files[places.front().file]);
    facts.files = files;
    return open_scattered_pixels(
        {.files = std::move(files),
         .frames = std::move(places),
         .byte_order = first.big_endian() ? ByteOrder::Big : ByteOrder::Little},
        shape, std::move(facts));
  }

 private:
  /// Leaves the frames before the first that is not there. @return why it is not; "": all are
  [[nodiscard]] std::string drop_missing(const std::vector<std::filesystem::path>& files,
                                         std::vector<FramePlace>& places,
                                         std::uint64_t frame_bytes) const {
    std::vector<std::optional<std::uint64_t>> sizes(files.size());
    std::vector<std::string> problems(files.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::size_t file = places[i].file;
      if (!sizes[file]) {
        FileBytes bytes(files[file]);
        sizes[file] = is_ndtiff(bytes) ? bytes.size() : 0;
        if (*sizes[file] == 0) {
          problems[file] = files[file].filename().string() +
                           (bytes.size() == 0 ? ", which its index names, is not in its folder"
                                              : ", which its index names, is no NDTiff file");
        }
      }
      if (places[i].pixels_at <= *sizes[file] &&
          frame_bytes <= *sizes[file] - places[i].pixels_at) {
        continue;
      }
      places.resize(i);
      return problems[file].empty()
                 ? "the pixels of the next end behind " + files[file].filename().string()
                 : problems[file];
    }
    return broken_ ? "its index breaks off" : "";
  }

  std::filesystem::path folder_, index_;
  ImageAxes axes_;
  std::vector<IndexEntry> entries_;
  std::map<std::string, std::size_t> names_;  ///< of files, in the order of the index
  bool broken_ = false;
};

/// Where a page of Micro-Manager stands, by its own text; false: it does not say.
bool place_page(const std::string& text, ImageAxes& axes) {
  const json said = json::parse(text, nullptr, false);
  if (!said.is_object()) return false;
  bool any = false;
  if (const auto own = said.find("Axes"); own != said.end() && own->is_object()) {
    for (const auto& [name, value] : own->items()) axes.place(name, value_of(name, value));
    return !own->empty();
  }
  struct Known {
    const char *axis, *number, *older, *name;
  };
  for (const auto& [axis, number, older, name] :
       {Known{"time", "FrameIndex", "Frame", nullptr},
        Known{"channel", "ChannelIndex", "Channel", "Channel"},
        Known{"z", "SliceIndex", "Slice", nullptr},
        Known{"position", "PositionIndex", "PositionName", "PositionName"}}) {
    auto found = said.find(number);
    if (found == said.end()) found = said.find(older);
    if (found == said.end()) continue;
    any = true;
    const auto named = name != nullptr ? said.find(name) : said.end();
    const bool by_name = named != said.end() && named->is_string();
    axes.place(axis, value_of(axis, by_name ? *named : *found));
  }
  return any;
}

}  // namespace

bool is_ndtiff(FileBytes& file) {
  return !file.big_tiff() && file.number(8, 4) == kNdTiffMagic;
}

std::unique_ptr<ImageStack> open_ndtiff(const StackSettings& settings) {
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(settings.path, error);
  const std::filesystem::path folder = is_folder ? settings.path : settings.path.parent_path();
  if (!std::filesystem::exists(folder / kNdTiffIndex, error)) {
    throw RecordingError(settings.path,
                         std::string("is a file of an NDTiff recording, whose index ") +
                             kNdTiffIndex +
                             " is not beside it: take the recording's whole folder; the option " +
                             settings.names.every_page + " takes this file's pages without");
  }
  NdTiff recording(folder);
  if (!is_folder && !recording.names(settings.path)) {
    throw RecordingError(settings.path, std::string("is not named by the ") + kNdTiffIndex +
                                            " beside it, which is another recording's, unless "
                                            "the file was renamed");
  }
  return recording.open(settings);
}

std::optional<PagedFrames> micromanager_pages(const StackSettings& settings, TiffFile& file,
                                              StackFacts& facts) {
  const auto has_text = [&](std::int64_t page) {
    return page < file.pages() && file.turn_to(page) && !file.text_of(kMicroManagerTag).empty();
  };
  if (!has_text(0) && !has_text(1)) {
    file.turn_to(0);
    return std::nullopt;
  }
  ImageAxes axes;
  std::vector<std::int64_t> silent;
  std::int64_t page = 0;
  for (; page < file.pages() && file.turn_to(page); ++page) {
    axes.add_image();
    if (!place_page(file.text_of(kMicroManagerTag), axes)) silent.push_back(page);
  }
  if (static_cast<std::int64_t>(silent.size()) == page) {
    file.turn_to(0);
    return std::nullopt;
  }
  if (!silent.empty()) {
    throw RecordingError(
        settings.path,
        "page " + std::to_string(silent.front()) +
            (silent.size() > 1 ? " (and " + std::to_string(silent.size() - 1) + " more)" : "") +
            " of its " + counted(page, "page") +
            " does not say which frame it is, as Micro-Manager's JSON (tag 51123) of the others "
            "does; the option " +
            settings.names.every_page + " takes its pages as they are");
  }
  PagedFrames frames{.files = {settings.path}, .places = {}, .said = 0, .missing = {}};
  const std::vector<std::size_t> images = axes.frames(settings, facts.notes);
  facts.place = axes.place_of(images.front());
  if (images.size() == 1) {
    facts.time_number = axes.number_along("time", images.front());
    facts.z_number = axes.number_along("z", images.front());
  }
  for (const std::size_t image : images) {
    frames.places.push_back({0, static_cast<std::int64_t>(image)});
  }
  frames.said = static_cast<std::int64_t>(frames.places.size());
  if (!file.chain_is_whole()) frames.missing = broken_chain_in_words(file);
  return frames;
}

/// Reads it without a parser of JSON, which would take longer than the fits.
std::optional<double> elapsed_s(std::string_view json) noexcept {
  constexpr std::string_view kKey = "\"ElapsedTime-ms\"";
  if (json.find(kKey) == std::string_view::npos) return std::nullopt;
  std::size_t colon = std::string_view::npos;
  int depth = 0;
  for (std::size_t i = 0; i < json.size() && colon == std::string_view::npos; ++i) {
    if (json[i] == '{' || json[i] == '[') ++depth;
    if (json[i] == '}' || json[i] == ']') --depth;
    if (json[i] != '"') continue;
    const std::size_t begin = i;
    for (++i; i < json.size() && json[i] != '"'; ++i) i += json[i] == '\\' ? 1u : 0u;
    if (depth != 1 || json.substr(begin, kKey.size()) != kKey) continue;
    const std::size_t behind = json.find_first_not_of(" \t\r\n", i + 1);
    if (behind != std::string_view::npos && json[behind] == ':') colon = behind;
  }
  if (colon == std::string_view::npos) return std::nullopt;
  const std::size_t begin = json.find_first_not_of(" \t\r\n\"", colon + 1);
  if (begin == std::string_view::npos) return std::nullopt;
  double ms = 0;
  const auto read = std::from_chars(json.data() + begin, json.data() + json.size(), ms);
  if (read.ec != std::errc{} || !std::isfinite(ms)) return std::nullopt;
  // A text goes on to its end: "1,234.5" is no 1.
  const char* const end = json.data() + json.size();
  if (json[begin - 1] == '"' && (read.ptr == end || *read.ptr != '"')) return std::nullopt;
  return ms / 1000;
}

}  // namespace driftd::camera
