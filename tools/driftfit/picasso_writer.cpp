// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/yaml/scalar.hpp"
#include "tools/driftfit/errors.hpp"
#include "tools/driftfit/localization_files.hpp"
#include "tools/driftfit/picasso_rows.hpp"

namespace driftd::tools {
namespace {

PicassoRow row_of(const Spot& spot, const Units& units) {
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
      : rows_(output, groups), units_(units) {}

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
  return yaml_document({{"Data Type", std::string(name_of(shape.type))},
                        {"File", yaml::printable((error ? stack : full).string())},
                        {"Frames", shape.frames},
                        {"Height", std::int64_t{shape.height_px}},
                        {"Width", std::int64_t{shape.width_px}}}) +
         yaml_document(settings);
}

}  // namespace driftd::tools
