// SPDX-License-Identifier: MIT
// The batch contract: sides, pixel types, starts, threads, options and what they refuse.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "fitter/options.hpp"
#include "fitter/pixel_terms.hpp"
#include "support/catch.hpp"
#include "unit/fitter/fits.hpp"

namespace driftd {
namespace {

using fitter::FitStatus;

bool same_bits(const std::vector<fitter::Localization>& a,
               const std::vector<fitter::Localization>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(fitter::Localization)) == 0;
}

TEST_CASE("A warm start gives the cold answer, for every ROI side") {
  const int side = GENERATE(range(fitter::kMinRoiPx, fitter::kMaxRoiPx + 1));
  const auto images = test::simulate_spots<std::uint16_t>(side, 4000, 400, 300, 13);
  const auto cold = test::fit_all(images.pixels, side);
  const auto warm = test::fit_all(images.pixels, side, {}, test::starts_from(cold));
  for (std::size_t i = 0; i < cold.size(); ++i) {
    if (!converged(cold[i].status)) continue;
    INFO("side " << side << " spot " << i);
    CHECK(converged(warm[i].status));
    // Each stops where chi-square is flat to 1e-6: within sqrt(1e-6 N) standard deviations.
    const double width = 2 * std::sqrt(1e-6) * side;
    CHECK(std::fabs(warm[i].x_px - cold[i].x_px) < width * cold[i].x_sd_px);
    CHECK(std::fabs(warm[i].y_px - cold[i].y_px) < width * cold[i].y_sd_px);
    CHECK(std::fabs(warm[i].sigma_x_px - cold[i].sigma_x_px) < width * cold[i].sigma_x_sd_px);
    CHECK(warm[i].iterations <= 2);
  }
}

TEST_CASE("A start far away or senseless ends at the same spot") {
  const test::Spot spot = {6.2, 5.9, 1.4, 800, 100};
  const auto pixels = test::clean_image(spot, 13);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const fitter::Start start :
       {fitter::Start{0, 0, 1, 1}, fitter::Start{12, 12, 0.5f, 0.5f}, fitter::Start{6, 6, 100, 100},
        fitter::Start{-1e6f, 1e6f, 1, 1}, fitter::Start{nan, 6, 1, 1}, fitter::Start{6, 6, nan, 1},
        fitter::Start{6, 6, -1, -1}}) {
    const auto fit = test::fit_all(pixels, 13, {}, {start}).at(0);
    INFO("start " << start.x_px << " " << start.y_px << " " << start.sigma_x_px);
    CHECK(converged(fit.status));
    CHECK(fit.x_px == Approx(6.2).margin(1e-3));
    CHECK(fit.sigma_x_px == Approx(1.4).margin(1e-3));
  }
}

TEST_CASE("Pixel types agree to the bit where their values do") {
  const int side = GENERATE(4, 5, 8, 9, 13, 16, 17, 32, 33, 63, 64);
  const auto images = test::simulate_spots<std::uint8_t>(side, 600, 3.0 * side * side, 50, 17);
  const std::vector<std::uint16_t> u16(images.pixels.begin(), images.pixels.end());
  const std::vector<float> f32(images.pixels.begin(), images.pixels.end());
  const auto from_u8 = test::fit_all(images.pixels, side);
  CHECK(same_bits(from_u8, test::fit_all(u16, side)));
  const auto from_f32 = test::fit_all(f32, side);  // its pedestal is not whole: not the same bits
  for (std::size_t i = 0; i < from_u8.size(); ++i) {
    CHECK(converged(from_f32[i].status) == converged(from_u8[i].status));
    if (converged(from_u8[i].status))
      CHECK(std::fabs(from_f32[i].x_px - from_u8[i].x_px) < 0.05 * from_u8[i].x_sd_px);
  }
}

template <class Pixel>
void check_bright(double unit) {
  std::vector<Pixel> pixels;
  for (const float p : test::clean_image({4.2, 3.9, 1.3, 220, 30}, 9))
    pixels.push_back(static_cast<Pixel>(std::lround(unit * p)));
  const auto fit = test::fit_one(pixels, 9);
  CHECK(converged(fit.status));
  CHECK(fit.x_px == Approx(4.2).margin(0.01));
  CHECK(fit.amplitude_adu == Approx(220 * unit).epsilon(0.01));
}

TEST_CASE("The brightest pixels that a type has are bright") {
  check_bright<std::uint8_t>(1);
  check_bright<std::uint16_t>(260);
}

TEST_CASE("Amplitude, offset and unit of the pixels do not matter") {
  const test::Spot spot = {6.2, 5.9, 1.4, 1, 0.25};
  for (const double scale : {1e-10, 1e-3, 1.0, 1e5, 1e10}) {
    auto pixels = test::clean_image(spot, 13);
    for (float& p : pixels) p = static_cast<float>(scale * p);
    const auto fit = test::fit_one(pixels, 13);
    INFO("scale " << scale);
    CHECK(converged(fit.status));
    CHECK(fit.x_px == Approx(6.2).margin(1e-4));
    CHECK(fit.amplitude_adu == Approx(scale).epsilon(1e-3));
    CHECK(fit.background_adu == Approx(0.25 * scale).epsilon(1e-3));
  }
}

TEST_CASE("The same bits on repeats and for any number of threads") {
  const int side = GENERATE(7, 9, 16, 21);
  const auto images = test::simulate_spots<std::uint16_t>(side, 400, 40, 501, 19);
  const auto once = test::fit_all(images.pixels, side);
  for (const int threads : {1, 2, 3, 7, 0})
    CHECK(same_bits(once, test::fit_all(images.pixels, side, {}, {}, threads)));
}

TEST_CASE("A fit's bits do not depend on its neighbours") {
  const auto images = test::simulate_spots<std::uint16_t>(9, 400, 40, 37, 23);
  const auto together = test::fit_all(images.pixels, 9);
  for (std::size_t i = 0; i < together.size(); ++i) {
    const std::vector<std::uint16_t> one(images.roi(i), images.roi(i) + 81);
    CHECK(same_bits({together[i]}, test::fit_all(one, 9)));
  }
}

/// Some starts are good, some lead nowhere, some are none.
std::vector<fitter::Start> mixed_starts(const std::vector<fitter::Localization>& fits) {
  std::vector<fitter::Start> starts = test::starts_from(fits);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (i % 4 == 1) starts[i] = {0, 8, 0.4f, 0.4f};
    if (i % 4 == 2) starts[i] = {};
  }
  return starts;
}

TEST_CASE("Warm and cold starts side by side end as each does alone") {
  const bool spots_only = GENERATE(true, false);
  const auto images = test::simulate_spots<std::uint16_t>(9, 4000, 400, 37, 23);
  fitter::FitOptions options;
  options.spots_only = spots_only;
  options.min_decrease = GENERATE(1e-6f, 0.0f);  // 0: some end at a place before the last one
  const auto starts = mixed_starts(test::fit_all(images.pixels, 9));
  const auto together = test::fit_all(images.pixels, 9, options, starts);
  for (std::size_t i = 0; i < together.size(); ++i) {
    const std::vector<std::uint16_t> one(images.roi(i), images.roi(i) + 81);
    CAPTURE(spots_only, i);
    CHECK(same_bits({together[i]}, test::fit_all(one, 9, options, {starts[i]})));
  }
}

TEST_CASE("Starts, levels, bounds and variances are each fit's own, whoever shares its batch") {
  using fitter::Estimator;
  const auto estimator = GENERATE(Estimator::LeastSquares, Estimator::WeightedLeastSquares,
                                  Estimator::PoissonLikelihood);
  constexpr std::size_t kCount = 150, kArea = 81;  // several pieces for threads
  const auto images = test::simulate_spots<float>(9, 4000, 400, kCount, 23);
  fitter::FitOptions options;
  options.model = fitter::Model::EllipticalGaussian;
  options.estimator = estimator;
  options.noise = {0.5f, 1, 0};
  options.spots_only = false;
  const auto starts = mixed_starts(test::fit_all(images.pixels, 9));
  std::vector<fitter::StartLevels> levels(kCount);
  std::vector<fitter::Bounds> bounds(kCount);
  std::vector<float> variances;
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto k = static_cast<float>(i % 7);
    levels[i] = {i % 3 == 0 ? NAN : 40 * k, 2 * k};  // 0 counts as missing in a likelihood
    if (i % 2 == 0) bounds[i].upper[i % 3] = 4 - 0.2f * k;
    bounds[i].lower[3] = 0.5f + 0.1f * k;
    for (std::size_t pixel = 0; pixel < kArea; ++pixel)
      variances.push_back(3 + k + static_cast<float>((pixel * (i + 3)) % 5));
  }
  const auto fit = [&](std::size_t first, std::size_t count, int threads) {
    std::vector<fitter::Localization> fits(count);
    const bool varied = estimator != Estimator::LeastSquares;
    fitter::fit_batch_cpu(
        {images.pixels.data() + first * kArea, fitter::PixelType::F32, 9, count,
         starts.data() + first, levels.data() + first,
         varied ? variances.data() + first * kArea : nullptr, bounds.data() + first},
        options, fits, threads);
    return fits;
  };
  const auto together = fit(0, kCount, 1);
  for (std::size_t i = 0; i < kCount; i += 5) {
    CAPTURE(static_cast<int>(estimator), i);
    CHECK(same_bits({together[i]}, fit(i, 1, 1)));
  }
  CHECK(same_bits(together, fit(0, kCount, 4)));
}

TEST_CASE("A warm fit beside cold ones is the fit alone, to the bit") {
  const int side = GENERATE(9, 13);
  const auto images = test::simulate_spots<std::uint16_t>(side, 4000, 400, 21, 43);
  fitter::FitOptions options;
  options.spots_only = GENERATE(false, true);
  std::vector<fitter::Start> starts(21);
  for (std::size_t i = 0; i < starts.size(); i += 2) {
    const auto& spot = images.truth[i];
    starts[i] = {static_cast<float>(spot.x_px), static_cast<float>(spot.y_px),
                 static_cast<float>(spot.sigma_px), 0};
  }
  const auto together = test::fit_all(images.pixels, side, options, starts);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::vector<std::uint16_t> one(images.roi(i), images.roi(i) + side * side);
    CHECK(converged(together[i].status));
    CHECK(same_bits({together[i]}, test::fit_all(one, side, options, {starts[i]})));
  }
}

TEST_CASE("A search that may end only where nothing changes any more finds its minimum") {
  const auto images = test::simulate_spots<std::uint16_t>(13, 4000, 40, 500, 47);
  fitter::FitOptions options;
  options.estimator =
      GENERATE(fitter::Estimator::ImplicitLeastSquares, fitter::Estimator::LeastSquares,
               fitter::Estimator::PoissonLikelihood);
  options.min_decrease = 0;
  options.min_step = GENERATE(1e-6f, 1e-4f);
  options.max_iterations = 100;
  const auto fits = test::fit_all(images.pixels, 13, options);
  CHECK(std::all_of(fits.begin(), fits.end(), [](const auto& l) { return converged(l.status); }));
}

TEST_CASE("Stop criteria and limits do what they say") {
  const auto images = test::simulate_spots<std::uint16_t>(9, 1600, 40, 200, 29);
  fitter::FitOptions options;
  options.min_chi_square = 1e9f;
  for (const auto& l : test::fit_all(images.pixels, 9, options)) CHECK(l.iterations == 0);
  options = {};
  options.max_iterations = 1;
  for (const auto& l : test::fit_all(images.pixels, 9, options))
    CHECK(l.status == FitStatus::IterationLimit);
  options = {};
  options.min_decrease = 0;
  for (const auto& l : test::fit_all(images.pixels, 9, options))
    CHECK(l.status == FitStatus::ConvergedStep);
  options = {};
  options.min_background_adu = 3;
  for (const auto& l : test::fit_all(images.pixels, 9, options)) CHECK(l.background_adu >= 3);
}

TEST_CASE("A setting out of its range is told with as many digits as it takes") {
  const auto said = [](const fitter::FitOptions& options) -> std::string {
    try {
      fitter::check_options(options);
    } catch (const fitter::FitterError& error) {
      return error.what();
    }
    return {};
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  fitter::FitOptions options;
  options.lambda_start = 0;
  CHECK(said(options) == "fitter: lambda_start is 0, allowed are 1e-09 to 1e+09");
  options.lambda_start = 0.1f;
  options.lambda_max = 0.05f;
  CHECK(said(options) == "fitter: lambda_max is 0.05, allowed are 0.1 to 1e+09");
  options = {};
  options.max_iterations = 256;
  CHECK(said(options) == "fitter: max_iterations is 256, allowed are 1 to 255");
  options.max_iterations = 2147483647;  // no float
  CHECK(said(options) == "fitter: max_iterations is 2147483647, allowed are 1 to 255");
  options = {};
  options.noise.read_noise_e = kInfinity;
  CHECK(said(options) == "fitter: noise.read_noise_e is inf, allowed are 0 to 3.4028235e+38");
  options = {};
  options.estimator = fitter::Estimator::LeastSquares;
  options.bounds.lower[1] = 1e-8f;
  options.bounds.upper[1] = -2.5f;
  CHECK_THAT(said(options), contains("bounds of parameter 1 are 1e-08 to -2.5, allowed"));
}

TEST_CASE("An estimator that needs the pixels' variances knows them") {
  CHECK(fitter::needs_variances(fitter::Estimator::WeightedLeastSquares));
  CHECK_FALSE(fitter::needs_variances(fitter::Estimator::ImplicitLeastSquares));
  for (int i = 0; i <= static_cast<int>(fitter::kLastEstimator); ++i) {
    const auto estimator = static_cast<fitter::Estimator>(i);
    CAPTURE(i);
    if (fitter::needs_variances(estimator)) CHECK(fitter::knows_its_variances(estimator));
  }
}

TEST_CASE("Settings and arrays that make no sense are refused with a sentence") {
  std::vector<std::uint16_t> pixels(81, 1);
  std::vector<fitter::Localization> results(1);
  const fitter::Batch good = {pixels.data(), fitter::PixelType::U16, 9, 1, nullptr};
  const auto refused = [&](fitter::Batch batch, fitter::FitOptions options, int threads) {
    CHECK_THROWS_AS(fit_batch_cpu(batch, options, results, threads), fitter::FitterError);
  };
  for (const int side : {-1, 0, 3, 65}) {
    fitter::Batch batch = good;
    batch.roi_px = side;
    refused(batch, {}, 1);
  }
  fitter::Batch batch = good;
  batch.count = 2;
  refused(batch, {}, 1);
  batch = good;
  batch.pixels = nullptr;
  refused(batch, {}, 1);
  refused(good, {}, -1);
  fitter::FitOptions options;
  options.max_iterations = 0;
  refused(good, options, 1);
  options = {};
  options.lambda_max = 1e-6f;
  refused(good, options, 1);
  options = {};
  options.min_step = std::numeric_limits<float>::quiet_NaN();
  refused(good, options, 1);
  try {
    fitter::make_cpu_live_fitter(65, 1, {});
    FAIL("side 65 was taken");
  } catch (const fitter::FitterError& error) {
    CHECK(std::string(error.what()).find("roi_px is 65") != std::string::npos);
  }
  CHECK_THROWS_AS(fitter::make_cpu_live_fitter(9, 0, {}), fitter::FitterError);
}

TEST_CASE("Settings and arrays just beyond their limits are refused, those at them are not") {
  using fitter::Parameter;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const float pixels[81] = {};
  const fitter::Start start;
  const fitter::StartLevels levels;
  const fitter::Batch bare = {pixels, fitter::PixelType::F32, 9, 1};
  fitter::Batch started = bare;
  started.starts = &start;
  started.levels = &levels;
  const auto takes = [](const fitter::Batch& batch, std::size_t results, const auto& change) {
    fitter::FitOptions options;
    options.estimator = fitter::Estimator::LeastSquares;
    change(options);
    try {
      fitter::check_batch(batch, options, results);
      return true;
    } catch (const fitter::FitterError&) {
      return false;
    }
  };
  const auto unchanged = [](auto&) {};
  CHECK(takes(bare, 1, unchanged));
  CHECK_FALSE(takes(bare, 0, unchanged));
  CHECK_FALSE(takes(bare, 2, unchanged));
  CHECK(takes(started, 1, [](auto& o) { o.fixed = 0x37; }));
  CHECK_FALSE(takes(started, 1, [](auto& o) { o.fixed = 0x3f; }));
  CHECK(takes(started, 1, [](auto& o) {
    o.model = fitter::Model::EllipticalGaussian;
    o.fixed = 0x3f;
  }));
  CHECK_FALSE(takes(started, 1, [](auto& o) { o.fixed = 0x40; }));
  for (int j = 0; j < fitter::kParameters; ++j) {
    const std::uint8_t fixed = bit(static_cast<Parameter>(j));
    CAPTURE(j);
    CHECK_FALSE(takes(bare, 1, [&](auto& o) { o.fixed = fixed; }));
    CHECK_FALSE(takes(started, 1, [&](auto& o) {
      o.estimator = fitter::Estimator::ImplicitLeastSquares;
      o.fixed = fixed;
    }));
    const bool has = static_cast<Parameter>(j) != Parameter::SigmaY;
    CHECK(takes(bare, 1, [&](auto& o) { o.bounds.lower[j] = o.bounds.upper[j] = 3; }) == has);
    CHECK(takes(bare, 1, [&](auto& o) { o.bounds.lower[j] = 3; }) == has);
    CHECK(takes(bare, 1, [&](auto& o) { o.bounds.upper[j] = 3; }) == has);
    CHECK(takes(started, 1, [&](auto& o) { o.fixed = fixed; }) == has);
    CHECK(takes(bare, 1, [&](auto& o) {
      o.model = fitter::Model::EllipticalGaussian;
      o.bounds.lower[j] = o.bounds.upper[j] = 3;
    }));
    CHECK_FALSE(takes(bare, 1, [&](auto& o) { o.bounds.lower[j] = kNan; }));
    CHECK_FALSE(takes(bare, 1, [&](auto& o) { o.bounds.upper[j] = kNan; }));
  }
  CHECK(takes(bare, 1, [](auto& o) { o.saturation_adu = 1e-30f; }));
  CHECK_FALSE(takes(bare, 1, [](auto& o) { o.saturation_adu = 0; }));
  CHECK_FALSE(takes(bare, 1, [&](auto& o) { o.saturation_adu = kNan; }));
}

TEST_CASE("Variances are refused by an estimator that does not use them, not ignored") {
  using fitter::Estimator;
  const float pixels[81] = {}, variances[81] = {};
  const fitter::Batch batch = {.pixels = pixels,
                               .type = fitter::PixelType::F32,
                               .roi_px = 9,
                               .count = 1,
                               .variances = variances};
  fitter::FitOptions options;
  for (const auto estimator : {Estimator::ImplicitLeastSquares, Estimator::LeastSquares}) {
    options.estimator = estimator;
    CHECK_THROWS_WITH(
        fitter::check_batch(batch, options, 1),
        contains("does not use; weighted least squares and the Poisson likelihood do"));
  }
  for (const auto estimator : {Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood}) {
    options.estimator = estimator;
    CHECK_NOTHROW(fitter::check_batch(batch, options, 1));
  }
}

TEST_CASE("What the model does not have is told by its name") {
  fitter::FitOptions options;
  options.estimator = fitter::Estimator::LeastSquares;
  options.bounds.lower[3] = 1;
  CHECK_THROWS_WITH(fitter::check_options(options), contains("sigma_y is bounded"));
  options.bounds = {};
  options.fixed = bit(fitter::Parameter::SigmaY);
  CHECK_THROWS_WITH(fitter::check_options(options), contains("sigma_y is fixed"));
}

TEST_CASE("An empty batch is no error") {
  fitter::fit_batch_cpu({nullptr, fitter::PixelType::U8, 9, 0, nullptr}, {}, {}, 4);
}

TEST_CASE("Every status has a name of its own") {
  for (int a = 0; a <= static_cast<int>(FitStatus::BadInput); ++a)
    for (int b = 0; b < a; ++b)
      CHECK(std::string(name_of(static_cast<FitStatus>(a))) !=
            std::string(name_of(static_cast<FitStatus>(b))));
}

}  // namespace
}  // namespace driftd
