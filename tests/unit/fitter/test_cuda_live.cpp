// SPDX-License-Identifier: MIT
// The CUDA live fitter: against the CPU twin on a device; and, on a pretended device that needs
// none, what happens when the runtime fails.
#include "fitter/cuda/live_fitter.hpp"

#include <atomic>
#include <thread>

#include "fitter/failover.hpp"
#include "support/pretended_cuda.hpp"
#include "unit/fitter/cuda_fits.hpp"

namespace driftd {
namespace {

using fitter::CudaMode;
using Spots = test::SpotImages<std::uint16_t>;

/// A debugger or compute-sanitizer may slow a kernel down by orders of magnitude.
constexpr std::chrono::seconds kPatient(30);

void stage(fitter::LiveFitter& live, const Spots& images, std::size_t first, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    std::copy_n(images.roi(first + i), images.side * images.side, live.staging(i));
}

CudaMode any_mode() {
  return GENERATE(CudaMode::Launch, CudaMode::Graph, CudaMode::Resident);
}

TEST_CASE("Live fits on CUDA agree with the CPU, cold and warm, for every ROI side") {
  if (test::no_device()) return;
  const CudaMode mode = any_mode();
  constexpr std::size_t kCount = 37;
  for (int side = fitter::kMinRoiPx; side <= fitter::kMaxRoiPx; ++side) {
    const auto images = test::simulate_spots<std::uint16_t>(side, 4000, 400, kCount, 61);
    const auto live = fitter::make_cuda_live_fitter(side, kCount, {}, {0, mode, kPatient});
    stage(*live, images, 0, kCount);
    std::vector<fitter::Start> starts(kCount);
    for (int round = 0; round < 2; ++round) {
      const auto cpu = test::fit_all(images.pixels, side, {}, starts);
      const auto fits = live->fit(starts);
      REQUIRE(live->error() == nullptr);
      test::check_agreement(cpu, {fits.begin(), fits.end()}, side);
      starts = test::starts_from(cpu);
    }
  }
}

TEST_CASE("Live fits of every model and estimator on CUDA agree with the CPU") {
  if (test::no_device()) return;
  using fitter::Estimator;
  using fitter::Model;
  constexpr std::size_t kCount = 23;
  fitter::FitOptions options;
  options.model = GENERATE(Model::CircularGaussian, Model::EllipticalGaussian);
  options.estimator = GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                               Estimator::PoissonLikelihood);
  options.noise = {0.5f, 1.5f, 0};
  options.integrated = GENERATE(false, true);
  if (options.estimator != Estimator::ImplicitLeastSquares) options.bounds.upper[2] = 12;
  const CudaMode mode = any_mode();
  for (const int side : {7, 9, 13, 16, 17, 24, 32, 33, 48, 64}) {
    INFO("side " << side);
    const auto images =
        test::simulate_spots<std::uint16_t>(side, 4000, 400 + side * side, kCount, 67);
    const auto live = fitter::make_cuda_live_fitter(side, kCount, options, {0, mode, kPatient});
    stage(*live, images, 0, kCount);
    std::vector<fitter::Start> starts(kCount);
    for (int round = 0; round < 2; ++round) {
      const auto cpu = test::fit_all(images.pixels, side, options, starts);
      const auto fits = live->fit(starts);
      REQUIRE(live->error() == nullptr);
      test::check_agreement(cpu, {fits.begin(), fits.end()}, side);
      starts = test::starts_from(cpu);
    }
  }
}

TEST_CASE("A live fitter on CUDA keeps its contract") {
  if (test::no_device()) return;
  const CudaMode mode = any_mode();
  const auto images = test::simulate_spots<std::uint16_t>(9, 4000, 40, 64, 62);
  const auto live = fitter::make_cuda_live_fitter(9, 64, {}, {0, mode, kPatient});
  CHECK(live->roi_px() == 9);
  CHECK(live->capacity() == 64);
  CHECK_THAT(live->description(), contains("cuda ("));
  for (std::size_t i = 0; i < 64; ++i)
    CHECK(reinterpret_cast<std::uintptr_t>(live->staging(i)) % 64 == 0);
  stage(*live, images, 0, 64);
  CHECK(live->fit({}).empty());
  CHECK(live->fit(std::vector<fitter::Start>(100)).size() == 64);
  const auto first = live->fit(std::vector<fitter::Start>(64));
  const test::Fits kept(first.begin(), first.end());
  std::fill_n(live->staging(3), 81, std::uint16_t{7});
  for (int i = 0; i < 1000; ++i) {
    const std::size_t count = 1 + static_cast<std::size_t>(i) % 64;
    const auto fits = live->fit(std::vector<fitter::Start>(count));
    REQUIRE(fits.size() == count);
    for (std::size_t k = 0; k < count; ++k) {
      if (k == 3) {
        CHECK(fits[k].status == fitter::FitStatus::BadInput);
      } else if (!test::same_bits(&fits[k], &kept[k], 1)) {
        FAIL("call " << i << " fit " << k);
      }
    }
  }
}

TEST_CASE("Every frame's own pixels are fitted, also from another thread") {
  if (test::no_device()) return;
  const CudaMode mode = any_mode();
  constexpr std::size_t kCount = 16, kFrames = 200;
  const auto images = test::simulate_spots<std::uint16_t>(9, 4000, 40, kCount * kFrames, 63);
  const auto cpu = test::fit_all(images.pixels, 9);
  const auto live = fitter::make_cuda_live_fitter(9, kCount, {}, {0, mode, kPatient});
  test::Fits all;
  std::jthread([&] {
    for (std::size_t frame = 0; frame < kFrames; ++frame) {
      stage(*live, images, frame * kCount, kCount);
      const auto fits = live->fit(std::vector<fitter::Start>(kCount));
      all.insert(all.end(), fits.begin(), fits.end());
    }
  }).join();
  test::check_agreement(cpu, all, 9);
}

TEST_CASE("A resident kernel wakes after a pause, and ends with its fitter") {
  if (test::no_device()) return;
  const auto images = test::simulate_spots<std::uint16_t>(16, 4000, 40, 4, 64);
  for (int i = 0; i < 3; ++i) {
    const auto live = fitter::make_cuda_live_fitter(16, 4, {}, {0, CudaMode::Resident, kPatient});
    stage(*live, images, 0, 4);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK(converged(live->fit(std::vector<fitter::Start>(4))[0].status));
  }
}

TEST_CASE("A live fitter for another ROI is made while one fits, and outlives it") {
  if (test::no_device()) return;
  // Not resident: such a kernel keeps the device to itself.
  const CudaMode mode = GENERATE(CudaMode::Launch, CudaMode::Graph);
  constexpr std::size_t kCount = 16;
  const auto images = test::simulate_spots<std::uint16_t>(13, 4000, 40, kCount, 71);
  const auto wider = test::simulate_spots<std::uint16_t>(23, 4000, 40, kCount, 72);
  auto live = fitter::make_cuda_live_fitter(13, kCount, {}, {0, mode, kPatient});
  stage(*live, images, 0, kCount);
  const std::vector<fitter::Start> starts(kCount);
  const auto first = live->fit(starts);
  const test::Fits kept(first.begin(), first.end());
  std::unique_ptr<fitter::LiveFitter> next;
  std::atomic<bool> made = false;
  std::jthread maker([&] {
    next = fitter::make_cuda_live_fitter(23, kCount, {}, {0, mode, kPatient});
    stage(*next, wider, 0, kCount);
    next->fit(starts);
    made = true;
  });
  for (int more = 0; more < 1000; more += made ? 1 : 0) {
    const auto fits = live->fit(starts);
    if (!test::same_bits(fits.data(), kept.data(), kCount)) FAIL("other results");
  }
  maker.join();
  live.reset();
  const auto fits = next->fit(starts);
  REQUIRE(next->error() == nullptr);
  test::check_agreement(test::fit_all(wider.pixels, 23), {fits.begin(), fits.end()}, 23);
}

TEST_CASE("A device that is not there is named") {
  if (test::no_device()) return;
  CHECK_THROWS_WITH(fitter::make_cuda_live_fitter(9, 4, {}, {99}), contains("device 99 is not"));
  CHECK_THROWS_AS(fitter::make_cuda_live_fitter(3, 4, {}), fitter::FitterError);
  CHECK_THROWS_AS(fitter::make_cuda_live_fitter(9, 0, {}), fitter::FitterError);
}

namespace pretended = test::pretended;
using pretended::Trouble;

TEST_CASE("When CUDA fails, the CPU twin fits that very frame") {
  const Trouble trouble = GENERATE(Trouble::LaunchFails, Trouble::NoResults);
  const auto images = test::simulate_spots<std::uint16_t>(9, 4000, 40, 24, 65);
  const auto cpu = test::fit_all(images.pixels, 9);
  const fitter::CudaLiveOptions cuda = {0, CudaMode::Launch, std::chrono::milliseconds(2)};
  const auto live = fitter::make_failover_live_fitter(
      fitter::cuda::make_live_fitter(9, 8, {}, cuda, pretended::live_calls()),
      fitter::make_cpu_live_fitter(9, 8, {}));
  const std::vector<fitter::Start> cold(8);
  const std::uint16_t* const slot = live->staging(0);
  for (std::size_t frame = 0; frame < 3; ++frame) {
    if (frame == 1) pretended::state().trouble = trouble;
    stage(*live, images, 8 * frame, 8);
    const auto fits = live->fit(cold);
    REQUIRE(fits.size() == 8);
    CHECK(test::same_bits(fits.data(), cpu.data() + 8 * frame, 8));
    CHECK((live->error() == nullptr) == (frame == 0));
  }
  CHECK(live->staging(0) == slot);
  CHECK_THAT(live->description(), contains("cpu ("));
  CHECK_THAT(live->error(),
             contains(trouble == Trouble::LaunchFails ? "unspecified launch failure"
                                                      : "no results by the deadline"));
}

TEST_CASE("A live fitter alone reports its failure and stays failed") {
  const auto live =
      fitter::cuda::make_live_fitter(9, 2, {}, {0, CudaMode::Launch}, pretended::live_calls());
  const std::vector<fitter::Start> cold(2);
  CHECK(live->fit(cold).size() == 2);
  pretended::state().trouble = Trouble::LaunchFails;
  CHECK(live->fit(cold).empty());
  pretended::state().trouble = Trouble::None;
  CHECK(live->fit(cold).empty());
  CHECK_THAT(live->error(), contains("CUDA: starting the fit: "));
}

TEST_CASE("What fails at start is said, and nothing is leaked") {
  const auto calls = pretended::live_calls();
  const int before = pretended::state().allocations;
  auto troubles = pretended::both(pretended::at_start(), pretended::of_memory());
  troubles.push_back({Trouble::LaunchFails, "CUDA: starting the fit: unspecified launch failure"});
  for (const auto& [trouble, says] : troubles) {
    pretended::state().trouble = trouble;
    CHECK_THROWS_WITH(fitter::cuda::make_live_fitter(9, 2, {}, {0, CudaMode::Launch}, calls),
                      contains(says));
    CHECK(pretended::state().allocations == before);
  }
}

}  // namespace
}  // namespace driftd
