// SPDX-License-Identifier: MIT
#include "camera/recording/hdf5_dataset.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "base/counted.hpp"
#include "camera/recording/hdf5_labels.hpp"
#include "camera/recording/hdf5_sources.hpp"

namespace driftd::camera {
namespace {

/// Limits of the search for datasets: groups may contain one another.
constexpr int kDeepestGroup = 16;
constexpr std::size_t kMostObjects = 10'000;
/// Unpacked chunks that are kept, at most.
constexpr hsize_t kMostKept = hsize_t{256} << 20;

/// Joins the first names only: a file whose groups contain one another would give thousands.
std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 20;
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    list += (i == 0 ? "" : ", ") + names[i];
  }
  return names.size() <= kMost ? list
                               : list + " and " + std::to_string(names.size() - kMost) + " more";
}

DatasetDimensions dimensions_of(hid_t dataset) {
  DatasetDimensions dimensions;
  const Hdf5Handle space(H5Dget_space(dataset), H5Sclose);
  const int rank = space ? H5Sget_simple_extent_ndims(space.get()) : -1;
  if (rank < 1) return dimensions;
  dimensions.size.resize(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(space.get(), dimensions.size.data(), nullptr);
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < dimensions.size.size(); ++i) left.push_back(i);
  while (left.size() > 3) {
    const auto one =
        std::ranges::find_if(left, [&](std::size_t i) { return dimensions.size[i] == 1; });
    if (one == left.end()) return dimensions;
    left.erase(one);
  }
  if (left.size() < 3) return dimensions;
  std::ranges::copy(left, dimensions.of.begin());
  dimensions.are_three = true;
  return dimensions;
}

/// Collects the paths of all datasets with three dimensions below a group, and what others there
/// are.
class DatasetSearch {
 public:
  explicit DatasetSearch(const Hdf5Handle& file) { search(file.get(), "", 0); }
  [[nodiscard]] const std::vector<std::string>& found() const { return found_; }
  /// The other datasets, with their sizes, and links to what cannot be opened.
  [[nodiscard]] const std::vector<std::string>& others() const { return others_; }
  /// The latter alone.
  [[nodiscard]] const std::vector<std::string>& broken() const { return broken_; }

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
      const std::string here = path + "/" + name.data();
      if (!object) {
        if (const std::string target = target_of_link(group, name.data()); !target.empty()) {
          broken_.push_back(here + " (a link to " + target + ", which cannot be opened)");
          others_.push_back(broken_.back());
        }
        continue;
      }
      if (!is_new(group, name.data())) continue;
      const H5I_type_t kind = H5Iget_type(object.get());
      if (kind == H5I_GROUP) search(object.get(), here, depth + 1);
      if (kind != H5I_DATASET) continue;
      const DatasetDimensions dimensions = dimensions_of(object.get());
      if (dimensions.are_three) {
        found_.push_back(here);
      } else {
        others_.push_back(here + " (" + in_words(dimensions.size) + ")");
      }
    }
  }

  /// Several links may lead to one object.
  bool is_new(hid_t group, const char* name) {
    H5G_stat_t there{};
    if (H5Gget_objinfo(group, name, 1, &there) < 0) return true;
    return known_.insert({there.fileno[0], there.fileno[1], there.objno[0], there.objno[1]}).second;
  }

  std::vector<std::string> found_, others_, broken_;
  std::set<std::array<unsigned long, 4>> known_;
  std::size_t seen_ = 0;
};

/// @param broken  gets links beside the dataset that lead nowhere, where it is the only one
std::string dataset_of(const StackSettings& settings, const Hdf5Handle& file, std::string& broken) {
  const std::filesystem::path& path = settings.path;
  const std::string& wanted = settings.dataset;
  const DatasetSearch search(file);
  H5Eclear2(H5E_DEFAULT);
  if (!wanted.empty()) {
    const Hdf5Handle named(H5Dopen2(file.get(), wanted.c_str(), H5P_DEFAULT), H5Dclose);
    if (named) return wanted;
    const std::string target = target_of_link(file.get(), wanted);
    H5Eclear2(H5E_DEFAULT);
    if (!target.empty()) {
      fail_by_hdf5(path, wanted + ": is a link to " + target +
                             ", which cannot be opened: bring that file to its place");
    }
    fail_by_hdf5(path, "has no dataset '" + wanted + "'; those of three dimensions: " +
                           (search.found().empty() ? "none" : list_of(search.found())));
  }
  if (search.found().size() == 1) {
    if (!search.broken().empty()) broken = "has " + list_of(search.broken());
    return search.found().front();
  }
  if (search.found().empty()) {
    fail_by_hdf5(path,
                 "has no dataset of three dimensions (frames, rows, columns); " +
                     (search.others().empty() ? "it has none at all"
                                              : "those there are: " + list_of(search.others())));
  }
  fail_by_hdf5(path,
               std::string("has several datasets of three dimensions; name one by the option ") +
                   settings.names.dataset + ": " + list_of(search.found()));
}

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
void keep_chunks(Hdf5Dataset& opened) {
  const Hdf5Handle type(H5Dget_type(opened.dataset.get()), H5Tclose);
  const std::optional<Hdf5Triple> has = chunk_of(opened);
  if (!has || (*has)[0] < 2) return;
  const Hdf5Triple chunk = *has;
  const Hdf5Triple size = opened.size();
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
  if (!opened.dataset) fail_by_hdf5(opened.path, opened.name + ": cannot be opened");
}

}  // namespace

std::string in_words(const std::vector<hsize_t>& size) {
  std::string text;
  for (const hsize_t n : size) text += (text.empty() ? "" : " x ") + std::to_string(n);
  return size.empty() ? "a single value" : text;
}

void fail_by_hdf5(const std::filesystem::path& path, const std::string& what) {
  const std::string reason = hdf5_reason();
  throw RecordingError(path, reason.empty() ? what : what + " (HDF5: " + reason + ")");
}

std::optional<Hdf5Triple> chunk_of(const Hdf5Dataset& opened) {
  const Hdf5Handle made(H5Dget_create_plist(opened.dataset.get()), H5Pclose);
  const auto rank = static_cast<int>(opened.dimensions.size.size());
  std::vector<hsize_t> chunk(opened.dimensions.size.size());
  if (H5Pget_layout(made.get()) != H5D_CHUNKED ||
      H5Pget_chunk(made.get(), rank, chunk.data()) != rank) {
    return std::nullopt;
  }
  const Hdf5Triple three = opened.dimensions.three(chunk);
  if (three[0] == 0 || three[1] == 0 || three[2] == 0) return std::nullopt;
  return three;
}

PixelType type_of(const Hdf5Dataset& opened) {
  const std::filesystem::path& path = opened.path;
  const std::string& name = opened.name;
  const Hdf5Handle type(H5Dget_type(opened.dataset.get()), H5Tclose);
  if (!type) fail_by_hdf5(path, name + ": its type cannot be read");
  const H5T_class_t kind = H5Tget_class(type.get());
  const std::size_t bytes = H5Tget_size(type.get());
  if (kind == H5T_INTEGER && H5Tget_sign(type.get()) == H5T_SGN_NONE) {
    if (bytes == 1) return PixelType::U8;
    if (bytes == 2) return PixelType::U16;
  }
  // HDF5 converts other floats, and words with a sign.
  if (kind == H5T_FLOAT || (kind == H5T_INTEGER && bytes == 2)) return PixelType::F32;
  std::string found = std::to_string(bytes) + "-byte integers";
  if (kind == H5T_INTEGER) {
    found += H5Tget_sign(type.get()) == H5T_SGN_NONE ? " without a sign" : " with a sign";
  } else {
    found = kind == H5T_ENUM       ? "names of a list (an enumeration, such as a mask)"
            : kind == H5T_COMPOUND ? "of several values each (a table)"
                                   : "no numbers";
  }
  fail_by_hdf5(path, name + ": its elements are " + found +
                         "; allowed are uint8, uint16, int16 and floats: save it as one of these");
}

bool is_whole_number(const Hdf5Dataset& opened) {
  const Hdf5Handle type(H5Dget_type(opened.dataset.get()), H5Tclose);
  return type && H5Tget_class(type.get()) == H5T_INTEGER;
}

std::string missing_filters(const Hdf5Dataset& opened) {
  const Hdf5Handle made(H5Dget_create_plist(opened.dataset.get()), H5Pclose);
  const int filters = H5Pget_nfilters(made.get());
  std::string missing;
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    std::size_t values = 0;
    std::array<char, 256> name{};
    const H5Z_filter_t number =
        H5Pget_filter2(made.get(), static_cast<unsigned>(i), &flags, &values, nullptr,
                       name.size() - 1, name.data(), nullptr);
    if (number < 0 || H5Zfilter_avail(number) > 0) continue;
    missing += (missing.empty() ? "" : ", ") + std::to_string(number);
    if (name[0] != '\0') missing += std::string(" (") + name.data() + ")";
  }
  H5Eclear2(H5E_DEFAULT);
  return missing;
}

Hdf5Dataset open_hdf5_dataset(const StackSettings& settings) {
  const std::filesystem::path& path = settings.path;
  Hdf5Dataset opened{.path = path};
  opened.file = open_file(path, opened.truncated);
  if (!opened.file) {
    const std::string reason = hdf5_reason();
    const bool written = reason.find("unable to lock file") != std::string::npos ||
                         reason.find("already open for write") != std::string::npos;
    fail_by_hdf5(path, opened.truncated ? "is truncated, and cannot be read as HDF5"
                       : written ? "is open in a program that writes it, or was when that crashed: "
                                   "read it when it is closed"
                                 : "cannot be read as HDF5");
  }
  try {
    std::string broken;
    opened.name = dataset_of(settings, opened.file, broken);
    if (!broken.empty()) opened.notes.push_back(broken);
    opened.dataset =
        Hdf5Handle(H5Dopen2(opened.file.get(), opened.name.c_str(), H5P_DEFAULT), H5Dclose);
    if (!opened.dataset) fail_by_hdf5(path, opened.name + ": cannot be opened");
    opened.dimensions = dimensions_of(opened.dataset.get());
    if (!opened.dimensions.are_three) {
      fail_by_hdf5(path,
                   opened.name + ": has " + counted(opened.dimensions.size.size(), "dimension") +
                       " (" + in_words(opened.dimensions.size) +
                       "); a stack has three (frames, rows, columns), and others of one element");
    }
    opened.columns_first = H5Aexists(opened.dataset.get(), "MATLAB_class") > 0;
    check_labels(opened);
    find_external_files(opened);
    keep_chunks(opened);
  } catch (const RecordingError& error) {
    if (!opened.truncated) throw;
    throw RecordingError(
        path, "is truncated, and its list of datasets is not all there: it " + error.problem);
  }
  return opened;
}

}  // namespace driftd::camera
