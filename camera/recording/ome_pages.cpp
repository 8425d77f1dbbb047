// SPDX-License-Identifier: MIT
#include "camera/recording/ome_pages.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/counted.hpp"

namespace driftd::camera {
namespace {

/// Planes that metadata may name; they may name a page more than once.
constexpr std::int64_t kMostNamed = std::int64_t{1} << 24;

class PageFinder {
 public:
  PageFinder(const TiffFile& file, const OmeMetadata& metadata) : own_uuid_(metadata.uuid) {
    files_.push_back({file.path(), file.pages()});
    by_name_[file.path().filename().string()] = 0;
  }

  /// Adds the planes of a block to the frames they are.
  void add(const OmeBlock& block, const PlaneExtent& extent, const PlaneChoice& choice) {
    const std::optional<std::size_t> index = file_of(block);
    if (!index) return;
    const File& file = files_[*index];
    const std::int64_t pages = std::max<std::int64_t>(0, file.pages - block.page);
    const std::int64_t count = std::min(pages, block.planes.value_or(pages));
    if (block.planes.value_or(0) > count) {
      beyond_ = "its metadata name page " + std::to_string(block.page + *block.planes - 1) +
                " of " + file.path.filename().string() + ", which has pages 0 to " +
                std::to_string(file.pages - 1);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const PlaneIndex plane = plane_after(extent, block.first, i);
      if (++named_ > kMostNamed) {
        throw RecordingError(files_.front().path, "its OME-XML names more than " +
                                                      std::to_string(kMostNamed) + " planes");
      }
      const std::int64_t frame = choice.frame_of(plane);
      if (frame < 0) continue;
      const PagePlace place{*index, block.page + i};
      if (found_.try_emplace(frame, place).first->second != place) ++surplus_;
    }
  }

  PagedFrames frames(const PlaneChoice& choice) const {
    PagedFrames frames{.files = {}, .places = {}, .said = choice.frames(), .missing = {}};
    for (const File& file : files_) frames.files.push_back(file.path);
    for (const auto& [frame, place] : found_) {
      if (frame != static_cast<std::int64_t>(frames.places.size())) break;
      frames.places.push_back(place);
    }
    const auto there = static_cast<std::int64_t>(frames.places.size());
    if (there == frames.said) return frames;
    const PlaneIndex plane = choice.plane_of(there);
    frames.missing = !absent_.empty() ? absent_
                     : !beyond_.empty()
                         ? beyond_
                         : "no page is named, or there, for z " + std::to_string(plane.z) + ", c " +
                               std::to_string(plane.c) + ", t " + std::to_string(plane.t);
    if (surplus_ > 0) frames.missing += "; " + surplus_in_words();
    return frames;
  }

  /// Pages that the metadata give to frames which have one.
  std::int64_t surplus() const { return surplus_; }
  std::string surplus_in_words() const {
    return "its metadata give " + counted(surplus_, "page") +
           " to frames that have one: the first named counts";
  }

  /// Names the files that are there and by their own UUIDs are not those of the metadata; "": none.
  std::string others_in_words() const {
    if (others_.empty()) return {};
    return counted(others_.size(), "file") + " of its recording, " + others_.front() +
           (others_.size() > 1 ? " and others, have" : ", has") +
           " another UUID than its metadata say: " + (others_.size() > 1 ? "they" : "it") +
           " may be of another recording";
  }

  /// Whether a block is in the file that was opened.
  bool is_here(const OmeBlock& block) const {
    if (!block.uuid.empty() && block.uuid == own_uuid_) return true;  // whatever its name is now
    return block.file_name.empty() ? block.uuid.empty()
                                   : block.file_name == files_.front().path.filename();
  }

 private:
  struct File {
    std::filesystem::path path;
    std::int64_t pages;
  };

  /// Nothing where it is not there; absent_ then says so.
  std::optional<std::size_t> file_of(const OmeBlock& block) {
    if (is_here(block)) return 0;
    if (block.file_name.empty()) {
      absent_ = "it names a file by " + block.uuid.substr(0, 60) + " alone";
      return std::nullopt;
    }
    const auto known = by_name_.find(block.file_name);
    if (known != by_name_.end()) return known->second;
    const std::filesystem::path path = files_.front().path.parent_path() / block.file_name;
    std::error_code error;
    std::optional<std::size_t> index;
    if (!std::filesystem::is_regular_file(path, error)) {
      absent_ =
          "its metadata name " + block.file_name.substr(0, 200) + ", which is not in its folder";
    } else {
      try {
        const TiffFile other(path);
        files_.push_back({path, other.pages()});
        index = files_.size() - 1;
        const std::string uuid = uuid_in(other.description());
        if (!uuid.empty() && !block.uuid.empty() && uuid != block.uuid)
          others_.push_back(block.file_name.substr(0, 200));
      } catch (const RecordingError& unreadable) {
        absent_ = unreadable.what();
      }
    }
    by_name_[block.file_name] = index;
    return index;
  }

  std::string own_uuid_;
  std::vector<std::string> others_;  ///< files that say they are others than those named
  std::vector<File> files_;
  std::map<std::string, std::optional<std::size_t>> by_name_;
  std::map<std::int64_t, PagePlace> found_;
  std::int64_t named_ = 0;
  std::int64_t surplus_ = 0;
  std::string absent_, beyond_;  ///< what the metadata name that is not there
};

/// The series asked for; without, the only one, or the only one with planes in this file.
const OmeImage& image_of(const StackSettings& settings, const OmeMetadata& metadata,
                         const PageFinder& finder) {
  std::vector<std::string> names;
  std::vector<std::size_t> here;
  for (std::size_t i = 0; i < metadata.images.size(); ++i) {
    const auto& blocks = metadata.images[i].blocks;
    names.push_back(metadata.images[i].name);
    if (std::any_of(blocks.begin(), blocks.end(),
                    [&](const OmeBlock& block) { return finder.is_here(block); })) {
      here.push_back(i);
    }
  }
  if (settings.series < 0 && here.size() == 1) return metadata.images[here.front()];
  const std::int64_t index =
      choose_one(settings.path, {.what = "series",
                                 .several = "series",
                                 .option = settings.names.series,
                                 .chosen = settings.series,
                                 .count = static_cast<std::int64_t>(names.size()),
                                 .names = names});
  return metadata.images[static_cast<std::size_t>(index)];
}

/// Pages of the file that was opened which the metadata of no series name.
std::int64_t unnamed_pages(const TiffFile& file, const OmeMetadata& metadata,
                           const PageFinder& finder) {
  const std::int64_t pages = file.pages();
  std::vector<int> change(static_cast<std::size_t>(pages) + 1);  // of how often a page is named
  const auto name = [&](std::int64_t begin, std::int64_t count) {
    if (begin >= pages || count <= 0) return;
    ++change[static_cast<std::size_t>(begin)];
    --change[static_cast<std::size_t>(begin + std::min(count, pages - begin))];
  };
  for (const OmeImage& image : metadata.images) {
    const PlaneExtent& extent = image.extent;
    const std::int64_t planes = extent.z * extent.c * extent.t;
    if (image.blocks.empty()) name(0, planes);
    for (const OmeBlock& block : image.blocks) {
      const std::int64_t room = planes - planes_before(extent, block.first);
      if (finder.is_here(block)) name(block.page, std::min(room, block.planes.value_or(pages)));
    }
  }
  std::int64_t unnamed = 0, times = 0;
  for (std::int64_t page = 0; page < pages; ++page) {
    times += change[static_cast<std::size_t>(page)];
    unnamed += times == 0 ? 1 : 0;
  }
  return unnamed;
}

/// When the frames that are there were taken, as far as the planes say it.
std::vector<double> times_of(const OmeImage& image, const PlaneChoice& choice, std::size_t frames) {
  std::vector<double> times_s;
  for (const OmePlaneTime& said : image.times) {
    const std::int64_t frame = choice.frame_of(said.plane);
    if (frame < 0 || static_cast<std::size_t>(frame) >= frames) continue;
    if (times_s.empty()) times_s.resize(frames, std::numeric_limits<double>::quiet_NaN());
    times_s[static_cast<std::size_t>(frame)] = said.time_s;
  }
  return times_s;
}

/// Frames whose page is an earlier one's.
std::vector<std::int64_t> repeats_in(const std::vector<PagePlace>& places) {
  std::set<std::pair<std::size_t, std::int64_t>> seen;  // file, page
  std::vector<std::int64_t> repeats;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!seen.emplace(places[i].file, places[i].page).second)
      repeats.push_back(static_cast<std::int64_t>(i));
  }
  return repeats;
}

/// Another axis that goes along with that of the frames. @throws RecordingError where both have
/// several positions
void judge_modulo(const StackSettings& settings, const OmeMetadata& metadata, const OmeImage& image,
                  const PlaneChoice& choice, StackFacts& facts) {
  const bool along_z = image.extent.t == 1;
  const OmeModulo& other = along_z ? metadata.with_z : metadata.with_time;
  if (choice.frames() == 1 || other.type.empty()) return;
  if (other.count == choice.frames()) {
    facts.notes.push_back("its frames are along " + other.type);
    return;
  }
  throw RecordingError(settings.path,
                       std::string("its OME-XML says that its images along ") +
                           (along_z ? "z" : "time") + " are at the same time along another axis (" +
                           (along_z ? "ModuloAlongZ: " : "ModuloAlongT: ") + other.type +
                           "), which is not read; the option " + settings.names.every_page +
                           " takes its pages as they are");
}

}  // namespace

std::string broken_chain_in_words(const TiffFile& file) {
  return "the list of pages breaks off after " + std::to_string(file.pages()) + ": " +
         file.chain_complaint();
}

PagedFrames ome_pages(const StackSettings& settings, const TiffFile& file,
                      const OmeMetadata& metadata, StackFacts& facts) {
  if (const std::string& other = metadata.metadata_file; !other.empty()) {
    const bool is_tiff = other.ends_with(".tif") || other.ends_with(".tiff");
    throw RecordingError(settings.path,
                         "is one of several files; their metadata are in " + other.substr(0, 200) +
                             (is_tiff ? ": open that" : ": bring it beside this one") +
                             ", or take this file's pages by the option " +
                             settings.names.every_page);
  }
  if (metadata.images.empty()) {
    throw RecordingError(settings.path, std::string("its OME-XML has no Image; the option ") +
                                            settings.names.every_page +
                                            " takes its pages without it");
  }
  PageFinder finder(file, metadata);
  const OmeImage& image = image_of(settings, metadata, finder);
  const PlaneChoice choice(settings, image.extent);
  judge_modulo(settings, metadata, image, choice, facts);
  for (const OmeBlock& block : image.blocks) finder.add(block, image.extent, choice);
  if (image.blocks.empty()) finder.add({}, image.extent, choice);
  facts.recorded_rate_hz = image.rate_hz;
  const PlaneIndex first = choice.plane_of(0);
  const auto channel = static_cast<std::size_t>(first.c);
  if (channel < image.extent.channels.size() && !image.extent.channels[channel].empty()) {
    facts.place = "channel " + image.extent.channels[channel].substr(0, 60);
  }
  if (metadata.images.size() > 1) {
    facts.notes.push_back("series " + std::to_string(&image - metadata.images.data()) +
                          (image.name.empty() ? "" : " (" + image.name + ")"));
  }
  if (image.extent.c > 1) facts.notes.push_back("channel " + std::to_string(first.c));
  if (image.extent.z > 1) {
    facts.notes.push_back(image.extent.t == 1 && settings.slice < 0
                              ? "its frames are positions in z"
                              : "z " + std::to_string(first.z));
  }
  PagedFrames frames = finder.frames(choice);
  const std::int64_t unnamed = unnamed_pages(file, metadata, finder);
  if (unnamed > 0) {
    facts.notes.push_back(std::to_string(unnamed) + " of its " + counted(file.pages(), "page") +
                          (unnamed == 1 ? " is" : " are") +
                          " in no metadata, and left out; the option " + settings.names.every_page +
                          " takes all");
  }
  if (std::string others = finder.others_in_words(); !others.empty())
    facts.notes.push_back(std::move(others));
  if (finder.surplus() > 0 && frames.missing.empty())
    facts.notes.push_back(finder.surplus_in_words());
  facts.times_s = times_of(image, choice, frames.places.size());
  facts.repeats = repeats_in(frames.places);
  if (!facts.repeats.empty()) {
    facts.notes.push_back(
        counted(facts.repeats.size(), "frame is the page", "frames are the page") +
        " of an earlier one, as Micro-Manager writes it where one is missing: left out");
  }
  frames.shape_said = image.shape;
  return frames;
}

}  // namespace driftd::camera
