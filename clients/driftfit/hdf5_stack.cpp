// SPDX-License-Identifier: MIT
#include <array>
#include <vector>

#include "clients/driftfit/errors.hpp"
#include "clients/driftfit/hdf5_handle.hpp"
#include "clients/driftfit/stack_formats.hpp"

namespace driftd::clients {
namespace {

/// Keep a file whose groups contain one another from being searched for ever.
constexpr int kDeepestGroup = 16;
constexpr std::size_t kMostObjects = 10'000;

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  const std::string reason = hdf5_reason();
  throw InputError(path, reason.empty() ? what : what + " (HDF5: " + reason + ")");
}

std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
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
  const DatasetSearch search(file);
  H5Eclear2(H5E_DEFAULT);
  if (!settings.dataset.empty()) {
    const Hdf5Handle named(H5Dopen2(file.get(), settings.dataset.c_str(), H5P_DEFAULT), H5Dclose);
    if (named) return settings.dataset;
    H5Eclear2(H5E_DEFAULT);
    fail(settings.path, "has no dataset '" + settings.dataset + "'; those of three dimensions: " +
                            (search.found().empty() ? "none" : list_of(search.found())));
  }
  if (search.found().size() == 1) return search.found().front();
  if (search.found().empty()) fail(settings.path, "has no dataset of three dimensions");
  fail(settings.path, "has several datasets, choose one by --dataset: " + list_of(search.found()));
}

fitter::PixelType type_of(const std::filesystem::path& path, const std::string& name,
                          hid_t dataset) {
  const Hdf5Handle type(H5Dget_type(dataset), H5Tclose);
  if (!type) fail(path, name + ": its type cannot be read");
  const H5T_class_t kind = H5Tget_class(type.get());
  const std::size_t bytes = H5Tget_size(type.get());
  if (kind == H5T_INTEGER && H5Tget_sign(type.get()) == H5T_SGN_NONE) {
    if (bytes == 1) return fitter::PixelType::U8;
    if (bytes == 2) return fitter::PixelType::U16;
  }
  if (kind == H5T_FLOAT && bytes == 4) return fitter::PixelType::F32;
  const char* sort = kind == H5T_INTEGER ? "integers" : kind == H5T_FLOAT ? "floats" : "no numbers";
  fail(path, name + ": elements are " + std::to_string(bytes) + "-byte " + sort +
                 "; allowed are uint8, uint16, float32");
}

hid_t memory_type(fitter::PixelType type) {
  switch (type) {
    case fitter::PixelType::U8:
      return H5T_NATIVE_UINT8;
    case fitter::PixelType::U16:
      return H5T_NATIVE_UINT16;
    case fitter::PixelType::F32:
      break;
  }
  return H5T_NATIVE_FLOAT;
}

class Hdf5Stack final : public ImageStack {
 public:
  explicit Hdf5Stack(const StackSettings& settings)
      : path_(settings.path),
        file_(H5Fopen(settings.path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose) {
    if (!file_) fail(path_, "cannot be read as HDF5");
    name_ = dataset_of(settings, file_);
    dataset_ = Hdf5Handle(H5Dopen2(file_.get(), name_.c_str(), H5P_DEFAULT), H5Dclose);
    if (!dataset_) fail(path_, name_ + ": cannot be opened");
    const int rank = rank_of(dataset_.get());
    if (rank != 3) {
      fail(path_, name_ + ": has " + std::to_string(rank) +
                      " dimensions; a stack has three (frames, rows, columns)");
    }
    std::array<hsize_t, 3> size{};
    const Hdf5Handle space(H5Dget_space(dataset_.get()), H5Sclose);
    H5Sget_simple_extent_dims(space.get(), size.data(), nullptr);
    constexpr hsize_t kMost = std::size_t{1} << 40;
    if (size[0] < 1 || size[0] > kMost || size[1] > kMost || size[2] > kMost) {
      fail(path_, name_ + ": " + std::to_string(size[0]) + " frames cannot be used");
    }
    check_frame_size(path_, static_cast<std::int64_t>(size[2]), static_cast<std::int64_t>(size[1]));
    shape_ = {.width_px = static_cast<int>(size[2]),
              .height_px = static_cast<int>(size[1]),
              .frames = static_cast<std::int64_t>(size[0]),
              .type = type_of(path_, name_, dataset_.get())};
  }

  void read(std::int64_t first, std::int64_t count, std::byte* out) override {
    const std::array<hsize_t, 3> begin{static_cast<hsize_t>(first), 0, 0};
    const std::array<hsize_t, 3> size{static_cast<hsize_t>(count),
                                      static_cast<hsize_t>(shape_.height_px),
                                      static_cast<hsize_t>(shape_.width_px)};
    const Hdf5Handle from(H5Dget_space(dataset_.get()), H5Sclose);
    const Hdf5Handle to(H5Screate_simple(3, size.data(), nullptr), H5Sclose);
    if (!from || !to ||
        H5Sselect_hyperslab(from.get(), H5S_SELECT_SET, begin.data(), nullptr, size.data(),
                            nullptr) < 0 ||
        H5Dread(dataset_.get(), memory_type(shape_.type), to.get(), from.get(), H5P_DEFAULT, out) <
            0) {
      fail(path_, name_ + ": frames " + std::to_string(first) + " to " +
                      std::to_string(first + count - 1) + " cannot be read");
    }
  }

 private:
  std::filesystem::path path_;
  Hdf5Handle file_, dataset_;
  std::string name_;
};

}  // namespace

std::unique_ptr<ImageStack> open_hdf5_stack(const StackSettings& settings) {
  silence_hdf5();
  return std::make_unique<Hdf5Stack>(settings);
}

}  // namespace driftd::clients
