// SPDX-License-Identifier: MIT
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "camera/recording/ome_pages.hpp"
#include "camera/recording/planes.hpp"
#include "camera/recording/stack_formats.hpp"
#include "camera/recording/tiff_file.hpp"

namespace driftd::camera {
namespace {

/// The number of `key=NUMBER` on a line of its own in an ImageJ description, if it is above 0.
template <class Number>
std::optional<Number> imagej_value(std::string_view description, std::string_view key) {
  for (std::size_t begin = 0; begin < description.size();) {
    const std::size_t end = std::min(description.find('\n', begin), description.size());
    const std::string_view line = description.substr(begin, end - begin);
    if (line.starts_with(key) && line.substr(key.size()).starts_with('=')) {
      const std::string_view text = line.substr(key.size() + 1);
      Number value{};
      const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
      if (result.ec == std::errc() && std::isfinite(value) && value > 0) return value;
    }
    begin = end + 1;
  }
  return std::nullopt;
}

/// How many images ImageJ says it wrote; 1 where it does not say.
std::int64_t images_said(std::string_view description) {
  if (!description.starts_with("ImageJ=")) return 1;
  return imagej_value<std::int64_t>(description, "images").value_or(1);
}

/// Of an ImageJ hyperstack; one axis alone where it is none or its numbers contradict one another.
PlaneExtent extent_said(std::string_view description, std::int64_t images) {
  PlaneExtent extent;
  extent.t = images;
  const auto said = [&](std::string_view key) {
    const auto value = imagej_value<std::int64_t>(description, key).value_or(1);
    return std::min(value, kMostPlanes);
  };
  const PlaneExtent hyperstack{.z = said("slices"), .c = said("channels"), .t = said("frames")};
  const std::int64_t at_each_time = hyperstack.c * hyperstack.z;
  const bool agrees = at_each_time <= kMostPlanes && at_each_time * hyperstack.t == images;
  return description.starts_with("ImageJ=") && agrees ? hyperstack : extent;
}

std::optional<double> rate_said_hz(std::string_view description) {
  const auto interval_s = imagej_value<double>(description, "finterval");
  if (interval_s && std::isfinite(1 / *interval_s)) return 1 / *interval_s;
  return imagej_value<double>(description, "fps");
}

std::string in_words(const StackShape& shape) {
  return std::to_string(shape.width_px) + " x " + std::to_string(shape.height_px) + " " +
         name_of(shape.type);
}

/// "7 x 5 uint16", as far as the metadata say and the page contradicts; else "".
std::string contradiction(const OmePlaneShape& said, const StackShape& page) {
  const std::string type = said.type == "float" ? name_of(PixelType::F32) : said.type;
  const std::int64_t width = said.width_px.value_or(page.width_px);
  const std::int64_t height = said.height_px.value_or(page.height_px);
  const std::string found = name_of(page.type);
  if (width == page.width_px && height == page.height_px && (type.empty() || type == found)) {
    return {};
  }
  return std::to_string(width) + " x " + std::to_string(height) + " " +
         (type.empty() ? found : type.substr(0, 40));
}

/// The files of a recording, one of which is open at a time.
class PageReader {
 public:
  PageReader(std::unique_ptr<TiffFile> first, std::vector<std::filesystem::path> files)
      : file_(std::move(first)), files_(std::move(files)) {}

  bool turn_to(const PagePlace& place) {
    if (place.file != open_) {
      file_ = std::make_unique<TiffFile>(files_[place.file]);
      open_ = place.file;
    }
    return file_->turn_to(place.page);
  }
  [[nodiscard]] const TiffFile& file() const { return *file_; }

 private:
  std::unique_ptr<TiffFile> file_;
  std::vector<std::filesystem::path> files_;
  std::size_t open_ = 0;
};

class PagedStack final : public ImageStack {
 public:
  PagedStack(PageReader reader, std::vector<PagePlace> places, const StackShape& shape,
             StackFacts facts)
      : ImageStack(shape, std::move(facts)),
        reader_(std::move(reader)),
        places_(std::move(places)) {}

  void read(std::int64_t first, std::int64_t count, std::byte* out) override {
    for (std::int64_t frame = first; frame < first + count; ++frame) {
      const PagePlace& place = places_[static_cast<std::size_t>(frame)];
      const std::string page = "page " + std::to_string(place.page);
      const bool turned = reader_.turn_to(place);
      const TiffFile& file = reader_.file();
      if (!turned) file.fail(page + ": cannot be read");
      const StackShape found = file.shape();
      if (found.width_px != shape().width_px || found.height_px != shape().height_px ||
          found.type != shape().type) {
        file.fail(page + ": is " + in_words(found) + ", page " +
                  std::to_string(places_.front().page) + " is " + in_words(shape()));
      }
      file.read(shape(), out);
      out += shape().frame_bytes();
    }
  }

 private:
  PageReader reader_;
  std::vector<PagePlace> places_;
};

/// How many frames from the first on have all their pixels; looks at the last alone if that does.
std::size_t whole_frames(PageReader& reader, const std::vector<PagePlace>& places) {
  const auto whole = [&](const PagePlace& place) {
    return reader.turn_to(place) && reader.file().page_is_whole();
  };
  if (places.empty() || whole(places.back())) return places.size();
  // The last one, too: the file may grow meanwhile.
  const auto end = std::ranges::find_if_not(places, whole);
  return static_cast<std::size_t>(end - places.begin());
}

std::unique_ptr<ImageStack> open_pages(const StackSettings& settings,
                                       std::unique_ptr<TiffFile> file, PagedFrames frames,
                                       StackFacts facts) {
  PageReader reader(std::move(file), std::move(frames.files));
  const std::size_t whole = whole_frames(reader, frames.places);
  if (whole < frames.places.size()) {
    frames.said = std::max(frames.said, static_cast<std::int64_t>(frames.places.size()));
    frames.missing =
        "the pixels of page " + std::to_string(frames.places[whole].page) + " end behind the file";
  }
  if (!frames.missing.empty()) {
    const auto count = static_cast<std::int64_t>(whole);
    facts.notes.push_back(truncated_note(
        settings, count, count < frames.said ? std::optional(frames.said) : std::nullopt,
        frames.missing));
  }
  frames.places.resize(whole);
  if (!reader.turn_to(frames.places.front())) reader.file().fail("cannot be read");
  StackShape shape = reader.file().shape();
  const std::string said = contradiction(frames.shape_said, shape);
  if (!said.empty()) {
    facts.notes.push_back("its OME-XML says frames of " + said + " (SizeX, SizeY, Type), page " +
                          std::to_string(frames.places.front().page) + " is " + in_words(shape) +
                          ": the page counts");
  }
  shape.frames = static_cast<std::int64_t>(whole);
  return std::make_unique<PagedStack>(std::move(reader), std::move(frames.places), shape,
                                      std::move(facts));
}

/// ImageJ writes stacks above 4 GB as one page with all images' pixels behind its first strip.
std::unique_ptr<ImageStack> open_imagej_stack(const StackSettings& settings, const TiffFile& file,
                                              std::int64_t images, StackFacts facts) {
  const std::optional<std::uint64_t> pixels_at = file.plain_pixels_at();
  if (!pixels_at) {
    file.fail("says that it has " + std::to_string(images) +
              " images, but only one page: save it as BigTIFF or as plain pixels");
  }
  const PlaneExtent extent = extent_said(file.description(), images);
  const PlaneChoice choice(settings, extent);
  StackShape shape = file.shape();
  shape.frames = choice.frames();
  const std::int64_t first = planes_before(extent, choice.plane_of(0));
  const std::int64_t apart = planes_before(extent, choice.plane_of(1)) - first;
  const std::int64_t there = whole_images(settings.path, *pixels_at, shape);
  const std::int64_t whole = there <= first ? 0 : 1 + (there - first - 1) / apart;
  if (whole < shape.frames) {
    facts.notes.push_back(truncated_note(
        settings, whole, shape.frames,
        "of " + std::to_string(images) + " images there are " + std::to_string(there)));
    shape.frames = whole;
  }
  return open_plain_pixels(
      {.path = settings.path,
       .offset_bytes = *pixels_at + static_cast<std::uint64_t>(first) * shape.frame_bytes(),
       .frames_apart = apart,
       .byte_order = file.big_endian() ? ByteOrder::Big : ByteOrder::Little},
      shape, std::move(facts));
}

/// The pages of a file without OME-XML.
PagedFrames pages_of(const StackSettings& settings, const TiffFile& file, std::int64_t images) {
  PagedFrames frames{.files = {settings.path}, .places = {}, .said = 0, .missing = {}};
  const PlaneExtent extent = settings.every_page
                                 ? PlaneExtent{.t = file.pages()}
                                 : extent_said(file.description(), std::max(images, file.pages()));
  const PlaneChoice choice(settings, extent);
  frames.said = choice.frames();
  for (std::int64_t frame = 0; frame < choice.frames(); ++frame) {
    const std::int64_t page = planes_before(extent, choice.plane_of(frame));
    if (page >= file.pages()) break;
    frames.places.push_back({0, page});
  }
  if (!file.chain_is_whole()) {
    frames.missing = "the list of pages breaks off after " + std::to_string(file.pages()) + ": " +
                     file.chain_complaint();
  } else if (static_cast<std::int64_t>(frames.places.size()) < frames.said) {
    frames.missing = "of " + std::to_string(images) + " images that ImageJ wrote there are " +
                     std::to_string(file.pages());
  }
  return frames;
}

/// Whether the pixels of all images stand where ImageJ has them, before a second directory.
bool one_page_of_imagej(const TiffFile& file, std::int64_t images) {
  if (images == 1 || file.pages() != 1) return false;
  if (file.chain_is_whole()) return true;
  const auto pixels_at = file.plain_pixels_at();
  const std::uint64_t frame_bytes = file.shape().frame_bytes();
  return pixels_at && file.next_directory_at() / frame_bytes >= static_cast<std::uint64_t>(images);
}

}  // namespace

std::unique_ptr<ImageStack> open_tiff_stack(const StackSettings& settings) {
  auto file = std::make_unique<TiffFile>(settings.path);
  file->shape();  // a first page that cannot be used is refused whatever the metadata say
  const std::string description(file->description());
  if (!settings.every_page && is_ome(description)) {
    StackFacts facts;
    PagedFrames frames = ome_pages(settings, *file, read_ome(settings, description), facts);
    return open_pages(settings, std::move(file), std::move(frames), std::move(facts));
  }
  choose_one(settings.path, {.what = "series",
                             .option = settings.names.series,
                             .chosen = settings.series,
                             .count = 1,
                             .names = {}});
  StackFacts facts{.recorded_rate_hz = rate_said_hz(description), .notes = {}};
  const std::int64_t images = settings.every_page ? 1 : images_said(description);
  if (one_page_of_imagej(*file, images)) {
    return open_imagej_stack(settings, *file, images, std::move(facts));
  }
  PagedFrames frames = pages_of(settings, *file, images);
  return open_pages(settings, std::move(file), std::move(frames), std::move(facts));
}

}  // namespace driftd::camera
