/* SPDX-License-Identifier: MIT */
/* What the functions for Octave and MATLAB share. Their arrays lie column after column, so that an
 * image is its transpose to libdriftfit: x and y change places. The interpreter's one thread
 * calls. The including file defines MEX_NAME, of the function as its users know it. */
#ifndef DRIFTD_FITTER_MATLAB_ARRAYS_H
#define DRIFTD_FITTER_MATLAB_ARRAYS_H

#include <mex.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "driftfit.h"

static driftfit_fitter* fitter = NULL;

static void destroy_fitter(void) {
  driftfit_destroy(fitter);
  fitter = NULL;
}

static void check(int code, const char* message) {
  if (code == DRIFTFIT_BAD_ARGUMENT)
    mexErrMsgIdAndTxt(MEX_NAME ":argument", MEX_NAME ": %s", message);
  if (code != DRIFTFIT_OK) mexErrMsgIdAndTxt(MEX_NAME ":failed", MEX_NAME ": %s", message);
}

static void require(int good, const char* text) {
  if (!good) check(DRIFTFIT_BAD_ARGUMENT, text);
}

static void make_fitter(void) {
  char message[256];
  if (fitter != NULL) return;
  check(driftfit_create(DRIFTFIT_AUTO, 0, NULL, 0, &fitter, message, sizeof message), message);
  mexAtExit(destroy_fitter);
}

/* Memory of mxMalloc is the interpreter's to free when the call ends, also by an error. */
static const void* single_from_double(const mxArray* array) {
  const double* from = mxGetPr(array);
  const size_t count = mxGetNumberOfElements(array);
  float* to = mxMalloc((count + 1) * sizeof *to);
  size_t i;
  for (i = 0; i < count; ++i) to[i] = (float)from[i];
  return to;
}

static driftfit_images images_from(const mxArray* array) {
  driftfit_images images;
  const mwSize* size = mxGetDimensions(array);
  const mwSize dimensions = mxGetNumberOfDimensions(array);
  memset(&images, 0, sizeof images);
  images.size = sizeof images;
  require(dimensions <= 3 && size[0] == size[1] && !mxIsComplex(array) && !mxIsSparse(array),
          "images have to be S x S x N and real");
  require(size[0] >= 4 && size[0] <= 64, "images have to have 4 to 64 pixels a side");
  images.side = (int32_t)size[0];
  images.count = dimensions == 3 ? (size_t)size[2] : 1;
  images.pixels = mxGetData(array);
  if (mxIsUint8(array)) {
    images.pixel_type = DRIFTFIT_U8;
  } else if (mxIsUint16(array)) {
    images.pixel_type = DRIFTFIT_U16;
  } else if (mxIsSingle(array)) {
    images.pixel_type = DRIFTFIT_F32;
  } else {
    require(mxIsDouble(array), "images have to be uint8, uint16, single or double");
    images.pixel_type = DRIFTFIT_F32;
    images.pixels = single_from_double(array);
  }
  return images;
}

static double number_at(const mxArray* array, size_t i) {
  return mxIsDouble(array) ? mxGetPr(array)[i] : (double)((const float*)mxGetData(array))[i];
}

static int is_real_float(const mxArray* array) {
  return (mxIsDouble(array) || mxIsSingle(array)) && !mxIsComplex(array) && !mxIsSparse(array);
}

/* Of the results, a row: double where it is the status, single else. */
static mxArray* row_from(const driftfit_result* results, size_t count, int is_status,
                         float (*value_of)(const driftfit_result*, int), int which) {
  mxArray* row =
      mxCreateNumericMatrix(1, count, is_status ? mxDOUBLE_CLASS : mxSINGLE_CLASS, mxREAL);
  size_t i;
  for (i = 0; i < count; ++i) {
    const float value = value_of(&results[i], which);
    if (is_status) {
      mxGetPr(row)[i] = value;
    } else {
      ((float*)mxGetData(row))[i] = value;
    }
  }
  return row;
}

#endif
