// SPDX-License-Identifier: MIT
// Spots through the fitting library on the back end of the user's choice. Owned and called by one
// thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fitter/cuda_fitter.hpp"
#include "fitter/fitter.hpp"

namespace driftd::clients {

enum class BackEnd : std::uint8_t { Auto, Cpu, Cuda };

struct SpotFitterSettings {
  BackEnd back_end = BackEnd::Auto;
  int threads = 0;                 ///< CPU; 0: all cores
  std::vector<int> devices = {0};  ///< CUDA
  /// What `Auto` decides by: a GPU pays off where many spots come at once.
  bool large_batches = false;
  fitter::FitOptions options;
};

class SpotFitter {
 public:
  /// @throws fitter::FitterError for options that the library refuses, or for CUDA without a device
  explicit SpotFitter(const SpotFitterSettings& settings);

  /// Weights for weighted least squares are made here, from the noise model (an unknown gain
  /// counts as 1). @throws fitter::FitterError
  void fit(fitter::Batch batch, std::span<fitter::Localization> results);

  const fitter::FitOptions& options() const noexcept { return settings_.options; }
  /// "CPU, 2 threads", "CUDA, 1 device"
  const std::string& description() const noexcept { return description_; }
  int threads() const noexcept { return threads_; }

 private:
  void weigh(const fitter::Batch& batch);

  SpotFitterSettings settings_;
  int threads_;
  std::unique_ptr<fitter::CudaBatchFitter> cuda_;
  std::vector<float> variances_;
  std::string description_;
};

}  // namespace driftd::clients
