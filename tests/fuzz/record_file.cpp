// SPDX-License-Identifier: MIT
// A file of a record as a program may have written it that is not ours, or a later one of ours: the
// input says which attributes and tables it has, of what types and sizes. What the library makes of
// damaged bytes is not ours.
#include <algorithm>
#include <array>

#include "camera/recording/hdf5_handle.hpp"
#include "fuzz/recordings.hpp"
#include "record/file_reader.hpp"
#include "record/table_type.hpp"
#include "unit/camera/recording/leaks_allowed.hpp"

namespace driftd::fuzz {
namespace {

using camera::Hdf5Handle;

/// The text or number of an attribute as it should be, but for its type and how many there are.
void make_attribute(Choices& choices, hid_t to, const char* name, bool is_text) {
  const std::size_t oddness = choices.up_to(15);
  if (oddness == 15) return;
  const hsize_t count = oddness == 14 ? 1 + choices.up_to(200) : 1;
  Hdf5Handle type(H5Tcopy(is_text == (oddness != 13) ? H5T_C_S1 : H5T_STD_I64LE), H5Tclose);
  const std::string_view right = "driftd record";
  std::size_t bytes = H5Tget_size(type.get());
  if (H5Tget_class(type.get()) == H5T_STRING) {
    bytes = oddness == 12 ? 1 + choices.up_to(300) : right.size();
    H5Tset_size(type.get(), oddness == 11 ? H5T_VARIABLE : bytes);
    if (choices.flag()) H5Tset_strpad(type.get(), H5T_STR_NULLPAD);
  } else if (oddness == 10) {
    type = Hdf5Handle(H5Tcopy(H5T_IEEE_F64LE), H5Tclose);
  }
  const Hdf5Handle space(oddness == 9    ? H5Screate(H5S_NULL)
                         : oddness == 14 ? H5Screate_simple(1, &count, nullptr)
                                         : H5Screate(H5S_SCALAR),
                         H5Sclose);
  const Hdf5Handle attribute(
      H5Acreate2(to, name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (!attribute || H5Tis_variable_str(type.get()) > 0) return;
  std::vector<char> value(std::max<std::size_t>(bytes, 16) * count, '\0');
  if (H5Tget_class(type.get()) == H5T_STRING) {
    std::copy_n(right.begin(), std::min(right.size(), bytes), value.begin());
  } else {
    value[0] = 1;  // the version; of a part, the first
  }
  H5Awrite(attribute.get(), type.get(), value.data());
}

/// The table's type, without some columns or with others in their place.
Hdf5Handle row_type(Choices& choices, const record::TableLayout& layout) {
  if (choices.up_to(15) == 15) return {H5Tcopy(H5T_IEEE_F64LE), H5Tclose};
  if (choices.up_to(3) > 0) return record::file_type(layout);
  Hdf5Handle type(H5Tcreate(H5T_COMPOUND, 8 * layout.columns.size()), H5Tclose);
  static const std::array types{H5T_IEEE_F64LE, H5T_STD_I64LE, H5T_STD_U8LE, H5T_C_S1};
  std::size_t at = 0;
  for (const record::Column& column : layout.columns) {
    if (const std::size_t chosen = choices.up_to(4); chosen < types.size())
      H5Tinsert(type.get(), column.name, at, types[chosen]);
    at += 8;
  }
  if (H5Tget_nmembers(type.get()) < 1) H5Tinsert(type.get(), "other", 0, H5T_STD_U8LE);
  return type;
}

void make_table(Choices& choices, hid_t file, const record::TableLayout& layout) {
  const std::size_t oddness = choices.up_to(15);
  if (oddness == 15) return;
  if (oddness == 14) {
    const Hdf5Handle group(H5Gcreate2(file, layout.name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                           H5Gclose);
    return;
  }
  const hsize_t few = choices.up_to(5);
  const hsize_t rows = oddness == 13 ? choices.take<std::uint64_t>() : few;
  const std::array<hsize_t, 2> size{rows, 2};
  const hsize_t chunk = 16;
  const Hdf5Handle made(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  if (oddness != 12) H5Pset_chunk(made.get(), 1, &chunk);
  const Hdf5Handle space(H5Screate_simple(oddness == 12 ? 2 : 1, size.data(), nullptr), H5Sclose);
  const Hdf5Handle type = row_type(choices, layout);
  const Hdf5Handle dataset(
      H5Dcreate2(file, layout.name, type.get(), space.get(), H5P_DEFAULT, made.get(), H5P_DEFAULT),
      H5Dclose);
  // Texts stay the null pointers that they are before they are written.
  const bool texts = H5Tdetect_class(type.get(), H5T_STRING) > 0;
  if (!dataset || texts || rows != few) return;
  const std::vector<std::uint8_t> value(H5Tget_size(type.get()) * 2 * rows + 1,
                                        choices.take<std::uint8_t>());
  H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, value.data());
}

void make_file(Choices& choices, const std::filesystem::path& path) {
  const Hdf5Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  require(static_cast<bool>(file), "a file can be written");
  for (const char* name : {"format", "driftd_version", "session", "camera", "configuration",
                           "series", "begun_by", "end"})
    make_attribute(choices, file.get(), name, true);
  for (const char* name : {"layout_version", "pixel_size_nm", "part"})
    make_attribute(choices, file.get(), name, false);
  for (const record::TableLayout* layout : record::all_layouts())
    make_table(choices, file.get(), *layout);
}

/// Reads a table; what cannot be read is told.
template <typename Read>
void check_table(Read read) {
  try {
    read();
  } catch (const record::RecordError& error) {
    require(error.what()[0] != '\0', "a refusal says something");
  }
}

void check_tables(const record::FileReader& reader) {
  check_table([&] {
    const auto count = std::min<std::uint64_t>(reader.frame_count(), 100);
    require(reader.frames(0, count).size() == count, "all frames are read");
  });
  check_table([&] {
    const auto count = std::min<std::uint64_t>(reader.localization_count(), 100);
    require(reader.localizations(0, count).size() == count, "all localizations are read");
  });
  check_table([&] { reader.stage(); });
  check_table([&] { reader.clock(); });
  check_table([&] { reader.counters(); });
  check_table([&] { reader.pattern(); });
  check_table([&] {
    for (const record::Event& event : reader.events())
      require(event.code.size() < 1000, "an event has a code");
  });
}

}  // namespace

void record_file(Bytes bytes) {
  static const FolderFile file("f.h5");
  const driftd::test::LeaksAllowed libhdf5;
  camera::silence_hdf5();
  Choices choices(bytes);
  make_file(choices, file.path());
  H5Eclear2(H5E_DEFAULT);
  check_table([&] { check_tables(record::FileReader(file.path())); });
}

}  // namespace driftd::fuzz
