// SPDX-License-Identifier: MIT
#include "fitter/gpufit/device_call.hpp"

#include <algorithm>
#include <vector>

#include "fitter/cuda_fitter.hpp"
#include "fitter/fitter.hpp"
#include "fitter/gpufit/gpufit.h"
#include "fitter/gpufit/translation.hpp"

namespace driftd::fitter::drop_in {
namespace {

/// Fits on the host at a time.
constexpr std::size_t kFits = std::size_t{1} << 17;

/// An array of the device of `per_fit` values a fit, and what of it is on the host.
template <class T>
class Mirror {
 public:
  Mirror(T* device, std::size_t per_fit) : device_(device), per_fit_(per_fit) {}

  /// The host's place for these fits, or null where there is no array.
  T* room(std::size_t count) {
    host_.resize(device_ != nullptr ? count * per_fit_ : 0);
    return device_ != nullptr ? host_.data() : nullptr;
  }
  T* read(std::size_t first, std::size_t count) {
    T* host = room(count);
    if (host != nullptr) cuda_copy(host, device_ + first * per_fit_, count * per_fit_ * sizeof(T));
    return host;
  }
  void write(std::size_t first, std::size_t count) {
    cuda_copy(device_ + first * per_fit_, host_.data(), count * per_fit_ * sizeof(T));
  }

 private:
  T* device_;
  std::size_t per_fit_;
  std::vector<T> host_;
};

/// Arrays that are only read are never written through the pointer.
float* writable(const float* p) {
  return const_cast<float*>(p);
}

}  // namespace

void fit_on_device(Call call) {
  const std::size_t n = parameters_of(call.model_id);
  if (cuda_device_count() == 0)
    throw FitterError(cuda_versions().runtime == 0
                          ? "gpufit: arrays on a GPU need a build with CUDA, which this is not"
                          : "gpufit: there is no GPU to have the arrays");
  check(call);
  const bool weighted = call.estimator_id == LSE;
  // Points of one dimension are made ROIs by the host.
  const bool line = is_of_one_dimension(call.model_id);
  Mirror<float> data(line ? writable(call.data) : nullptr, call.n_points);
  const bool one_for_all = call.user_info_size == call.n_points * sizeof(float);
  const std::size_t of_fits = one_for_all ? 1 : call.n_fits;
  const std::size_t place_bytes = call.user_info_size / std::max<std::size_t>(of_fits, 1);
  Mirror<char> places(const_cast<char*>(call.user_info), place_bytes);
  Mirror<float> weights(weighted ? writable(call.weights) : nullptr, call.n_points);
  Mirror<float> constraints(writable(call.constraints), 2 * n);
  Mirror<float> parameters(call.output_parameters, n);
  Mirror<int> states(call.output_states, 1);
  Mirror<float> chi_squares(call.output_chi_squares, 1);
  Mirror<int> iterations(call.output_n_iterations, 1);
  for (std::size_t first = 0; first < call.n_fits; first += kFits) {
    Call part = call;
    part.n_fits = std::min(kFits, call.n_fits - first);
    part.data = line ? data.read(first, part.n_fits) : call.data + first * call.n_points;
    part.weights = weights.read(first, part.n_fits);
    if (place_bytes > 0) {
      const std::size_t of_part = one_for_all ? 1 : part.n_fits;
      part.user_info = places.read(one_for_all ? 0 : first, of_part);
      part.user_info_size = of_part * place_bytes;
    }
    part.constraints = constraints.read(first, part.n_fits);
    part.initial_parameters = part.output_parameters = parameters.read(first, part.n_fits);
    part.output_states = states.room(part.n_fits);
    part.output_chi_squares = chi_squares.room(part.n_fits);
    part.output_n_iterations = iterations.room(part.n_fits);
    fit(part, line ? DataIn::Host : DataIn::Device);
    parameters.write(first, part.n_fits);
    states.write(first, part.n_fits);
    chi_squares.write(first, part.n_fits);
    iterations.write(first, part.n_fits);
  }
}

}  // namespace driftd::fitter::drop_in
