// SPDX-License-Identifier: MIT
// `fitter.backend` with a GPU that is there and cannot be used, on a pretended device.
#include <chrono>
#include <vector>

#include "daemon/setup/fitter_choice.hpp"
#include "fitter/cuda/live_fitter.hpp"
#include "support/catch.hpp"
#include "support/pretended_cuda.hpp"

namespace driftd {
namespace {

namespace pretended = test::pretended;
using pretended::Trouble;

std::vector<pretended::Named> troubles() {
  auto all = pretended::both(pretended::at_start(), pretended::of_memory());
  all.push_back({Trouble::LaunchFails, "CUDA: starting the fit: unspecified launch failure"});
  return all;
}

/// Live fitters of 3 ROIs of 9 x 9 px; the GPU has `trouble`.
daemon::FitterMakers makers(Trouble trouble) {
  return {[] { return fitter::make_cpu_live_fitter(9, 3, {}); },
          [trouble] {
            const auto calls = pretended::live_calls();
            pretended::state().trouble = trouble;
            const fitter::CudaLiveOptions cuda = {0, fitter::CudaMode::Launch,
                                                  std::chrono::seconds(10)};
            return fitter::cuda::make_live_fitter(9, 3, {}, cuda, calls);
          }};
}

TEST_CASE("auto takes the CPU where the GPU cannot be used, and says why", "[fitter_choice]") {
  for (const auto& [trouble, says] : troubles()) {
    const auto chosen = daemon::choose_backend(config::Backend::Auto, {}, makers(trouble));
    CHECK_THAT(chosen.fitter->description(), contains("cpu ("));
    CHECK_THAT(chosen.reason, contains(says));
    CHECK(chosen.fitter->fit(std::vector<fitter::Start>(3)).size() == 3);
    CHECK(chosen.fitter->error() == nullptr);
  }
}

TEST_CASE("so does the choice of the estimator", "[fitter_choice]") {
  for (const Trouble trouble : {Trouble::Exclusive, Trouble::LaunchFails}) {
    daemon::FitterWish wish = {.backend = config::Backend::Auto,
                               .estimator = config::Estimator::Auto,
                               .gain_known = true,
                               .frame_rate_hz = 1,
                               .spots = {}};
    const auto chosen =
        daemon::choose_fitter(wish, [=](fitter::Estimator) { return makers(trouble); });
    CHECK(chosen.estimator == fitter::Estimator::PoissonLikelihood);
    CHECK_THAT(chosen.fitter->description(), contains("cpu ("));
    CHECK_THAT(chosen.reason, contains("CUDA: "));
  }
}

TEST_CASE("cuda is refused with the reason", "[fitter_choice]") {
  for (const auto& [trouble, says] : troubles())
    CHECK_THROWS_WITH(daemon::choose_backend(config::Backend::Cuda, {}, makers(trouble)),
                      contains(says));
}

}  // namespace
}  // namespace driftd
