// SPDX-License-Identifier: MIT
// A dataset of an HDF5 file that is a stack, opened and described. Owned by one thread, and HDF5 is
// for one thread at a time.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "camera/recording/hdf5_handle.hpp"
#include "camera/recording/image_stack.hpp"

namespace driftd::camera {

/// Frames, rows and columns, or what goes along with them.
using Hdf5Triple = std::array<hsize_t, 3>;

/// The dimensions of a dataset.
struct DatasetDimensions {
  std::vector<hsize_t> size;  ///< of all of them
  /// Which are frames, rows and columns: those that are left without some of one element.
  std::array<std::size_t, 3> of{};
  bool are_three = false;

  [[nodiscard]] Hdf5Triple three(const std::vector<hsize_t>& all) const {
    return {all[of[0]], all[of[1]], all[of[2]]};
  }
  /// With the same number elsewhere.
  [[nodiscard]] std::vector<hsize_t> all(const Hdf5Triple& three, hsize_t elsewhere) const {
    std::vector<hsize_t> each(size.size(), elsewhere);
    for (std::size_t i = 0; i < of.size(); ++i) each[of[i]] = three[i];
    return each;
  }
};

/// What a stack needs before its shape is known.
struct Hdf5Dataset {
  std::filesystem::path path = {};
  std::string name = {};
  Hdf5Handle file = {}, dataset = {};
  bool truncated = false;  ///< the file ends before the place that its header says
  DatasetDimensions dimensions = {};
  /// MATLAB's: the first of its dimensions goes fastest in the file, so that columns stand before
  /// rows there.
  bool columns_first = false;
  bool files_beside = false;  ///< external files are sought beside the file, where HDF5 would not
  std::vector<std::string> notes = {};  ///< sentences for people

  /// Frames, and rows and columns as they stand in the file.
  [[nodiscard]] Hdf5Triple size() const { return dimensions.three(dimensions.size); }
};

/// @throws RecordingError, also where a truncated file lacks its list of datasets
Hdf5Dataset open_hdf5_dataset(const StackSettings& settings);
/// Throws RecordingError, with the reason that HDF5 gives.
[[noreturn]] void fail_by_hdf5(const std::filesystem::path& path, const std::string& what);

/// "40 x 2 x 88": the size of a dataset.
std::string in_words(const std::vector<hsize_t>& size);
/// The size of a chunk; nothing where the dataset has none.
std::optional<Hdf5Triple> chunk_of(const Hdf5Dataset& opened);
/// As the stack has it: HDF5 converts words with a sign, and any floats. @throws RecordingError for
/// other types
PixelType type_of(const Hdf5Dataset& opened);
bool is_whole_number(const Hdf5Dataset& opened);
/// Filters that the dataset was written through and that are not here: "32000 (lzf)".
std::string missing_filters(const Hdf5Dataset& opened);

}  // namespace driftd::camera
