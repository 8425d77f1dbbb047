// SPDX-License-Identifier: MIT
#include "tools/driftfit/spot_fitter.hpp"

#include "support/catch.hpp"
#include "support/hard_spots.hpp"

namespace driftd::tools {
namespace {

using Fits = std::vector<fitter::Localization>;

Fits fits_of(const fitter::Batch& batch, ColdStart cold_start, int threads = 2) {
  SpotFitterSettings settings;
  settings.back_end = BackEnd::Cpu;
  settings.threads = threads;
  settings.cold_start = cold_start;
  settings.options.model = fitter::Model::EllipticalGaussian;
  settings.options.estimator = fitter::Estimator::WeightedLeastSquares;
  settings.options.spots_only = false;
  SpotFitter spot_fitter(settings);
  Fits fits(batch.count);
  spot_fitter.fit(batch, fits);
  return fits;
}

TEST_CASE("a swarm searches what has no start and leaves alone what has one") {
  constexpr std::size_t kSpots = 30;
  const auto sample = test::draw_hard(test::Hard::Ordinary, kSpots, 2);
  std::vector<fitter::Start> starts(kSpots);
  const auto warm = [](std::size_t i) { return i % 5 < 2; };
  for (std::size_t i = 0; i < kSpots; ++i) {
    if (warm(i)) starts[i] = {5, 5, 1.4f, 1.4f};
  }
  fitter::Batch batch = sample.batch();
  batch.starts = starts.data();
  const Fits peak = fits_of(batch, ColdStart::Peak);
  const Fits swarm = fits_of(batch, ColdStart::Swarm);
  const Fits one_thread = fits_of(batch, ColdStart::Swarm, 1);
  std::size_t differ = 0;  // a few end on the same bits by either way
  for (std::size_t i = 0; i < kSpots; ++i) {
    if (warm(i)) CHECK(swarm[i].x_px == peak[i].x_px);
    differ += swarm[i].x_px != peak[i].x_px ? 1u : 0u;
    CHECK(swarm[i].x_px == Approx(peak[i].x_px).margin(5e-3));
    CHECK(swarm[i].x_px == one_thread[i].x_px);
  }
  CHECK(differ > kSpots / 3);
}

}  // namespace
}  // namespace driftd::tools
