// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/yaml/scalar.hpp"
#include "camera/recording/hdf5_handle.hpp"
#include "tools/driftfit/errors.hpp"
#include "tools/driftfit/localization_files.hpp"

namespace driftd::tools {

using camera::hdf5_reason;
using camera::Hdf5Handle;

namespace {

constexpr hsize_t kChunkRows = 2048;

/// A row of /locs in memory; `group` last, so that a file without groups leaves it out.
struct Row {
  std::uint32_t frame;
  float x, y, photons, sx, sy, bg, lpx, lpy, ellipticity, net_gradient;
  std::int32_t group;
};

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

/// In the file: little-endian, as numpy writes it, without gaps.
Hdf5Handle row_type(bool groups) {
  const std::size_t bytes = groups ? sizeof(Row) : offsetof(Row, group);
  Hdf5Handle type(H5Tcreate(H5T_COMPOUND, bytes), H5Tclose);
  H5Tinsert(type.get(), "frame", offsetof(Row, frame), H5T_STD_U32LE);
  for (const Column& column : kFloatColumns) {
    H5Tinsert(type.get(), column.name, column.offset, H5T_IEEE_F32LE);
  }
  if (groups) H5Tinsert(type.get(), "group", offsetof(Row, group), H5T_STD_I32LE);
  return type;
}

Hdf5Handle memory_row_type() {
  Hdf5Handle type(H5Tcreate(H5T_COMPOUND, sizeof(Row)), H5Tclose);
  H5Tinsert(type.get(), "frame", offsetof(Row, frame), H5T_NATIVE_UINT32);
  for (const Column& column : kFloatColumns) {
    H5Tinsert(type.get(), column.name, column.offset, H5T_NATIVE_FLOAT);
  }
  H5Tinsert(type.get(), "group", offsetof(Row, group), H5T_NATIVE_INT32);
  return type;
}

Row row_of(const Spot& spot, const Units& units) {
  const Photons photons = photons_of(spot.fit, units);
  const auto [narrow, wide] = std::minmax(spot.fit.sigma_x_px, spot.fit.sigma_y_px);
  return {.frame = static_cast<std::uint32_t>(spot.frame),
          .x = static_cast<float>(spot.x_px),
          .y = static_cast<float>(spot.y_px),
          .photons = static_cast<float>(photons.signal),
          .sx = spot.fit.sigma_x_px,
          .sy = spot.fit.sigma_y_px,
          .bg = static_cast<float>(photons.background),
          .lpx = spot.fit.x_sd_px,
          .lpy = spot.fit.y_sd_px,
          .ellipticity = (wide - narrow) / wide,
          .net_gradient = spot.net_gradient,
          .group = spot.marker};
}

class PicassoWriter final : public SpotWriter {
 public:
  PicassoWriter(const OutputFile& output, const Units& units, bool groups)
      : output_(&output), units_(units) {
    camera::silence_hdf5();
    file_ = Hdf5Handle(
        H5Fcreate(output.temporary().c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
    if (!file_) fail();
    const hsize_t none = 0;
    const hsize_t any = H5S_UNLIMITED;
    const Hdf5Handle space(H5Screate_simple(1, &none, &any), H5Sclose);
    const Hdf5Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_chunk(properties.get(), 1, &kChunkRows);
    const Hdf5Handle type = row_type(groups);
    dataset_ = Hdf5Handle(H5Dcreate2(file_.get(), "locs", type.get(), space.get(), H5P_DEFAULT,
                                     properties.get(), H5P_DEFAULT),
                          H5Dclose);
    if (!dataset_) fail();
  }

  void write(std::span<const Spot> spots) override {
    for (const Spot& spot : spots) {
      rows_.push_back(row_of(spot, units_));
      if (rows_.size() == kChunkRows) flush();
    }
  }

  void finish() override {
    flush();
    const bool written = dataset_.close();
    if (!file_.close() || !written) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw OutputError(output_->path(), "cannot be written (HDF5: " + hdf5_reason() + ")");
  }

  void flush() {
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

  const OutputFile* output_;
  Units units_;
  Hdf5Handle file_, dataset_;
  Hdf5Handle memory_type_ = memory_row_type();
  std::vector<Row> rows_;
  hsize_t written_ = 0;
};

}  // namespace

std::unique_ptr<SpotWriter> make_picasso_writer(const OutputFile& output, const Units& units,
                                                bool groups) {
  return std::make_unique<PicassoWriter>(output, units, groups);
}

void write_picasso_description(const OutputFile& output, const std::filesystem::path& stack,
                               const camera::StackShape& shape,
                               const std::vector<YamlEntry>& settings) {
  std::error_code error;
  const std::filesystem::path full = std::filesystem::absolute(stack, error);
  TextFile file(output);
  file.write(yaml_document({{"Data Type", std::string(name_of(shape.type))},
                            {"File", yaml::printable((error ? stack : full).string())},
                            {"Frames", shape.frames},
                            {"Height", std::int64_t{shape.height_px}},
                            {"Width", std::int64_t{shape.width_px}}}));
  file.write(yaml_document(settings));
  file.finish();
}

}  // namespace driftd::tools
