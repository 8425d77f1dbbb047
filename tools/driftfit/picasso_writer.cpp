// SPDX-License-Identifier: MIT
#include <cstdint>

#include "base/yaml/scalar.hpp"
#include "fitter/spots/localize.hpp"
#include "tools/driftfit/errors.hpp"
#include "tools/driftfit/localization_files.hpp"
#include "tools/driftfit/picasso_rows.hpp"

namespace driftd::tools {
namespace {

PicassoRow row_of(const Spot& spot, const Units& units) {
  const fitter::PicassoLocalization row = fitter::picasso_row(
      static_cast<std::uint32_t>(spot.frame), spot.x_px, spot.y_px, spot.fit, spot.net_gradient,
      {.roi_px = units.roi_px,
       .estimator = units.estimator,
       .noise = units.noise,
       .excess_noise = units.excess_noise});
  return {.frame = row.frame,
          .x = row.x,
          .y = row.y,
          .photons = row.photons,
          .sx = row.sx,
          .sy = row.sy,
          .bg = row.bg,
          .lpx = row.lpx,
          .lpy = row.lpy,
          .ellipticity = row.ellipticity,
          .net_gradient = row.net_gradient,
          .group = spot.marker,
          .z = spot.z_nm,
          .lpz = spot.z_sd_nm};
}

class PicassoWriter final : public SpotWriter {
 public:
  PicassoWriter(const OutputFile& output, const Units& units, bool groups)
      : rows_(output, groups, units.has_z), units_(units) {}

  void write(std::span<const Spot> spots) override {
    for (const Spot& spot : spots) rows_.write(row_of(spot, units_));
  }
  void finish() override { rows_.finish(); }

 private:
  PicassoRowsWriter rows_;
  Units units_;
};

}  // namespace

std::unique_ptr<SpotWriter> make_picasso_writer(const OutputFile& output, const Units& units,
                                                bool groups) {
  return std::make_unique<PicassoWriter>(output, units, groups);
}

std::string picasso_description(const std::filesystem::path& stack, const camera::StackShape& shape,
                                const std::vector<YamlEntry>& settings) {
  std::error_code error;
  const std::filesystem::path full = std::filesystem::absolute(stack, error);
  return yaml_document(
             {{"Data Type", std::string(name_of(shape.type))},
              {"File", yaml::printable((error ? stack : full.lexically_normal()).string())},
              {"Frames", shape.frames},
              {"Height", std::int64_t{shape.height_px}},
              {"Width", std::int64_t{shape.width_px}}}) +
         yaml_document(settings);
}

}  // namespace driftd::tools
