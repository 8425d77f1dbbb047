// SPDX-License-Identifier: MIT
// Short hands of the CUDA fitter's tests: skip without a device, fit, and compare with the CPU
// twin.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <vector>

#include "fitter/cuda_fitter.hpp"
#include "support/catch.hpp"
#include "unit/fitter/fits.hpp"

namespace driftd::test {

/// True without a device; prints the line by which ctest counts the case as skipped.
inline bool no_device() {
  if (fitter::cuda_device_count() > 0) return false;
  std::cout << "SKIPPED: no CUDA device\n";
  return true;
}

using Fits = std::vector<fitter::Localization>;

/// One for all cases.
inline fitter::CudaBatchFitter& cuda_fitter() {
  static const auto fitter = fitter::make_cuda_batch_fitter();
  return *fitter;
}

template <class Pixel>
Fits fit_all_cuda(const std::vector<Pixel>& pixels, int side,
                  const fitter::FitOptions& options = {},
                  const std::vector<fitter::Start>& starts = {}) {
  Fits results(pixels.size() / static_cast<std::size_t>(side * side));
  std::memset(results.data(), 0xa5, results.size() * sizeof(results[0]));  // poison
  cuda_fitter().fit({pixels.data(), pixel_type<Pixel>(), side, results.size(),
                     starts.empty() ? nullptr : starts.data()},
                    options, results);
  return results;
}

inline bool same_bits(const fitter::Localization* a, const fitter::Localization* b,
                      std::size_t count) {
  return std::memcmp(a, b, count * sizeof(fitter::Localization)) == 0;
}

struct Agreement {
  std::size_t count = 0;
  std::size_t other_verdict = 0;  ///< converged for one only
  std::size_t other_status = 0;   ///< any difference of status
  std::size_t other_iterations = 0;
  double largest = 0;  ///< difference of x, y or sigma in standard deviations, both converged
};

inline Agreement compare(const Fits& cpu, const Fits& cuda) {
  Agreement a;
  a.count = cpu.size();
  REQUIRE(cuda.size() == cpu.size());
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    const auto& p = cpu[i];
    const auto& q = cuda[i];
    a.other_status += p.status != q.status ? 1u : 0u;
    if (converged(p.status) != converged(q.status)) {
      ++a.other_verdict;
      continue;
    }
    CHECK((p.status == fitter::FitStatus::BadInput) == (q.status == fitter::FitStatus::BadInput));
    if (!converged(p.status)) continue;
    a.other_iterations += p.iterations != q.iterations ? 1u : 0u;
    const auto differ = [&a](float x, float y, float sd) {
      a.largest = std::max(a.largest, static_cast<double>(std::fabs(x - y) / sd));
    };
    differ(p.x_px, q.x_px, p.x_sd_px);
    differ(p.y_px, q.y_px, p.y_sd_px);
    differ(p.sigma_x_px, q.sigma_x_px, p.sigma_x_sd_px);
    differ(p.amplitude_adu, q.amplitude_adu, p.amplitude_sd_adu);
    differ(p.background_adu, q.background_adu, p.background_sd_adu);
    // Where one stopped earlier, small ROIs show it in what they hardly determine.
    const float most = p.iterations == q.iterations ? 0.01f : 0.03f;
    if (std::fabs(p.x_sd_px - q.x_sd_px) > most * p.x_sd_px ||
        std::fabs(p.amplitude_sd_adu - q.amplitude_sd_adu) > most * p.amplitude_sd_adu ||
        std::fabs(p.chi_square - q.chi_square) > 1e-4f * p.chi_square)
      FAIL("fit " << i << ": sd " << p.x_sd_px << " and " << q.x_sd_px << ", of the amplitude "
                  << p.amplitude_sd_adu << " and " << q.amplitude_sd_adu << ", chi-square "
                  << p.chi_square << " and " << q.chi_square << ", iterations " << int{p.iterations}
                  << " and " << int{q.iterations});
  }
  return a;
}

/// The tolerance that cuda_fitter.hpp states: rounding may stop one an iteration earlier.
inline void check_agreement(const Fits& cpu, const Fits& cuda, int side) {
  const Agreement a = compare(cpu, cuda);
  INFO("side " << side << ": of " << a.count << " fits " << a.other_verdict
               << " with another verdict, " << a.other_status << " another status, "
               << a.other_iterations << " other iterations, largest difference " << a.largest
               << " sd");
  CHECK(a.largest < 2 * std::sqrt(1e-6) * side);
  CHECK(a.other_verdict <= a.count / 200);  // on the edge of the rule by rounding
}

}  // namespace driftd::test
