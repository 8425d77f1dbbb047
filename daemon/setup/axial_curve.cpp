// SPDX-License-Identifier: MIT
#include "daemon/setup/axial_curve.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "config/names.hpp"
#include "control/axial/curve_file.hpp"

namespace driftd::daemon {
namespace {

bool are_same(const control::WidthCurve& one, const control::WidthCurve& other) {
  const auto same = [](const control::WidthCurve::Knot& p, const control::WidthCurve::Knot& q) {
    return p.z_nm == q.z_nm && p.sigma_x_px == q.sigma_x_px && p.sigma_y_px == q.sigma_y_px &&
           p.scatter == q.scatter && p.dimness == q.dimness &&
           (p.excess == q.excess || (std::isnan(p.excess) && std::isnan(q.excess)));
  };
  return one.method() == other.method() && one.scatter_factor() == other.scatter_factor() &&
         one.lower_nm() == other.lower_nm() && one.upper_nm() == other.upper_nm() &&
         std::equal(one.knots().begin(), one.knots().end(), other.knots().begin(),
                    other.knots().end(), same);
}

}  // namespace

control::CurveFits curve_fits(const config::Config& config, int roi_px) {
  const bool astigmatic = config.axial.method == control::AxialMethod::Astigmatic;
  return {.model = astigmatic ? fitter::Model::EllipticalGaussian : fitter::Model::CircularGaussian,
          .estimator = astigmatic ? fitter::Estimator::PoissonLikelihood
                                  : fitter::Estimator::ImplicitLeastSquares,
          .integrated = false,
          .roi_px = roi_px,
          .pixel_size_nm = config.optics.pixel_size_nm,
          .gain_e_per_adu = config.camera.gain_e_per_adu};
}

config::Config with_curve(config::Config config) {
  config.axial.read = nullptr;
  config.axial.of_unknown_fits = false;
  if (!config.axial.by_widths() || config.axial.curve.empty()) return config;
  const auto refused = [&](const std::string& why) {
    return config::ConfigError(
        fmt::format("axial.curve: {}: {}", config.axial.curve.string(), why));
  };
  try {
    control::CurveFile file = control::read_curve_file(config.axial.curve);
    if (file.curve.method() != config.axial.method) {
      throw refused(fmt::format("it is a curve for axial.method {}, and {} is configured",
                                config::text_of(file.curve.method()),
                                config::text_of(config.axial.method)));
    }
    if (file.fits) {
      if (config.fitter.roi_px == 0) config.fitter.roi_px = file.fits->roi_px;
      const std::string why =
          control::why_not_for(*file.fits, curve_fits(config, config.fitter.roi_px));
      if (!why.empty())
        throw refused(why + ": make one for these fits by `driftfit calibrate-z`, or set them so");
    }
    if (!file.dimmer.empty() && !(config.camera.gain_e_per_adu > 0))
      throw refused(
          "it has curves of `dimmer` markers, which only camera.gain_e_per_adu, offset_adu and "
          "read_noise_e tell apart: set these, or take `dimmer` out of the file");
    config.axial.of_unknown_fits = !file.fits;
    config.axial.read = std::make_shared<const control::BrightnessCurves>(curves_of(file));
  } catch (const control::CurveFileError& error) {  // names the file
    throw config::ConfigError(std::string("axial.curve: ") + error.what());
  }
  return config;
}

bool have_other_curves(const config::Config& a, const config::Config& b) {
  if (!a.axial.read || !b.axial.read) return a.axial.read != b.axial.read;
  const auto& one = a.axial.read->curves();
  const auto& other = b.axial.read->curves();
  return !std::equal(one.begin(), one.end(), other.begin(), other.end(), are_same);
}

}  // namespace driftd::daemon
