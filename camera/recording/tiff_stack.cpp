// SPDX-License-Identifier: MIT
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/counted.hpp"
#include "camera/recording/imagej_text.hpp"
#include "camera/recording/micromanager.hpp"
#include "camera/recording/ome_pages.hpp"
#include "camera/recording/planes.hpp"
#include "camera/recording/stack_formats.hpp"
#include "camera/recording/tiff_directory.hpp"
#include "camera/recording/tiff_file.hpp"
#include "camera/recording/tiff_planes.hpp"

namespace driftd::camera {
namespace {

/// The word that stands for 0 where those of the current page have a sign: ImageJ adds 32768, and
/// says so as a calibration. Nothing: they have none.
std::optional<std::uint16_t> zero_of_words(const TiffFile& file) {
  if (file.is_signed()) return 0;
  const std::string_view description = file.description();
  if (file.shape().type != PixelType::U16 || !is_imagej(description)) return std::nullopt;
  const auto says = [&](std::string_view key, double wanted) {
    return number_said(description, key) == wanted;
  };
  if (says("cf", 0) && says("c0", -32768) && says("c1", 1)) return std::uint16_t{0x8000};
  return std::nullopt;
}

/// @param words  of the current page
std::string in_words(const StackShape& shape, const TiffFile& words) {
  return std::to_string(shape.width_px) + " x " + std::to_string(shape.height_px) + " " +
         (words.is_signed() ? "int16" : name_of(shape.type));
}

/// "7 x 5 uint16", as far as the metadata say and the current page contradicts; else "".
std::string contradiction(const OmePlaneShape& said, const TiffFile& file) {
  const StackShape page = file.shape();
  const bool is_float = said.type == "float" || said.type == "double";
  const std::string type = is_float ? name_of(PixelType::F32) : said.type;
  const std::int64_t width = said.width_px.value_or(page.width_px);
  const std::int64_t height = said.height_px.value_or(page.height_px);
  const std::string found = file.is_signed() ? "int16" : name_of(page.type);
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
        places_(std::move(places)),
        signed_(reader_.file().is_signed()),
        as_first_(in_words(shape, reader_.file())) {}

  void read(std::int64_t first, std::int64_t count, std::byte* out) override {
    for (std::int64_t frame = first; frame < first + count; ++frame) {
      const PagePlace& place = places_[static_cast<std::size_t>(frame)];
      const std::string page = "page " + std::to_string(place.page);
      const bool turned = reader_.turn_to(place);
      const TiffFile& file = reader_.file();
      if (!turned) file.fail(page + ": cannot be read");
      const StackShape found = file.shape();
      if (found.width_px != shape().width_px || found.height_px != shape().height_px ||
          found.type != shape().type || file.is_signed() != signed_) {
        file.fail(page + ": is " + in_words(found, file) + ", page " +
                  std::to_string(places_.front().page) + " is " + as_first_);
      }
      file.read(shape(), out);
      out += shape().frame_bytes();
    }
  }

  std::string metadata(std::int64_t frame) override {
    const bool turned = reader_.turn_to(places_[static_cast<std::size_t>(frame)]);
    return turned ? reader_.file().text_of(kMicroManagerTag) : "";
  }

 private:
  PageReader reader_;
  std::vector<PagePlace> places_;
  bool signed_;
  std::string as_first_;
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

void tell_of_pixels(const TiffFile& file, StackFacts& facts) {
  for (std::string& note : file.notes_on_pixels()) facts.notes.push_back(std::move(note));
}

std::unique_ptr<ImageStack> open_pages(const StackSettings& settings,
                                       std::unique_ptr<TiffFile> file, PagedFrames frames,
                                       StackFacts facts) {
  facts.files = frames.files;
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
  const std::string said = contradiction(frames.shape_said, reader.file());
  if (!said.empty()) {
    facts.notes.push_back("its OME-XML says frames of " + said + " (SizeX, SizeY, Type), page " +
                          std::to_string(frames.places.front().page) + " is " +
                          in_words(shape, reader.file()) + ": the page counts");
  }
  tell_of_pixels(reader.file(), facts);
  shape.frames = static_cast<std::int64_t>(whole);
  return std::make_unique<PagedStack>(std::move(reader), std::move(frames.places), shape,
                                      std::move(facts));
}

/// ImageJ writes stacks above 4 GB as one page with all images' pixels behind its first strip.
std::unique_ptr<ImageStack> open_imagej_stack(const StackSettings& settings, const TiffFile& file,
                                              std::int64_t images, StackFacts facts) {
  const std::optional<std::uint64_t> pixels_at = file.plain_pixels_at();
  if (!pixels_at) {
    file.fail("says that it has " + counted(images, "image") +
              ", but only one page: save it as BigTIFF or as plain pixels");
  }
  const PlaneExtent extent = extent_said(settings, file.description(), images);
  const PlaneChoice choice(settings, extent);
  tell_of_pixels(file, facts);
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
  const PlaneExtent extent = settings.every_page ? PlaneExtent{.t = file.pages()}
                                                 : extent_said(settings, file.description(),
                                                               std::max(images, file.pages()));
  const PlaneChoice choice(settings, extent);
  frames.said = choice.frames();
  for (std::int64_t frame = 0; frame < choice.frames(); ++frame) {
    const std::int64_t page = planes_before(extent, choice.plane_of(frame));
    if (page >= file.pages()) break;
    frames.places.push_back({0, page});
  }
  if (!file.chain_is_whole()) {
    frames.missing = broken_chain_in_words(file);
  } else if (static_cast<std::int64_t>(frames.places.size()) < frames.said) {
    frames.missing = "of " + std::to_string(images) + " images that ImageJ wrote there are " +
                     std::to_string(file.pages());
  }
  return frames;
}

/// Whether the pixels of all images stand where ImageJ has them, before a second directory.
bool one_page_of_imagej(const TiffFile& file, FileBytes& bytes, std::int64_t images) {
  if (images == 1 || file.pages() != 1) return false;
  if (file.chain_is_whole()) return true;
  const auto pixels_at = file.plain_pixels_at();
  const std::uint64_t next = read_directory(bytes, file.directory_at()).next;
  return pixels_at && next / file.shape().frame_bytes() >= static_cast<std::uint64_t>(images);
}

/// Planes that all stand behind the first page of them.
std::unique_ptr<ImageStack> open_planes_behind(const StackSettings& settings, TiffFile& file,
                                               const TiffPlanes& planes,
                                               const std::vector<std::size_t>& frames,
                                               StackFacts facts) {
  file.turn_to(planes.first_page);
  const std::optional<std::uint64_t> pixels_at = file.plain_pixels_at();
  if (!pixels_at) {
    file.fail(planes.who + " says that " + std::to_string(planes.count) +
              " images stand behind one page, which is packed, in tiles or of 64 bits a pixel: how "
              "they are laid out is not known");
  }
  tell_of_pixels(file, facts);
  StackShape shape = file.shape();
  const std::uint64_t apart = std::max<std::uint64_t>(planes.bytes_apart, shape.frame_bytes());
  const std::uint64_t size = FileBytes(settings.path).size();
  std::vector<FramePlace> places;
  for (const std::size_t plane : frames) {
    const std::uint64_t at = *pixels_at + apart * plane;
    if (at > size || shape.frame_bytes() > size - at) break;
    places.push_back({.pixels_at = at});
  }
  shape.frames = static_cast<std::int64_t>(places.size());
  if (places.size() < frames.size()) {
    facts.notes.push_back(truncated_note(settings, shape.frames,
                                         static_cast<std::int64_t>(frames.size()),
                                         planes.who + " wrote more pixels than there are"));
  }
  return open_scattered_pixels(
      {.files = {settings.path},
       .frames = std::move(places),
       .byte_order = file.big_endian() ? ByteOrder::Big : ByteOrder::Little},
      shape, std::move(facts));
}

std::unique_ptr<ImageStack> open_planes(const StackSettings& settings,
                                        std::unique_ptr<TiffFile> file, const TiffPlanes& planes) {
  StackFacts facts;
  StackSettings of_series = settings;
  if (planes.series_is_chosen) of_series.series = -1;
  const std::vector<std::size_t> chosen = planes.axes.frames(of_series, facts.notes);
  if (planes.behind_one_page) {
    return open_planes_behind(settings, *file, planes, chosen, std::move(facts));
  }
  PagedFrames frames{.files = {settings.path},
                     .places = {},
                     .said = static_cast<std::int64_t>(chosen.size()),
                     .missing = {}};
  for (const std::size_t plane : chosen) {
    const std::int64_t page = planes.first_page + static_cast<std::int64_t>(plane);
    if (page >= file->pages()) break;
    frames.places.push_back({0, page});
  }
  if (frames.places.size() < chosen.size()) {
    frames.missing = file->chain_is_whole()
                         ? planes.who + " says " + std::to_string(planes.count) +
                               " images, its pages are " + std::to_string(file->pages())
                         : broken_chain_in_words(*file);
  }
  if (frames.places.empty()) file->fail(frames.missing);
  return open_pages(settings, std::move(file), std::move(frames), std::move(facts));
}

/// The pages of a file about which nothing is known but what ImageJ may say.
std::unique_ptr<ImageStack> open_plain_pages(const StackSettings& settings,
                                             std::unique_ptr<TiffFile> file, FileBytes& bytes) {
  choose_one(settings.path, {.what = "series",
                             .several = "series",
                             .option = settings.names.series,
                             .chosen = settings.series,
                             .count = 1,
                             .names = {}});
  file->turn_to(0);
  const std::string description(file->description());
  StackFacts facts{.recorded_rate_hz = rate_said_hz(description), .notes = {}};
  const std::int64_t images = settings.every_page ? 1 : images_said(description);
  if (one_page_of_imagej(*file, bytes, images)) {
    return open_imagej_stack(settings, *file, images, std::move(facts));
  }
  if (!settings.every_page) check_bytes_of_pages(settings, *file, bytes);
  PagedFrames frames = pages_of(settings, *file, images);
  return open_pages(settings, std::move(file), std::move(frames), std::move(facts));
}

std::unique_ptr<ImageStack> open_words(const StackSettings& settings,
                                       std::unique_ptr<TiffFile> file) {
  FileBytes bytes(settings.path);
  if (settings.every_page) return open_plain_pages(settings, std::move(file), bytes);
  if (is_ndtiff(bytes)) return open_ndtiff(settings);
  StackFacts facts;
  const std::string description(file->description());
  if (is_ome(description)) {
    PagedFrames frames = ome_pages(settings, *file, read_ome(settings, description), facts);
    return open_pages(settings, std::move(file), std::move(frames), std::move(facts));
  }
  if (auto frames = micromanager_pages(settings, *file, facts)) {
    return open_pages(settings, std::move(file), std::move(*frames), std::move(facts));
  }
  if (const auto planes = planes_of(settings, *file, bytes)) {
    return open_planes(settings, std::move(file), *planes);
  }
  return open_plain_pages(settings, std::move(file), bytes);
}

}  // namespace

std::unique_ptr<ImageStack> open_tiff_stack(const StackSettings& settings) {
  auto file = std::make_unique<TiffFile>(settings.path);
  // Micro-Manager and OME-XML count all pages.
  const bool counts_all = is_ome(file->description()) || !file->text_of(kMicroManagerTag).empty();
  if (settings.every_page || !counts_all) file->leave_out_reduced();
  file->shape();  // a first page that cannot be used is refused whatever the metadata say
  const std::optional<std::uint16_t> zero = zero_of_words(*file);
  auto stack = open_words(settings, std::move(file));
  return zero ? open_signed_words(std::move(stack), *zero) : std::move(stack);
}

}  // namespace driftd::camera
