// SPDX-License-Identifier: MIT
#include "simulator/scenario_optics.hpp"

#include <cmath>

namespace driftd::simulator {
namespace {

constexpr std::array<std::string_view, 4> kShapes = {"gaussian", "airy", "width_curve", "pupil"};

void read_width_curve(yaml::Section section, WidthCurveModel& curve) {
  section.number("width_px", curve.width_px, {0.3, 20});
  section.number("focus_nm", curve.focus_nm, {-10000, 10000});
  section.number("depth_nm", curve.depth_nm, {10, 100000});
  section.number("a", curve.a, {-10, 10});
  section.number("b", curve.b, {-10, 10});
  section.finish();
}

/// What pupil_spot.cpp has points enough for.
void check_pupil(yaml::Section& section, double pixel_size_nm, const PupilModel& pupil) {
  if (pupil.numerical_aperture > 0.99 * pupil.index) {
    section.reject("numerical_aperture", "at most 0.99 of the index");
    return;
  }
  const double half_nm = pupil.wavelength_nm / (2 * pupil.numerical_aperture);
  if (pixel_size_nm > half_nm || pixel_size_nm < half_nm / 5) {
    section.reject("wavelength_nm",
                   "a wavelength of which, over twice numerical_aperture, is 1 to 5 times "
                   "optics.pixel_size_nm");
  }
  const double sine = pupil.numerical_aperture / pupil.index;
  const double farthest_nm = 26 * half_nm * std::sqrt(1 - sine * sine) / sine;
  if (pupil.range_nm > farthest_nm) {
    section.reject("range_nm", "at most " + std::to_string(static_cast<int>(farthest_nm)) +
                                   " with this aperture and wavelength");
  }
}

void read_pupil(yaml::Section section, double pixel_size_nm, PupilModel& pupil) {
  section.number("numerical_aperture", pupil.numerical_aperture, {0.1, 1.7});
  section.number("index", pupil.index, {1, 2});
  section.number("wavelength_nm", pupil.wavelength_nm, {200, 2000});
  section.number("focus_nm", pupil.focus_nm, {-10000, 10000});
  section.number("range_nm", pupil.range_nm, {100, 3000});
  section.number("astigmatism_waves", pupil.astigmatism_waves, {-0.3, 0.3});
  section.number("astigmatism_deg", pupil.astigmatism_deg, {-180, 180});
  section.number("coma_waves", pupil.coma_waves, {-0.3, 0.3});
  section.number("coma_deg", pupil.coma_deg, {-360, 360});
  section.number("spherical_waves", pupil.spherical_waves, {-0.3, 0.3});
  check_pupil(section, pixel_size_nm, pupil);
  section.finish();
}

}  // namespace

void read_optics(yaml::Section section, OpticsModel& optics) {
  section.number("pixel_size_nm", optics.pixel_size_nm, {1, 10000});
  section.number("sigma_px", optics.sigma_px, {0.3, 20});
  section.number("sigma_y_px", optics.sigma_y_px, {0, 20});
  if (optics.sigma_y_px > 0 && optics.sigma_y_px < 0.3) {
    section.reject("sigma_y_px", "0 (circular) or a number from 0.3 to 20");
  }
  read_choice(section, "shape", kShapes, optics.shape);
  section.number("defocus_waves", optics.defocus_waves, {-2, 2});
  section.boolean("motion_blur", optics.motion_blur);
  if (optics.shape != SpotShape::Airy && optics.defocus_waves != 0) {
    section.reject("defocus_waves", "0, or shape: airy (a Gaussian has its width in sigma_px)");
  }
  if (optics.shape == SpotShape::Airy && optics.sigma_y_px > 0) {
    section.reject("sigma_y_px", "0 with shape: airy, which is circular");
  }
  const auto only_with = [&](const char* key, SpotShape shape, const char* name) {
    const bool wrong = section.has(key) && optics.shape != shape;
    if (wrong) section.reject(key, std::string("none, or shape: ") + name);
    return !wrong && optics.shape == shape;
  };
  if (only_with("width_curve", SpotShape::WidthCurve, "width_curve"))
    read_width_curve(section.section("width_curve"), optics.width_curve);
  if (only_with("pupil", SpotShape::Pupil, "pupil"))
    read_pupil(section.section("pupil"), optics.pixel_size_nm, optics.pupil);
  section.finish();
}

Vec2 widths_px(const WidthCurveModel& curve, double z_nm) noexcept {
  const auto width_px = [&](double focus_nm) {
    const double z = (z_nm - focus_nm) / curve.depth_nm;
    const double square = 1 + z * z * (1 + z * (curve.a + z * curve.b));
    return std::max(0.3, curve.width_px * std::sqrt(std::max(0.0, square)));
  };
  return {width_px(curve.focus_nm), width_px(-curve.focus_nm)};
}

}  // namespace driftd::simulator
