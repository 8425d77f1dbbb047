// SPDX-License-Identifier: MIT
// A recording in HDF5. What the library makes of damaged bytes is not ours: the input says what a
// program writes through it, how far it came, and where the file breaks off.
#include <algorithm>
#include <array>

#include "camera/recording/hdf5_handle.hpp"
#include "fuzz/recordings.hpp"
#include "unit/camera/recording/leaks_allowed.hpp"

namespace driftd::fuzz {
namespace {

using camera::Hdf5Handle;

Hdf5Handle element_type(Choices& choices) {
  static const std::array types{H5T_STD_U16LE, H5T_STD_U8LE,  H5T_IEEE_F32BE, H5T_STD_U16BE,
                                H5T_STD_I16LE, H5T_STD_U32LE, H5T_IEEE_F64LE, H5T_C_S1};
  const std::size_t chosen = choices.up_to(types.size());
  if (chosen < types.size()) return {H5Tcopy(types[chosen]), H5Tclose};
  Hdf5Handle odd(H5Tcopy(H5T_STD_U16LE), H5Tclose);  // 16 bits that hold fewer
  H5Tset_precision(odd.get(), 1 + choices.up_to(11));
  return odd;
}

/// libhdf5 1.10 reads at address 0 where it writes to a dataset whose chunks it cannot count.
bool is_countable(const std::vector<hsize_t>& size) {
  double pixels = 1;
  for (const hsize_t length : size) pixels *= static_cast<double>(length);
  return pixels < 1e15;
}

bool is_small(const std::vector<hsize_t>& size) {
  return std::ranges::all_of(size, [](hsize_t length) { return length <= 40; });
}

Hdf5Handle storage(Choices& choices, const std::vector<hsize_t>& size) {
  Hdf5Handle made(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  const std::size_t layout = choices.up_to(3);
  if (layout == 0) H5Pset_layout(made.get(), H5D_COMPACT);
  if (layout >= 2) {
    std::vector<hsize_t> chunk;
    for (std::size_t i = 0; i < size.size(); ++i) chunk.push_back(1 + choices.up_to(7));
    H5Pset_chunk(made.get(), static_cast<int>(chunk.size()), chunk.data());
    if (choices.flag()) H5Pset_deflate(made.get(), 1);
  }
  if (choices.flag() && is_small(size)) H5Pset_alloc_time(made.get(), H5D_ALLOC_TIME_EARLY);
  if (choices.flag()) H5Pset_fill_time(made.get(), H5D_FILL_TIME_NEVER);
  if (const auto fill = choices.take<std::uint8_t>(); fill != 0)
    H5Pset_fill_value(made.get(), H5T_NATIVE_UINT8, &fill);
  return made;
}

void write_some(Choices& choices, hid_t dataset, const std::vector<hsize_t>& size) {
  const std::size_t times = choices.up_to(3);
  for (std::size_t i = 0; i < times; ++i) {
    std::vector<hsize_t> begin, count;
    std::size_t values = 1;
    for (const hsize_t length : size) {
      begin.push_back(length == 0 ? 0 : choices.up_to(std::min<hsize_t>(length - 1, 40)));
      count.push_back(1 + choices.up_to(5));
      values *= count.back();
    }
    const std::vector<std::uint8_t> pixels(values, choices.take<std::uint8_t>());
    const Hdf5Handle to(H5Dget_space(dataset), H5Sclose);
    const Hdf5Handle from(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                          H5Sclose);
    H5Sselect_hyperslab(to.get(), H5S_SELECT_SET, begin.data(), nullptr, count.data(), nullptr);
    H5Dwrite(dataset, H5T_NATIVE_UINT8, from.get(), to.get(), H5P_DEFAULT, pixels.data());
  }
}

/// A dataset, a group or a link in `group`.
void make_object(Choices& choices, hid_t group, int number) {
  const std::string name = "object" + std::to_string(number);
  switch (choices.up_to(5)) {
    case 0: {
      const Hdf5Handle made(H5Gcreate2(group, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                            H5Gclose);
      if (choices.flag()) H5Lcreate_hard(group, ".", made.get(), "round", H5P_DEFAULT, H5P_DEFAULT);
      if (choices.flag()) make_object(choices, made.get(), number);
      return;
    }
    case 1:
      H5Lcreate_soft("/nowhere", group, name.c_str(), H5P_DEFAULT, H5P_DEFAULT);
      return;
    default:
      break;
  }
  std::vector<hsize_t> size;
  const std::size_t rank = choices.up_to(15) < 13 ? 3 : choices.up_to(4);
  for (std::size_t i = 0; i < rank; ++i) {
    const bool huge = choices.up_to(31) == 31;
    size.push_back(huge ? choices.take<std::uint64_t>() >> choices.up_to(40) : choices.up_to(40));
  }
  const Hdf5Handle space(H5Screate_simple(static_cast<int>(rank), size.data(), nullptr), H5Sclose);
  const Hdf5Handle type = element_type(choices);
  const Hdf5Handle made = storage(choices, size);
  const Hdf5Handle dataset(H5Dcreate2(group, name.c_str(), type.get(), space.get(), H5P_DEFAULT,
                                      made.get(), H5P_DEFAULT),
                           H5Dclose);
  // Without chunks it gets its whole place with the first pixels.
  const bool in_chunks = H5Pget_layout(made.get()) == H5D_CHUNKED;
  if (dataset && rank > 0 && ((in_chunks && is_countable(size)) || is_small(size)))
    write_some(choices, dataset.get(), size);
}

}  // namespace

void hdf5(Bytes bytes) {
  static const FolderFile file("f.h5");
  const driftd::test::LeaksAllowed libhdf5;
  camera::silence_hdf5();
  Choices choices(bytes);
  const double left = choices.flag() ? choices.take<std::uint8_t>() / 255.0 : 1;
  {
    const Hdf5Handle made(H5Fcreate(file.path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                          H5Fclose);
    require(static_cast<bool>(made), "a file can be written");
    const std::size_t objects = 1 + choices.up_to(2);
    for (std::size_t i = 0; i < objects; ++i) make_object(choices, made.get(), static_cast<int>(i));
  }
  H5Eclear2(H5E_DEFAULT);
  const auto whole = std::filesystem::file_size(file.path());
  if (whole > 32 << 20) return;  // allocated early; nothing to learn
  std::filesystem::resize_file(file.path(),
                               static_cast<std::uintmax_t>(left * static_cast<double>(whole)));
  check_recording(file.path(), camera::StackFormat::Hdf5);
}

}  // namespace driftd::fuzz
