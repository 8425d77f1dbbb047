// SPDX-License-Identifier: MIT
// What all parts of driftd_cuda_bench have: their clock, the paper's light, and every kind of fit.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "fitter/fitter.hpp"
#include "support/paper_accuracy.hpp"

namespace driftd::bench {

using Clock = std::chrono::steady_clock;

constexpr double kSignal = 400, kBackground = 40;

inline double elapsed_us(Clock::time_point since) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
}

/// Quantiles of repeated timings, us.
struct Timing {
  double best, p50, p99, p99_9, max;
};

inline Timing timing_of(std::vector<double> us) {
  std::sort(us.begin(), us.end());
  const auto quantile = [&us](double q) {
    return us[static_cast<std::size_t>(q * static_cast<double>(us.size() - 1))];
  };
  return {us.front(), quantile(0.5), quantile(0.99), quantile(0.999), us.back()};
}

inline nlohmann::json to_json(const Timing& t) {
  return {{"best", t.best}, {"p50", t.p50}, {"p99", t.p99}, {"p99_9", t.p99_9}, {"max", t.max}};
}

/// Calls for about `seconds`, at least five times and once more to warm up.
inline Timing repeat(const std::function<void()>& call, double seconds = 0.1,
                     std::size_t most = 20000) {
  call();
  std::vector<double> us;
  const auto begin = Clock::now();
  while (us.size() < 5 || (us.size() < most && elapsed_us(begin) < 1e6 * seconds)) {
    const auto start = Clock::now();
    call();
    us.push_back(elapsed_us(start));
  }
  return timing_of(us);
}

struct Kind {
  const char* model_name;
  const char* estimator_name;
  fitter::Model model;
  fitter::Estimator estimator;
  bool integrated = false;
};

inline std::vector<Kind> all_kinds() {
  using fitter::Estimator;
  std::vector<Kind> kinds;
  for (const auto& [model_name, model] :
       {std::pair{"circular", fitter::Model::CircularGaussian},
        std::pair{"elliptical", fitter::Model::EllipticalGaussian}})
    for (const auto& [name, estimator] : {std::pair{"implicit", Estimator::ImplicitLeastSquares},
                                          std::pair{"least squares", Estimator::LeastSquares},
                                          std::pair{"weighted", Estimator::WeightedLeastSquares},
                                          std::pair{"likelihood", Estimator::PoissonLikelihood}})
      kinds.push_back({model_name, name, model, estimator});
  for (const auto& [name, estimator] : {std::pair{"implicit", Estimator::ImplicitLeastSquares},
                                        std::pair{"likelihood", Estimator::PoissonLikelihood}})
    kinds.push_back({"integrated", name, fitter::Model::CircularGaussian, estimator, true});
  return kinds;
}

inline fitter::FitOptions options_of(const Kind& kind, int side) {
  fitter::FitOptions options = test::paper_options(side);
  options.model = kind.model;
  options.estimator = kind.estimator;
  options.integrated = kind.integrated;
  return options;
}

}  // namespace driftd::bench
