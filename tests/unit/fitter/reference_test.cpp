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
  double largest_sigma_px = 0;  ///< of |dsigma|
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

/// A block of ref_gpufit_vectors.csv: "GAUSS_2D(..),5x5,A=4 x=2 y=2 s=0.5 b=1,3 1.8 2.2 0.4 0,..".
double value_of(const std::string& truth, const std::string& name) {
  std::istringstream words(truth);
  for (std::string word; words >> word;)
    if (word.rfind(name + "=", 0) == 0) return std::stod(word.substr(name.size() + 1));
  throw std::runtime_error("no " + name + " in " + truth);
}

TEST_CASE("Gpufit's noise-free spots are recovered") {
  const auto data = test::test_data();
  if (!data) return;
  std::ifstream file(*data / "ref_gpufit_vectors.csv");
  int tried = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("GAUSS_2D(", 0) != 0) continue;
    std::istringstream fields(line);
    std::string name, size, truth;
    std::getline(fields, name, ',');
    std::getline(fields, size, ',');
    std::getline(fields, truth, ',');
    const int side = std::stoi(size);
    std::vector<float> pixels;
    for (int row = 0; row < side; ++row) {
      std::getline(file, line);
      std::istringstream values(line);
      for (std::string v; std::getline(values, v, ',');) pixels.push_back(std::stof(v));
    }
    const auto fit = test::fit_one(pixels, side);
    INFO(name << " " << size << " " << truth);
    CHECK(converged(fit.status));
    CHECK(fit.x_px == Approx(value_of(truth, "x")).margin(1e-4));
    CHECK(fit.y_px == Approx(value_of(truth, "y")).margin(1e-4));
    CHECK(fit.sigma_x_px == Approx(value_of(truth, "s")).margin(1e-4));
    CHECK(fit.amplitude_adu == Approx(value_of(truth, "A")).epsilon(1e-3));
    CHECK(fit.background_adu == Approx(value_of(truth, "b")).epsilon(1e-3));
    ++tried;
  }
  CHECK(tried > 0);
}

}  // namespace
}  // namespace driftd
