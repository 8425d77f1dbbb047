/* SPDX-License-Identifier: MIT */
/* The C interface from C: what the Python tests do not reach. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fitter/c/driftfit.h"

static int failures;

#define CHECK(condition)                                             \
  do {                                                               \
    if (!(condition)) {                                              \
      printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                    \
    }                                                                \
  } while (0)

enum { SIDE = 9 };

int main(void) {
  char message[200] = "old";
  driftfit_fitter* fitter = NULL;
  CHECK(driftfit_create(7, 1, NULL, 0, &fitter, message, sizeof message) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(fitter == NULL);
  CHECK(strcmp(message, "driftfit: backend is 7, allowed are 0 (auto), 1 (cpu) and 2 (cuda)") == 0);
  CHECK(driftfit_create(DRIFTFIT_CPU, 1, NULL, 0, NULL, NULL, 0) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(driftfit_create(DRIFTFIT_CPU, -1, NULL, 0, &fitter, NULL, 0) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(driftfit_create(DRIFTFIT_CPU, 1, NULL, 0, &fitter, message, sizeof message) == DRIFTFIT_OK);
  CHECK(message[0] == '\0');
  CHECK(strcmp(driftfit_backend(fitter), "cpu") == 0);
  CHECK(driftfit_version()[0] == '0');

  uint8_t pixels[SIDE * SIDE];
  for (int i = 0; i < SIDE * SIDE; ++i) {
    const double x = i % SIDE - 4.3, y = i / SIDE - 3.8;
    pixels[i] = (uint8_t)(20.5 + 200 * exp(-(x * x + y * y) / (2 * 1.4 * 1.4)));
  }
  driftfit_result result = {0};
  CHECK(driftfit_fit(fitter, NULL, pixels, DRIFTFIT_U8, SIDE, 1, NULL, &result, NULL, NULL, NULL,
                     0) == DRIFTFIT_OK);
  CHECK(result.status <= DRIFTFIT_CONVERGED_STEP);
  CHECK(fabsf(result.x - 4.3f) < 0.01f && fabsf(result.y - 3.8f) < 0.01f);
  CHECK(fabsf(result.sigma_x - 1.4f) < 0.02f);

  driftfit_options options;
  driftfit_default_options(&options, sizeof options);
  CHECK(options.size == sizeof options && options.max_iterations == 20);
  options.saturation = 100;
  CHECK(driftfit_fit(fitter, &options, pixels, DRIFTFIT_U8, SIDE, 1, NULL, &result, NULL, NULL,
                     message, sizeof message) == DRIFTFIT_OK);
  CHECK(result.status == DRIFTFIT_BAD_INPUT);
  options.size = 12;
  CHECK(driftfit_fit(fitter, &options, pixels, DRIFTFIT_U8, SIDE, 1, NULL, &result, NULL, NULL,
                     message, sizeof message) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(strstr(message, "options.size is 12") != NULL);
  char small[8];
  CHECK(driftfit_fit(fitter, NULL, pixels, 9, SIDE, 1, NULL, &result, NULL, NULL, small,
                     sizeof small) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(strcmp(small, "driftfi") == 0);
  CHECK(driftfit_fit(NULL, NULL, pixels, DRIFTFIT_U8, SIDE, 1, NULL, &result, NULL, NULL, NULL,
                     0) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(driftfit_fit(fitter, NULL, NULL, DRIFTFIT_U8, SIDE, 1, NULL, &result, NULL, NULL, NULL,
                     0) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(driftfit_fit(fitter, NULL, NULL, DRIFTFIT_U8, SIDE, 0, NULL, NULL, NULL, NULL, NULL, 0) ==
        DRIFTFIT_OK);
  driftfit_destroy(fitter);
  driftfit_destroy(NULL);
  return failures != 0;
}
