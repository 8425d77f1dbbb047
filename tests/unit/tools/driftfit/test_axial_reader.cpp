// SPDX-License-Identifier: MIT
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "support/catch.hpp"
#include "tools/driftfit/axial_drift.hpp"
#include "tools/driftfit/axial_reader.hpp"

namespace driftd::tools {
namespace {

constexpr float kGain = 0.5f, kOffset = 100;
constexpr int kRoi = 13;
const camera::StackShape kNoFrame = {};

/// Widths that shrink by 3 % for each tenfold of dimness.
double width_px(double z_nm, double focus_nm, double dimness) {
  const double u = (z_nm - focus_nm) / 400;
  return 1.1 * std::sqrt(1 + u * u) * (1 - 0.03 * std::log10(dimness / 1e-3));
}

control::WidthCurve curve_of(double dimness) {
  std::vector<control::WidthCurve::Knot> knots;
  for (double z = -600; z <= 600; z += 50)
    knots.push_back({z, width_px(z, 220, dimness), width_px(z, -220, dimness), 1.5, dimness, 2e-4});
  return {std::move(knots), 1.5, control::AxialMethod::Astigmatic, {-400, 400}};
}

control::CurveFile a_file() {
  return {.curve = curve_of(1e-3), .fits = control::CurveFits{}, .dimmer = {curve_of(1e-1)}};
}

/// As a camera of that gain and offset shows it.
Spot spot_at(double z_nm, double dimness, double electrons, double sd_px = 0.01) {
  Spot spot{.marker = 1};
  fitter::Localization& fit = spot.fit;
  const double x = width_px(z_nm, 220, dimness), y = width_px(z_nm, -220, dimness);
  fit.sigma_x_px = static_cast<float>(x);
  fit.sigma_y_px = static_cast<float>(y);
  fit.sigma_x_sd_px = fit.sigma_y_sd_px = static_cast<float>(sd_px);
  fit.amplitude_adu = static_cast<float>(electrons / (2 * std::numbers::pi * x * y)) / kGain;
  fit.background_adu = static_cast<float>(dimness * electrons - 4) / kGain + kOffset;
  fit.chi_square = static_cast<float>((1 + 2e-4 * electrons) * kRoi * kRoi);
  return spot;
}

Spot read(const Spot& spot, float gain = kGain) {
  const control::CurveFile file = a_file();
  fitter::FitOptions fit;
  fit.model = fitter::Model::EllipticalGaussian;
  fit.estimator = fitter::Estimator::PoissonLikelihood;
  fit.noise = {.gain_e_per_adu = gain, .read_noise_e = 2, .offset_adu = kOffset};
  AxialReader reader(file, fit, kRoi, 2, kNoFrame);
  const Spot result = reader.read(std::array{spot}, nullptr).front();
  CHECK(reader.counts()[static_cast<std::size_t>(result.reading)] == 1);
  CHECK(reader.counts_of(1) == reader.counts());
  return result;
}

TEST_CASE("z of a marker is read by the curve of its brightness, with its standard deviation") {
  for (const double z : {-250.0, 0.0, 170.0}) {
    for (const double dimness : {1e-3, 1e-2, 1e-1}) {
      CAPTURE(z, dimness);
      const Spot spot = read(spot_at(z, dimness, 5e3));
      REQUIRE(spot.reading == HeightReading::Read);
      CHECK(static_cast<double>(spot.z_nm) == Approx(z).margin(3));
      CHECK(static_cast<double>(spot.z_sd_nm) ==
            Approx(curve_of(dimness).sd_nm(z, {1e-4, 1e-4, 0})).epsilon(0.03));
    }
  }
}

TEST_CASE("what is no z says why, and is no number") {
  const auto is_none = [](const Spot& spot, HeightReading why) {
    CHECK(spot.reading == why);
    CHECK(std::isnan(spot.z_nm));
    CHECK(std::isnan(spot.z_sd_nm));
  };
  is_none(read(spot_at(470, 1e-3, 5e3)), HeightReading::OutOfRange);
  is_none(read(spot_at(-470, 1e-3, 5e3)), HeightReading::OutOfRange);
  is_none(read(spot_at(0, 1e-3, 5e3, 0.3)), HeightReading::TooDim);
  Spot wide = spot_at(0, 1e-3, 5e3);
  wide.fit.sigma_x_px *= 1.6f;
  wide.fit.sigma_y_px *= 1.6f;
  is_none(read(wide), HeightReading::Unclear);
  Spot with_neighbour = spot_at(0, 1e-3, 5e3);
  with_neighbour.fit.chi_square *= 4;
  is_none(read(with_neighbour), HeightReading::Unclear);
  CHECK(read(with_neighbour, 0).reading ==
        HeightReading::Read);  // deviance in counts tells nothing
  Spot unknown = spot_at(0, 1e-3, 5e3);
  unknown.fit.sigma_x_sd_px = std::numeric_limits<float>::quiet_NaN();
  CHECK(read(unknown).reading != HeightReading::Read);
}

/// Four markers of these shares of their light, on a frame of this even light.
std::array<HeightReading, 4> judged(AxialReader& reader, std::array<double, 4> light, float level) {
  const std::vector<float> frame(200 * 200, level);
  std::array<Spot, 4> spots;
  for (std::size_t i = 0; i < spots.size(); ++i) {
    spots[i] = spot_at(50, 1e-3, 5e3);
    spots[i].marker = static_cast<int>(i);
    spots[i].x_px = spots[i].y_px = 100;
    spots[i].fit.amplitude_adu *= static_cast<float>(light[i]);
  }
  const auto read = reader.read(spots, reinterpret_cast<const std::byte*>(frame.data()));
  std::array<HeightReading, 4> readings{};
  for (std::size_t i = 0; i < readings.size(); ++i) readings[i] = read[i].reading;
  return readings;
}

TEST_CASE("light tells rings far out of focus, and what comes beside a marker") {
  using R = HeightReading;
  const control::CurveFile file = a_file();
  fitter::FitOptions fit;
  fit.model = fitter::Model::EllipticalGaussian;
  fit.noise = {.gain_e_per_adu = 0, .read_noise_e = 2, .offset_adu = kOffset};
  const camera::StackShape shape = {200, 200, 1, camera::PixelType::F32};
  AxialReader reader(file, fit, kRoi, 4, shape);
  const float around = spot_at(50, 1e-3, 5e3).fit.background_adu;
  for (int frame = 0; frame < 20; ++frame)
    CHECK(judged(reader, {1, 1, 1, 1}, around) == std::array{R::Read, R::Read, R::Read, R::Read});
  // A lamp that is turned down is none, one marker that grows against the others is.
  CHECK(judged(reader, {0.15, 0.15, 0.15, 0.15}, around) ==
        std::array{R::Read, R::Read, R::Read, R::Read});
  CHECK(judged(reader, {1, 1, 1.4, 1}, around) ==
        std::array{R::Read, R::Read, R::Company, R::Read});
  CHECK(judged(reader, {1.4, 1.4, 1.4, 1.4}, around) ==
        std::array{R::Read, R::Read, R::Read, R::Read});
  // What lies around becomes darker than the ROI's background: that is the rings' light.
  std::array<R, 4> last{};
  for (int frame = 0; frame < 60; ++frame) last = judged(reader, {1, 1, 1, 1}, around - 120);
  CHECK(last == std::array{R::OutOfRange, R::OutOfRange, R::OutOfRange, R::OutOfRange});
}

TEST_CASE("markers that are seldom read are named, the first of many") {
  const control::CurveFile file = a_file();
  AxialReader reader(file, {}, kRoi, 9, kNoFrame);
  std::vector<Spot> spots;
  for (int m = 0; m < 9; ++m) spots.push_back(spot_at(m < 7 ? 470 : 0, 1e-3, 5e3));
  for (int m = 0; m < 9; ++m) spots[static_cast<std::size_t>(m)].marker = m;
  reader.read(spots, nullptr);
  const std::string said = heights_in_words(reader, std::vector<Pick>(9, {30, 40}));
  CHECK_THAT(said,
             contains("z read of 2 of 9 fits; 7 out of the curve's range\n"
                      "marker 0 at 30, 40 px: z read of 0 of 1 fit; 1 out of the curve's range\n"));
  CHECK_THAT(said, contains("marker 4 at") && !contains("marker 5 at"));
  CHECK_THAT(said, contains("and 2 markers more, of less than three quarters of their fits\n"));
}

TEST_CASE("what was not read is told with how many there are") {
  CHECK(unread_in_words({0, 7, 0, 0, 0, 0}).empty());
  CHECK(unread_in_words({4, 7, 3, 0, 1, 0}) == "3 out of the curve's range, 1 too dim to tell z");
}

}  // namespace
}  // namespace driftd::tools
