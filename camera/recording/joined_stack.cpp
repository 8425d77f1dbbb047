// SPDX-License-Identifier: MIT
#include <sys/stat.h>

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/counted.hpp"
#include "camera/recording/file_series.hpp"
#include "camera/recording/micromanager.hpp"
#include "camera/recording/stack_formats.hpp"

namespace driftd::camera {
namespace {

constexpr std::size_t kMostNotes = 8;

StackSettings settings_for(const StackSettings& settings, const std::filesystem::path& file) {
  StackSettings of_file = settings;
  of_file.path = file;
  of_file.more.clear();
  of_file.frames_of_more.clear();
  const auto more = std::ranges::find(settings.more, file);
  const auto index = static_cast<std::size_t>(more - settings.more.begin());
  if (more != settings.more.end()) {
    of_file.frames =
        index < settings.frames_of_more.size() ? settings.frames_of_more[index] : std::nullopt;
  }
  return of_file;
}

std::string in_words(const ImageStack& stack) {
  return std::to_string(stack.shape().width_px) + " x " + std::to_string(stack.shape().height_px) +
         " " + (stack.facts().from_int16 ? "int16" : name_of(stack.shape().type));
}

/// Stacks of single files, one after another; one is open at a time.
class JoinedStack final : public ImageStack {
 public:
  /// @param begins  the first frame of each file, and behind the last
  JoinedStack(StackSettings settings, std::vector<std::filesystem::path> files,
              std::vector<std::int64_t> begins, std::unique_ptr<ImageStack> last,
              const StackShape& shape, StackFacts facts)
      : ImageStack(shape, std::move(facts)),
        settings_(std::move(settings)),
        files_(std::move(files)),
        begins_(std::move(begins)),
        stack_(std::move(last)),
        open_(files_.size() - 1) {}

  void read(std::int64_t first, std::int64_t count, std::byte* out) override {
    while (count > 0) {
      const std::size_t file = turn_to(first);
      const std::int64_t here = std::min(count, begins_[file + 1] - first);
      stack_->read(first - begins_[file], here, out);
      out += static_cast<std::size_t>(here) * shape().frame_bytes();
      first += here;
      count -= here;
    }
  }
  std::string metadata(std::int64_t frame) override {
    const std::size_t file = turn_to(frame);
    return stack_->metadata(frame - begins_[file]);
  }
  bool reads_beside_others() const noexcept override { return stack_->reads_beside_others(); }

 private:
  /// Opens the file that a frame is in.
  std::size_t turn_to(std::int64_t frame) {
    const auto behind = std::ranges::upper_bound(begins_, frame);
    const auto file = static_cast<std::size_t>(behind - begins_.begin()) - 1;
    if (file == open_) return file;
    stack_ = open_stack(settings_for(settings_, files_[file]));
    open_ = file;
    if (stack_->shape().frames != begins_[file + 1] - begins_[file] ||
        stack_->shape().frame_bytes() != shape().frame_bytes()) {
      throw RecordingError(files_[file], "has changed since it was opened");
    }
    return file;
  }

  StackSettings settings_;
  std::vector<std::filesystem::path> files_;
  std::vector<std::int64_t> begins_;
  std::unique_ptr<ImageStack> stack_;
  std::size_t open_;
};

/// Whether a stack that reads several files reads all of those.
bool reads_all(const ImageStack& stack, const std::vector<std::filesystem::path>& files) {
  return std::ranges::all_of(files, [&](const std::filesystem::path& file) {
    return std::ranges::any_of(stack.facts().files, [&](const auto& read) {
      std::error_code error;
      return std::filesystem::equivalent(read, file, error);
    });
  });
}

/// @throws RecordingError where two names are of one file
void check_none_twice(const std::vector<std::filesystem::path>& files) {
  std::map<std::pair<dev_t, ino_t>, std::filesystem::path> known;
  for (const std::filesystem::path& file : files) {
    struct stat found {};
    if (stat(file.c_str(), &found) != 0) continue;  // opening it says why
    const auto [first, is_new] = known.try_emplace({found.st_dev, found.st_ino}, file);
    if (is_new) continue;
    throw RecordingError(file, first->second == file
                                   ? "is named twice"
                                   : "is named twice, also as " + first->second.string());
  }
}

/// When the first and the last frame of a stack were taken that say so.
struct TimeSpan {
  double first_s = 0, last_s = 0;
};
std::optional<TimeSpan> times_of(ImageStack& stack) {
  std::vector<double> times_s = stack.facts().times_s;
  std::erase_if(times_s, [](double time_s) { return std::isnan(time_s); });
  if (!times_s.empty()) return TimeSpan{times_s.front(), times_s.back()};
  const auto first = elapsed_s(stack.metadata(0));
  if (!first) return std::nullopt;
  return TimeSpan{*first, elapsed_s(stack.metadata(stack.shape().frames - 1)).value_or(*first)};
}

/// "the times of frames go back by 12.3 s from a.tif (20 s) to b.tif (7.7 s): ...", or "".
class TimesInOrder {
 public:
  std::string note_on(const std::filesystem::path& file, ImageStack& stack) {
    const auto here = times_of(stack);
    if (!here) return {};
    std::string note;
    if (before_ && here->first_s < before_->last_s) {
      note = fmt::format(
          "the times of frames go back by {:.6g} s from {} (its last: {:.6g} s) to {} (its first: "
          "{:.6g} s): they may be of two recordings, or in another order",
          before_->last_s - here->first_s, with_before_, before_->last_s, file.filename().string(),
          here->first_s);
    }
    before_ = here;
    with_before_ = file.filename().string();
    return note;
  }

 private:
  std::optional<TimeSpan> before_;
  std::string with_before_;
};

/// Where the frames of files of one frame each stand, by their metadata.
class FramesInOrder {
 public:
  /// @throws RecordingError where they go along time and z
  void add(const StackSettings& settings, const std::filesystem::path& file,
           const StackFacts& facts) {
    if (facts.time_number) times_.insert(*facts.time_number);
    if (facts.z_number) depths_.insert(*facts.z_number);
    if (times_.size() > 1 && depths_.size() > 1) {
      throw RecordingError(
          file, fmt::format("and the files before it are of several positions in z ({:g} and {:g}) "
                            "at several times by their metadata: name the files of one position; "
                            "the option {} leaves metadata aside",
                            *depths_.begin(), *depths_.rbegin(), settings.names.every_page));
    }
    if (facts.time_number && before_ && *facts.time_number < *before_ && back_++ == 0) {
      first_ = fmt::format("{} is frame {:g}, {} before it frame {:g}", file.filename().string(),
                           *facts.time_number, with_before_, *before_);
    }
    before_ = facts.time_number;
    with_before_ = file.filename().string();
  }
  [[nodiscard]] std::string in_words() const {
    if (depths_.size() > 1) return "its frames are along z";
    if (back_ == 0) return {};
    return fmt::format("the metadata of {} are in another order than their names: {}",
                       counted(back_, "file"), first_);
  }

 private:
  std::set<double> times_, depths_;
  std::optional<double> before_;
  std::string with_before_, first_;
  std::size_t back_ = 0;
};

/// Notes of single files; what several say alike is told once.
class FileNotes {
 public:
  /// @param file  none where the note names files
  void add(const std::filesystem::path& file, const std::string& note) {
    const auto known = std::ranges::find(notes_, note, &Note::text);
    if (known == notes_.end())
      notes_.push_back({note, file.filename().string(), 0});
    else
      ++known->more;
  }
  [[nodiscard]] std::vector<std::string> in_words() const {
    std::vector<std::string> texts;
    for (const Note& note : notes_) {
      if (texts.size() == kMostNotes) break;
      const std::string more = note.more > 0 ? " and " + counted(note.more, "more file") : "";
      texts.push_back(note.file + more + (note.file.empty() ? "" : ": ") + note.text);
    }
    if (notes_.size() > kMostNotes) {
      texts.back() = "and " + std::to_string(notes_.size() - kMostNotes + 1) +
                     " more such notes about single files";
    }
    return texts;
  }

 private:
  struct Note {
    std::string text, file;
    std::size_t more;
  };
  std::vector<Note> notes_;
};

std::string in_words(FileOrder order) {
  switch (order) {
    case FileOrder::OfBoth:
      break;
    case FileOrder::OfNumbers:
      return ", in the order of their numbers, not as they were named";
    case FileOrder::AsGiven:
      return ", in the order in which they were named";
  }
  return "";
}

std::unique_ptr<ImageStack> join(const StackSettings& settings, FileSeries series) {
  const std::vector<std::filesystem::path>& files = series.files;
  StackShape shape;
  StackFacts facts;
  std::vector<std::int64_t> begins{0};
  FileNotes notes;
  FramesInOrder order;
  std::unique_ptr<ImageStack> stack;
  std::string as_first, place, with_place;
  TimesInOrder times;
  bool any_times = false;
  for (const std::filesystem::path& file : files) {
    stack = open_stack(settings_for(settings, file));
    if (begins.size() == 1) {
      if (stack->facts().files.size() > 1 && reads_all(*stack, files)) return stack;
      shape = stack->shape();
      facts.recorded_rate_hz = stack->recorded_rate_hz();
      facts.from_int16 = stack->facts().from_int16;
      as_first = in_words(*stack);
    }
    if (stack->facts().files.size() > 1) {
      throw RecordingError(file,
                           "its metadata name other files that are not all among those "
                           "named: open it alone");
    }
    if (in_words(*stack) != as_first) {
      throw RecordingError(file, "has frames of " + in_words(*stack) + ", " +
                                     files.front().filename().string() + " of " + as_first);
    }
    const std::string& here = stack->facts().place;
    if (place.empty()) {
      place = here;
      with_place = file.filename().string();
    }
    if (here != place && !here.empty()) {
      throw RecordingError(file, "is of " + here + " by its metadata, " + with_place + " of " +
                                     place + ": name the files of one; the option " +
                                     settings.names.every_page + " leaves metadata aside");
    }
    for (const std::string& note : stack->notes()) notes.add(file, note);
    if (const std::string note = times.note_on(file, *stack); !note.empty()) notes.add({}, note);
    order.add(settings, file, stack->facts());
    for (const std::int64_t frame : stack->facts().repeats) {
      facts.repeats.push_back(begins.back() + frame);
    }
    begins.push_back(begins.back() + stack->shape().frames);
    std::vector<double> here_s = stack->facts().times_s;
    any_times = any_times || !here_s.empty();
    here_s.resize(static_cast<std::size_t>(stack->shape().frames),
                  std::numeric_limits<double>::quiet_NaN());
    facts.times_s.insert(facts.times_s.end(), here_s.begin(), here_s.end());
  }
  if (!any_times) facts.times_s.clear();
  shape.frames = begins.back();
  facts.files = files;
  if (files.size() > 1) {
    facts.notes.push_back(std::to_string(files.size()) + " files are read as one movie, from " +
                          files.front().filename().string() + " to " +
                          files.back().filename().string() + in_words(series.order));
  }
  if (!series.along.empty()) {
    facts.notes.push_back("their names count behind '" + series.along +
                          "': where these are channels or positions, they are no movie");
  }
  if (!series.missing.empty()) {
    facts.notes.push_back("no file has the number " + series.missing +
                          ": frames are counted without");
  }
  if (std::string note = order.in_words(); !note.empty()) facts.notes.push_back(std::move(note));
  for (std::string& note : notes.in_words()) facts.notes.push_back(std::move(note));
  return std::make_unique<JoinedStack>(settings, series.files, std::move(begins), std::move(stack),
                                       shape, std::move(facts));
}

}  // namespace

std::unique_ptr<ImageStack> open_joined_stack(const StackSettings& settings) {
  std::error_code error;
  if (settings.more.empty()) {
    const bool indexed = std::filesystem::exists(settings.path / kNdTiffIndex, error);
    if (indexed && !settings.every_page) return open_ndtiff(settings);
    const std::vector<std::filesystem::path> files = tiffs_in(settings.path);
    check_none_twice(files);
    FileSeries series;
    try {
      series = in_series(files, false);
    } catch (const RecordingError&) {
      // By its metadata one recording may have files of any names.
      auto stack = open_stack(settings_for(settings, *std::ranges::min_element(files)));
      if (!reads_all(*stack, files)) throw;
      return stack;
    }
    series.order = FileOrder::OfBoth;  // nobody gave one
    return join(settings, std::move(series));
  }
  std::vector<std::filesystem::path> files{settings.path};
  files.insert(files.end(), settings.more.begin(), settings.more.end());
  for (const std::filesystem::path& file : files) {
    if (!std::filesystem::is_regular_file(file, error)) {
      throw RecordingError(file, std::filesystem::exists(file, error)
                                     ? "is no file, of which several are one movie"
                                     : "no such file");
    }
  }
  check_none_twice(files);
  return join(settings, in_series(files, true));
}

}  // namespace driftd::camera
