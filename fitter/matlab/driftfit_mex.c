/* SPDX-License-Identifier: MIT */
/* What driftfit.m calls, for Octave and MATLAB: the images and a struct of options. */
#define MEX_NAME "driftfit"
#include "arrays.h"

#include <math.h>
#include <stdio.h>

/* By place in the enumerations of driftfit.h. */
static const char* const kModels[] = {"circular", "elliptical"};
static const char* const kEstimators[] = {"implicit", "least_squares", "weighted", "poisson"};
static const char* const kParameters[] = {"x",       "y",         "sigma_x",
                                          "sigma_y", "amplitude", "background"};

static const struct {
  const char* name;
  size_t place;
} kNumbers[] = {{"gain", offsetof(driftfit_options, gain)},
                {"offset", offsetof(driftfit_options, offset)},
                {"read_noise", offsetof(driftfit_options, read_noise)},
                {"excess_noise", offsetof(driftfit_options, excess_noise)},
                {"saturation", offsetof(driftfit_options, saturation)},
                {"min_background", offsetof(driftfit_options, min_background)},
                {"lambda_start", offsetof(driftfit_options, lambda_start)},
                {"lambda_max", offsetof(driftfit_options, lambda_max)},
                {"min_chi_square", offsetof(driftfit_options, min_chi_square)},
                {"min_decrease", offsetof(driftfit_options, min_decrease)},
                {"min_step", offsetof(driftfit_options, min_step)}};

static const struct {
  const char* name;
  size_t place;
  double least, most;
} kWholeNumbers[] = {{"max_iterations", offsetof(driftfit_options, max_iterations), 1, 255},
                     {"spots_only", offsetof(driftfit_options, spots_only), 0, 1},
                     {"integrated", offsetof(driftfit_options, integrated), 0, 1}};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void fail(const char* format, const char* name, const char* detail) {
  char text[400];
  snprintf(text, sizeof text, format, name, detail);
  check(DRIFTFIT_BAD_ARGUMENT, text);
}

static double number_of(const char* name, const mxArray* value) {
  if (!(is_real_float(value) || mxIsLogical(value)) || mxGetNumberOfElements(value) != 1)
    fail("%s has to be one number, single, double or logical%s", name, "");
  return mxIsLogical(value) ? mxGetScalar(value) : number_at(value, 0);
}

static size_t place_in(const char* const* names, size_t count, const char* what,
                       const char* given) {
  char allowed[200] = "";
  size_t i;
  for (i = 0; i < count; ++i) {
    if (strcmp(given, names[i]) == 0) return i;
    if (i > 0) strcat(allowed, ", ");
    strcat(allowed, names[i]);
  }
  fail("%s has to be one of %s", what, allowed);
  return 0;
}

static size_t place_of(const char* what, const mxArray* value, const char* const* names,
                       size_t count) {
  char given[40];
  if (!mxIsChar(value) || mxGetString(value, given, sizeof given) != 0) given[0] = '\0';
  return place_in(names, count, what, given);
}

/* The library's x runs along the columns of memory, our y. */
static size_t transposed(size_t parameter, int32_t model) {
  if (parameter <= DRIFTFIT_Y) return DRIFTFIT_Y - parameter;
  if (parameter > DRIFTFIT_SIGMA_Y) return parameter;
  if (model == DRIFTFIT_ELLIPTICAL_GAUSSIAN) return DRIFTFIT_SIGMA_X + DRIFTFIT_SIGMA_Y - parameter;
  require(parameter == DRIFTFIT_SIGMA_X,
          "a circular Gaussian has no sigma_y of its own: fixed and bounds name sigma_x");
  return parameter;
}

static void set_fixed(const mxArray* value, driftfit_options* options) {
  const size_t count = mxIsCell(value) ? mxGetNumberOfElements(value) : 1;
  size_t i;
  for (i = 0; i < count; ++i) {
    const mxArray* name = mxIsCell(value) ? mxGetCell(value, i) : value;
    require(name != NULL, "fixed has to be a name or a cell of names");
    options->fixed |=
        1u << transposed(place_of("fixed", name, kParameters, COUNT(kParameters)), options->model);
  }
}

static void set_bounds(const mxArray* value, driftfit_options* options) {
  int i;
  require(mxIsStruct(value) && mxGetNumberOfElements(value) == 1,
          "bounds have to be a struct of [lower, upper] by a parameter's name");
  for (i = 0; i < mxGetNumberOfFields(value); ++i) {
    const char* name = mxGetFieldNameByNumber(value, i);
    const mxArray* limits = mxGetFieldByNumber(value, 0, i);
    const size_t place =
        transposed(place_in(kParameters, COUNT(kParameters), "a bound", name), options->model);
    if (limits == NULL || !is_real_float(limits) || mxGetNumberOfElements(limits) != 2)
      fail("bounds.%s has to be [lower, upper]%s", name, "");
    if (!(number_at(limits, 0) <= number_at(limits, 1)))
      fail("bounds.%s has to be [lower, upper], the lower one first%s", name, "");
    options->bounds.lower[place] = (float)number_at(limits, 0);
    options->bounds.upper[place] = (float)number_at(limits, 1);
  }
}

/* @return 1 x count elements of `rows` numbers, or null where `value` is empty */
static float* columns_from(const char* name, const mxArray* value, size_t least_rows,
                           size_t most_rows, size_t count, size_t* rows) {
  const size_t given = mxGetN(value);
  float* columns;
  size_t i;
  *rows = mxGetM(value);
  if (mxIsEmpty(value) && count > 0) return NULL;
  if (!is_real_float(value) || mxGetNumberOfDimensions(value) != 2 || *rows < least_rows ||
      *rows > most_rows || (given != count && given != 1))
    fail("%s has to have as many columns as there are images, or one, and %s", name,
         most_rows == 2 ? "2 rows: amplitude, background" : "3 or 4 rows: x, y, sigma(s)");
  columns = mxCalloc(count * *rows + 1, sizeof *columns);
  for (i = 0; i < count * *rows; ++i)
    columns[i] = (float)number_at(value, given == 1 ? i % *rows : i);
  return columns;
}

static const driftfit_start* starts_from(const mxArray* value, size_t count, int32_t model) {
  size_t rows, i;
  const float* given = columns_from("start", value, 3, 4, count, &rows);
  driftfit_start* starts;
  if (given == NULL) return NULL;
  starts = mxCalloc(count + 1, sizeof *starts);
  for (i = 0; i < count; ++i) {
    const float* at = given + rows * i;
    const int elliptical = rows == 4 && model == DRIFTFIT_ELLIPTICAL_GAUSSIAN;
    require(at[2] > 0 && at[rows - 1] > 0, "start has to have widths above 0");
    starts[i].x = at[1];
    starts[i].y = at[0];
    starts[i].sigma_x = at[elliptical ? 3 : 2];
    starts[i].sigma_y = at[2];
  }
  return starts;
}

static const driftfit_levels* levels_from(const mxArray* value, size_t count) {
  size_t rows, i;
  const float* given = columns_from("levels", value, 2, 2, count, &rows);
  driftfit_levels* levels;
  if (given == NULL) return NULL;
  levels = mxCalloc(count + 1, sizeof *levels);
  for (i = 0; i < count; ++i) {
    levels[i].amplitude = given[2 * i];
    levels[i].background = given[2 * i + 1];
  }
  return levels;
}

static const float* variances_from(const mxArray* value, const driftfit_images* images) {
  const mwSize* size = mxGetDimensions(value);
  const mwSize dimensions = mxGetNumberOfDimensions(value);
  const size_t side = (size_t)images->side, pixels = side * side;
  const size_t given = dimensions == 3 ? (size_t)size[2] : 1;
  float* variances;
  size_t i;
  if (mxIsEmpty(value) && images->count > 0) return NULL;
  require(is_real_float(value) && dimensions <= 3 && (size_t)size[0] == side &&
              (size_t)size[1] == side && (given == images->count || given == 1),
          "variances have to be S x S x N or S x S, single or double");
  variances = mxCalloc(images->count * pixels + 1, sizeof *variances);
  for (i = 0; i < images->count * pixels; ++i)
    variances[i] = (float)number_at(value, given == 1 ? i % pixels : i);
  return variances;
}

static int set_number(const char* name, const mxArray* value, driftfit_options* options) {
  size_t i;
  for (i = 0; i < COUNT(kNumbers); ++i) {
    if (strcmp(name, kNumbers[i].name) != 0) continue;
    *(float*)((char*)options + kNumbers[i].place) = (float)number_of(name, value);
    return 1;
  }
  for (i = 0; i < COUNT(kWholeNumbers); ++i) {
    double number;
    char allowed[60];
    if (strcmp(name, kWholeNumbers[i].name) != 0) continue;
    number = number_of(name, value);
    snprintf(allowed, sizeof allowed, "%g to %g", kWholeNumbers[i].least, kWholeNumbers[i].most);
    if (!(number >= kWholeNumbers[i].least && number <= kWholeNumbers[i].most) ||
        number != floor(number))
      fail("%s has to be a whole number from %s", name, allowed);
    *(int32_t*)((char*)options + kWholeNumbers[i].place) = (int32_t)number;
    return 1;
  }
  return 0;
}

static void take_options(const mxArray* given, driftfit_options* options, driftfit_images* images) {
  const mxArray* model = mxGetField(given, 0, "model");
  int i;
  driftfit_default_options(options, sizeof *options);
  if (model != NULL) /* first: what x and y mean depends on it */
    options->model = (int32_t)place_of("model", model, kModels, COUNT(kModels));
  for (i = 0; i < mxGetNumberOfFields(given); ++i) {
    const char* name = mxGetFieldNameByNumber(given, i);
    const mxArray* value = mxGetFieldByNumber(given, 0, i);
    if (strcmp(name, "model") == 0) continue;
    if (strcmp(name, "estimator") == 0) {
      options->estimator = (int32_t)place_of(name, value, kEstimators, COUNT(kEstimators));
    } else if (strcmp(name, "fixed") == 0) {
      set_fixed(value, options);
    } else if (strcmp(name, "bounds") == 0) {
      set_bounds(value, options);
    } else if (strcmp(name, "start") == 0) {
      images->starts = starts_from(value, images->count, options->model);
    } else if (strcmp(name, "levels") == 0) {
      images->levels = levels_from(value, images->count);
    } else if (strcmp(name, "variances") == 0) {
      images->variances = variances_from(value, images);
    } else if (!set_number(name, value, options)) {
      fail("there is no option '%s'; help driftfit has those there are%s", name, "");
    }
  }
}

/* By field of the results; x and y of the library's results change places. */
static float value_of(const driftfit_result* result, int field) {
  const float values[] = {result->y,
                          result->x,
                          result->sigma_y,
                          result->sigma_x,
                          result->amplitude,
                          result->background,
                          result->chi_square,
                          result->y_sd,
                          result->x_sd,
                          result->sigma_y_sd,
                          result->sigma_x_sd,
                          result->amplitude_sd,
                          result->background_sd,
                          result->iterations,
                          result->status};
  return values[field];
}

static mxArray* struct_from(const driftfit_result* results, size_t count) {
  static const char* kFields[] = {
      "x",     "y",    "sigma_x",    "sigma_y",    "amplitude",    "background",    "chi_square",
      "x_sd",  "y_sd", "sigma_x_sd", "sigma_y_sd", "amplitude_sd", "background_sd", "iterations",
      "status"};
  const int fields = (int)COUNT(kFields);
  mxArray* made = mxCreateStructMatrix(1, 1, fields, kFields);
  int field;
  for (field = 0; field < fields; ++field) {
    const int is_status = field == fields - 1;
    mxSetFieldByNumber(made, 0, field, row_from(results, count, is_status, value_of, field));
  }
  return made;
}

void mexFunction(int outputs, mxArray* output[], int inputs, const mxArray* input[]) {
  char message[400];
  driftfit_images images;
  driftfit_options options;
  driftfit_result* results;
  require(
      inputs == 2 && outputs <= 1 && mxIsStruct(input[1]) && mxGetNumberOfElements(input[1]) == 1,
      "call driftfit, not driftfit_mex");
  images = images_from(input[0]);
  take_options(input[1], &options, &images);
  results = mxCalloc(images.count + 1, sizeof *results);
  make_fitter();
  check(
      driftfit_fit_images(fitter, &options, &images, results, NULL, NULL, message, sizeof message),
      message);
  output[0] = struct_from(results, images.count);
}
