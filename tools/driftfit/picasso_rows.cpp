// SPDX-License-Identifier: MIT
#include "tools/driftfit/picasso_rows.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "tools/driftfit/errors.hpp"

namespace driftd::tools {

using camera::hdf5_reason;
using camera::Hdf5Handle;

namespace {

constexpr hsize_t kChunkRows = 2048;
using Row = PicassoRow;

struct Column {
  const char* name;
  std::size_t offset;
};
constexpr std::array kFloatColumns{Column{"x", offsetof(Row, x)},
                                   Column{"y", offsetof(Row, y)},
                                   Column{"photons", offsetof(Row, photons)},
                                   Column{"sx", offsetof(Row, sx)},
                                   Column{"sy", offsetof(Row, sy)},
                                   Column{"bg", offsetof(Row, bg)},
                                   Column{"lpx", offsetof(Row, lpx)},
                                   Column{"lpy", offsetof(Row, lpy)},
                                   Column{"ellipticity", offsetof(Row, ellipticity)},
                                   Column{"net_gradient", offsetof(Row, net_gradient)}};

constexpr std::array kColumnsOfZ{Column{"z", offsetof(Row, z)}, Column{"lpz", offsetof(Row, lpz)}};

/// In the file: little-endian, as numpy writes it, without gaps.
Hdf5Handle row_type(bool groups, bool has_z) {
  const std::size_t bytes = has_z ? sizeof(Row) : groups ? offsetof(Row, z) : offsetof(Row, group);
  Hdf5Handle type(H5Tcreate(H5T_COMPOUND, bytes), H5Tclose);
  H5Tinsert(type.get(), "frame", offsetof(Row, frame), H5T_STD_U32LE);
  for (const Column& column : kFloatColumns) {
    H5Tinsert(type.get(), column.name, column.offset, H5T_IEEE_F32LE);
  }
  if (groups) H5Tinsert(type.get(), "group", offsetof(Row, group), H5T_STD_I32LE);
  for (const Column& column : kColumnsOfZ) {
    if (has_z) H5Tinsert(type.get(), column.name, column.offset, H5T_IEEE_F32LE);
  }
  return type;
}

Hdf5Handle memory_row_type() {
  Hdf5Handle type(H5Tcreate(H5T_COMPOUND, sizeof(Row)), H5Tclose);
  H5Tinsert(type.get(), "frame", offsetof(Row, frame), H5T_NATIVE_UINT32);
  for (const Column& column : kFloatColumns) {
    H5Tinsert(type.get(), column.name, column.offset, H5T_NATIVE_FLOAT);
  }
  H5Tinsert(type.get(), "group", offsetof(Row, group), H5T_NATIVE_INT32);
  for (const Column& column : kColumnsOfZ) {
    H5Tinsert(type.get(), column.name, column.offset, H5T_NATIVE_FLOAT);
  }
  return type;
}

}  // namespace

PicassoRowsWriter::PicassoRowsWriter(const OutputFile& output, bool groups, bool has_z)
    : output_(&output), memory_type_(memory_row_type()) {
  camera::silence_hdf5();
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_file_locking(access.get(), 0, 1);  // the temporary file has a lock of ours
  file_ = Hdf5Handle(
      H5Fcreate(output.temporary().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose);
  if (!file_) fail();
  const hsize_t none = 0;
  const hsize_t any = H5S_UNLIMITED;
  const Hdf5Handle space(H5Screate_simple(1, &none, &any), H5Sclose);
  const Hdf5Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_chunk(properties.get(), 1, &kChunkRows);
  H5Pset_obj_track_times(properties.get(), 0);  // the same rows make the same bytes
  const Hdf5Handle type = row_type(groups, has_z);
  dataset_ = Hdf5Handle(H5Dcreate2(file_.get(), "locs", type.get(), space.get(), H5P_DEFAULT,
                                   properties.get(), H5P_DEFAULT),
                        H5Dclose);
  if (!dataset_) fail();
}

void PicassoRowsWriter::write(const PicassoRow& row) {
  rows_.push_back(row);
  if (rows_.size() == kChunkRows) flush();
}

void PicassoRowsWriter::finish() {
  flush();
  const bool written = dataset_.close();
  if (!file_.close() || !written) fail();
}

void PicassoRowsWriter::fail() const {
  throw OutputError(output_->path(), "cannot be written (HDF5: " + hdf5_reason() + ")");
}

void PicassoRowsWriter::flush() {
  if (rows_.empty()) return;
  const hsize_t begin = written_;
  const hsize_t count = rows_.size();
  written_ += count;
  camera::silence_hdf5();  // which is for the thread that calls
  if (H5Dset_extent(dataset_.get(), &written_) < 0) fail();
  const Hdf5Handle to(H5Dget_space(dataset_.get()), H5Sclose);
  const Hdf5Handle from(H5Screate_simple(1, &count, nullptr), H5Sclose);
  if (!to || !from ||
      H5Sselect_hyperslab(to.get(), H5S_SELECT_SET, &begin, nullptr, &count, nullptr) < 0 ||
      H5Dwrite(dataset_.get(), memory_type_.get(), from.get(), to.get(), H5P_DEFAULT,
               rows_.data()) < 0) {
    fail();
  }
  rows_.clear();
}

PicassoRowsReader::PicassoRowsReader(std::filesystem::path path)
    : path_(std::move(path)), memory_type_(memory_row_type()) {
  camera::silence_hdf5();
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_file_locking(access.get(), 0,
                      1);  // a file with its name is whole; not all disks have locks
  file_ = Hdf5Handle(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (!file_) fail();
  dataset_ = Hdf5Handle(H5Dopen2(file_.get(), "locs", H5P_DEFAULT), H5Dclose);
  if (!dataset_) fail();
  const Hdf5Handle space(H5Dget_space(dataset_.get()), H5Sclose);
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (count < 0) fail();
  count_ = static_cast<std::uint64_t>(count);
}

void PicassoRowsReader::fail() const {
  throw InputError(path_, "cannot be read (HDF5: " + hdf5_reason() + ")");
}

const std::vector<PicassoRow>& PicassoRowsReader::read() {
  const hsize_t begin = next_;
  const hsize_t count = std::min<hsize_t>(kChunkRows, count_ - next_);
  rows_.resize(count);
  if (count == 0) return rows_;
  const Hdf5Handle from(H5Dget_space(dataset_.get()), H5Sclose);
  const Hdf5Handle to(H5Screate_simple(1, &count, nullptr), H5Sclose);
  if (!to || !from ||
      H5Sselect_hyperslab(from.get(), H5S_SELECT_SET, &begin, nullptr, &count, nullptr) < 0 ||
      H5Dread(dataset_.get(), memory_type_.get(), to.get(), from.get(), H5P_DEFAULT, rows_.data()) <
          0) {
    fail();
  }
  next_ += count;
  return rows_;
}

}  // namespace driftd::tools
