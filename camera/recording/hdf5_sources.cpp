// SPDX-License-Identifier: MIT
#include "camera/recording/hdf5_sources.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <system_error>

#include "base/counted.hpp"

namespace driftd::camera {
namespace {

using Paths = std::vector<std::filesystem::path>;

/// What HDF5 puts before the names of files that a file names. @return whether something is set
bool prefix_of(const std::filesystem::path& by, const char* variable, std::string& prefix) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
  const char* const set = std::getenv(variable);
  if (set == nullptr) return false;
  prefix = set;
  if (prefix.starts_with("${ORIGIN}"))
    prefix = (std::filesystem::absolute(by).parent_path() / prefix.substr(9)).string();
  return true;
}

/// Where HDF5 looks for the file of a source.
Paths places_of(const std::filesystem::path& by, const std::filesystem::path& name) {
  Paths places;
  std::string prefix;
  if (name.is_relative() && prefix_of(by, "HDF5_VDS_PREFIX", prefix))
    places.push_back(std::filesystem::path(prefix) / name);
  places.push_back(by.parent_path() / name);
  places.push_back(by.parent_path() / name.filename());
  places.push_back(name);
  return places;
}

/// How a source is: the size of its dataset, or none.
std::optional<std::vector<hsize_t>> size_of(const Hdf5Dataset& opened, const std::string& file,
                                            const std::string& dataset) {
  const auto size_in = [&](hid_t source) -> std::optional<std::vector<hsize_t>> {
    if (source < 0) return std::nullopt;
    const Hdf5Handle found(H5Dopen2(source, dataset.c_str(), H5P_DEFAULT), H5Dclose);
    const Hdf5Handle space(found ? H5Dget_space(found.get()) : H5I_INVALID_HID, H5Sclose);
    const int rank = space ? H5Sget_simple_extent_ndims(space.get()) : -1;
    if (rank < 0) return std::nullopt;
    std::vector<hsize_t> size(static_cast<std::size_t>(rank));
    H5Sget_simple_extent_dims(space.get(), size.data(), nullptr);
    return size;
  };
  if (file == ".") return size_in(opened.file.get());
  for (const auto& place : places_of(opened.path, file)) {
    const Hdf5Handle source(H5Fopen(place.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
    if (auto size = size_in(source.get())) return size;
  }
  return std::nullopt;
}

/// What a virtual dataset takes from one of its sources, in the source's numbers: the size up to
/// which it has to go; nothing where it takes what there is.
std::optional<std::vector<hsize_t>> size_taken(const Hdf5Handle& made, std::size_t source) {
  const Hdf5Handle space(H5Pget_virtual_srcspace(made.get(), source), H5Sclose);
  const int rank = space ? H5Sget_simple_extent_ndims(space.get()) : -1;
  const hssize_t points = space ? H5Sget_select_npoints(space.get()) : 0;
  if (rank < 1 || points < 1) return std::nullopt;  // below 0: without a limit
  std::vector<hsize_t> first(static_cast<std::size_t>(rank)), size(static_cast<std::size_t>(rank));
  if (H5Sget_select_bounds(space.get(), first.data(), size.data()) < 0) return std::nullopt;
  for (hsize_t& n : size) ++n;
  return size;
}

std::string missing_virtual_sources(const Hdf5Dataset& opened, const Hdf5Handle& made) {
  std::size_t count = 0;
  if (H5Pget_virtual_count(made.get(), &count) < 0) return {};
  std::string first_missing, first_short;
  std::size_t missing = 0, too_short = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::array<char, 4096> file{}, dataset{};
    H5Pget_virtual_filename(made.get(), i, file.data(), file.size());
    H5Pget_virtual_dsetname(made.get(), i, dataset.data(), dataset.size());
    // Blocks that are numbered end where there is no further one.
    if (std::string_view(file.data()).find('%') != std::string_view::npos ||
        std::string_view(dataset.data()).find('%') != std::string_view::npos) {
      continue;
    }
    const std::string name = std::string(dataset.data()) + " of " + file.data();
    const auto size = size_of(opened, file.data(), dataset.data());
    if (!size && missing++ == 0) first_missing = name;
    const auto taken = size ? size_taken(made, i) : std::nullopt;
    if (!taken) continue;
    const bool whole = size->size() == taken->size() &&
                       std::ranges::equal(*taken, *size, std::ranges::less_equal());
    if (!whole && too_short++ == 0)
      first_short = name + " has " + in_words(*size) + " elements, it takes " + in_words(*taken);
  }
  H5Eclear2(H5E_DEFAULT);
  const std::string of_all = " of its " + counted(count, "source");
  if (missing > 0) {
    return "is virtual, and " + std::to_string(missing) + of_all +
           " cannot be opened: " + first_missing +
           "; HDF5 would read its fill value there. Bring the file to its place";
  }
  if (too_short == 0) return {};
  return "is virtual, and " + std::to_string(too_short) + of_all +
         (too_short == 1 ? " is" : " are") + " smaller than what it takes: " + first_short +
         "; make it again of what there is, or name the source itself";
}

/// An entry of the list of files that hold the pixels.
struct ExternalFile {
  std::filesystem::path name;
  std::uintmax_t end = 0;  ///< of the part that is used
};

std::vector<ExternalFile> external_files(const Hdf5Dataset& opened) {
  const Hdf5Handle made(H5Dget_create_plist(opened.dataset.get()), H5Pclose);
  const Hdf5Handle type(H5Dget_type(opened.dataset.get()), H5Tclose);
  std::uintmax_t left = H5Tget_size(type.get());
  for (const hsize_t n : opened.dimensions.size) left *= n;
  std::vector<ExternalFile> files;
  const int count = H5Pget_external_count(made.get());
  for (int i = 0; i < count && left > 0; ++i) {
    std::array<char, 4096> name{};
    off_t offset = 0;
    hsize_t size = 0;
    if (H5Pget_external(made.get(), static_cast<unsigned>(i), name.size() - 1, name.data(), &offset,
                        &size) < 0) {
      continue;
    }
    const std::uintmax_t need = std::min<std::uintmax_t>(left, size);
    left -= need;
    files.push_back({name.data(), static_cast<std::uintmax_t>(offset) + need});
  }
  return files;
}

/// Where HDF5 looks for it: a name without a folder is sought in the current one.
std::filesystem::path place_of(const Hdf5Dataset& opened, const std::filesystem::path& name) {
  if (name.is_absolute()) return name;
  std::string prefix;
  if (opened.files_beside) prefix = std::filesystem::absolute(opened.path).parent_path().string();
  prefix_of(opened.path, "HDF5_EXTFILE_PREFIX", prefix);
  return std::filesystem::path(prefix) / name;
}

std::string short_external_files(const Hdf5Dataset& opened) {
  for (const ExternalFile& file : external_files(opened)) {
    const std::filesystem::path place = place_of(opened, file.name);
    std::error_code error;
    const std::uintmax_t there = std::filesystem::file_size(place, error);
    if (!error && there >= file.end) continue;
    const std::string sought = std::filesystem::absolute(place).lexically_normal().string();
    std::string text = "has its pixels in " + file.name.string();
    if (!error) {
      return text + ", of " + std::to_string(there) + " bytes where " + std::to_string(file.end) +
             " are needed (" + sought + "): bring the whole file";
    }
    if (file.name.is_absolute())
      return text + ", which is not there: bring it to that place, or save the dataset as one";
    return text + ", which is neither beside it nor " + sought +
           ": bring it, or name its folder by the environment variable HDF5_EXTFILE_PREFIX";
  }
  return {};
}

}  // namespace

std::string target_of_link(hid_t group, const std::string& name) {
  H5L_info_t info{};
  if (H5Lget_info(group, name.c_str(), &info, H5P_DEFAULT) < 0 ||
      (info.type != H5L_TYPE_SOFT && info.type != H5L_TYPE_EXTERNAL)) {
    return {};
  }
  std::string value(info.u.val_size, '\0');
  if (H5Lget_val(group, name.c_str(), value.data(), value.size(), H5P_DEFAULT) < 0) return {};
  if (info.type == H5L_TYPE_SOFT) return value.substr(0, value.find('\0'));
  const char *file = nullptr, *path = nullptr;
  if (H5Lunpack_elink_val(value.data(), value.size(), nullptr, &file, &path) < 0) return {};
  return std::string(path) + " of " + file;
}

void find_external_files(Hdf5Dataset& opened) {
  const auto is_there = [&](const std::filesystem::path& name) {
    std::error_code error;
    return std::filesystem::exists(place_of(opened, name), error);
  };
  const std::vector<ExternalFile> files = external_files(opened);
  const auto all_there = [&] {
    return std::ranges::all_of(files, [&](const auto& file) { return is_there(file.name); });
  };
  if (all_there()) return;
  opened.files_beside = true;
  if (!all_there()) {
    opened.files_beside = false;
    return;
  }
  const Hdf5Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  H5Pset_efile_prefix(access.get(), "${ORIGIN}");
  opened.dataset.close();  // one that is open keeps its own prefix
  opened.dataset =
      Hdf5Handle(H5Dopen2(opened.file.get(), opened.name.c_str(), access.get()), H5Dclose);
  if (!opened.dataset) fail_by_hdf5(opened.path, opened.name + ": cannot be opened");
}

std::string missing_sources(const Hdf5Dataset& opened) {
  const Hdf5Handle made(H5Dget_create_plist(opened.dataset.get()), H5Pclose);
  if (H5Pget_layout(made.get()) == H5D_VIRTUAL) return missing_virtual_sources(opened, made);
  return short_external_files(opened);
}

std::string pixels_without_source(const Hdf5Dataset& opened) {
  const Hdf5Handle made(H5Dget_create_plist(opened.dataset.get()), H5Pclose);
  std::size_t count = 0;
  if (H5Pget_layout(made.get()) != H5D_VIRTUAL || H5Pget_virtual_count(made.get(), &count) < 0)
    return {};
  hsize_t all = 1, taken = 0;
  for (const hsize_t n : opened.dimensions.size) all *= n;
  for (std::size_t i = 0; i < count; ++i) {
    const Hdf5Handle space(H5Pget_virtual_vspace(made.get(), i), H5Sclose);
    const hssize_t points = space ? H5Sget_select_npoints(space.get()) : -1;
    if (points < 0) return {};  // without a limit: what there is
    taken += static_cast<hsize_t>(points);
  }
  if (taken >= all) return {};
  return "its dataset is virtual, and " + std::to_string(all - taken) + " of its " +
         counted(all, "pixel") + " come from no source: they hold the fill value";
}

}  // namespace driftd::camera
