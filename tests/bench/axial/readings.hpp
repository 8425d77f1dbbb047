// SPDX-License-Identifier: MIT
// z by the fitter and the curve of widths, as the daemon reads it, from images of the simulator's
// optics: what the benches of z share. Seeded; one thread.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "control/axial/brightness_curves.hpp"
#include "fitter/fitter.hpp"
#include "support/axial_scene.hpp"

namespace driftd::bench {

/// How z is measured: the model, the estimator and the ROI that the daemon takes for it.
struct AxialSetup {
  control::AxialMethod method = control::AxialMethod::Astigmatic;
  int roi_px = 13;
  double assumed_read_e = 0;  ///< the fits' read noise; 0: the camera's
  bool covariance = true;     ///< of both widths; else they count as independent, as live fits tell

  fitter::FitOptions options(const test::AxialScene& scene) const {
    fitter::FitOptions o;
    const bool oval = method == control::AxialMethod::Astigmatic;
    o.model = oval ? fitter::Model::EllipticalGaussian : fitter::Model::CircularGaussian;
    o.estimator =
        oval ? fitter::Estimator::PoissonLikelihood : fitter::Estimator::ImplicitLeastSquares;
    const double read_e = assumed_read_e > 0 ? assumed_read_e : scene.read_noise_e();
    o.noise = {1, static_cast<float>(read_e), 0};
    return o;
  }
};

struct Fit {
  fitter::Localization spot;
  control::WidthVariance variance;
  bool good() const { return fitter::converged(spot.status); }
};

/// Fits images, one after another in `pixels`.
inline std::vector<Fit> fit_images(const AxialSetup& setup, const test::AxialScene& scene,
                                   std::span<const float> pixels) {
  const auto area = static_cast<std::size_t>(setup.roi_px * setup.roi_px);
  std::vector<fitter::Localization> spots(pixels.size() / area);
  std::vector<fitter::FitDetails> details(spots.size());
  fitter::Batch batch = {pixels.data(), fitter::PixelType::F32, setup.roi_px, spots.size()};
  batch.details = details.data();
  fitter::fit_batch_cpu(batch, setup.options(scene), spots, 1);
  std::vector<Fit> fits;
  for (std::size_t i = 0; i < spots.size(); ++i) {
    const auto& c = details[i].covariance;
    constexpr auto kX = static_cast<std::size_t>(fitter::Parameter::SigmaX);
    constexpr auto kY = static_cast<std::size_t>(fitter::Parameter::SigmaY);
    fits.push_back({spots[i],
                    {static_cast<double>(c[kX][kX]), static_cast<double>(c[kY][kY]),
                     setup.covariance ? static_cast<double>(c[kX][kY]) : 0}});
  }
  return fits;
}

/// `count` exposures of the same spots.
inline std::vector<Fit> fit_exposures(const AxialSetup& setup, const test::AxialScene& scene,
                                      std::span<const simulator::Spot> spots, std::size_t count,
                                      simulator::Random& random) {
  const std::vector<double> expected = scene.expected(spots, setup.roi_px);
  std::vector<float> pixels(count * expected.size());
  for (std::size_t i = 0; i < count; ++i)
    scene.draw(expected, random, &pixels[i * expected.size()]);
  return fit_images(setup, scene, pixels);
}

/// A spot at `z_nm` that lies anywhere in its ROI's middle pixel.
inline simulator::Spot spot_anywhere(const AxialSetup& setup, double z_nm, double photons,
                                     simulator::Random& random) {
  simulator::Spot spot;
  spot.x_px = (setup.roi_px - 1) / 2.0 + random.uniform() - 0.5;
  spot.y_px = (setup.roi_px - 1) / 2.0 + random.uniform() - 0.5;
  spot.electrons = photons;
  spot.z_nm = z_nm;
  return spot;
}

inline control::SpotFit spot_fit(const AxialSetup& setup, const Fit& fit, double read_noise_e) {
  const fitter::Localization& s = fit.spot;
  const bool likelihood = setup.method == control::AxialMethod::Astigmatic;
  return {.sigma_x_px = static_cast<double>(s.sigma_x_px),
          .sigma_y_px = static_cast<double>(s.sigma_y_px),
          .variance = fit.variance,
          .amplitude_e = static_cast<double>(s.amplitude_adu),
          .background_e = static_cast<double>(s.background_adu),
          .read_noise_e = read_noise_e,
          .chi_square = static_cast<double>(s.chi_square),
          .pixels = likelihood ? setup.roi_px * setup.roi_px : 0};
}

inline control::AxialReading reading_of(const AxialSetup& setup, const Fit& fit,
                                        const control::BrightnessCurves& curves,
                                        double read_noise_e) {
  if (!fit.good()) return {};
  return curves.read(spot_fit(setup, fit, read_noise_e));
}

/// How a stack is taken.
struct Stack {
  double lowest_nm = -700, highest_nm = 700;
  std::vector<double> dimness = {3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1};
  int markers = 60, exposures = 10;
  std::uint64_t seed = 1;
};

/// Widths of bright markers (1e5 photons) in planes of 50 nm, fitted by the weights that markers of
/// this dimness have: read noise is assumed that makes them so.
inline std::vector<control::WidthCurve::Knot> knots_of(AxialSetup setup,
                                                       const test::AxialScene& scene,
                                                       const Stack& stack, double dimness) {
  constexpr double kPhotons = 1e5;
  simulator::Random random(stack.seed, 1);
  setup.assumed_read_e = std::sqrt(std::max(0.01, dimness * kPhotons - scene.background_e()));
  std::vector<control::WidthCurve::Knot> knots;
  for (double z = stack.lowest_nm; z <= stack.highest_nm; z += 50) {
    double n = 0, x = 0, y = 0, dim = 0;
    for (int marker = 0; marker < stack.markers; ++marker) {
      const simulator::Spot spot = spot_anywhere(setup, z, kPhotons, random);
      for (const Fit& fit : fit_exposures(setup, scene, {&spot, 1}, 4, random)) {
        if (!fit.good()) continue;
        n += 1, x += static_cast<double>(fit.spot.sigma_x_px);
        y += static_cast<double>(fit.spot.sigma_y_px);
        dim += spot_fit(setup, fit, setup.assumed_read_e).dimness();
      }
    }
    if (n > 2 * stack.markers) knots.push_back({z, x / n, y / n, 0, dim / n});
  }
  return knots;
}

/// What z of each plane scatters over what it tells, by markers that are as dim.
inline void scatter_into(std::vector<control::WidthCurve::Knot>& knots, const AxialSetup& setup,
                         const test::AxialScene& scene, const Stack& stack, double dimness) {
  const control::WidthCurve curve(knots, 1, setup.method);
  const double noise_e = scene.background_e() + scene.read_noise_e() * scene.read_noise_e();
  const double photons = std::max(1500.0, noise_e / dimness);
  simulator::Random random(stack.seed, 2);
  for (auto& knot : knots) {
    if (knot.z_nm < curve.lower_nm() || knot.z_nm > curve.upper_nm()) continue;
    double squares = 0, degrees = 0, told = 0, all = 0, excess = 0;
    for (int marker = 0; marker < stack.markers; ++marker) {
      const simulator::Spot spot = spot_anywhere(setup, knot.z_nm, photons, random);
      double n = 0, sum = 0, sum_squares = 0;
      const auto count = static_cast<std::size_t>(stack.exposures);
      for (const Fit& fit : fit_exposures(setup, scene, {&spot, 1}, count, random)) {
        if (!fit.good()) continue;
        const auto z = curve.read(static_cast<double>(fit.spot.sigma_x_px),
                                  static_cast<double>(fit.spot.sigma_y_px), fit.variance);
        if (!z.measured) continue;
        n += 1, sum += z.z_nm, sum_squares += z.z_nm * z.z_nm;
        told += z.sd_nm * z.sd_nm, all += 1;
        const control::SpotFit spot_of = spot_fit(setup, fit, scene.read_noise_e());
        if (spot_of.pixels > 0)
          excess += (spot_of.chi_square / spot_of.pixels - 1) / spot_of.electrons();
      }
      if (n < 2) continue;
      squares += sum_squares - sum * sum / n, degrees += n - 1;
    }
    if (degrees < 100) continue;
    knot.scatter = std::clamp(std::sqrt(squares / degrees / (told / all)), 0.3, 5.0);
    if (setup.method == control::AxialMethod::Astigmatic) knot.excess = excess / all;
  }
}

/// What a calibration gives: a curve a level of dimness, with the scatter of z along it.
inline control::BrightnessCurves calibrated(const AxialSetup& setup, const test::AxialScene& scene,
                                            const Stack& stack) {
  std::vector<control::WidthCurve> curves;
  for (const double dimness : stack.dimness) {
    auto knots = knots_of(setup, scene, stack, dimness);
    scatter_into(knots, setup, scene, stack, dimness);
    curves.emplace_back(knots, 1, setup.method);
  }
  return control::BrightnessCurves(curves);
}

}  // namespace driftd::bench
