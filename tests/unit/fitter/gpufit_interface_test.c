/* SPDX-License-Identifier: MIT */
/* libGpufit from C: what the Python tests do not reach. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fitter/gpufit/gpufit.h"
#include "support/c_check.h"

enum { SIDE = 9, POINTS = SIDE * SIDE, FITS = 2, CIRCULAR = 5, ELLIPTICAL = 6 };

static REAL data[FITS * POINTS];
static REAL parameters[FITS * ELLIPTICAL], chi_squares[FITS];
static int states[FITS], iterations[FITS];
static int all[ELLIPTICAL] = {1, 1, 1, 1, 1, 1};

static void draw(void) {
  for (int i = 0; i < FITS * POINTS; ++i) {
    const double x = i % SIDE - 4.3, y = i % POINTS / SIDE - 3.8;
    data[i] = (REAL)(20 + 200 * exp(-(x * x + y * y) / (2 * 1.4 * 1.4)));
  }
}

static int found(REAL sign) {
  int good = 1;
  for (int i = 0; i < FITS; ++i) {
    const REAL* p = parameters + i * CIRCULAR;
    good = good && states[i] == CONVERGED && fabsf(p[0] - 200) < 0.1f &&
           fabsf(p[1] - 4.3f) < 1e-3f && fabsf(p[2] - 3.8f) < 1e-3f &&
           fabsf(p[3] - sign * 1.4f) < 1e-3f && fabsf(p[4] - 20) < 0.1f && iterations[i] > 0 &&
           chi_squares[i] < 1e-3f;
  }
  memset(parameters, 0, sizeof parameters);
  return good;
}

static void fits(void) {
  REAL start[FITS * CIRCULAR] = {150, 4, 4, 1, 10, 150, 4, 4, -1, 10};
  size_t n_fits = FITS, n_points = POINTS, no_info = 0;
  int model = GAUSS_2D, most = 50, estimator = LSE;
  REAL tolerance = 1e-5f;
  CHECK(gpufit(n_fits, n_points, data, NULL, model, start, tolerance, most, all, estimator, 0, NULL,
               parameters, states, chi_squares, iterations) == OK);
  CHECK(found(1));

  void* plain[] = {&n_fits,    &n_points, data,        NULL,       &model,   start,
                   &tolerance, &most,     all,         &estimator, &no_info, NULL,
                   parameters, states,    chi_squares, iterations};
  CHECK(gpufit_portable_interface(16, plain) == OK);
  CHECK(found(1));

  REAL bounds[FITS * CIRCULAR * 2] = {0};
  int types[CIRCULAR] = {NONE, LOWER, NONE, UPPER, NONE};
  bounds[2 * 3 + UPPER_BOUND] = bounds[2 * (CIRCULAR + 3) + UPPER_BOUND] = 1.2f;
  void* constrained[] = {&n_fits,  &n_points, data,       NULL,   &model,      start,
                         bounds,   types,     &tolerance, &most,  all,         &estimator,
                         &no_info, NULL,      parameters, states, chi_squares, iterations};
  CHECK(gpufit_constrained_portable_interface(18, constrained) == OK);
  CHECK(states[0] == CONVERGED && parameters[3] == 1.2f && parameters[CIRCULAR + 3] == 1.2f);
  CHECK(fabsf(parameters[1] - 4.3f) < 0.01f);
  CHECK(chi_squares[0] > 1);
}

/* A call that is wrong in one way; the rest is right. */
static int call(size_t n_points, int model, int most, int* to_fit, REAL* outputs) {
  REAL start[FITS * ELLIPTICAL] = {150, 4, 4, 1, 10};
  return gpufit(1, n_points, data, NULL, model, start, 1e-4f, most, to_fit, LSE, 0, NULL, outputs,
                states, chi_squares, iterations);
}

static void mistakes(void) {
  CHECK(strcmp(gpufit_get_last_error(), "") == 0);
  CHECK(call(POINTS, FLETCHER_POWELL_HELIX, 20, all, parameters) == ERROR);
  CHECK(
      strcmp(gpufit_get_last_error(),
             "gpufit: model_id is 6, fitted are 0 (GAUSS_1D), 1 (GAUSS_2D), 2 (GAUSS_2D_ELLIPTIC), "
             "3 (GAUSS_2D_ROTATED), 4 (CAUCHY_2D_ELLIPTIC), 5 (LINEAR_1D)") == 0);
  CHECK(call(80, GAUSS_2D, 20, all, parameters) == ERROR);
  CHECK(strstr(gpufit_get_last_error(), "n_points is 80") != NULL);
  CHECK(call(0, GAUSS_2D, 20, all, parameters) == ERROR);
  CHECK(call(3 * 3, GAUSS_2D, 20, all, parameters) == ERROR);
  CHECK(call(65 * 65, GAUSS_2D, 20, all, parameters) == ERROR);
  CHECK(call(POINTS, GAUSS_2D, 0, all, parameters) == ERROR);
  CHECK(strstr(gpufit_get_last_error(), "max_n_iterations is 0") != NULL);
  CHECK(call(POINTS, GAUSS_2D, 20, NULL, parameters) == ERROR);
  CHECK(strstr(gpufit_get_last_error(), "parameters_to_fit") != NULL);
  CHECK(call(POINTS, GAUSS_2D, 20, all, NULL) == ERROR);
  CHECK(strstr(gpufit_get_last_error(), "output") != NULL);
  CHECK(gpufit(0, POINTS, NULL, NULL, GAUSS_2D, NULL, 1e-4f, 20, all, LSE, 0, NULL, NULL, NULL,
               NULL, NULL) == OK);
  CHECK(gpufit_get_cuda_version(NULL, NULL) == ERROR);
}

/* Every call about GPUs says the same of this build and this machine. */
static void gpus(void) {
  int runtime = -1, driver = -1;
  CHECK(gpufit_get_cuda_version(&runtime, &driver) == OK);
  CHECK(runtime >= 0 && driver >= 0);
  if (gpufit_cuda_available()) {
    CHECK(runtime > 0 && driver > 0);
    return;
  }
  CHECK(strstr(gpufit_get_last_error(), "CPU") != NULL);
  CHECK(gpufit_cuda_interface(1, POINTS, data, NULL, GAUSS_2D, 1e-4f, 20, all, LSE, 0, NULL,
                              parameters, states, chi_squares, iterations) == ERROR);
  CHECK(strstr(gpufit_get_last_error(), runtime == 0 ? "a build with CUDA" : "no GPU") != NULL);
  CHECK(gpufit_constrained_cuda_interface(1, POINTS, data, NULL, GAUSS_2D, 1e-4f, 20, all, NULL,
                                          NULL, LSE, 0, NULL, parameters, states, chi_squares,
                                          iterations) == ERROR);
}

int main(void) {
  draw();
  mistakes();
  fits();
  gpus();
  return failures != 0;
}
