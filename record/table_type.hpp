// SPDX-License-Identifier: MIT
// HDF5 types of a table's rows, in memory and in the file. Brings in HDF5's header: for the writer
// and the reader of records only.
#pragma once

#include "camera/recording/hdf5_handle.hpp"
#include "record/rows.hpp"

namespace driftd::record {

/// The row as the program holds it; only the columns that `only` has, where it is not empty.
camera::Hdf5Handle memory_type(const TableLayout& layout, std::span<const char* const> only = {});
/// The row as the file holds it: little-endian, without gaps.
camera::Hdf5Handle file_type(const TableLayout& layout);

}  // namespace driftd::record
