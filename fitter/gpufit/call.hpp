// SPDX-License-Identifier: MIT
// One call of Gpufit's interface, as a value, its checks and its fits. Any thread may call.
#pragma once

#include <cstddef>
#include <string>

namespace driftd::fitter::drop_in {

/// The arguments of gpufit_constrained(), under their names in gpufit.h. All arrays are the host's,
/// but see DataIn.
struct Call {
  std::size_t n_fits;
  std::size_t n_points;
  const float* data;
  const float* weights;
  int model_id;
  const float* initial_parameters;
  const float* constraints;
  const int* constraint_types;
  float tolerance;
  int max_n_iterations;
  const int* parameters_to_fit;
  int estimator_id;
  std::size_t user_info_size;
  const char* user_info;
  float* output_parameters;
  int* output_states;
  float* output_chi_squares;
  int* output_n_iterations;
};

/// Where Call::data lies.
enum class DataIn { Host, Device };

/// P, how many parameters a model has. @throws FitterError for a model that is not fitted
std::size_t parameters_of(int model_id);

/// @throws FitterError for arguments that make no sense
void check(const Call& call);

/// Checks, then fits: on the GPU that has the data or, of data of the host, the calling thread's
/// current one, if it can be used and the fits are worth it, else on all cores. Writes nothing when
/// it throws for the arguments. The initial parameters may be the output's. Once a GPU could not be
/// used or failed, the process fits on its cores in its place.
/// @returns what kept these fits from the GPU that there is; "" if nothing did
/// @throws FitterError  also where data in the GPU's memory cannot be fitted there
std::string fit(const Call& call, DataIn data = DataIn::Host);

/// What keeps the calling thread's current GPU from being used; "" if nothing does.
std::string gpu_obstacle();

}  // namespace driftd::fitter::drop_in
