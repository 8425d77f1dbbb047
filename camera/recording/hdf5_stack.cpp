// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "camera/recording/hdf5_handle.hpp"
#include "camera/recording/stack_formats.hpp"

namespace driftd::camera {
namespace {

/// Limits of the search for datasets: groups may contain one another.
constexpr int kDeepestGroup = 16;
constexpr std::size_t kMostObjects = 10'000;
/// Unpacked chunks that are kept, at most; and what is read at once when its pixels are looked at.
constexpr hsize_t kMostKept = hsize_t{256} << 20;
constexpr std::size_t kBlock = std::size_t{16} << 20;

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  const std::string reason = hdf5_reason();
  throw RecordingError(path, reason.empty() ? what : what + " (HDF5: " + reason + ")");
}

/// Of a file whose groups contain one another there would be thousands.
std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 20;
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    list += (i == 0 ? "" : ", ") + names[i];
  }
  return names.size() <= kMost ? list
                               : list + " and " + std::to_string(names.size() - kMost) + " more";
}

int rank_of(hid_t dataset) {
  const Hdf5Handle space(H5Dget_space(dataset), H5Sclose);
  return space ? H5Sget_simple_extent_ndims(space.get()) : -1;
}

/// Collects the paths of all datasets with three dimensions below a group.
class DatasetSearch {
 public:
  explicit DatasetSearch(const Hdf5Handle& file) { search(file.get(), "", 0); }
  [[nodiscard]] const std::vector<std::string>& found() const { return found_; }

 private:
  void search(hid_t group, const std::string& path, int depth) {
    H5G_info_t info{};
    if (depth > kDeepestGroup || H5Gget_info(group, &info) < 0) return;
    for (hsize_t i = 0; i < info.nlinks && seen_ < kMostObjects; ++i, ++seen_) {
      std::array<char, 1024> name{};
      if (H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name.data(), name.size(),
                             H5P_DEFAULT) < 0) {
        continue;
      }
      const Hdf5Handle object(H5Oopen(group, name.data(), H5P_DEFAULT), H5Oclose);
      if (!object) continue;
      const std::string here = path + "/" + name.data();
      const H5I_type_t kind = H5Iget_type(object.get());
      if (kind == H5I_GROUP) search(object.get(), here, depth + 1);
      if (kind == H5I_DATASET && rank_of(object.get()) == 3) found_.push_back(here);
    }
  }

  std::vector<std::string> found_;
  std::size_t seen_ = 0;
};

std::string dataset_of(const StackSettings& settings, const Hdf5Handle& file) {
  const std::filesystem::path& path = settings.path;
  const std::string& wanted = settings.dataset;
  const DatasetSearch search(file);
  H5Eclear2(H5E_DEFAULT);
  if (!wanted.empty()) {
    const Hdf5Handle named(H5Dopen2(file.get(), wanted.c_str(), H5P_DEFAULT), H5Dclose);
    if (named) return wanted;
    H5Eclear2(H5E_DEFAULT);
    fail(path, "has no dataset '" + wanted + "'; those of three dimensions: " +
                   (search.found().empty() ? "none" : list_of(search.found())));
  }
  if (search.found().size() == 1) return search.found().front();
  if (search.found().empty()) fail(path, "has no dataset of three dimensions");
  fail(path, std::string("has several datasets of three dimensions; name one by the option ") +
                 settings.names.dataset + ": " + list_of(search.found()));
}

PixelType type_of(const std::filesystem::path& path, const std::string& name, hid_t dataset) {
  const Hdf5Handle type(H5Dget_type(dataset), H5Tclose);
  if (!type) fail(path, name + ": its type cannot be read");
  const H5T_class_t kind = H5Tget_class(type.get());
  const std::size_t bytes = H5Tget_size(type.get());
  if (kind == H5T_INTEGER && H5Tget_sign(type.get()) == H5T_SGN_NONE) {
    if (bytes == 1) return PixelType::U8;
    if (bytes == 2) return PixelType::U16;
  }
  if (kind == H5T_FLOAT && bytes == 4) return PixelType::F32;
  const char* sort = kind == H5T_INTEGER ? "integers" : kind == H5T_FLOAT ? "floats" : "no numbers";
  fail(path, name + ": elements are " + std::to_string(bytes) + "-byte " + sort +
                 "; allowed are uint8, uint16, float32");
}

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

/// What a stack needs before its shape is known.
struct Opened {
  std::filesystem::path path;
  std::string name;
  Hdf5Handle file, dataset;
  bool truncated = false;  ///< the file ends before the place that its header says
};

Hdf5Handle open_file(const std::filesystem::path& path, bool& truncated) {
  Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  if (file || hdf5_reason().find("truncated file") == std::string::npos) return file;
  // The library's own h5clear opens such files by this property. What is behind the end is zero.
  truncated = true;
  H5Eclear2(H5E_DEFAULT);
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  const hbool_t skip = 1;
  H5Pset(access.get(), "skip_eof_check", &skip);
  return {H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose};
}

/// Opens the dataset again such that the chunks of a frame that were unpacked are kept: HDF5 keeps
/// 1 MiB otherwise, and unpacks a larger chunk anew for each of its frames.
void keep_chunks(Opened& opened) {
  const Hdf5Handle made(H5Dget_create_plist(opened.dataset.get()), H5Pclose);
  const Hdf5Handle type(H5Dget_type(opened.dataset.get()), H5Tclose);
  const Hdf5Handle space(H5Dget_space(opened.dataset.get()), H5Sclose);
  std::array<hsize_t, 3> chunk{}, size{};
  if (rank_of(opened.dataset.get()) != 3 || H5Pget_layout(made.get()) != H5D_CHUNKED ||
      H5Pget_chunk(made.get(), 3, chunk.data()) != 3 || chunk[0] < 2 || chunk[1] < 1 ||
      chunk[2] < 1 || H5Sget_simple_extent_dims(space.get(), size.data(), nullptr) != 3) {
    return;
  }
  // HDF5 has chunks below 4 GiB alone.
  const hsize_t bytes = chunk[0] * chunk[1] * chunk[2] * H5Tget_size(type.get());
  if (bytes == 0 || bytes > kMostKept) return;
  const hsize_t most = kMostKept / bytes;
  const hsize_t down = std::min(most, size[1] / chunk[1] + 1);
  const hsize_t across = std::min(most, size[2] / chunk[2] + 1);
  const hsize_t chunks = std::min(most, down * across);
  constexpr hsize_t kOwnBytes = hsize_t{1} << 20, kOwnSlots = 521, kMostSlots = 100'003;
  if (chunks * bytes <= kOwnBytes) return;
  const Hdf5Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  H5Pset_chunk_cache(access.get(), std::clamp(10 * chunks + 1, kOwnSlots, kMostSlots),
                     chunks * bytes, H5D_CHUNK_CACHE_W0_DEFAULT);
  // Both at once would share the cache of the first.
  opened.dataset.close();
  opened.dataset =
      Hdf5Handle(H5Dopen2(opened.file.get(), opened.name.c_str(), access.get()), H5Dclose);
  if (!opened.dataset) fail(opened.path, opened.name + ": cannot be opened");
}

Opened open_dataset(const StackSettings& settings) {
  const std::filesystem::path& path = settings.path;
  Opened opened{.path = path, .name = {}, .file = {}, .dataset = {}};
  opened.file = open_file(path, opened.truncated);
  if (!opened.file) {
    fail(path,
         opened.truncated ? "is truncated, and cannot be read as HDF5" : "cannot be read as HDF5");
  }
  try {
    opened.name = dataset_of(settings, opened.file);
    opened.dataset =
        Hdf5Handle(H5Dopen2(opened.file.get(), opened.name.c_str(), H5P_DEFAULT), H5Dclose);
    if (!opened.dataset) fail(path, opened.name + ": cannot be opened");
    keep_chunks(opened);
  } catch (const RecordingError& error) {
    if (!opened.truncated) throw;
    throw RecordingError(
        path, "is truncated, and its list of datasets is not all there: it " + error.problem);
  }
  return opened;
}

StackShape shape_of(const Opened& opened) {
  const int rank = rank_of(opened.dataset.get());
  if (rank != 3) {
    fail(opened.path, opened.name + ": has " + std::to_string(rank) +
                          " dimensions; a stack has three (frames, rows, columns)");
  }
  std::array<hsize_t, 3> size{};
  const Hdf5Handle space(H5Dget_space(opened.dataset.get()), H5Sclose);
  H5Sget_simple_extent_dims(space.get(), size.data(), nullptr);
  constexpr hsize_t kMost = std::size_t{1} << 40;
  if (size[0] < 1 || size[0] > kMost || size[1] > kMost || size[2] > kMost) {
    fail(opened.path, opened.name + ": " + std::to_string(size[0]) + " frames of " +
                          std::to_string(size[2]) + " x " + std::to_string(size[1]) +
                          " px cannot be used");
  }
  check_frame_size(opened.path, static_cast<std::int64_t>(size[2]),
                   static_cast<std::int64_t>(size[1]));
  return {.width_px = static_cast<int>(size[2]),
          .height_px = static_cast<int>(size[1]),
          .frames = static_cast<std::int64_t>(size[0]),
          .type = type_of(opened.path, opened.name, opened.dataset.get())};
}

std::uintmax_t bytes_of_file(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  return error ? std::numeric_limits<std::uintmax_t>::max() : bytes;  // gone: still readable
}

/// Whether the chunks of a block of frames, which begins at `first`, are within the file.
bool chunks_are_whole(const Opened& opened, hsize_t first, const std::array<hsize_t, 3>& size,
                      const std::array<hsize_t, 3>& chunk, std::uintmax_t file_bytes) {
  const hid_t dataset = opened.dataset.get();
  for (hsize_t y = 0; y < size[1]; y += chunk[1]) {
    for (hsize_t x = 0; x < size[2]; x += chunk[2]) {
      const std::array<hsize_t, 3> at{first, y, x};
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

std::array<hsize_t, 3> size_of(const StackShape& shape) {
  return {static_cast<hsize_t>(shape.frames), static_cast<hsize_t>(shape.height_px),
          static_cast<hsize_t>(shape.width_px)};
}

/// Whether something was written everywhere: programs that reserve a dataset for a recording which
/// then ends early leave the rest out, and HDF5 reads its fill value there.
bool is_all_written(const Opened& opened, const StackShape& shape) {
  const hid_t dataset = opened.dataset.get();
  const Hdf5Handle made(H5Dget_create_plist(dataset), H5Pclose);
  const H5D_layout_t layout = H5Pget_layout(made.get());
  if (layout == H5D_CONTIGUOUS && H5Pget_external_count(made.get()) == 0)
    return H5Dget_offset(dataset) != HADDR_UNDEF;
  std::array<hsize_t, 3> chunk{};
  if (layout != H5D_CHUNKED || H5Pget_chunk(made.get(), 3, chunk.data()) != 3) return true;
  hsize_t all = 1;
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    if (chunk[i] == 0) return true;
    all *= (size_of(shape)[i] + chunk[i] - 1) / chunk[i];
  }
  const Hdf5Handle space(H5Dget_space(dataset), H5Sclose);
  hsize_t there = 0;
  return H5Dget_num_chunks(dataset, space.get(), &there) < 0 || there >= all;
}

/// How many frames from the first on are in the file.
std::int64_t whole_frames(const Opened& opened, const StackShape& shape) {
  const std::uintmax_t file_bytes = bytes_of_file(opened.path);
  const hid_t dataset = opened.dataset.get();
  const Hdf5Handle made(H5Dget_create_plist(dataset), H5Pclose);
  const H5D_layout_t layout = H5Pget_layout(made.get());
  if (layout == H5D_COMPACT) return shape.frames;
  if (layout == H5D_CONTIGUOUS) {
    const haddr_t begin = H5Dget_offset(dataset);
    if (begin == HADDR_UNDEF || begin > file_bytes) return 0;
    return std::min(shape.frames,
                    static_cast<std::int64_t>((file_bytes - begin) / shape.frame_bytes()));
  }
  std::array<hsize_t, 3> chunk{};
  if (layout != H5D_CHUNKED || H5Pget_chunk(made.get(), 3, chunk.data()) != 3 || chunk[0] == 0 ||
      chunk[1] == 0 || chunk[2] == 0) {
    return 0;
  }
  const std::array<hsize_t, 3> size = size_of(shape);
  hsize_t frame = 0;
  while (frame < size[0] && chunks_are_whole(opened, frame, size, chunk, file_bytes)) {
    frame += chunk[0];
  }
  H5Eclear2(H5E_DEFAULT);
  return static_cast<std::int64_t>(std::min(frame, size[0]));
}

bool read_frames(const Opened& opened, const StackShape& shape, std::int64_t first,
                 std::int64_t count, std::byte* out) {
  const std::array<hsize_t, 3> begin{static_cast<hsize_t>(first), 0, 0};
  const std::array<hsize_t, 3> size{static_cast<hsize_t>(count),
                                    static_cast<hsize_t>(shape.height_px),
                                    static_cast<hsize_t>(shape.width_px)};
  const Hdf5Handle from(H5Dget_space(opened.dataset.get()), H5Sclose);
  const Hdf5Handle to(H5Screate_simple(3, size.data(), nullptr), H5Sclose);
  return from && to &&
         H5Sselect_hyperslab(from.get(), H5S_SELECT_SET, begin.data(), nullptr, size.data(),
                             nullptr) >= 0 &&
         H5Dread(opened.dataset.get(), memory_type(shape.type), to.get(), from.get(), H5P_DEFAULT,
                 out) >= 0;
}

/// How many frames before `end`, and none before `begin`, hold nothing but the fill value.
std::int64_t fill_frames_before(const Opened& opened, const StackShape& shape, std::int64_t end,
                                std::int64_t begin) {
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
std::int64_t frames_of_chunk(const Opened& opened) {
  const Hdf5Handle made(H5Dget_create_plist(opened.dataset.get()), H5Pclose);
  std::array<hsize_t, 3> chunk{};
  H5D_alloc_time_t when = H5D_ALLOC_TIME_EARLY;  // every chunk has its place from the beginning on
  if (H5Pget_layout(made.get()) != H5D_CHUNKED || H5Pget_alloc_time(made.get(), &when) < 0 ||
      when == H5D_ALLOC_TIME_EARLY || H5Pget_chunk(made.get(), 3, chunk.data()) != 3) {
    return 0;
  }
  return static_cast<std::int64_t>(chunk[0]);
}

/// How many frames at the end of the last chunk that has a place in the file, which ends before
/// frame `end`, were as good as certainly never written: they hold the fill value alone, which HDF5
/// reads there, and other frames of the chunk do not. A chunk of nothing else was written: without,
/// it would have no place.
std::int64_t unwritten_in_last_chunk(const Opened& opened, const StackShape& shape,
                                     std::int64_t end, std::int64_t chunk) {
  if (chunk < 2 || end < 1) return 0;
  if (end < shape.frames) {  // of a truncated file: the next one was begun
    const std::array<hsize_t, 3> next{static_cast<hsize_t>(end), 0, 0};
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
  Hdf5Stack(Opened opened, const StackShape& shape, StackFacts facts)
      : ImageStack(shape, std::move(facts)),
        opened_(std::move(opened)),
        opened_bytes_(bytes_of_file(opened_.path)) {}

  void read(std::int64_t first, std::int64_t count, std::byte* out) override {
    if (!read_frames(opened_, shape(), first, count, out)) {
      fail(opened_.path, opened_.name + ": frames " + std::to_string(first) + " to " +
                             std::to_string(first + count - 1) + " cannot be read");
    }
    // HDF5 reads zeros behind the end of a file that was longer when it was opened.
    if (bytes_of_file(opened_.path) < opened_bytes_) {
      fail(opened_.path, "has become shorter since it was opened");
    }
  }

  /// HDF5 is not made for two threads at a time.
  bool reads_beside_others() const noexcept override { return false; }

 private:
  Opened opened_;
  std::uintmax_t opened_bytes_;
};

}  // namespace

std::unique_ptr<ImageStack> open_hdf5_stack(const StackSettings& settings) {
  silence_hdf5();
  Opened opened = open_dataset(settings);
  StackShape shape = shape_of(opened);
  StackFacts facts;
  const bool unwritten = !opened.truncated && !is_all_written(opened, shape);
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
          doubtful == 1 ? "its last frame holds the fill value alone: perhaps it was never written"
                        : "its last " + std::to_string(doubtful) + " of " + std::to_string(whole) +
                              " frames hold the fill value alone: perhaps they were never written");
    }
  }
  return std::make_unique<Hdf5Stack>(std::move(opened), shape, std::move(facts));
}

}  // namespace driftd::camera
