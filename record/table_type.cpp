// SPDX-License-Identifier: MIT
#include "record/table_type.hpp"

#include <algorithm>
#include <cstring>

namespace driftd::record {
namespace {

using camera::Hdf5Handle;

/// As h5py writes numpy's bool: h5py and pandas then read it as one.
Hdf5Handle flag_type() {
  Hdf5Handle type(H5Tenum_create(H5T_NATIVE_INT8), H5Tclose);
  const std::int8_t no = 0;
  const std::int8_t yes = 1;
  H5Tenum_insert(type.get(), "FALSE", &no);
  H5Tenum_insert(type.get(), "TRUE", &yes);
  return type;
}

Hdf5Handle choice_type(std::span<const char* const> names) {
  Hdf5Handle type(H5Tenum_create(H5T_NATIVE_UINT8), H5Tclose);
  std::uint8_t value = 0;
  for (const char* const name : names) {
    H5Tenum_insert(type.get(), name, &value);
    ++value;
  }
  return type;
}

Hdf5Handle text_type() {
  Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

/// Every machine that driftd is built for is little-endian, as the file is.
Hdf5Handle type_of(const Column& column) {
  switch (column.kind) {
    case Kind::Flag:
      return flag_type();
    case Kind::Choice:
      return choice_type(column.choices);
    case Kind::Text:
      return text_type();
    case Kind::U8:
      return {H5Tcopy(H5T_STD_U8LE), H5Tclose};
    case Kind::U16:
      return {H5Tcopy(H5T_STD_U16LE), H5Tclose};
    case Kind::U32:
      return {H5Tcopy(H5T_STD_U32LE), H5Tclose};
    case Kind::U64:
      return {H5Tcopy(H5T_STD_U64LE), H5Tclose};
    case Kind::I64:
      return {H5Tcopy(H5T_STD_I64LE), H5Tclose};
    case Kind::F32:
      return {H5Tcopy(H5T_IEEE_F32LE), H5Tclose};
    case Kind::F64:
      return {H5Tcopy(H5T_IEEE_F64LE), H5Tclose};
  }
  return {};
}

}  // namespace

Hdf5Handle memory_type(const TableLayout& layout, std::span<const char* const> only) {
  Hdf5Handle type(H5Tcreate(H5T_COMPOUND, layout.row_bytes), H5Tclose);
  for (const Column& column : layout.columns) {
    const bool wanted = only.empty() || std::ranges::any_of(only, [&](const char* name) {
                          return std::strcmp(name, column.name) == 0;
                        });
    if (wanted) H5Tinsert(type.get(), column.name, column.offset, type_of(column).get());
  }
  return type;
}

Hdf5Handle file_type(const TableLayout& layout) {
  Hdf5Handle type = memory_type(layout);
  H5Tpack(type.get());
  return type;
}

}  // namespace driftd::record
