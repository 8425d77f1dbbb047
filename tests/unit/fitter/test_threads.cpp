// SPDX-License-Identifier: MIT
// Many threads that fit at once, by the two C interfaces: what one alone gets. For the thread
// sanitizer, too.
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "fitter/c/driftfit.h"
#include "fitter/gpufit/gpufit.h"
#include "support/catch.hpp"
#include "support/spots.hpp"

namespace driftd {
namespace {

constexpr int kSide = 9, kThreads = 8, kRounds = 4, kErrors = 500;
constexpr std::size_t kFits = 700;  // several pieces for the threads of one call

const std::vector<float>& images() {
  static const auto pixels = test::simulate_spots<float>(kSide, 500, 100, kFits, 31).pixels;
  return pixels;
}

/// work(thread) on threads of its own, which begin together.
void at_once(const std::function<void(int)>& work) {
  std::latch begin(kThreads);
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      begin.arrive_and_wait();
      work(t);
    });
}

struct How {
  std::int32_t model, estimator;
};
constexpr std::array kHow = {How{DRIFTFIT_CIRCULAR_GAUSSIAN, DRIFTFIT_IMPLICIT_LEAST_SQUARES},
                             How{DRIFTFIT_ELLIPTICAL_GAUSSIAN, DRIFTFIT_LEAST_SQUARES},
                             How{DRIFTFIT_CIRCULAR_GAUSSIAN, DRIFTFIT_POISSON_LIKELIHOOD},
                             How{DRIFTFIT_ROTATED_GAUSSIAN, DRIFTFIT_IMPLICIT_LEAST_SQUARES}};
using Results = std::vector<driftfit_result>;

/// By a fitter of its own, which has threads, too. @return empty where anything failed
Results fits_of(const How& how, int threads) {
  driftfit_fitter* fitter = nullptr;
  if (driftfit_create(DRIFTFIT_CPU, threads, nullptr, 0, &fitter, nullptr, 0) != DRIFTFIT_OK)
    return {};
  driftfit_options options;
  driftfit_default_options(&options, sizeof options);
  options.model = how.model;
  options.estimator = how.estimator;
  options.gain = 1;
  driftfit_images work = {};
  work.size = sizeof work;
  work.pixel_type = DRIFTFIT_F32;
  work.side = kSide;
  work.count = kFits;
  work.pixels = images().data();
  Results results(kFits);
  const int code =
      driftfit_fit_images(fitter, &options, &work, results.data(), nullptr, nullptr, nullptr, 0);
  driftfit_destroy(fitter);
  return code == DRIFTFIT_OK ? results : Results();
}

template <class Each>
bool same(const std::vector<Each>& a, const std::vector<Each>& b) {
  return a.size() == b.size() && !a.empty() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
}

TEST_CASE("Threads that fit at once, each with a fitter of its own, get what one alone gets") {
  std::array<Results, kHow.size()> alone;
  for (std::size_t i = 0; i < kHow.size(); ++i) alone[i] = fits_of(kHow[i], 1);
  for (const Results& each : alone) REQUIRE(each.size() == kFits);
  std::atomic<int> others = 0;
  at_once([&](int thread) {
    for (std::size_t i = 0; i < kRounds * kHow.size(); ++i) {
      const std::size_t which = (static_cast<std::size_t>(thread) + i) % kHow.size();
      if (!same(alone[which], fits_of(kHow[which], 1 + thread % 3))) ++others;
    }
  });
  CHECK(others == 0);
}

/// The parameters that a call of the stand-in for Gpufit finds. @return empty where it failed
std::vector<float> gpufit_of(int model, int estimator) {
  const std::size_t parameters = model == GAUSS_2D ? 5 : 6;
  std::vector<float> data = images(), start, found(kFits * parameters), chi_squares(kFits);
  for (std::size_t i = 0; i < kFits; ++i) {
    start.insert(start.end(), {40, 4, 4, 1.5f});
    if (parameters == 6) start.push_back(1.5f);
    start.push_back(1);
  }
  std::vector<int> all(parameters, 1), states(kFits), iterations(kFits);
  const int code = gpufit(kFits, kSide * kSide, data.data(), nullptr, model, start.data(), 1e-4f,
                          30, all.data(), estimator, 0, nullptr, found.data(), states.data(),
                          chi_squares.data(), iterations.data());
  return code == OK ? found : std::vector<float>();
}

TEST_CASE("Threads that call the stand-in for Gpufit at once get results and errors of their own") {
  const std::array alone = {gpufit_of(GAUSS_2D, LSE), gpufit_of(GAUSS_2D, MLE),
                            gpufit_of(GAUSS_2D_ELLIPTIC, LSE)};
  for (const auto& each : alone) REQUIRE(!each.empty());
  std::atomic<int> others = 0, other_errors = 0;
  at_once([&](int thread) {
    for (int i = 0; i < kRounds; ++i) {
      const int which = (thread + i) % 3;
      const auto found =
          gpufit_of(which == 2 ? GAUSS_2D_ELLIPTIC : GAUSS_2D, which == 1 ? MLE : LSE);
      if (!same(found, alone[static_cast<std::size_t>(which)])) ++others;
    }
    const int senseless = 100 + thread;
    for (int i = 0; i < kErrors; ++i) {
      float one = 0;
      int number = 0;
      const int code = gpufit(1, 81, &one, nullptr, senseless, &one, 1e-4f, 30, &number, LSE, 0,
                              nullptr, &one, &number, &one, &number);
      std::this_thread::yield();  // to one that has an error, too
      const std::string error = gpufit_get_last_error();
      if (code != ERROR || error.find(std::to_string(senseless)) == std::string::npos)
        ++other_errors;
    }
  });
  CHECK(others == 0);
  CHECK(other_errors == 0);
}

}  // namespace
}  // namespace driftd
