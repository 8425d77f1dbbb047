// SPDX-License-Identifier: MIT
#include <spdlog/fmt/compile.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>

#include "tools/driftfit/localization_files.hpp"

namespace driftd::tools {
namespace {

/// Six significant digits without an exponent: ThunderSTORM reads "1.5e+06" as 1.5
/// (DLMImportExport.importFromFile, java.text.DecimalFormat), and "nan" not at all.
void append_fixed(fmt::memory_buffer& text, double value) {
  if (!std::isfinite(value)) return text.append(std::string_view("NaN"));
  constexpr double kDigits = 6;
  const double before_point = value != 0 ? std::floor(std::log10(std::abs(value))) + 1 : 1;
  const int decimals = static_cast<int>(std::max(0.0, kDigits - before_point));
  fmt::format_to(std::back_inserter(text), FMT_COMPILE("{:.{}f}"), value, decimals);
  if (decimals == 0) return;
  std::size_t end = text.size();
  while (text[end - 1] == '0') --end;
  text.resize(text[end - 1] == '.' ? end - 1 : end);
}

/// Empty where there is none.
void append_height(fmt::memory_buffer& text, float value_nm) {
  if (std::isfinite(value_nm))
    fmt::format_to(std::back_inserter(text), FMT_COMPILE("{:.4f}"), static_cast<double>(value_nm));
}

class ThunderstormWriter final : public SpotWriter {
 public:
  ThunderstormWriter(const OutputFile& output, const Units& units, fitter::Model model)
      : file_(output),
        units_(units),
        two_sigmas_(model == fitter::Model::EllipticalGaussian || units.has_z) {
    // Picasso's import_ts wants two sigmas beside z. Without quotes, as Picasso writes it:
    // napari-storm knows uncertainty_xy by no other name.
    file_.write(std::string("id,frame,x [nm],y [nm],") + (units.has_z ? "z [nm]," : "") +
                "sigma [nm]," + (two_sigmas_ ? "sigma1 [nm],sigma2 [nm]," : "") +
                "intensity [photon],offset [photon],bkgstd [photon],uncertainty_xy [nm]" +
                (units.has_z ? ",uncertainty_z [nm]\n" : "\n"));
  }

  void write(std::span<const Spot> spots) override {
    fmt::memory_buffer text;
    const auto out = std::back_inserter(text);
    const double nm = units_.pixel_nm;
    for (const Spot& spot : spots) {
      const Photons photons = photons_of(spot.fit, units_);
      const auto x_sd = static_cast<double>(spot.fit.x_sd_px);
      const auto y_sd = static_cast<double>(spot.fit.y_sd_px);
      const auto sigma_x = static_cast<double>(spot.fit.sigma_x_px);
      const auto sigma_y = static_cast<double>(spot.fit.sigma_y_px);
      fmt::format_to(out, FMT_COMPILE("{},{},{:.4f},{:.4f},"), ++id_, spot.frame + 1,
                     (spot.x_px + 0.5) * nm, (spot.y_px + 0.5) * nm);
      if (units_.has_z) {
        append_height(text, spot.z_nm);
        text.push_back(',');
      }
      // One width for the readers that know no two (Picasso): with it ThunderSTORM's uncertainty,
      // which has sigma1 sigma2 for the square of sigma, stays the same.
      fmt::format_to(out, FMT_COMPILE("{:.4f},"),
                     two_sigmas_ ? std::sqrt(sigma_x * sigma_y) * nm : sigma_x * nm);
      if (two_sigmas_)
        fmt::format_to(out, FMT_COMPILE("{:.4f},{:.4f},"), sigma_x * nm, sigma_y * nm);
      for (const double value : {photons.signal, photons.background, photons.background_sd}) {
        append_fixed(text, value);
        text.push_back(',');
      }
      append_fixed(text, std::sqrt(0.5 * (x_sd * x_sd + y_sd * y_sd)) * nm);
      if (units_.has_z) {
        text.push_back(',');
        append_height(text, spot.z_sd_nm);
      }
      text.push_back('\n');
    }
    file_.write({text.data(), text.size()});
  }

  void finish() override { file_.finish(); }

 private:
  TextFile file_;
  Units units_;
  bool two_sigmas_;
  std::int64_t id_ = 0;
};

}  // namespace

std::unique_ptr<SpotWriter> make_thunderstorm_writer(const OutputFile& output, const Units& units,
                                                     fitter::Model model) {
  return std::make_unique<ThunderstormWriter>(output, units, model);
}

}  // namespace driftd::tools
