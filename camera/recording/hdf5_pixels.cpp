// SPDX-License-Identifier: MIT
#include "camera/recording/hdf5_pixels.hpp"

#include <algorithm>
#include <array>

#include "camera/recording/stack_formats.hpp"

namespace driftd::camera {
namespace {

/// Filters, by HDF5's register, that lose or can.
struct LosingFilter {
  H5Z_filter_t number;
  const char* name;
};
constexpr std::array<LosingFilter, 8> kLosing{{{32013, "ZFP"},
                                               {32014, "fpzip"},
                                               {32016, "B3D"},
                                               {32017, "SZ"},
                                               {32019, "JPEG"},
                                               {32022, "BitGroom"},
                                               {32023, "Granular BitRound"},
                                               {32024, "SZ3"}}};

/// Whether HDF5's own scale-offset filter keeps so many bits, or decimals, as it was told. Without,
/// it takes what whole numbers need.
bool scale_offset_loses(const std::array<unsigned, 2>& values) {
  return values[0] != H5Z_SO_INT || values[1] != H5Z_SO_INT_MINBITS_DEFAULT;
}

std::vector<std::string> lossy_filters(const Hdf5Dataset& opened) {
  std::vector<std::string> notes;
  const Hdf5Handle made(H5Dget_create_plist(opened.dataset.get()), H5Pclose);
  const int filters = H5Pget_nfilters(made.get());
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    std::array<unsigned, 2> values{};
    std::size_t count = values.size();
    const H5Z_filter_t number = H5Pget_filter2(made.get(), static_cast<unsigned>(i), &flags, &count,
                                               values.data(), 0, nullptr, nullptr);
    const auto known = std::ranges::find(kLosing, number, &LosingFilter::number);
    const bool own = number == H5Z_FILTER_SCALEOFFSET && scale_offset_loses(values);
    if (!own && known == kLosing.end()) continue;
    notes.push_back(lossy_note("the HDF5 filter " + std::to_string(number) + " (" +
                                   (own ? "scale-offset" : known->name) + ")",
                               "may lose"));
  }
  return notes;
}

/// An attribute that is one number.
double number_of(hid_t dataset, const char* name, double without) {
  if (H5Aexists(dataset, name) <= 0) return without;
  const Hdf5Handle attribute(H5Aopen(dataset, name, H5P_DEFAULT), H5Aclose);
  const Hdf5Handle space(attribute ? H5Aget_space(attribute.get()) : H5I_INVALID_HID, H5Sclose);
  double value = without;
  if (!space || H5Sget_simple_extent_npoints(space.get()) != 1 ||
      H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, &value) < 0)
    return without;
  return value;
}

}  // namespace

std::vector<std::string> notes_on_pixels(const Hdf5Dataset& opened) {
  std::vector<std::string> notes = lossy_filters(opened);
  const hid_t dataset = opened.dataset.get();
  if (number_of(dataset, "scale_factor", 1) != 1 || number_of(dataset, "add_offset", 0) != 0) {
    notes.emplace_back(
        "its pixels are to be multiplied and shifted by its attributes scale_factor and add_offset "
        "(netCDF's), which is not done: all counts are those that are stored");
  }
  H5Eclear2(H5E_DEFAULT);
  return notes;
}

}  // namespace driftd::camera
