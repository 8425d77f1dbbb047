// SPDX-License-Identifier: MIT
// Fits spots by the fitting library on the back end that the user chose. Owned and called by one
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fitter/batch_back_end.hpp"
#include "fitter/fitter.hpp"
#include "fitter/spots/fit_weights.hpp"
#include "fitter/spots/gpu_search.hpp"
#include "fitter/swarm.hpp"

namespace driftd::tools {

using fitter::BackEnd;

/// Where a fit without a start value starts: from its peak, or where a particle swarm was best.
enum class ColdStart : std::uint8_t { Peak, Swarm };

struct SpotFitterSettings {
  BackEnd back_end = BackEnd::Auto;
  int threads = 0;                 ///< CPU; 0: all cores
  std::vector<int> devices = {0};  ///< CUDA
  /// Many spots in each call: `Auto` then takes a GPU. For few spots the CPU is faster.
  bool large_batches = false;
  ColdStart cold_start = ColdStart::Peak;
  /// Variance of the signal over that of its photons, by a camera's multiplication. Gain and read
  /// noise of the options are before it: of electrons that the light has made.
  float excess_noise = 1;
  fitter::FitOptions options;
};

class SpotFitter {
 public:
  /// @throws fitter::FitterError for options that the library refuses, or for CUDA without a device
  explicit SpotFitter(const SpotFitterSettings& settings);

  /// Weights for weighted least squares are made here, from the noise model (an unknown gain
  /// counts as 1) and the light that a first fit, of even weights, expects. Variances of the batch
  /// are those of the pixels' read noise, whatever the estimator. @throws fitter::FitterError
  void fit(fitter::Batch batch, std::span<fitter::Localization> results);

  /// Finds spots by the GPU that fits, and fits them there where a fit is all it takes (no swarm,
  /// no weights). False: the CPU has to find them. @throws fitter::FitterError
  bool find_spots(fitter::SpotJob job, fitter::FoundInFrames& found);

  /// As the fits have them: without the excess noise.
  const fitter::FitOptions& options() const noexcept { return settings_.options; }
  /// What fits now: "CPU, 2 threads", "CUDA, 1 device"; with the reason where a GPU is there
  /// unused.
  std::string description() const;
  /// For what describes the results: "CPU", "CUDA", or "CUDA, then CPU" after a GPU failed.
  std::string back_end() const;
  /// Of the CPU; "" where a GPU has fitted everything.
  std::string instruction_set() const;
  int threads() const noexcept { return threads_; }
  bool on_gpu() const noexcept { return back_end_->on_gpu(); }

 private:
  void search_cold(const fitter::Batch& batch, std::span<fitter::Localization> results);

  SpotFitterSettings settings_;
  int threads_;
  std::optional<fitter::BatchBackEnd> back_end_;
  fitter::GpuSearch gpu_search_;
  bool gpu_sought_ = false;  ///< by BackEnd::Auto
  bool began_on_gpu_ = false;
  fitter::FitWeights weights_;
  std::uint64_t searched_ = 0;
  std::vector<fitter::SwarmReport> reports_;
  std::vector<fitter::Start> starts_;
};

}  // namespace driftd::tools
