// SPDX-License-Identifier: MIT
// Every SIMD target that this processor can run and the library was compiled for, the scalar one
// included, against each other.
#include <hwy/highway.h>

#include <cmath>
#include <map>
#include <string>

#include "support/catch.hpp"
#include "support/instrumented.hpp"
#include "unit/fitter/fits.hpp"

namespace driftd {
namespace {

/// Restricts Highway to some targets while it lives.
class OnlyTargets {
 public:
  explicit OnlyTargets(std::int64_t targets) { set(targets); }
  ~OnlyTargets() { set(0); }
  OnlyTargets(const OnlyTargets&) = delete;
  OnlyTargets& operator=(const OnlyTargets&) = delete;

 private:
  static void set(std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().DeInit();
  }
};

using Fits = std::vector<fitter::Localization>;

/// By the name of the target that was really used.
std::map<std::string, Fits> fits_by_target(const std::vector<std::uint16_t>& pixels, int side,
                                           const fitter::FitOptions& options) {
  std::map<std::string, Fits> fits;
  const std::int64_t supported = hwy::SupportedTargets();
  for (int shift = 0; shift < 63; ++shift) {
    const std::int64_t bit = std::int64_t{1} << shift;
    if ((supported & bit) == 0) continue;
    const OnlyTargets only(bit);
    const std::string name = fitter::make_cpu_live_fitter(side, 1, {})->description();
    fits[name] = test::fit_all(pixels, side, options);
  }
  return fits;
}

TEST_CASE("All targets give the same answer") {
  using fitter::Estimator;
  const int side = GENERATE(4, 5, 8, 9, 13, 16, 17, 32, 50, 64);
  fitter::FitOptions options;
  options.estimator = GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                               Estimator::PoissonLikelihood);
  const int spots = test::kInstrumented ? 60 : 300;
  const auto images = test::simulate_spots<std::uint16_t>(side, 2000, 100, spots, 43);
  const auto by_target = fits_by_target(images.pixels, side, options);
  CHECK(by_target.size() > 1);
  const Fits& first = by_target.begin()->second;
  std::size_t compared = 0, verdicts = 0;
  for (const auto& [name, fits] : by_target) {
    for (std::size_t i = 0; i < fits.size(); ++i) {
      const bool both = converged(fits[i].status) && converged(first[i].status);
      verdicts += converged(fits[i].status) != converged(first[i].status) ? 1u : 0u;
      if (!both) continue;
      ++compared;
      INFO("side " << side << ", " << name << ", spot " << i);
      // Rounding may stop one an iteration earlier: the width of the stop criterion, as for warm.
      // A search over all parameters nears its minimum more slowly.
      const bool implicit = options.estimator == Estimator::ImplicitLeastSquares;
      const double width = (implicit ? 2 : 4) * std::sqrt(1e-6) * side;
      CHECK(std::fabs(fits[i].x_px - first[i].x_px) < width * first[i].x_sd_px);
      CHECK(std::fabs(fits[i].sigma_x_px - first[i].sigma_x_px) < width * first[i].sigma_x_sd_px);
      CHECK(fits[i].x_sd_px == Approx(first[i].x_sd_px).epsilon(0.01));
    }
  }
  CHECK(compared > 0);
  CHECK(verdicts <= by_target.size() * first.size() / 100);  // on the edge of the rule by rounding
}

}  // namespace
}  // namespace driftd
