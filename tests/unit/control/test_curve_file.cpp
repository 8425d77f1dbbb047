// SPDX-License-Identifier: MIT
// Curves of widths as files: what is written is read back, Picasso's is understood, all else
// refused.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "control/axial/curve_file.hpp"
#include "control/axial/picasso_curve.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

class File {
 public:
  explicit File(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("driftd-curve-" + std::to_string(getpid()) + ".yaml")) {
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] CurveFile read() const { return read_curve_file(path_); }
  [[nodiscard]] std::string refusal() const {
    try {
      read_curve_file(path_);
    } catch (const CurveFileError& error) {
      return error.what();
    }
    return "";
  }

 private:
  std::filesystem::path path_;
};

double width_px(double z_nm, double focus_nm) {
  const double u = (z_nm - focus_nm) / 350;
  return 1.1 * std::sqrt(1 + u * u);
}

WidthCurve a_curve(AxialMethod method = AxialMethod::Astigmatic) {
  std::vector<WidthCurve::Knot> knots;
  for (double z = -600; z <= 600; z += 40)
    knots.push_back({z, width_px(z, 220), width_px(z, -220)});
  return {knots, 1.37, method, {-420.5, 390}};
}

CurveFits some_fits() {
  return {.model = fitter::Model::EllipticalGaussian,
          .estimator = fitter::Estimator::PoissonLikelihood,
          .integrated = false,
          .roi_px = 13,
          .pixel_size_nm = 108.5,
          .gain_e_per_adu = 0.46};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

const std::string kPicasso =
    "Magnification factor: 0.79\nNumber of frames: 61\nStep size in nm: 20.0\n"
    "X Coefficients:\n- 1.0e-18\n- -2.0e-16\n- 1.0e-12\n- 3.0e-10\n- 3.0e-06\n- -0.0018\n- 1.3\n"
    "Y Coefficients:\n- 2.0e-18\n- 1.0e-16\n- 2.0e-12\n- -2.0e-10\n- 3.1e-06\n- 0.0017\n- 1.3\n";

TEST_CASE("a curve that was written is read back with all it says") {
  const CurveFile written{a_curve(), some_fits(), {"O'Hara's stack.tif", 31234, 3.25}};
  const CurveFile read = File(curve_text(written)).read();
  CHECK(read.curve.method() == AxialMethod::Astigmatic);
  CHECK(read.curve.scatter_factor() == Approx(1.37));
  CHECK(read.curve.lower_nm() == Approx(-420.5));
  CHECK(read.curve.upper_nm() == Approx(390));
  CHECK(read.curve.crossing_nm() == Approx(0).margin(0.01));
  REQUIRE(read.curve.knots().size() == written.curve.knots().size());
  for (double z = -600; z <= 600; z += 11) {
    CHECK(read.curve.sigma_x_px(z) == Approx(written.curve.sigma_x_px(z)).margin(2e-6));
    CHECK(read.curve.sigma_y_px(z) == Approx(written.curve.sigma_y_px(z)).margin(2e-6));
  }
  REQUIRE(read.fits);
  CHECK(why_not_for(*read.fits, some_fits()) == "");
  CHECK(read.fits->gain_e_per_adu == Approx(0.46));
  CHECK(read.notes.source == "O'Hara's stack.tif");
  CHECK(read.notes.photons == 31234);
  CHECK(read.notes.predicted_sd_nm == Approx(3.25));
}

TEST_CASE("curves of dimmer markers are read back with scatter, dimness and excess") {
  const auto curve_of = [](double dimness, double shrink) {
    std::vector<WidthCurve::Knot> knots;
    for (double z = -600; z <= 600; z += 40)
      knots.push_back({z, shrink * width_px(z, 220), shrink * width_px(z, -220), 1.5 + z / 1000,
                       dimness, 3.2e-4});
    return WidthCurve(knots, 1.37, AxialMethod::Astigmatic, {-420, 390});
  };
  const CurveFile written{
      curve_of(1.5e-3, 1), some_fits(), {}, {curve_of(1e-2, 0.97), curve_of(0.1, 0.95)}};
  const std::string text = curve_text(written);
  const CurveFile read = File(text).read();
  REQUIRE(read.dimmer.size() == 2);
  const BrightnessCurves curves = curves_of(read);
  CHECK(curves.curves()[0].dimness(10) == Approx(1.5e-3));
  CHECK(curves.curves()[2].dimness(10) == Approx(0.1));
  CHECK(curves.curves()[1].sigma_x_px(55) == Approx(written.dimmer[0].sigma_x_px(55)).margin(2e-6));
  CHECK(curves.curves()[1].scatter(120) == Approx(1.62));
  CHECK(curves.curves()[1].excess(120) == Approx(3.2e-4));
  CHECK(curves.curves()[1].upper_nm() == Approx(390));
  // A file of one plain curve knows none of it.
  const CurveFile plain = File(curve_text({a_curve(), some_fits(), {}})).read();
  CHECK(plain.dimmer.empty());
  CHECK(plain.curve.scatter(0) == Approx(1.37));
  CHECK(plain.curve.dimness(0) == 0);
  CHECK(std::isnan(plain.curve.excess(0)));
  CHECK_THAT(File(replaced(text, "0.0100000", "0.0000100")).refusal(), contains("does not grow"));
  CHECK_THAT(File(replaced(text, "0.0100000", "0.0100000, 1, 2")).refusal(),
             contains("dimmer[0][0]"));
}

TEST_CASE("a curve of defocus says so in its file") {
  CurveFits fits = some_fits();
  fits.model = fitter::Model::CircularGaussian;
  fits.estimator = fitter::Estimator::ImplicitLeastSquares;
  const WidthCurve curve(a_curve().knots(), 1.2, AxialMethod::Defocus);
  const CurveFile read = File(curve_text({curve, fits, {}})).read();
  CHECK(read.curve.method() == AxialMethod::Defocus);
  CHECK(read.fits->model == fitter::Model::CircularGaussian);
  CHECK(read.fits->estimator == fitter::Estimator::LeastSquares);
  CHECK(why_not_for(*read.fits, fits) == "");
  CHECK(read.curve.lower_nm() == Approx(curve.lower_nm()).margin(0.1));
}

TEST_CASE("a file that is no whole curve is refused with the place and what is allowed") {
  const std::string good = curve_text({a_curve(), some_fits(), {}});
  CHECK(File(good).refusal() == "");
  const auto refusal = [&](const std::string& from, const std::string& to) {
    return File(replaced(good, from, to)).refusal();
  };
  CHECK_THAT(File("").refusal(), contains("is no curve of widths"));
  CHECK_THAT(File("camera: {}\n").refusal(), contains("driftfit calibrate-z"));
  CHECK_THAT(File("{").refusal(), contains(".yaml:"));
  CHECK_THROWS_AS(read_curve_file("/nowhere/curve.yaml"), CurveFileError);
  CHECK_THAT(refusal("axial_curve: 1", "axial_curve: 2"), contains("2:14: axial_curve: found 2"));
  CHECK_THAT(refusal("method: astigmatic", "method: reflection"),
             contains("method: found \"reflection\"; allowed one of astigmatic, defocus"));
  CHECK_THAT(refusal("estimator: poisson\n", ""), contains("estimator: found nothing"));
  CHECK_THAT(refusal("roi_px: 13\n", ""), contains("roi_px: found nothing"));
  CHECK_THAT(refusal("pixel_size_nm: 108.5\n", ""), contains("pixel_size_nm: found nothing"));
  CHECK_THAT(refusal("scatter_factor: 1.370\n", ""), contains("scatter_factor: found nothing"));
  CHECK_THAT(refusal("[-420.5, 390.0]", "[390.0, -420.5]"), contains("the lower one first"));
  CHECK_THAT(refusal("[-420.5, 390.0]", "[100, 390]"), contains("widths cross at"));
  CHECK_THAT(refusal("roi_px", "roi"), contains("unknown key"));
  CHECK_THAT(refusal("  - [-600.000, ", "  - ["), contains("knots[0]"));
  CHECK_THAT(refusal("  - [-600.000, ", "  - [-6, 0, "), contains("knots[0]"));
  CHECK_THAT(refusal("  - [-600.000, ", "  - [0, "), contains("has to ascend"));
  CHECK_THAT(File(good.substr(0, good.find("knots:"))).refusal(), contains("knots: found nothing"));
}

TEST_CASE("other fits than a curve's are named") {
  CurveFits other = some_fits();
  other.roi_px = 15;
  CHECK(why_not_for(some_fits(), other) == "its ROI's side is 13 px, the fits' 15 px");
  other = some_fits();
  other.pixel_size_nm = 108.9;  // people round
  CHECK(why_not_for(some_fits(), other) == "");
  other.pixel_size_nm = 65;
  CHECK_THAT(why_not_for(some_fits(), other), contains("108.50 nm, the fits' 65.00 nm"));
  other.estimator = fitter::Estimator::ImplicitLeastSquares;
  other.model = fitter::Model::CircularGaussian;
  other.integrated = true;
  const std::string all = why_not_for(some_fits(), other);
  CHECK_THAT(all, contains("its model is elliptical, the fits' circular"));
  CHECK_THAT(all, contains("its estimator is poisson, the fits' least_squares"));
  CHECK_THAT(all, contains("integrated over pixels"));
}

TEST_CASE("Picasso's calibration is read as its polynomials, at the pixels' centres") {
  const CurveFile read = File(kPicasso).read();
  CHECK_FALSE(read.fits);
  CHECK(read.curve.crossing_nm() == Approx(0).margin(1e-3));
  CHECK(read.curve.scatter_factor() == kUnknownScatter);
  CHECK(read.curve.knots().front().z_nm == -600);
  CHECK(read.curve.knots().back().z_nm == 600);
  for (double z = -600; z <= 600; z += 37) {
    const double x =
        1.3 + z * (-0.0018 + z * (3e-6 + z * (3e-10 + z * (1e-12 + z * (-2e-16 + z * 1e-18)))));
    CAPTURE(z);
    CHECK(read.curve.sigma_x_px(z) == Approx(std::sqrt(x * x + 1.0 / 12)).margin(1e-4));
  }
  CHECK_THAT(File(replaced(kPicasso, "- 1.0e-18\n", "")).refusal(), contains("X Coefficients"));
  CHECK_THAT(File(replaced(kPicasso, "Number of frames: 61\n", "")).refusal(),
             contains("Number of frames"));
  CHECK_THAT(File(replaced(kPicasso, "in nm: 20.0", "in nm: 0")).refusal(),
             contains("Step size in nm: found 0"));
  CHECK_THAT(File(kPicasso + "X Coefficients: [0, 0, 0, 0, 0, 0, 1.3]\n").refusal(),
             contains("X Coefficients: found twice"));
  CHECK_THAT(File("axial_curve: 1\n" + kPicasso).refusal(),
             contains("axial_curve: found 1") && contains("driftfit's or Picasso's"));
  CHECK_FALSE(File(kPicasso + "Gain: 3\n").read().fits);  // Picasso's own further keys
  const std::size_t y = kPicasso.find("Y Coefficients");
  const std::size_t x = kPicasso.find("- 1.0e-18");
  const std::string same = kPicasso.substr(0, y) + "Y Coefficients:\n" + kPicasso.substr(x, y - x);
  CHECK_THAT(File(same).refusal(), contains("cross nowhere"));
}

TEST_CASE("a curve as Picasso's polynomials and back is the same within its range") {
  const WidthCurve curve = a_curve();
  for (const bool integrated : {false, true}) {
    const PicassoCurve picasso = picasso_curve_of(curve, integrated, 40);
    const double told = error_nm(picasso, curve, integrated);
    CHECK(told < 3);           // degree 6 errs by 0.1 to 3 nm
    if (integrated) continue;  // curve_of() makes one of fits at the centres
    const CurveFile back = File(picasso_text(picasso)).read();
    for (double z = -420; z <= 390; z += 9) {
      const AxialReading reading =
          back.curve.read(curve.sigma_x_px(z), curve.sigma_y_px(z), {1e-5, 1e-5, 0});
      CAPTURE(z);
      REQUIRE(reading.measured);
      CHECK(std::abs(reading.z_nm - z) < told + 1);
    }
  }
}

}  // namespace
}  // namespace driftd::control
