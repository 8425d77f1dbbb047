// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "base/counted.hpp"
#include "camera/recording/hdf5_dataset.hpp"
#include "camera/recording/hdf5_pixels.hpp"
#include "camera/recording/hdf5_sources.hpp"
#include "camera/recording/stack_formats.hpp"

namespace driftd::camera {
namespace {

/// What is read at once when its pixels are looked at.
constexpr std::size_t kBlock = std::size_t{16} << 20;

hid_t memory_type(PixelType type) {
  switch (type) {
    case PixelType::U8:
      return H5T_NATIVE_UINT8;
    case PixelType::U16:
      return H5T_NATIVE_UINT16;
    case PixelType::F32:
      break;
  }
  return H5T_NATIVE_FLOAT;
}

StackShape shape_of(const Hdf5Dataset& opened) {
  const auto [frames, first, second] = opened.size();
  const hsize_t height = opened.columns_first ? second : first;
  const hsize_t width = opened.columns_first ? first : second;
  constexpr hsize_t kMost = std::size_t{1} << 40;
  if (frames < 1 || frames > kMost || height > kMost || width > kMost) {
    fail_by_hdf5(opened.path, opened.name + ": " + counted(frames, "frame") + " of " +
                                  std::to_string(width) + " x " + std::to_string(height) +
                                  " px cannot be used");
  }
  check_frame_size(opened.path, static_cast<std::int64_t>(width),
                   static_cast<std::int64_t>(height));
  return {.width_px = static_cast<int>(width),
          .height_px = static_cast<int>(height),
          .frames = static_cast<std::int64_t>(frames),
          .type = type_of(opened)};
}

std::uintmax_t bytes_of_file(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  return error ? std::numeric_limits<std::uintmax_t>::max() : bytes;  // gone: still readable
}

/// Whether the chunks of a block of frames, which begins at `first`, are within the file.
bool chunks_are_whole(const Hdf5Dataset& opened, hsize_t first, const Hdf5Triple& chunk,
                      std::uintmax_t file_bytes) {
  const hid_t dataset = opened.dataset.get();
  const Hdf5Triple size = opened.size();
  for (hsize_t y = 0; y < size[1]; y += chunk[1]) {
    for (hsize_t x = 0; x < size[2]; x += chunk[2]) {
      const std::vector<hsize_t> at = opened.dimensions.all({first, y, x}, 0);
      hsize_t stored = 0;
      if (H5Dget_chunk_storage_size(dataset, at.data(), &stored) < 0 || stored == 0) return false;
      if (!opened.truncated) continue;  // the next call looks through all chunks
      unsigned filters = 0;
      haddr_t begin = HADDR_UNDEF;
      hsize_t bytes = 0;
      if (H5Dget_chunk_info_by_coord(dataset, at.data(), &filters, &begin, &bytes) < 0 ||
          begin == HADDR_UNDEF || begin > file_bytes || bytes > file_bytes - begin) {
        return false;
      }
    }
  }
  return true;
}

/// Whether something was written everywhere: programs that reserve a dataset for a recording which
/// then ends early leave the rest out, and HDF5 reads its fill value there.
bool is_all_written(const Hdf5Dataset& opened) {
  const hid_t dataset = opened.dataset.get();
  const Hdf5Handle made(H5Dget_create_plist(dataset), H5Pclose);
  const H5D_layout_t layout = H5Pget_layout(made.get());
  if (layout == H5D_CONTIGUOUS && H5Pget_external_count(made.get()) == 0)
    return H5Dget_offset(dataset) != HADDR_UNDEF;
  const std::optional<Hdf5Triple> chunk = chunk_of(opened);
  if (!chunk) return true;
  hsize_t all = 1;
  for (std::size_t i = 0; i < chunk->size(); ++i) {
    all *= (opened.size()[i] + (*chunk)[i] - 1) / (*chunk)[i];
  }
  const Hdf5Handle space(H5Dget_space(dataset), H5Sclose);
  hsize_t there = 0;
  return H5Dget_num_chunks(dataset, space.get(), &there) < 0 || there >= all;
}

/// How many frames from the first on are in the file.
std::int64_t whole_frames(const Hdf5Dataset& opened, const StackShape& shape) {
  const std::uintmax_t file_bytes = bytes_of_file(opened.path);
  const hid_t dataset = opened.dataset.get();
  const Hdf5Handle made(H5Dget_create_plist(dataset), H5Pclose);
  const H5D_layout_t layout = H5Pget_layout(made.get());
  if (layout == H5D_COMPACT) return shape.frames;
  if (layout == H5D_CONTIGUOUS) {
    const haddr_t begin = H5Dget_offset(dataset);
    if (begin == HADDR_UNDEF || begin > file_bytes) return 0;
    const Hdf5Handle type(H5Dget_type(dataset), H5Tclose);
    const std::size_t frame = shape.pixels() * H5Tget_size(type.get());
    return std::min(shape.frames, static_cast<std::int64_t>((file_bytes - begin) / frame));
  }
  const std::optional<Hdf5Triple> chunk = chunk_of(opened);
  if (!chunk) return 0;
  const hsize_t frames = opened.size()[0];
  hsize_t frame = 0;
  while (frame < frames && chunks_are_whole(opened, frame, *chunk, file_bytes))
    frame += (*chunk)[0];
  H5Eclear2(H5E_DEFAULT);
  return static_cast<std::int64_t>(std::min(frame, frames));
}

/// Rows and columns of a frame exchanged.
template <class Pixel>
void turn(const Pixel* from, const StackShape& shape, Pixel* to) {
  const auto width = static_cast<std::size_t>(shape.width_px);
  const auto height = static_cast<std::size_t>(shape.height_px);
  constexpr std::size_t kTile = 32;  // which stay in the processor's cache
  for (std::size_t top = 0; top < height; top += kTile) {
    for (std::size_t left = 0; left < width; left += kTile) {
      for (std::size_t y = top; y < std::min(top + kTile, height); ++y) {
        for (std::size_t x = left; x < std::min(left + kTile, width); ++x) {
          to[y * width + x] = from[x * height + y];
        }
      }
    }
  }
}

void turn_frames(const StackShape& shape, std::int64_t count, std::byte* out) {
  std::vector<std::byte> frame(shape.frame_bytes());
  for (; count > 0; --count, out += frame.size()) {
    std::copy_n(out, frame.size(), frame.data());
    switch (bytes_of(shape.type)) {
      case 1:
        turn(frame.data(), shape, out);
        break;
      case 2:
        turn(reinterpret_cast<const std::uint16_t*>(frame.data()), shape,
             reinterpret_cast<std::uint16_t*>(out));
        break;
      default:
        turn(reinterpret_cast<const float*>(frame.data()), shape, reinterpret_cast<float*>(out));
    }
  }
}

bool read_frames(const Hdf5Dataset& opened, const StackShape& shape, std::int64_t first,
                 std::int64_t count, std::byte* out) {
  const Hdf5Triple size = opened.size();
  const std::vector<hsize_t> begin = opened.dimensions.all({static_cast<hsize_t>(first), 0, 0}, 0);
  const std::vector<hsize_t> block =
      opened.dimensions.all({static_cast<hsize_t>(count), size[1], size[2]}, 1);
  const Hdf5Handle from(H5Dget_space(opened.dataset.get()), H5Sclose);
  const Hdf5Handle to(H5Screate_simple(static_cast<int>(block.size()), block.data(), nullptr),
                      H5Sclose);
  const bool done = from && to &&
                    H5Sselect_hyperslab(from.get(), H5S_SELECT_SET, begin.data(), nullptr,
                                        block.data(), nullptr) >= 0 &&
                    H5Dread(opened.dataset.get(), memory_type(shape.type), to.get(), from.get(),
                            H5P_DEFAULT, out) >= 0;
  if (done && opened.columns_first) turn_frames(shape, count, out);
  return done;
}

/// Refuses a damaged dataset whose pixels have less room than its size says: HDF5 1.10 reads, and
/// crashes, beyond it.
void check_room(const Hdf5Dataset& opened, const StackShape& shape) {
  const Hdf5Handle made(H5Dget_create_plist(opened.dataset.get()), H5Pclose);
  const H5D_layout_t layout = H5Pget_layout(made.get());
  const bool in_one_piece = layout == H5D_CONTIGUOUS && H5Pget_external_count(made.get()) == 0 &&
                            H5Dget_offset(opened.dataset.get()) != HADDR_UNDEF;
  if (layout != H5D_COMPACT && !in_one_piece) return;
  const Hdf5Handle type(H5Dget_type(opened.dataset.get()), H5Tclose);
  const hsize_t need =
      static_cast<hsize_t>(shape.frames) * shape.pixels() * H5Tget_size(type.get());
  const hsize_t there = H5Dget_storage_size(opened.dataset.get());
  if (there >= need) return;
  fail_by_hdf5(opened.path, opened.name + ": has " + std::to_string(there) +
                                " bytes of pixels where " + std::to_string(need) +
                                " are needed: the file is damaged");
}

/// Refuses a dataset whose filters are not all here, unless its first frame can be read: a filter
/// may have been left out for each chunk.
void check_filters(const Hdf5Dataset& opened, const StackShape& shape) {
  const std::string missing = missing_filters(opened);
  if (missing.empty()) return;
  std::vector<std::byte> frame(shape.frame_bytes());
  if (read_frames(opened, shape, 0, 1, frame.data())) return;
  H5Eclear2(H5E_DEFAULT);
  fail_by_hdf5(opened.path,
               opened.name + ": is packed by the HDF5 filter " + missing +
                   ", which is not installed here: its plugin is sought in the folders of "
                   "the environment variable HDF5_PLUGIN_PATH; or save the dataset packed by "
                   "gzip, or not at all");
}

/// How many frames before `end`, and none before `begin`, hold nothing but the fill value.
std::int64_t fill_frames_before(const Hdf5Dataset& opened, const StackShape& shape,
                                std::int64_t end, std::int64_t begin) {
  const Hdf5Handle made(H5Dget_create_plist(opened.dataset.get()), H5Pclose);
  std::array<std::byte, sizeof(float)> fill{};
  if (H5Pget_fill_value(made.get(), memory_type(shape.type), fill.data()) < 0) return 0;
  const std::size_t pixel = bytes_of(shape.type), size = shape.frame_bytes();
  const std::int64_t most = std::max<std::int64_t>(1, static_cast<std::int64_t>(kBlock / size));
  std::vector<std::byte> block;
  std::int64_t last = end;  // what is behind it is fill value
  for (std::int64_t count = 1; last > begin; count = std::min(2 * count, most)) {
    const std::int64_t first = std::max(begin, last - count);
    block.resize(static_cast<std::size_t>(last - first) * size);
    if (!read_frames(opened, shape, first, last - first, block.data())) {
      H5Eclear2(H5E_DEFAULT);
      break;  // told when it is read
    }
    for (; last > first; --last) {
      const std::byte* frame = block.data() + static_cast<std::size_t>(last - 1 - first) * size;
      if (std::memcmp(frame, fill.data(), pixel) != 0 ||
          std::memcmp(frame, frame + pixel, size - pixel) != 0) {
        return end - last;
      }
    }
  }
  return end - last;
}

/// Frames of a chunk where HDF5 tells which chunks were written; 0 where it does not.
std::int64_t frames_of_chunk(const Hdf5Dataset& opened) {
  const Hdf5Handle made(H5Dget_create_plist(opened.dataset.get()), H5Pclose);
  H5D_alloc_time_t when = H5D_ALLOC_TIME_EARLY;  // every chunk has its place from the beginning on
  if (H5Pget_alloc_time(made.get(), &when) < 0 || when == H5D_ALLOC_TIME_EARLY) return 0;
  const std::optional<Hdf5Triple> chunk = chunk_of(opened);
  return chunk ? static_cast<std::int64_t>((*chunk)[0]) : 0;
}

/// How many frames at the end of the last chunk that has a place in the file, which ends before
/// frame `end`, were as good as certainly never written: they hold the fill value alone, which HDF5
/// reads there, and other frames of the chunk do not. A chunk of nothing else was written: without,
/// it would have no place.
std::int64_t unwritten_in_last_chunk(const Hdf5Dataset& opened, const StackShape& shape,
                                     std::int64_t end, std::int64_t chunk) {
  if (chunk < 2 || end < 1) return 0;
  if (end < shape.frames) {  // a truncated file: the next chunk was begun
    const std::vector<hsize_t> next = opened.dimensions.all({static_cast<hsize_t>(end), 0, 0}, 0);
    hsize_t stored = 0;
    const herr_t told = H5Dget_chunk_storage_size(opened.dataset.get(), next.data(), &stored);
    H5Eclear2(H5E_DEFAULT);
    if (told >= 0 && stored > 0) return 0;
  }
  const std::int64_t begin = (end - 1) / chunk * chunk;
  const std::int64_t frames = fill_frames_before(opened, shape, end, begin);
  return frames < end - begin ? frames : 0;
}

class Hdf5Stack final : public ImageStack {
 public:
  Hdf5Stack(Hdf5Dataset opened, const StackShape& shape, StackFacts facts)
      : ImageStack(shape, std::move(facts)),
        opened_(std::move(opened)),
        opened_bytes_(bytes_of_file(opened_.path)) {}

  void read(std::int64_t first, std::int64_t count, std::byte* out) override {
    if (!read_frames(opened_, shape(), first, count, out)) {
      fail_by_hdf5(opened_.path, opened_.name + ": frames " + std::to_string(first) + " to " +
                                     std::to_string(first + count - 1) + " cannot be read");
    }
    // HDF5 reads zeros behind the end of a file that was longer when it was opened.
    if (bytes_of_file(opened_.path) < opened_bytes_) {
      fail_by_hdf5(opened_.path, "has become shorter since it was opened");
    }
  }

  /// HDF5 is not made for two threads at a time.
  bool reads_beside_others() const noexcept override { return false; }

 private:
  Hdf5Dataset opened_;
  std::uintmax_t opened_bytes_;
};

}  // namespace

bool is_hdf5(const std::filesystem::path& path) {
  silence_hdf5();
  const bool is = H5Fis_hdf5(path.c_str()) > 0;  // also behind a user block
  H5Eclear2(H5E_DEFAULT);
  return is;
}

std::unique_ptr<ImageStack> open_hdf5_stack(const StackSettings& settings) {
  silence_hdf5();
  Hdf5Dataset opened = open_hdf5_dataset(settings);
  StackShape shape = shape_of(opened);
  if (const std::string missing = missing_sources(opened); !missing.empty()) {
    fail_by_hdf5(opened.path, opened.name + ": " + missing);
  }
  check_room(opened, shape);
  check_filters(opened, shape);
  StackFacts facts;
  facts.notes = opened.notes;
  for (std::string& note : notes_on_pixels(opened)) facts.notes.push_back(std::move(note));
  if (std::string without = pixels_without_source(opened); !without.empty())
    facts.notes.push_back(std::move(without));
  facts.from_int16 = shape.type == PixelType::F32 && is_whole_number(opened);
  if (opened.columns_first) {
    facts.notes.push_back("its dataset is MATLAB's, read as " + counted(shape.height_px, "row") +
                          ", " + counted(shape.width_px, "column") + ", " +
                          counted(shape.frames, "frame") +
                          ": x counts columns, as MATLAB shows them");
  }
  const bool unwritten = !opened.truncated && !is_all_written(opened);
  const std::int64_t there =
      opened.truncated || unwritten ? whole_frames(opened, shape) : shape.frames;
  // What is behind the last frame of use is not looked at.
  const std::int64_t of_use =
      settings.last_frame < 0 ? shape.frames : std::min(shape.frames, settings.last_frame + 1);
  const std::int64_t chunk = frames_of_chunk(opened);
  const std::int64_t whole =
      chunk > 0 ? there - unwritten_in_last_chunk(opened, shape, there, chunk) : there;
  if (opened.truncated || whole < of_use) {
    const char* why = whole < there ? "the next holds the fill value alone, as if never written"
                      : opened.truncated ? ""
                                         : "the next was never written";
    facts.notes.push_back(truncated_note(settings, whole, shape.frames, why));
  }
  shape.frames = whole;
  const std::int64_t last = std::min(whole, of_use);
  if (chunk == 0 && last > 0 && fill_frames_before(opened, shape, last, last - 1) > 0) {
    const std::int64_t doubtful = fill_frames_before(opened, shape, whole, 0);
    if (whole - doubtful < last) {
      facts.notes.push_back(
          doubtful == 1
              ? "its last frame holds the fill value alone: perhaps it was never written"
              : "its last " + std::to_string(doubtful) + " of " + counted(whole, "frame") +
                    " hold the fill value alone: perhaps they were never written");
    }
  }
  return std::make_unique<Hdf5Stack>(std::move(opened), shape, std::move(facts));
}

}  // namespace driftd::camera
