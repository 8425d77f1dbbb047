/* SPDX-License-Identifier: MIT */
/* libGpufit: the fits of driftd behind the C interface of Gpufit (Przybylski et al. 2017), for
 * programs written for it. Names, values and order of arguments are Gpufit's; docs/use/gpufit.md says
 * what differs.
 *
 * Fits n_fits square images of n_points pixels (4x4 to 64x64), row after row; the centre of an
 * image's first pixel is (0, 0), x counts columns. Any number of threads may call at once. Calls
 * return OK or ERROR; then gpufit_get_last_error() has a sentence. Arguments are looked at first: where
 * they are refused nothing was fitted; where fitting fails, some results may have been written. */
/* NOLINTBEGIN(readability-identifier-naming,modernize-*,misc-redundant-expression): names and headers of C */
#ifndef DRIFTD_GPUFIT_H
#define DRIFTD_GPUFIT_H

#include <stddef.h>

/* Gpufit can be built for double; this library fits in single precision alone. A program that is
 * compiled for the other would hand over arrays of the wrong size. */
#ifdef GPUFIT_DOUBLE
#error "driftd's libGpufit fits in single precision: compile without GPUFIT_DOUBLE"
#endif
#ifndef REAL
#define REAL float
#endif
typedef char driftds_libGpufit_takes_REAL_as_float[sizeof(REAL) == sizeof(float) ? 1 : -1];

#ifdef __cplusplus
extern "C" {
#endif

/* Fitted are GAUSS_1D (amplitude, x0, sigma, offset; 5 to 4096 points), GAUSS_2D (amplitude, x0, y0,
 * sigma, offset), GAUSS_2D_ELLIPTIC and CAUCHY_2D_ELLIPTIC (amplitude, x0, y0, sigma_x, sigma_y,
 * offset), GAUSS_2D_ROTATED (the same and rotation, rad) and LINEAR_1D (offset, slope; 2 points or
 * more). The others are an ERROR. */
enum ModelID {
  GAUSS_1D = 0,
  GAUSS_2D = 1,
  GAUSS_2D_ELLIPTIC = 2,
  GAUSS_2D_ROTATED = 3,
  CAUCHY_2D_ELLIPTIC = 4,
  LINEAR_1D = 5,
  FLETCHER_POWELL_HELIX = 6,
  BROWN_DENNIS = 7,
  SPLINE_1D = 8,
  SPLINE_2D = 9,
  SPLINE_3D = 10,
  SPLINE_3D_MULTICHANNEL = 11,
  SPLINE_3D_PHASE_MULTICHANNEL = 12,
  SPLINE_4D = 13,
  SPLINE_5D = 14
};

/* Weighted least squares, chi-square sum w r^2; maximum likelihood of Poisson noise, chi-square the
 * deviance. */
enum EstimatorID { LSE = 0, MLE = 1 };

/* How a fit ended. */
enum FitState {
  CONVERGED = 0,
  MAX_ITERATION = 1,    /* still improving, or no step improves it, or pixels that are no numbers */
  SINGULAR_HESSIAN = 2, /* all pixels equal, or fewer of weight than parameters to fit */
  NEG_CURVATURE_MLE = 3, /* never: a step to a negative model is refused, not taken */
  GPU_NOT_READY = 4      /* never */
};

enum ReturnState { OK = 0, ERROR = -1 };
enum DataLocation { HOST = 0, DEVICE = 1 };
enum Bound { LOWER_BOUND = 0, UPPER_BOUND = 1 };
enum ConstraintType { NONE = 0, LOWER = 1, UPPER = 2, LOWER_UPPER = 3 };

/* Arrays, P parameters in the model's order:
 *   data, weights           n_fits * n_points; weights 1 / variance, null: all equal; LSE only
 *   initial_parameters      n_fits * P
 *   tolerance               ends a fit: chi-square changes by less than tolerance * chi-square
 *   max_n_iterations        1 or more; above 255 counts as 255
 *   parameters_to_fit       P; 0: keeps its initial value
 *   user_info               places of the points of GAUSS_1D and LINEAR_1D, floats, n_points or
 *                           n_fits * n_points; user_info_size: bytes, 0: they are 0, 1, 2 ...
 *   output_parameters       n_fits * P; the other outputs n_fits */
int gpufit(size_t n_fits, size_t n_points, REAL* data, REAL* weights, int model_id,
           REAL* initial_parameters, REAL tolerance, int max_n_iterations, int* parameters_to_fit,
           int estimator_id, size_t user_info_size, char* user_info, REAL* output_parameters,
           int* output_states, REAL* output_chi_squares, int* output_n_iterations);

/* constraints: n_fits * P pairs of lower and upper bound, or null; constraint_types: P of enum
 * ConstraintType. Parameters that are not fitted are not constrained. */
int gpufit_constrained(size_t n_fits, size_t n_points, REAL* data, REAL* weights, int model_id,
                       REAL* initial_parameters, REAL* constraints, int* constraint_types,
                       REAL tolerance, int max_n_iterations, int* parameters_to_fit,
                       int estimator_id, size_t user_info_size, char* user_info,
                       REAL* output_parameters, int* output_states, REAL* output_chi_squares,
                       int* output_n_iterations);

/* The arrays named gpu_* lie in the memory of a GPU; gpu_fit_parameters holds initial values, and
 * afterwards the results. ERROR in a build without CUDA. */
int gpufit_cuda_interface(size_t n_fits, size_t n_points, REAL* gpu_data, REAL* gpu_weights,
                          int model_id, REAL tolerance, int max_n_iterations,
                          int* parameters_to_fit, int estimator_id, size_t user_info_size,
                          char* gpu_user_info, REAL* gpu_fit_parameters, int* gpu_output_states,
                          REAL* gpu_output_chi_squares, int* gpu_output_n_iterations);

int gpufit_constrained_cuda_interface(size_t n_fits, size_t n_points, REAL* gpu_data,
                                      REAL* gpu_weights, int model_id, REAL tolerance,
                                      int max_n_iterations, int* parameters_to_fit,
                                      REAL* gpu_constraints, int* constraint_types,
                                      int estimator_id, size_t user_info_size, char* gpu_user_info,
                                      REAL* gpu_fit_parameters, int* gpu_output_states,
                                      REAL* gpu_output_chi_squares, int* gpu_output_n_iterations);

/* The sentence of the calling thread's last ERROR, or, where a GPU is there and fits ran on the CPU
 * all the same, why; "" before the first. Valid until the next. */
char const* gpufit_get_last_error(void);

/* 1: there is a GPU that this library can use (new enough, not taken by others), or the environment
 * has GPUFIT_ALLOW_CPU=1, for programs that refuse to go on without one; 0: there is none, or the
 * build has no CUDA; gpufit_get_last_error() says which. gpufit() and gpufit_constrained() work in
 * any case. */
int gpufit_cuda_available(void);

/* 1000 * major + 10 * minor; 0: there is none. */
int gpufit_get_cuda_version(int* runtime_version, int* driver_version);

/* Arguments of gpufit() and gpufit_constrained(), in their order: pointers as they are, numbers by
 * their address. */
int gpufit_portable_interface(int argc, void* argv[]);
int gpufit_constrained_portable_interface(int argc, void* argv[]);

#ifdef __cplusplus
}
#endif

#endif
/* NOLINTEND(readability-identifier-naming,modernize-*,misc-redundant-expression) */
