// SPDX-License-Identifier: MIT
// The live contract: staging, warm starts, and no allocation once made.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "support/allocation_watch.hpp"
#include "support/catch.hpp"
#include "unit/fitter/fits.hpp"

namespace driftd {
namespace {

void stage(fitter::LiveFitter& live, const test::SpotImages<std::uint16_t>& images) {
  const auto count = static_cast<std::size_t>(images.side * images.side);
  for (std::size_t i = 0; i < images.truth.size(); ++i)
    std::copy_n(images.roi(i), count, live.staging(i));
}

TEST_CASE("A live fit is the batch fit, to the bit, in any slot") {
  const int side = GENERATE(4, 9, 13, 16, 31, 64);
  const auto images = test::simulate_spots<std::uint16_t>(side, 4000, 40, 16, 31);
  const auto live = fitter::make_cpu_live_fitter(side, 16, {});
  CHECK(live->roi_px() == side);
  CHECK(live->capacity() == 16);
  stage(*live, images);
  const std::vector<fitter::Start> cold(16);
  const auto fits = live->fit(cold);
  const auto batch = test::fit_all(images.pixels, side);
  REQUIRE(fits.size() == batch.size());
  CHECK(std::memcmp(fits.data(), batch.data(), fits.size_bytes()) == 0);

  const auto count = static_cast<std::size_t>(side * side);
  for (std::size_t i = 0; i < 16; ++i) std::copy_n(images.roi(15 - i), count, live->staging(i));
  const auto turned = live->fit(cold);
  for (std::size_t i = 0; i < 16; ++i)
    CHECK(std::memcmp(&turned[i], &batch[15 - i], sizeof batch[0]) == 0);
}

TEST_CASE("Staging slots are aligned and apart") {
  const int side = GENERATE(4, 5, 9, 13, 64);
  const auto live = fitter::make_cpu_live_fitter(side, 5, {});
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(reinterpret_cast<std::uintptr_t>(live->staging(i)) % 64 == 0);
    if (i > 0) CHECK(live->staging(i) - live->staging(i - 1) >= side * side);
  }
}

TEST_CASE("Fewer starts than slots fit fewer, more are cut off") {
  const auto images = test::simulate_spots<std::uint16_t>(9, 4000, 40, 4, 37);
  const auto live = fitter::make_cpu_live_fitter(9, 4, {});
  stage(*live, images);
  CHECK(live->fit(std::vector<fitter::Start>(3)).size() == 3);
  CHECK(live->fit(std::vector<fitter::Start>(9)).size() == 4);
  CHECK(live->fit({}).empty());
}

TEST_CASE("However many are fitted, each is that of its own slot and start") {
  const int side = GENERATE(6, 9, 32);
  constexpr std::size_t kMost = 21;
  const auto images = test::simulate_spots<std::uint16_t>(side, 20'000, 400, kMost, 31);
  const auto cold = test::fit_all(images.pixels, side);
  auto starts = test::starts_from(cold);
  for (std::size_t i = 0; i < kMost; i += 4) starts[i] = {};
  const auto live = fitter::make_cpu_live_fitter(side, kMost, {});
  stage(*live, images);
  for (std::size_t count = 1; count <= kMost; ++count) {
    const auto fits = live->fit({starts.data(), count});
    REQUIRE(fits.size() == count);
    for (std::size_t i = 0; i < count; ++i) {
      CAPTURE(side, count, i);
      REQUIRE(converged(fits[i].status));
      CHECK((fits[i].iterations <= 2) == (starts[i].sigma_x_px > 0));
      // Within the stop criterion, as for warm starts of a batch.
      const double width = 2 * std::sqrt(1e-6) * side;
      CHECK(std::fabs(fits[i].x_px - cold[i].x_px) < width * cold[i].x_sd_px);
      CHECK(std::fabs(fits[i].y_px - cold[i].y_px) < width * cold[i].y_sd_px);
    }
  }
}

TEST_CASE("A live fit allocates nothing, whatever the pixels are") {
  if (!test::can_watch()) {
    WARN("SKIPPED: a sanitizer owns the allocator");
    return;
  }
  for (const int side : {4, 13, 64}) {
    const auto images = test::simulate_spots<std::uint16_t>(side, 4000, 40, 8, 41);
    fitter::FitOptions options;
    options.noise = {0.5f, 1.5f, 0};
    const auto live = fitter::make_cpu_live_fitter(side, 8, options);
    stage(*live, images);
    std::fill_n(live->staging(3), side * side, std::uint16_t{7});  // bad input
    std::vector<fitter::Start> starts(8);
    test::watch_this_thread(true);
    for (int frame = 0; frame < 3; ++frame) {
      const auto fits = live->fit(starts);
      for (std::size_t i = 0; i < fits.size(); ++i)
        starts[i] = {fits[i].x_px, fits[i].y_px, fits[i].sigma_x_px, fits[i].sigma_y_px};
    }
    test::watch_this_thread(false);
    CHECK(test::watched_allocations() == 0);
  }
}

TEST_CASE("A marker that jumped is found again from its warm start") {
  const auto live = fitter::make_cpu_live_fitter(21, 1, {});
  std::vector<fitter::Start> start(1);
  for (const double x : {4.0, 16.0, 5.0}) {
    const auto pixels = test::clean_image({x, 10.0, 1.2, 900, 100}, 21);
    std::transform(pixels.begin(), pixels.end(), live->staging(0),
                   [](float p) { return static_cast<std::uint16_t>(p + 0.5f); });
    const auto fit = live->fit(start)[0];
    INFO("x " << x << " fitted " << fit.x_px);
    CHECK(converged(fit.status));
    CHECK(fit.x_px == Approx(x).margin(0.01));
    start[0] = {fit.x_px, fit.y_px, fit.sigma_x_px, fit.sigma_y_px};
  }
}

}  // namespace
}  // namespace driftd
