// SPDX-License-Identifier: MIT
#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <iterator>

#include "clients/driftfit/localization_files.hpp"

namespace driftd::clients {
namespace {

class ThunderstormWriter final : public SpotWriter {
 public:
  ThunderstormWriter(const OutputFile& output, const Units& units, fitter::Model model)
      : file_(output), units_(units), elliptical_(model == fitter::Model::EllipticalGaussian) {
    file_.write(std::string("\"id\",\"frame\",\"x [nm]\",\"y [nm]\",") +
                (elliptical_ ? "\"sigma1 [nm]\",\"sigma2 [nm]\"" : "\"sigma [nm]\"") +
                ",\"intensity [photon]\",\"offset [photon]\",\"bkgstd [photon]\","
                "\"uncertainty_xy [nm]\"\n");
  }

  void write(std::span<const Spot> spots) override {
    fmt::memory_buffer text;
    const auto out = std::back_inserter(text);
    const double nm = units_.pixel_nm;
    for (const Spot& spot : spots) {
      const Photons photons = photons_of(spot.fit, units_);
      const auto x_sd = static_cast<double>(spot.fit.x_sd_px);
      const auto y_sd = static_cast<double>(spot.fit.y_sd_px);
      fmt::format_to(out, "{},{},{:.4f},{:.4f},{:.4f},", ++id_, spot.frame + 1,
                     (spot.x_px + 0.5) * nm, (spot.y_px + 0.5) * nm,
                     static_cast<double>(spot.fit.sigma_x_px) * nm);
      if (elliptical_) {
        fmt::format_to(out, "{:.4f},", static_cast<double>(spot.fit.sigma_y_px) * nm);
      }
      fmt::format_to(out, "{:.6g},{:.6g},{:.6g},{:.6g}\n", photons.signal, photons.background,
                     photons.background_sd, std::sqrt(0.5 * (x_sd * x_sd + y_sd * y_sd)) * nm);
    }
    file_.write({text.data(), text.size()});
  }

  void finish() override { file_.finish(); }

 private:
  TextFile file_;
  Units units_;
  bool elliptical_;
  std::int64_t id_ = 0;
};

}  // namespace

std::unique_ptr<SpotWriter> make_thunderstorm_writer(const OutputFile& output, const Units& units,
                                                     fitter::Model model) {
  return std::make_unique<ThunderstormWriter>(output, units, model);
}

}  // namespace driftd::clients
