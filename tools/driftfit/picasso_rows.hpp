// SPDX-License-Identifier: MIT
// The table /locs of Picasso's HDF5 files, row by row as it is stored. Included by the files that
// use HDF5 alone. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "camera/recording/hdf5_handle.hpp"
#include "tools/driftfit/output_file.hpp"

namespace driftd::tools {

/// In memory; `group` and then z last, so that a file leaves out what it has not.
struct PicassoRow {
  std::uint32_t frame;
  float x, y, photons, sx, sy, bg, lpx, lpy, ellipticity, net_gradient;
  std::int32_t group;
  float z, lpz;  ///< nm
};

/// Rows are handed to HDF5 in pieces of one size, whatever the pieces that they come in: files of
/// the same rows are the same to the bit.
class PicassoRowsWriter {
 public:
  /// @throws OutputError, as the others
  /// @param has_z  with groups
  PicassoRowsWriter(const OutputFile& output, bool groups, bool has_z = false);
  void write(const PicassoRow& row);
  void finish();

 private:
  [[noreturn]] void fail() const;
  void flush();

  const OutputFile* output_;
  camera::Hdf5Handle file_, dataset_, memory_type_;
  std::vector<PicassoRow> rows_;
  hsize_t written_ = 0;
};

class PicassoRowsReader {
 public:
  /// @throws InputError, as the others
  explicit PicassoRowsReader(std::filesystem::path path);
  std::uint64_t count() const noexcept { return count_; }
  /// The next rows, some thousands at most; none after the last.
  const std::vector<PicassoRow>& read();

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  camera::Hdf5Handle file_, dataset_, memory_type_;
  std::vector<PicassoRow> rows_;
  std::uint64_t count_ = 0, next_ = 0;
};

}  // namespace driftd::tools
