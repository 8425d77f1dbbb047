// SPDX-License-Identifier: MIT
// Every SIMD target that this processor can run and the library was compiled for, the scalar one
// included, against each other.
#include <hwy/highway.h>

#include <cmath>
#include <iostream>
#include <map>
#include <string>

#include "fitter/cpu/kernel.hpp"
#include "fitter/instruction_sets.hpp"
#include "fitter/pixel_terms.hpp"
#include "fitter/swarm.hpp"
#include "support/catch.hpp"
#include "support/hard_spots.hpp"
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

/// With each target alone that this processor can run: action(name of the target really used).
template <class Action>
void with_each_target(const Action& action) {
  const std::int64_t supported = hwy::SupportedTargets();
  for (int shift = 0; shift < 63; ++shift) {
    const std::int64_t bit = std::int64_t{1} << shift;
    if ((supported & bit) == 0) continue;
    const OnlyTargets only(bit);
    action(fitter::make_cpu_live_fitter(9, 1, {})->description());
  }
}

TEST_CASE("The best target is used, whoever has asked Highway before") {  // the first: nobody has
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());  // another library of the process
  const std::string asked_before = fitter::make_cpu_live_fitter(9, 1, {})->description();
  hwy::GetChosenTarget().DeInit();
  CHECK(fitter::make_cpu_live_fitter(9, 1, {})->description() == asked_before);
}

TEST_CASE(
    "One instruction set may be pinned, and one that cannot be had is refused with those that "
    "can") {
  const std::vector<std::string> sets = fitter::cpu_instruction_sets();
  REQUIRE(!sets.empty());
  CHECK(sets.back() == "baseline");
  CHECK(fitter::cpu_instruction_set() == sets.front());
  const std::string best = fitter::make_cpu_live_fitter(9, 1, {})->description();
  {
    const OnlyTargets only(HWY_STATIC_TARGET);
    CHECK(fitter::cpu_instruction_sets() == std::vector<std::string>{"baseline"});
    const std::string baseline = fitter::make_cpu_live_fitter(9, 1, {})->description();
    fitter::use_cpu_instruction_set("baseline");
    CHECK(fitter::make_cpu_live_fitter(9, 1, {})->description() == baseline);
    CHECK_THROWS_WITH(fitter::use_cpu_instruction_set("avx512"),
                      "the instruction set 'avx512' cannot be had: this processor, by what this "
                      "build has kernels for, "
                      "has baseline");
    CHECK(fitter::cpu_instruction_set() == "baseline");  // as it was
  }
  CHECK(fitter::cpu_instruction_set() == "baseline");
  fitter::use_cpu_instruction_set("auto");
  CHECK(fitter::make_cpu_live_fitter(9, 1, {})->description() == best);
}

TEST_CASE("All targets move a swarm alike") {
  const auto sample = test::draw_hard(test::Hard::TwoSpots, 30, 4);
  fitter::FitOptions options;
  options.model = fitter::Model::EllipticalGaussian;
  fitter::SwarmOptions swarm;
  swarm.particles = 96;
  swarm.iterations = 3;  // differences of rounding grow with each
  std::map<std::string, std::vector<fitter::SwarmReport>> reports;
  with_each_target([&](const std::string& target) {
    Fits polished(30);
    reports[target].resize(30);
    fitter::fit_swarm_cpu(sample.batch(), options, swarm, polished, reports[target], 1);
  });
  CHECK(reports.size() > 1);
  const auto& first = reports.begin()->second;
  for (const auto& [target, found] : reports) {
    CAPTURE(target);
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i].best.x_px == Approx(first[i].best.x_px).margin(1e-4));
      CHECK(found[i].best.y_px == Approx(first[i].best.y_px).margin(1e-4));
      CHECK(found[i].best.sigma_x_px == Approx(first[i].best.sigma_x_px).margin(1e-4));
      CHECK(found[i].chi_square == Approx(first[i].chi_square).epsilon(1e-4));
    }
  }
}

TEST_CASE("All targets give the same answer") {
  using fitter::Estimator;
  const int side = GENERATE(4, 5, 8, 9, 13, 16, 17, 32, 50, 64);
  fitter::FitOptions options;
  options.estimator = GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                               Estimator::PoissonLikelihood);
  const int spots = test::kInstrumented ? 60 : 300;
  const auto images = test::simulate_spots<std::uint16_t>(side, 2000, 100, spots, 43);
  std::map<std::string, Fits> by_target;
  with_each_target([&](const std::string& target) {
    by_target[target] = test::fit_all(images.pixels, side, options);
  });
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

/// Every value of a fit, and its standard deviation or what may take its place.
struct Value {
  float value, sd;
};

std::vector<Value> values_of(const fitter::Localization& l) {
  return {{l.x_px, l.x_sd_px},
          {l.y_px, l.y_sd_px},
          {l.sigma_x_px, l.sigma_x_sd_px},
          {l.sigma_y_px, l.sigma_y_sd_px},
          {l.amplitude_adu, l.amplitude_sd_adu},
          {l.background_adu, l.background_sd_adu},
          {l.chi_square, l.chi_square}};
}

/// 24 elliptical spots with all that a batch may have beside its pixels.
struct FullInput {
  static constexpr int kSide = 9;
  static constexpr std::size_t kCount = 24, kArea = 81;
  std::vector<float> pixels, variances;
  std::vector<fitter::Start> starts;
  std::vector<fitter::StartLevels> levels;
  std::vector<fitter::Bounds> bounds;

  FullInput() : bounds(kCount) {
    for (std::size_t i = 0; i < kCount; ++i) {
      const double k = static_cast<double>(i % 5);
      const test::Spot spot = {3.5 + 0.2 * k, 4.5 - 0.1 * k, 1.1 + 0.1 * k, 300, 40, 1.9 - 0.1 * k};
      const auto image = test::clean_image(spot, kSide);
      for (std::size_t pixel = 0; pixel < kArea; ++pixel) {
        const auto noise = static_cast<float>((pixel * (7 + i) + 3 * i) % 31);
        pixels.push_back(image[pixel] + 1.5f * (noise - 15));
        variances.push_back(100 + 20 * static_cast<float>((pixel + i) % 4));
      }
      starts.push_back({3.9f, 4.3f, 1.3f, 1.6f});
      levels.push_back({250, 45});
      if (i % 3 == 0) bounds[i].upper[0] = 3.6f;
      if (i % 3 == 1) bounds[i].lower[3] = 1.85f;
    }
  }

  Fits fit(const fitter::FitOptions& options) const {
    Fits fits(kCount);
    fitter::fit_batch_cpu(
        {pixels.data(), fitter::PixelType::F32, kSide, kCount, starts.data(), levels.data(),
         fitter::knows_its_variances(options.estimator) ? variances.data() : nullptr,
         options.estimator == fitter::Estimator::ImplicitLeastSquares ? nullptr : bounds.data()},
        options, fits);
    return fits;
  }
};

TEST_CASE("Beside the border a cold start lies in its pixel, however a target rounds") {
  constexpr int kSide = 6, kSpots = 96;
  std::vector<float> pixels;
  for (int i = 0; i < kSpots; ++i) {
    const double along = 1 + 0.03 * i;
    const test::Spot spot = i % 2 == 0 ? test::Spot{0.8, along, 1.3, 300 + 1.7 * i, 21}
                                       : test::Spot{along, 4.3, 1.1, 500 + 2.3 * i, 7};
    const auto image = test::clean_image(spot, kSide);
    pixels.insert(pixels.end(), image.begin(), image.end());
  }
  fitter::FitOptions options;
  options.model = fitter::Model::RotatedGaussian;
  options.spots_only = false;
  options.max_iterations = 1;
  std::map<std::string, Fits> by_target;
  with_each_target([&](const std::string& target) {
    if (fitter::cpu::choose_kernels().fit_pixelwise != nullptr)
      by_target[target] = test::fit_all(pixels, kSide, options);
  });
  if (by_target.size() < 2) {
    std::cout << "SKIPPED: one instruction set alone has this model (DRIFTD_CPU_TARGETS)\n";
    return;
  }
  const Fits& first = by_target.begin()->second;
  for (const auto& [target, fits] : by_target) {
    for (std::size_t i = 0; i < fits.size(); ++i) {
      CAPTURE(target, i);
      CHECK(fits[i].x_px == Approx(first[i].x_px).margin(1e-3));
      CHECK(fits[i].y_px == Approx(first[i].y_px).margin(1e-3));
    }
  }
}

TEST_CASE(
    "All targets tell the same of every parameter, with maps, levels, bounds, what is fixed") {
  using fitter::Estimator;
  using fitter::Parameter;
  const FullInput input;
  fitter::FitOptions options;
  options.model = fitter::Model::EllipticalGaussian;
  options.estimator = GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                               Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood);
  if (options.estimator != Estimator::ImplicitLeastSquares)
    options.fixed = GENERATE(std::uint8_t{0}, bit(Parameter::Y), bit(Parameter::SigmaY),
                             bit(Parameter::Amplitude), bit(Parameter::Background));
  options.noise = {0.5f, 2, 10};
  Fits first;
  with_each_target([&](const std::string& target) {
    const Fits fits = input.fit(options);
    if (first.empty()) first = fits;
    for (std::size_t i = 0; i < fits.size(); ++i) {
      CAPTURE(target, i, static_cast<int>(options.estimator), int{options.fixed});
      CHECK(converged(fits[i].status) == converged(first[i].status));
      const auto found = values_of(fits[i]), expected = values_of(first[i]);
      for (std::size_t j = 0; j < found.size(); ++j) {
        CAPTURE(j);
        const double width = 4 * std::sqrt(1e-6) * FullInput::kSide * expected[j].sd;
        CHECK(
            found[j].value ==
            Approx(expected[j].value).epsilon(1e-6).margin(j == 6 ? 1e-3 * expected[j].sd : width));
        CHECK(found[j].sd == Approx(expected[j].sd).epsilon(0.01));
      }
    }
  });
  CHECK(converged(first[0].status));
}

TEST_CASE("Pixels go across the lanes at every side, all of them") {
  using fitter::Estimator;
  fitter::FitOptions options;
  options.estimator = GENERATE(Estimator::ImplicitLeastSquares, Estimator::PoissonLikelihood);
  std::vector<fitter::cpu::Workspace> workspaces(fitter::cpu::kFlights);
  int targets = 0;
  with_each_target([&](const std::string& target) {
    const fitter::cpu::Kernels kernels = fitter::cpu::choose_kernels();
    for (int side = fitter::kMinRoiPx; side <= fitter::kMaxRoiPx; ++side) {
      constexpr std::size_t kCount = 20;
      const auto images = test::simulate_spots<std::uint16_t>(side, 5000, 100, kCount, 47);
      Fits fits(kCount);
      fitter::cpu::FitJob job = {};
      job.pixels = images.pixels.data();
      job.stride_bytes = sizeof(std::uint16_t) * static_cast<std::size_t>(side * side);
      job.type = fitter::PixelType::U16;
      job.roi_px = side;
      job.count = kCount;
      job.options = &options;
      job.results = fits.data();
      kernels.fit_across_lanes(job, workspaces.data());
      INFO(target << ", side " << side);
      std::size_t found = 0;
      for (std::size_t i = 0; i < kCount; ++i) {
        if (!converged(fits[i].status)) continue;
        ++found;
        CHECK(fits[i].x_px == Approx(images.truth[i].x_px).margin(5 * fits[i].x_sd_px));
        CHECK(fits[i].y_px == Approx(images.truth[i].y_px).margin(5 * fits[i].y_sd_px));
        const test::Spot spot = {fits[i].x_px, fits[i].y_px, fits[i].sigma_x_px,
                                 fits[i].amplitude_adu, fits[i].background_adu};
        double sum = 0;  // of all columns, which a row's vectors must cover
        for (int k = 0; k < side * side; ++k) {
          const double q = images.roi(i)[k], m = test::intensity(spot, k % side, k / side);
          sum += options.estimator == Estimator::ImplicitLeastSquares
                     ? (q - m) * (q - m)
                     : 2 * (m - q - (q > 0 ? q * std::log(m / q) : 0));
        }
        CHECK(fits[i].chi_square == Approx(sum).epsilon(1e-3));
      }
      CHECK(found >= kCount / 2);  // of 4 px, which hold a part of a spot
    }
    ++targets;
  });
  CHECK(targets > 1);
}

TEST_CASE("Live ROIs are fitted one to a lane, but for the last few that would not fill a vector") {
  using fitter::Estimator;
  fitter::cpu::Kernels kernels = fitter::cpu::choose_kernels();
  kernels.lanes = 16;
  const auto squares = Estimator::ImplicitLeastSquares;
  kernels.fit_in_lanes = nullptr;
  CHECK(fitter::cpu::live_in_lanes(kernels, 9, squares, 32) == 0);
  kernels.fit_in_lanes = [](const fitter::cpu::FitJob&, fitter::cpu::LaneWorkspace&) {};
  CHECK(fitter::cpu::live_in_lanes(kernels, fitter::cpu::kMostLaneRoiPx + 1, squares, 32) == 0);
  for (const int side : {5, 9, 13}) {
    CHECK(fitter::cpu::live_in_lanes(kernels, side, squares, 0) == 0);
    CHECK(fitter::cpu::live_in_lanes(kernels, side, squares, 1) == 0);
    CHECK(fitter::cpu::live_in_lanes(kernels, side, squares, 15) == 15);
    CHECK(fitter::cpu::live_in_lanes(kernels, side, squares, 16) == 16);
    CHECK(fitter::cpu::live_in_lanes(kernels, side, squares, 33) == 32);
    CHECK(fitter::cpu::live_in_lanes(kernels, side, squares, 47) == 47);
  }
  // As driftd_lanes_bench found it: the larger and the costlier, the more must share a group.
  const auto first_in_lanes = [&](int side, Estimator estimator) {
    std::size_t count = 1;
    while (fitter::cpu::live_in_lanes(kernels, side, estimator, count) == 0) ++count;
    return count;
  };
  const auto likelihood = Estimator::PoissonLikelihood;
  CHECK(first_in_lanes(7, squares) == 3);
  CHECK(first_in_lanes(9, squares) == 3);  // exactly at the limit
  CHECK(first_in_lanes(13, squares) == 4);
  CHECK(first_in_lanes(32, squares) == 8);
  CHECK(first_in_lanes(7, likelihood) == 5);
  CHECK(first_in_lanes(13, likelihood) == 7);
  kernels.lanes = 8;
  CHECK(first_in_lanes(9, squares) == 2);
  CHECK(first_in_lanes(32, squares) == 4);
  kernels.lanes = 4;
  CHECK(first_in_lanes(7, squares) == 2);  // one alone never
  CHECK(fitter::cpu::batch_in_lanes(kernels, fitter::cpu::kMostLaneRoiPx));
}

}  // namespace
}  // namespace driftd
