/* SPDX-License-Identifier: MIT */
/* What fit2dgaussian.m calls, for Octave and MATLAB. */
#define MEX_NAME "fit2dgaussian"
#include "arrays.h"

enum { IMAGES, START, CRITERIA, INPUTS };
enum { STATUS, X, Y, SIGMA, AMPLITUDE, BACKGROUND, CHI_SQUARE, ITERATIONS, OUTPUTS };

static const driftfit_start* starts_from(const mxArray* array, size_t count) {
  driftfit_start* starts;
  const size_t given = mxGetN(array);
  size_t i;
  if (mxIsEmpty(array)) return NULL;
  require(is_real_float(array) && mxGetNumberOfDimensions(array) == 2 && mxGetM(array) == 3 &&
              (given == count || given == 1),
          "start has to be 3 x N, 3 x 1 or []: x, y, sigma, single or double");
  starts = mxCalloc(count + 1, sizeof *starts);
  for (i = 0; i < count; ++i) {
    const size_t from = given == 1 ? 0 : 3 * i;
    starts[i].y = (float)number_at(array, from);
    starts[i].x = (float)number_at(array, from + 1);
    starts[i].sigma_x = starts[i].sigma_y = (float)number_at(array, from + 2);
  }
  return starts;
}

static driftfit_options options_from(const mxArray* array) {
  driftfit_options options;
  const size_t given = array != NULL ? mxGetNumberOfElements(array) : 0;
  driftfit_default_options(&options, sizeof options);
  options.spots_only = 0;
  if (given == 0) return options;
  require(is_real_float(array) && given <= 4,
          "criteria have to be at most [max_error, min_delta, min_step, max_iterations]");
  options.min_chi_square = (float)number_at(array, 0);
  if (given > 1) options.min_decrease = (float)number_at(array, 1);
  if (given > 2) options.min_step = (float)number_at(array, 2);
  if (given > 3) {
    const double most = number_at(array, 3);
    require(most >= 1 && most <= 255, "max_iterations have to be 1 to 255");
    options.max_iterations = (int32_t)most;
  }
  return options;
}

static float value_of(const driftfit_result* result, int output) {
  switch (output) {
    case X:
      return result->y;
    case Y:
      return result->x;
    case SIGMA:
      return result->sigma_x;
    case AMPLITUDE:
      return result->amplitude;
    case BACKGROUND:
      return result->background;
    case CHI_SQUARE:
      return result->chi_square;
    default:
      return (float)(output == STATUS ? result->status : result->iterations);
  }
}

void mexFunction(int outputs, mxArray* output[], int inputs, const mxArray* input[]) {
  char message[256];
  driftfit_images images;
  driftfit_options options;
  driftfit_result* results;
  int i;
  require(inputs >= 1 && inputs <= INPUTS && outputs <= OUTPUTS,
          "the call is [status, x, y, sigma, amplitude, background, chi_square, iterations] = "
          "fit2dgaussian (images, start, criteria)");
  images = images_from(input[IMAGES]);
  if (inputs > START) images.starts = starts_from(input[START], images.count);
  options = options_from(inputs > CRITERIA ? input[CRITERIA] : NULL);
  results = mxCalloc(images.count + 1, sizeof *results);
  make_fitter();
  check(
      driftfit_fit_images(fitter, &options, &images, results, NULL, NULL, message, sizeof message),
      message);
  for (i = 0; i < outputs || i < 1; ++i)
    output[i] = row_from(results, images.count, i == STATUS, value_of, i);
}
