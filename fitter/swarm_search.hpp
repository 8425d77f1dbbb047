// SPDX-License-Identifier: MIT
// What the particle swarms of the back ends share beside swarm_step.hpp: limits, the domain, random
// numbers and the report. Host and device.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "fitter/fit_values.hpp"
#include "fitter/fitter.hpp"
#include "fitter/philox.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/small_matrix.hpp"
#include "fitter/spot_model.hpp"
#include "fitter/swarm.hpp"

namespace driftd::fitter {

constexpr int kMaxParticles = 1024;
constexpr int kMaxDimensions = kMostSeparable;
/// Best places that a spread is taken over, at most.
constexpr int kMaxSpreadOfLast = 32;

/// Where a swarm searches: the ROI and the widths of its model, within the bounds given.
template <SpotModel Model>
struct SwarmDomain {
  float lowest[Model::kShape], highest[Model::kShape];

  DRIFTD_HD void narrow(const Bounds& bounds) {
    for (int j = 0; j < Model::kShape; ++j) {
      lowest[j] = lowest[j] > bounds.lower[j] ? lowest[j] : bounds.lower[j];
      highest[j] = highest[j] < bounds.upper[j] ? highest[j] : bounds.upper[j];
    }
  }
  DRIFTD_HD bool valid() const {
    bool is = true;
    for (int j = 0; j < Model::kShape; ++j) is = is && lowest[j] <= highest[j];
    return is;
  }
};

/// @param own  bounds of this ROI, or null
template <SpotModel Model>
DRIFTD_HD SwarmDomain<Model> swarm_domain(int side, const Bounds& of_all, const Bounds* own) {
  SwarmDomain<Model> d;
  const Vec<Model::kShape> lowest = Model::lowest(side), highest = Model::highest(side);
  for (int j = 0; j < Model::kShape; ++j) {
    d.lowest[j] = j < 2 ? 0.0f : lowest[j];
    d.highest[j] = j < 2 ? static_cast<float>(side - 1) : highest[j];
  }
  d.narrow(of_all);
  if (own != nullptr) d.narrow(*own);
  return d;
}

/// Random words of a particle in an iteration, one for each dimension.
/// @tparam Word  of philox.hpp: of one particle, or of each of a vector
template <class Word = std::uint32_t>
DRIFTD_HD PhiloxOf<Word> swarm_numbers(std::uint64_t seed, std::uint64_t roi,
                                       std::type_identity_t<Word> particle,
                                       std::uint32_t iteration) {
  static_assert(kMaxDimensions <= 4);
  constexpr std::uint32_t kParticleBits = 16;
  static_assert(kMaxParticles <= 1 << kParticleBits);
  // What differs most is where all rounds mix it.
  return philox<Word>(
      {{particle ^ (iteration << kParticleBits), static_cast<std::uint32_t>(roi >> 32),
        static_cast<std::uint32_t>(roi), 0u}},
      static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

/// The swarm's best places, as many as the spread is taken over.
template <SpotModel Model>
struct BestPlaces {
  float last[Model::kShape][kMaxSpreadOfLast];
  int count;

  DRIFTD_HD void add(const float* place, int spread_of_last) {
    for (int j = 0; j < Model::kShape; ++j) last[j][count % spread_of_last] = place[j];
    ++count;
  }

  /// @param best   the last place added
  /// @param value  chi-square there
  DRIFTD_HD SwarmReport report(const float* best, float value, int spread_of_last) const {
    const int kept = count < spread_of_last ? count : spread_of_last;
    Vec<Model::kShape> place, sd;
    for (int j = 0; j < Model::kShape; ++j) {
      place[j] = best[j];
      sd[j] = 0;
      float mean = 0, squares = 0;
      for (int k = 0; k < kept; ++k) mean += last[j][k] / static_cast<float>(kept);
      for (int k = 0; k < kept; ++k) squares += (last[j][k] - mean) * (last[j][k] - mean);
      if (kept > 1) sd[j] = std::sqrt(squares / static_cast<float>(kept - 1));
    }
    const Profile at = Model::profile(place);
    LocalizationOf<float> l;
    Model::store_sd(sd, place, l);
    return {{at.x_px, at.y_px, at.sigma_x_px, at.sigma_y_px},
            {l.x_sd_px, l.y_sd_px, l.sigma_x_sd_px, l.sigma_y_sd_px},
            value};
  }
};

}  // namespace driftd::fitter
