// SPDX-License-Identifier: MIT
#include "fitter/gpufit/gpufit.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "fitter/cuda_fitter.hpp"
#include "fitter/gpufit/call.hpp"
#include "fitter/gpufit/device_call.hpp"

using namespace driftd::fitter;

namespace {

const std::string kOnCpu = "gpufit: fits run on the CPU: ";

/// The error of the thread's last call that failed. An array: keeping it cannot fail in turn.
thread_local char last_error[512] = "";

void remember(std::string_view text) noexcept {
  const std::size_t length = std::min(text.size(), sizeof last_error - 1);
  std::memcpy(last_error, text.data(), length);
  last_error[length] = '\0';
}

template <class Body>
int guarded(Body body) noexcept {
  try {
    body();
    return OK;
  } catch (const std::bad_alloc&) {
    remember("gpufit: out of memory");
  } catch (const std::exception& error) {
    remember(error.what());
  } catch (...) {
    remember("gpufit: unknown failure");
  }
  return ERROR;
}

/// Whether the user wants programs to go on that refuse to without a GPU.
bool allows_cpu() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read only; programs set it before they start threads
  const char* set = std::getenv("GPUFIT_ALLOW_CPU");
  return set != nullptr && std::string_view(set) == "1";
}

template <class T>
T value(const void* argument) {
  return *static_cast<const T*>(argument);
}

}  // namespace

int gpufit(size_t n_fits, size_t n_points, REAL* data, REAL* weights, int model_id,
           REAL* initial_parameters, REAL tolerance, int max_n_iterations, int* parameters_to_fit,
           int estimator_id, size_t user_info_size, char* user_info, REAL* output_parameters,
           int* output_states, REAL* output_chi_squares, int* output_n_iterations) {
  return gpufit_constrained(n_fits, n_points, data, weights, model_id, initial_parameters, nullptr,
                            nullptr, tolerance, max_n_iterations, parameters_to_fit, estimator_id,
                            user_info_size, user_info, output_parameters, output_states,
                            output_chi_squares, output_n_iterations);
}

int gpufit_constrained(size_t n_fits, size_t n_points, REAL* data, REAL* weights, int model_id,
                       REAL* initial_parameters, REAL* constraints, int* constraint_types,
                       REAL tolerance, int max_n_iterations, int* parameters_to_fit,
                       int estimator_id, size_t user_info_size, char* user_info,
                       REAL* output_parameters, int* output_states, REAL* output_chi_squares,
                       int* output_n_iterations) {
  return guarded([&] {
    const std::string obstacle =
        drop_in::fit({n_fits, n_points, data, weights, model_id, initial_parameters, constraints,
                      constraint_types, tolerance, max_n_iterations, parameters_to_fit,
                      estimator_id, user_info_size, user_info, output_parameters, output_states,
                      output_chi_squares, output_n_iterations});
    if (!obstacle.empty()) remember(kOnCpu + obstacle);
  });
}

int gpufit_cuda_interface(size_t n_fits, size_t n_points, REAL* gpu_data, REAL* gpu_weights,
                          int model_id, REAL tolerance, int max_n_iterations,
                          int* parameters_to_fit, int estimator_id, size_t user_info_size,
                          char* gpu_user_info, REAL* gpu_fit_parameters, int* gpu_output_states,
                          REAL* gpu_output_chi_squares, int* gpu_output_n_iterations) {
  return gpufit_constrained_cuda_interface(
      n_fits, n_points, gpu_data, gpu_weights, model_id, tolerance, max_n_iterations,
      parameters_to_fit, nullptr, nullptr, estimator_id, user_info_size, gpu_user_info,
      gpu_fit_parameters, gpu_output_states, gpu_output_chi_squares, gpu_output_n_iterations);
}

int gpufit_constrained_cuda_interface(size_t n_fits, size_t n_points, REAL* gpu_data,
                                      REAL* gpu_weights, int model_id, REAL tolerance,
                                      int max_n_iterations, int* parameters_to_fit,
                                      REAL* gpu_constraints, int* constraint_types,
                                      int estimator_id, size_t user_info_size, char* gpu_user_info,
                                      REAL* gpu_fit_parameters, int* gpu_output_states,
                                      REAL* gpu_output_chi_squares, int* gpu_output_n_iterations) {
  return guarded([&] {
    drop_in::fit_on_device({n_fits, n_points, gpu_data, gpu_weights, model_id, gpu_fit_parameters,
                            gpu_constraints, constraint_types, tolerance, max_n_iterations,
                            parameters_to_fit, estimator_id, user_info_size, gpu_user_info,
                            gpu_fit_parameters, gpu_output_states, gpu_output_chi_squares,
                            gpu_output_n_iterations});
  });
}

char const* gpufit_get_last_error(void) {
  return last_error;
}

int gpufit_cuda_available(void) {
  if (allows_cpu()) return 1;
  int available = 0;
  guarded([&] {
    const std::string obstacle = drop_in::gpu_obstacle();
    available = obstacle.empty() ? 1 : 0;
    if (obstacle.empty()) return;
    if (cuda_versions().runtime == 0) {
      remember("gpufit: this build has no CUDA; fits run on the CPU");
    } else if (cuda_device_count() == 0) {
      remember("gpufit: there is no GPU; fits run on the CPU");
    } else {
      remember(kOnCpu + obstacle);
    }
  });
  return available;
}

int gpufit_get_cuda_version(int* runtime_version, int* driver_version) {
  if (runtime_version == nullptr || driver_version == nullptr) {
    remember("gpufit: no place given for a version");
    return ERROR;
  }
  const CudaVersions versions = cuda_versions();
  *runtime_version = versions.runtime;
  *driver_version = versions.driver;
  return OK;
}

int gpufit_portable_interface(int /*argc*/, void* argv[]) {
  return gpufit(value<size_t>(argv[0]), value<size_t>(argv[1]), static_cast<REAL*>(argv[2]),
                static_cast<REAL*>(argv[3]), value<int>(argv[4]), static_cast<REAL*>(argv[5]),
                value<REAL>(argv[6]), value<int>(argv[7]), static_cast<int*>(argv[8]),
                value<int>(argv[9]), value<size_t>(argv[10]), static_cast<char*>(argv[11]),
                static_cast<REAL*>(argv[12]), static_cast<int*>(argv[13]),
                static_cast<REAL*>(argv[14]), static_cast<int*>(argv[15]));
}

int gpufit_constrained_portable_interface(int /*argc*/, void* argv[]) {
  return gpufit_constrained(
      value<size_t>(argv[0]), value<size_t>(argv[1]), static_cast<REAL*>(argv[2]),
      static_cast<REAL*>(argv[3]), value<int>(argv[4]), static_cast<REAL*>(argv[5]),
      static_cast<REAL*>(argv[6]), static_cast<int*>(argv[7]), value<REAL>(argv[8]),
      value<int>(argv[9]), static_cast<int*>(argv[10]), value<int>(argv[11]),
      value<size_t>(argv[12]), static_cast<char*>(argv[13]), static_cast<REAL*>(argv[14]),
      static_cast<int*>(argv[15]), static_cast<REAL*>(argv[16]), static_cast<int*>(argv[17]));
}
