// SPDX-License-Identifier: MIT
// Real recordings, fitted again on the pixels that independent reference fits used; and the spots
// of Gpufit's own tests.
#include "unit/fitter/recordings.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "support/catch.hpp"
#include "support/test_data.hpp"
#include "unit/fitter/fits.hpp"

namespace driftd {
namespace {

constexpr double kTolerancePx = 2e-3;

struct Compared {
  int rows = 0, converged = 0;
  double largest_px = 0;        ///< of |dx|, |dy| over converged fits
  double largest_sigma_px = 0;  ///< of |dsigma_x|
};

/// @param use  which rows, besides ok = 1, are compared
template <class Use>
Compared compare(const std::filesystem::path& csv, const std::vector<test::Image>& frames,
                 const fitter::FitOptions& options, const std::string& sigma_name, Use use) {
  Compared c;
  for (const test::Row& row : test::read_csv(csv)) {
    if (row.at("ok") != "1" || !use(row)) continue;
    const int x = std::stoi(row.at("roi_x"));
    const int y = std::stoi(row.at("roi_y"));
    const int side = std::stoi(row.at("roi_w"));
    const test::Image& frame = frames.at(static_cast<std::size_t>(std::stoi(row.at("frame"))));
    const auto fit = test::fit_one(test::cut(frame, x, y, side), side, options);
    ++c.rows;
    if (!converged(fit.status)) continue;
    ++c.converged;
    const auto difference = [&row](float fitted, const std::string& name, int origin) {
      return std::fabs(static_cast<double>(fitted) + origin - std::stod(row.at(name)));
    };
    c.largest_px =
        std::max({c.largest_px, difference(fit.x_px, "x", x), difference(fit.y_px, "y", y)});
    c.largest_sigma_px = std::max(c.largest_sigma_px, difference(fit.sigma_x_px, sigma_name, 0));
  }
  INFO(csv << ": " << c.rows << " rows, " << c.converged << " converged, largest difference "
           << c.largest_px << " px");
  CHECK(c.largest_px < kTolerancePx);
  return c;
}

bool any(const test::Row&) {
  return true;
}

bool in_focus(const test::Row& row) {
  const int frame = std::stoi(row.at("frame"));
  return frame >= 15 && frame <= 18;
}

TEST_CASE("Beads through focus agree with the reference fits") {
  const auto data = test::test_data();
  if (!data) return;
  const auto frames = test::read_tiff(*data / "psfextractor_zstack/zstack_34x512x512_u8.tif");
  const auto csv = *data / "ref_zstack_fits.csv";
  const Compared all = compare(csv, frames, {}, "sigma", any);
  CHECK(all.rows > 200);
  CHECK(all.converged > all.rows * 9 / 10);  // slice 20, far out of focus, fails in part
  const Compared focused = compare(csv, frames, {}, "sigma", in_focus);
  CHECK(focused.converged == focused.rows);
  CHECK(focused.rows > 100);
}

TEST_CASE("Stuck particles at low contrast agree with the reference fits") {
  const auto data = test::test_data();
  if (!data) return;
  const auto frames = test::read_tiff(*data / "trackpy_stuck/stuck.tif");
  const Compared c = compare(*data / "ref_stuck_fits.csv", frames, {}, "sigma", any);
  CHECK(c.rows == 205);
  CHECK(c.converged == c.rows);
  CHECK(c.largest_sigma_px < kTolerancePx);
}

TEST_CASE("Simulated molecules agree with the reference fits where these are round") {
  const auto data = test::test_data();
  if (!data) return;
  const auto frames = test::read_raw(*data / "picasso/testdata.raw", 32, 32);
  // The reference has two widths; a circular fit has the same centre only where they are equal.
  const auto round = [](const test::Row& row) {
    const double ratio = std::stod(row.at("sigma_x")) / std::stod(row.at("sigma_y"));
    return ratio > 0.95 && ratio < 1.05;
  };
  const Compared c = compare(*data / "ref_picasso_fits.csv", frames, {}, "sigma_x", round);
  CHECK(c.rows > 400);
  CHECK(c.converged == c.rows);
}

TEST_CASE("Elliptical fits of simulated molecules agree with the reference fits, widths included") {
  const auto data = test::test_data();
  if (!data) return;
  const auto frames = test::read_raw(*data / "picasso/testdata.raw", 32, 32);
  fitter::FitOptions options;
  options.model = fitter::Model::EllipticalGaussian;
  options.estimator =
      GENERATE(fitter::Estimator::ImplicitLeastSquares, fitter::Estimator::LeastSquares);
  const Compared c = compare(*data / "ref_picasso_fits.csv", frames, options, "sigma_x", any);
  CHECK(c.rows > 540);
  CHECK(c.converged == c.rows);
  CHECK(c.largest_sigma_px < kTolerancePx);
}

TEST_CASE("Likelihood fits agree with Picasso's own localizations") {
  const auto data = test::test_data();
  if (!data) return;
  const auto frames = test::read_raw(*data / "picasso/testdata.raw", 32, 32);
  fitter::FitOptions options;
  options.estimator = fitter::Estimator::PoissonLikelihood;
  options.noise = {1, 0, 0};
  options.integrated = GENERATE(false, true);  // as Picasso does
  std::vector<double> distance, width, of_picasso;
  for (const test::Row& row : test::read_csv(*data / "ref_picasso_fits.csv")) {
    if (row.at("ok") != "1") continue;
    const int x = std::stoi(row.at("roi_x"));
    const int y = std::stoi(row.at("roi_y"));
    const int side = std::stoi(row.at("roi_w"));
    const test::Image& frame = frames.at(static_cast<std::size_t>(std::stoi(row.at("frame"))));
    const auto fit = test::fit_one(test::cut(frame, x, y, side), side, options);
    REQUIRE(converged(fit.status));
    const auto value = [&row](const char* name) { return std::stod(row.at(name)); };
    distance.push_back(std::hypot(static_cast<double>(fit.x_px) + x - value("pic_x"),
                                  static_cast<double>(fit.y_px) + y - value("pic_y")));
    width.push_back(static_cast<double>(fit.sigma_x_px));
    of_picasso.push_back(value("pic_sx"));
  }
  const auto median = [](std::vector<double>& v) {
    std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
    return v[v.size() / 2];
  };
  CHECK(*std::max_element(distance.begin(), distance.end()) < 0.01);
  CHECK(median(distance) < 1e-3);
  // It drew the molecules with 0.82 px and found 0.0125 px more.
  CHECK(median(of_picasso) == Approx(0.8325).margin(1e-3));
  CHECK(median(width) == Approx(options.integrated ? 0.82 : 0.8704).margin(1e-3));
}

/// A block of ref_gpufit_vectors.csv: "GAUSS_2D(..),5x5,A=4 x=2 y=2 s=0.5 b=1,3 1.8 2.2 0.4 0,..".
double value_of(const std::string& truth, const std::string& name) {
  std::istringstream words(truth);
  for (std::string word; words >> word;)
    if (word.rfind(name + "=", 0) == 0) return std::stod(word.substr(name.size() + 1));
  throw std::runtime_error("no " + name + " in " + truth);
}

struct GpufitVector {
  std::string name;
  bool elliptical;
  int side;
  std::string truth;
  std::vector<float> pixels;
};

/// Those of the models that exist here: GAUSS_2D and GAUSS_2D_ELLIPTIC.
std::vector<GpufitVector> read_gpufit_vectors(const std::filesystem::path& csv) {
  std::vector<GpufitVector> vectors;
  std::ifstream file(csv);
  for (std::string line; std::getline(file, line);) {
    const bool elliptical = line.rfind("GAUSS_2D_ELLIPTIC(", 0) == 0;
    if (!elliptical && line.rfind("GAUSS_2D(", 0) != 0) continue;
    GpufitVector v = {{}, elliptical, 0, {}, {}};
    std::istringstream fields(line);
    std::string size;
    std::getline(fields, v.name, ',');
    std::getline(fields, size, ',');
    std::getline(fields, v.truth, ',');
    v.side = std::stoi(size);
    for (int row = 0; row < v.side; ++row) {
      std::getline(file, line);
      std::istringstream values(line);
      for (std::string pixel; std::getline(values, pixel, ',');)
        v.pixels.push_back(std::stof(pixel));
    }
    vectors.push_back(std::move(v));
  }
  return vectors;
}

TEST_CASE("Gpufit's noise-free spots are recovered by every estimator") {
  const auto data = test::test_data();
  if (!data) return;
  fitter::FitOptions options;
  options.estimator =
      GENERATE(fitter::Estimator::ImplicitLeastSquares, fitter::Estimator::LeastSquares,
               fitter::Estimator::PoissonLikelihood);
  options.spots_only = false;  // a width of 0.4 px is the limit of what counts as a spot
  const auto vectors = read_gpufit_vectors(*data / "ref_gpufit_vectors.csv");
  CHECK(vectors.size() == 3);
  for (const GpufitVector& v : vectors) {
    options.model =
        v.elliptical ? fitter::Model::EllipticalGaussian : fitter::Model::CircularGaussian;
    const auto fit = test::fit_one(v.pixels, v.side, options);
    INFO(v.name << " " << v.side << " " << v.truth);
    CHECK(converged(fit.status));
    CHECK(fit.x_px == Approx(value_of(v.truth, "x")).margin(1e-4));
    CHECK(fit.y_px == Approx(value_of(v.truth, "y")).margin(1e-4));
    CHECK(fit.sigma_x_px == Approx(value_of(v.truth, v.elliptical ? "sx" : "s")).margin(1e-4));
    if (v.elliptical) CHECK(fit.sigma_y_px == Approx(value_of(v.truth, "sy")).margin(1e-4));
    CHECK(fit.amplitude_adu == Approx(value_of(v.truth, "A")).epsilon(1e-3));
    CHECK(fit.background_adu == Approx(value_of(v.truth, "b")).epsilon(1e-3));
  }
}

}  // namespace
}  // namespace driftd
