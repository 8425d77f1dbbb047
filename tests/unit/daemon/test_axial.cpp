// SPDX-License-Identifier: MIT
// What surrounds the loop where z is measured: the curve's file, the fits it asks for, messages.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "control/axial/curve_file.hpp"
#include "daemon/loop/frame_rows.hpp"
#include "daemon/setup/axial_curve.hpp"
#include "daemon/setup/compose.hpp"
#include "daemon/status/axial_words.hpp"
#include "daemon/status/status_messages.hpp"
#include "support/catch.hpp"
#include "unit/control/axial_scene.hpp"

using namespace driftd;
using namespace driftd::daemon;

namespace {

/// A file of the curve, for these fits.
struct Curve {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("driftd-curve-" + std::to_string(getpid()));
  control::CurveFits fits = {.model = fitter::Model::EllipticalGaussian,
                             .estimator = fitter::Estimator::PoissonLikelihood,
                             .integrated = false,
                             .roi_px = 15,
                             .pixel_size_nm = 100,
                             .gain_e_per_adu = 2};

  void write(const std::vector<double>& dimness = {}) const {
    control::CurveFile file{.curve = control::test::huang_curve(1.7), .fits = fits, .notes = {}};
    const auto curve_of = [&](double dim) {
      std::vector<control::WidthCurve::Knot> knots = file.curve.knots();
      for (auto& knot : knots) knot.scatter = 1.7, knot.dimness = dim;
      return control::WidthCurve(knots, 1.7, file.curve.method(), {-500, 500});
    };
    if (!dimness.empty()) file.curve = curve_of(1e-4);
    for (const double dim : dimness) file.dimmer.push_back(curve_of(dim));
    std::ofstream(path) << control::curve_text(file);
  }
  config::Config config() const {
    config::Config c = config::default_config();
    c.axial.method = control::AxialMethod::Astigmatic;
    c.axial.curve = path;
    c.camera.gain_e_per_adu = 2;
    return c;
  }
  ~Curve() { std::filesystem::remove(path); }
};

std::string refusal_of(const config::Config& config) {
  try {
    with_curve(config);
  } catch (const config::ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the curve's file is read, and its ROI is that of the fits") {
  const Curve curve;
  curve.write();
  const config::Config c = with_curve(curve.config());
  REQUIRE(c.axial.read);
  CHECK(c.fitter.roi_px == 15);
  CHECK(c.axial.read->curves().front().scatter_factor() == Approx(1.7));
  CHECK(loop_settings(c, {}).curve == c.axial.read);
  CHECK_FALSE(have_other_curves(c, with_curve(curve.config())));
  config::Config none = curve.config();
  none.axial.method = control::AxialMethod::None;
  CHECK_FALSE(with_curve(none).axial.read);
}

TEST_CASE("a curve of other fits is refused, with what to do") {
  Curve curve;
  config::Config c = curve.config();
  CHECK_THAT(refusal_of(c), contains(curve.path.string()));  // there is no file yet
  curve.write();
  c.fitter.roi_px = 13;
  CHECK_THAT(refusal_of(c), contains("13"));
  CHECK_THAT(refusal_of(c), contains("driftfit calibrate-z"));
  c = curve.config();
  c.optics.pixel_size_nm = 108;
  CHECK_THAT(refusal_of(c), contains("108"));
  c = curve.config();
  c.axial.method = control::AxialMethod::Defocus;
  CHECK_THAT(refusal_of(c), contains("axial.method astigmatic"));
  curve.fits.estimator = fitter::Estimator::ImplicitLeastSquares;
  curve.write();
  CHECK(refusal_of(curve.config()) != "");
  std::ofstream(curve.path) << "no: curve\n";
  CHECK_THAT(refusal_of(curve.config()), contains("axial.curve"));
}

TEST_CASE("curves of dimmer markers are read, and another of them is another curve") {
  Curve curve;
  curve.write({1e-3, 1e-2});
  config::Config c = with_curve(curve.config());
  REQUIRE(c.axial.read->curves().size() == 3);
  CHECK_FALSE(have_other_curves(c, with_curve(curve.config())));
  curve.write({1e-3, 2e-2});
  CHECK(have_other_curves(c, with_curve(curve.config())));
  curve.write({1e-3});
  CHECK(have_other_curves(c, with_curve(curve.config())));
  c.camera.offset_adu = 90;
  c.camera.read_noise_e = 1.5;
  const control::FitUnits units = loop_settings(c, {}).fit_units;
  CHECK(units.gain_e_per_adu == 2);
  CHECK(units.offset_adu == 90);
  CHECK(units.read_noise_e == 1.5);
  c = curve.config();
  c.camera.gain_e_per_adu = 0;
  CHECK_THAT(refusal_of(c), contains("camera.gain_e_per_adu"));
}

TEST_CASE("the method decides what fits") {
  config::Config c = config::default_config();
  c.camera.gain_e_per_adu = 2;
  const auto format = camera::PixelFormat::Mono12;
  c.axial.method = control::AxialMethod::Astigmatic;
  FitterWish wish = fitter_wish(c, format);
  CHECK(wish.estimator == config::Estimator::Poisson);
  CHECK(wish.estimator_reason == "axial.method is `astigmatic`");
  const auto model = [&] {
    return fit_options(c, format, fitter::Estimator::PoissonLikelihood).model;
  };
  CHECK(model() == fitter::Model::EllipticalGaussian);
  c.axial.method = control::AxialMethod::Defocus;
  wish = fitter_wish(c, format);
  CHECK(wish.estimator == config::Estimator::LeastSquares);
  CHECK(wish.estimator_reason == "axial.method is `defocus`");
  CHECK(model() == fitter::Model::CircularGaussian);
  c.axial.method = control::AxialMethod::None;
  CHECK(fitter_wish(c, format).estimator == config::Estimator::Auto);
  CHECK(fitter_wish(c, format).estimator_reason.empty());
  CHECK(model() == fitter::Model::CircularGaussian);
}

TEST_CASE("no markers are looked for in the region of the reflection") {
  config::Config c = config::default_config();
  CHECK(open_detection_settings(c, camera::PixelFormat::Mono12).left_out.side_px == 0);
  CHECK(make_reflection_reader(c, camera::PixelFormat::Mono12) == nullptr);
  c.axial.method = control::AxialMethod::Reflection;
  c.reflection = {.x_px = 100, .y_px = 50, .roi_px = 40, .nm_per_px = 30, .angle_deg = 0};
  const control::LeftOut out = open_detection_settings(c, camera::PixelFormat::Mono12).left_out;
  CHECK(out.meets(126, 50, 13));
  CHECK_FALSE(out.meets(127, 50, 13));
  CHECK(out.meets(100, 24, 13));
  CHECK_FALSE(out.meets(100, 20, 13));
  CHECK(make_reflection_reader(c, camera::PixelFormat::Mono12) != nullptr);
}

TEST_CASE("status tells of z, or that there is none and why") {
  config::Config c = config::default_config();
  LoopReport loop;
  CHECK(axial_json(loop, c, true).is_null());
  c.axial.method = control::AxialMethod::Astigmatic;
  c.axial.curve = "/etc/driftd/curve.yaml";
  loop.axial = {.valid = true,
                .reason = control::AxialReason::Measured,
                .z_nm = 12,
                .variance_nm2 = 4,
                .markers_used = 9,
                .markers_total = 10,
                .in_range = 9,
                .from_crossing_nm = 20,
                .curve_below_nm = 400,
                .curve_above_nm = 380};
  nlohmann::json z = axial_json(loop, c, true);
  CHECK(z["method"] == "astigmatic");
  CHECK(z["valid"] == true);
  CHECK(z["z_nm"] == 12.0);
  CHECK(z["sd_nm"] == 2.0);
  CHECK(z["witness_z_nm"].is_null());
  CHECK(z["markers_used"] == 9);
  CHECK(z["distance_from_crossing_nm"] == 20.0);
  CHECK(z["text"] == "");
  CHECK(z["warning"] == "");
  loop.axial.from_crossing_nm = -150;
  CHECK_THAT(axial_json(loop, c, true)["warning"].get<std::string>(), contains("150 nm"));
  loop.axial.curve_above_nm = 40;
  CHECK_THAT(axial_json(loop, c, true)["warning"].get<std::string>(), contains("40 nm"));
  z = axial_json(loop, c, false);  // no frames come
  CHECK(z["valid"] == false);
  CHECK(z["z_nm"].is_null());
  CHECK(z["text"] == "no frames come");

  loop.axial = {.reason = control::AxialReason::OutOfRange, .markers_total = 10, .in_range = 1};
  z = axial_json(loop, c, true);
  CHECK(z["reason"] == "out_of_range");
  CHECK(z["z_nm"].is_null());
  CHECK_THAT(z["text"].get<std::string>(), contains("1 of 10 tracking markers"));
  for (int i = 1; i <= static_cast<int>(control::AxialReason::NoMarkers); ++i) {
    loop.axial.reason = static_cast<control::AxialReason>(i);
    for (const auto method : {control::AxialMethod::Astigmatic, control::AxialMethod::Reflection}) {
      c.axial.method = method;
      CHECK(axial_json(loop, c, true)["text"] != "");
    }
  }
}

TEST_CASE("status warns of a curve that the markers' widths do not lie on") {
  config::Config c = config::default_config();
  c.axial.method = control::AxialMethod::Astigmatic;
  LoopReport loop;
  loop.axial = {.valid = true,
                .reason = control::AxialReason::Measured,
                .in_range = 9,
                .curve_below_nm = 400,
                .curve_above_nm = 400,
                .off_curve = 0.01};
  const auto warning = [&] { return axial_json(loop, c, true)["warning"].get<std::string>(); };
  CHECK(warning() == "");
  c.axial.of_unknown_fits = true;
  CHECK_THAT(warning(), contains("Picasso"));
  CHECK_THAT(warning(), !contains(" % off"));
  loop.axial.off_curve = 0.06;
  CHECK_THAT(warning(), contains("6 % off the curve"));
  c.axial.of_unknown_fits = false;
  CHECK_THAT(warning(), contains("6 % off the curve"));
  loop.axial.dimmed_nm = 7;  // which may be why
  CHECK_THAT(warning(), contains("some 7 nm") && !contains("off the curve"));
  loop.axial.dimmed_nm = 2;
  loop.axial.from_crossing_nm = 200;
  CHECK_THAT(warning(), contains("200 nm from where both widths are equal"));
  CHECK_THAT(warning(), contains("6 % off the curve"));
}

TEST_CASE("that too few markers are read is said where they are too few") {
  config::Config c = config::default_config();
  c.axial.method = control::AxialMethod::Astigmatic;
  c.drift.min_markers = 3;
  LoopReport loop;
  const auto text = [&] { return axial_json(loop, c, true)["text"].get<std::string>(); };
  loop.axial = {.reason = control::AxialReason::Apart, .markers_total = 13, .in_range = 2};
  CHECK_THAT(text(), contains("z of 2 of 13 tracking markers is read, and 3 are needed"));
  loop.axial.in_range = 3;
  CHECK(text() == "z of 3 of 13 tracking markers is read: the markers do not agree on a z");
}

TEST_CASE("status tells how far the reflected spot may go") {
  config::Config c = config::default_config();
  c.axial.method = control::AxialMethod::Reflection;
  c.reflection = {.x_px = 128.5, .y_px = 40.5, .roi_px = 24, .nm_per_px = 30, .angle_deg = 0};
  LoopReport loop;
  loop.axial = {.valid = true, .reason = control::AxialReason::Measured, .z_nm = 60, .in_range = 1};
  loop.spot_zero = {
      .along_px = 127, .across_px = 41, .variance_px2 = 0, .sigma_px = 1.5, .light = 1};
  const nlohmann::json z = axial_json(loop, c, true);
  CHECK_THAT(z["range_below_nm"].get<double>(),
             Catch::Matchers::WithinAbs(270, 1e-9));  // 129 to 120 px
  CHECK_THAT(z["range_above_nm"].get<double>(),
             Catch::Matchers::WithinAbs(240, 1e-9));  // and to 137
  CHECK(axial_json(loop, c, false)["range_below_nm"].is_null());
  loop.axial.valid = false;
  loop.axial.reason = control::AxialReason::OutOfRange;
  const nlohmann::json out = axial_json(loop, c, true);
  CHECK(out["range_above_nm"].is_null());
  CHECK_THAT(out["text"].get<std::string>(), contains("the stage of z by its controller"));
}

TEST_CASE("status names what shines beside the reflected spot") {
  config::Config c = config::default_config();
  c.axial.method = control::AxialMethod::Reflection;
  LoopReport loop;
  loop.axial.has_company = true;
  loop.axial.company_px = {110, 40};
  CHECK_THAT(axial_json(loop, c, true)["warning"].get<std::string>(), contains("at x 110, y 40"));
  loop.axial.has_company = false;
  CHECK(axial_json(loop, c, true)["warning"] == "");
}

TEST_CASE("rows have z where it was measured, and NaN elsewhere") {
  FrameResult result;
  CHECK(std::isnan(frame_row(result, 0, 0).z_nm));
  CHECK_FALSE(frame_row(result, 0, 0).z_valid);
  result.axial.valid = true;
  result.axial.z_nm = 3;
  result.axial.variance_nm2 = 4;
  result.axial.frame_z_nm = -30;
  result.axial.frame_variance_nm2 = 9;
  record::FrameRow row = frame_row(result, 0, 0);
  CHECK(row.z_valid);
  CHECK(row.z_nm == 3);
  CHECK(row.z_sd_nm == 2);
  CHECK(row.frame_z_sd_nm == 3);
  result.axial.scale_share = 0.5;
  row = frame_row(result, 0, 0);
  CHECK(row.z_sd_nm == Approx(2.5));
  CHECK(row.frame_z_sd_nm == Approx(std::hypot(3, 15)));
  CHECK(std::isnan(row.witness_z_nm));

  const control::MarkerObservation o{
      .fitted = true, .sigma_px = 1.5F, .sigma_x_px = 1, .sigma_y_px = 2};
  const control::AxialResult axial{.read = true, .z_nm = 7, .sd_nm = 1};
  record::LocalizationRow marker = localization_row(1, {}, o, {}, axial, true);
  CHECK(marker.sigma_y_px == 2);
  CHECK(marker.z_nm == 7);
  CHECK(std::isnan(marker.residual_z_nm));
  marker = localization_row(1, {}, o, {}, {}, false);
  CHECK(std::isnan(marker.sigma_y_px));
  CHECK(std::isnan(marker.z_nm));
}
