/* SPDX-License-Identifier: MIT */
/* The C interface from C: what the Python tests do not reach. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "fitter/c/driftfit.h"
#include "support/c_check.h"

enum { SIDE = 9 };

/* Callers compiled with the first version, whose options ended with `offset`. */
static void first_version(driftfit_fitter* fitter, const uint8_t* pixels) {
  driftfit_options options;
  driftfit_result now = {0}, then = {0};
  const uint32_t size = offsetof(driftfit_options, fixed);
  memset(&options, 0xff, sizeof options);
  driftfit_default_options(&options, size);
  CHECK(size == 56);
  CHECK(options.size == size && options.fixed == 0xffffffffu);
  CHECK(driftfit_fit(fitter, &options, pixels, DRIFTFIT_U8, SIDE, 1, NULL, &then, NULL, NULL, NULL,
                     0) == DRIFTFIT_OK);
  CHECK(driftfit_fit(fitter, NULL, pixels, DRIFTFIT_U8, SIDE, 1, NULL, &now, NULL, NULL, NULL, 0) ==
        DRIFTFIT_OK);
  CHECK(memcmp(&now, &then, sizeof now) == 0);
}

static int fit(driftfit_fitter* fitter, const driftfit_options* options,
               const driftfit_images* images, driftfit_result* result) {
  return driftfit_fit_images(fitter, options, images, result, NULL, NULL, NULL, 0);
}

static void all_parameters(driftfit_fitter* fitter, const uint8_t* pixels) {
  char message[200];
  float variances[SIDE * SIDE];
  driftfit_result result = {0};
  driftfit_options options;
  const driftfit_start start = {4, 4, 1.2f, 1.2f};
  const driftfit_levels levels = {150, 20.25f};
  driftfit_bounds bounds;
  driftfit_images images = {0};
  images.size = sizeof images;
  images.pixel_type = DRIFTFIT_U8;
  images.side = SIDE;
  images.count = 1;
  images.pixels = pixels;
  images.starts = &start;
  images.levels = &levels;
  driftfit_default_options(&options, sizeof options);
  bounds = options.bounds;

  options.model = DRIFTFIT_ELLIPTICAL_GAUSSIAN;
  options.estimator = DRIFTFIT_LEAST_SQUARES;
  options.fixed = 1u << DRIFTFIT_BACKGROUND;
  CHECK(fit(fitter, &options, &images, &result) == DRIFTFIT_OK);
  CHECK(result.status <= DRIFTFIT_CONVERGED_STEP);
  CHECK(fabsf(result.background - 20.25f) < 1e-5f && result.background_sd == 0);
  CHECK(fabsf(result.x - 4.3f) < 0.01f && fabsf(result.sigma_y - 1.4f) < 0.02f);

  bounds.upper[DRIFTFIT_X] = 4.1f;
  images.bounds = &bounds;
  options.estimator = DRIFTFIT_POISSON_LIKELIHOOD;
  CHECK(fit(fitter, &options, &images, &result) == DRIFTFIT_OK);
  CHECK(result.x == 4.1f);

  images.bounds = NULL;
  options.estimator = DRIFTFIT_WEIGHTED_LEAST_SQUARES;
  CHECK(fit(fitter, &options, &images, &result) == DRIFTFIT_BAD_ARGUMENT);
  for (int i = 0; i < SIDE * SIDE; ++i) variances[i] = 4;
  images.variances = variances;
  CHECK(fit(fitter, &options, &images, &result) == DRIFTFIT_OK);
  CHECK(result.status <= DRIFTFIT_CONVERGED_STEP);

  options.fixed = 1u << DRIFTFIT_ANGLE;
  CHECK(fit(fitter, &options, &images, &result) == DRIFTFIT_BAD_ARGUMENT);
  options.fixed = 0;
  options.model = 3;
  CHECK(fit(fitter, &options, &images, &result) == DRIFTFIT_BAD_ARGUMENT);

  /* What would be ignored is refused. */
  options.model = DRIFTFIT_CIRCULAR_GAUSSIAN;
  options.estimator = DRIFTFIT_LEAST_SQUARES;
  CHECK(fit(fitter, &options, &images, &result) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(driftfit_fit_images(fitter, NULL, &images, &result, NULL, NULL, message, sizeof message) ==
        DRIFTFIT_BAD_ARGUMENT);
  CHECK(strstr(message, "variances of the pixels are given, which this estimator does not use") !=
        NULL);
  images.variances = NULL;
  CHECK(fit(fitter, &options, &images, &result) == DRIFTFIT_OK);
  bounds.upper[DRIFTFIT_SIGMA_Y] = 2;
  images.bounds = &bounds;
  CHECK(fit(fitter, &options, &images, &result) == DRIFTFIT_BAD_ARGUMENT);
  images.bounds = NULL;
  options.bounds.upper[DRIFTFIT_SIGMA_Y] = 2;
  CHECK(fit(fitter, &options, &images, &result) == DRIFTFIT_BAD_ARGUMENT);
  options.model = DRIFTFIT_ELLIPTICAL_GAUSSIAN;
  CHECK(fit(fitter, &options, &images, &result) == DRIFTFIT_OK);
  images.size = 16;
  CHECK(driftfit_fit_images(fitter, NULL, &images, &result, NULL, NULL, message, sizeof message) ==
        DRIFTFIT_BAD_ARGUMENT);
  CHECK(strstr(message, "images.size is 16") != NULL);
  CHECK(fit(fitter, NULL, NULL, &result) == DRIFTFIT_BAD_ARGUMENT);
}

/* The rotated model, its details, and callers whose images ended with `bounds`. */
static void rotated(driftfit_fitter* fitter) {
  float pixels[SIDE * SIDE];
  const driftfit_start start = {4, 4, 1.2f, 1.2f};
  const float angle = 0.5f;
  driftfit_result result = {0};
  driftfit_details details, untouched;
  driftfit_options options;
  driftfit_images images = {0};
  for (int i = 0; i < SIDE * SIDE; ++i) {
    const double u = i % SIDE - 4.3, v = i / SIDE - 3.8;
    const double a = (u * cos(0.6) + v * sin(0.6)) / 1.7, b = (v * cos(0.6) - u * sin(0.6)) / 1.1;
    pixels[i] = (float)(20 + 200 * exp(-(a * a + b * b) / 2)) + (float)(i * 7 % 5) * 0.3f;
  }
  images.size = sizeof images;
  images.pixel_type = DRIFTFIT_F32;
  images.side = SIDE;
  images.count = 1;
  images.pixels = pixels;
  images.details = &details;
  driftfit_default_options(&options, sizeof options);
  options.model = DRIFTFIT_ROTATED_GAUSSIAN;
  CHECK(fit(fitter, &options, &images, &result) == DRIFTFIT_OK);
  CHECK(result.status <= DRIFTFIT_CONVERGED_STEP);
  CHECK(fabsf(details.angle - 0.6f) < 0.02f && details.angle_sd > 0 && details.angle_sd < 0.02f);
  CHECK(fabsf(result.sigma_x - 1.7f) < 0.03f && fabsf(result.sigma_y - 1.1f) < 0.03f);
  CHECK(fabsf(sqrtf(details.covariance[DRIFTFIT_X][DRIFTFIT_X]) - result.x_sd) < 1e-6f);
  CHECK(details.covariance[DRIFTFIT_ANGLE][DRIFTFIT_Y] ==
        details.covariance[DRIFTFIT_Y][DRIFTFIT_ANGLE]);

  images.starts = &start;
  images.angles = &angle;
  options.estimator = DRIFTFIT_LEAST_SQUARES;
  options.fixed = 1u << DRIFTFIT_ANGLE;
  CHECK(fit(fitter, &options, &images, &result) == DRIFTFIT_OK);
  CHECK(details.angle == 0.5f && details.angle_sd == 0);

  memset(&details, 0x5a, sizeof details);
  untouched = details;
  images.size = offsetof(driftfit_images, angles);
  options.fixed = 0;
  CHECK(images.size == 64);
  CHECK(fit(fitter, &options, &images, &result) == DRIFTFIT_OK);
  CHECK(result.status <= DRIFTFIT_CONVERGED_STEP);
  CHECK(memcmp(&details, &untouched, sizeof details) == 0);
}

enum { SEARCHED = 3 };

static int search(driftfit_fitter* fitter, const driftfit_swarm_options* swarm,
                  const driftfit_images* images, driftfit_result* results,
                  driftfit_swarm_report* reports) {
  return driftfit_search(fitter, NULL, swarm, images, results, reports, NULL, NULL, NULL, 0);
}

static int count_calls(void* user, size_t done, size_t count) {
  *(int*)user += done <= count;
  return 0;
}

static void finds_what_a_fit_finds(driftfit_fitter* fitter, const driftfit_images* images) {
  driftfit_result fits[SEARCHED], found[SEARCHED];
  driftfit_swarm_report reports[SEARCHED];
  int calls = 0;
  CHECK(driftfit_fit_images(fitter, NULL, images, fits, NULL, NULL, NULL, 0) == DRIFTFIT_OK);
  CHECK(driftfit_search(fitter, NULL, NULL, images, found, reports, count_calls, &calls, NULL, 0) ==
        DRIFTFIT_OK);
  CHECK(calls == 1);
  for (int i = 0; i < SEARCHED; ++i) {
    CHECK(found[i].status <= DRIFTFIT_CONVERGED_STEP);
    CHECK(fabsf(found[i].x - fits[i].x) < 2e-3f);
    CHECK(fabsf(reports[i].best.x - fits[i].x) < 0.05f && reports[i].spread.x > 0);
    CHECK(fabsf(reports[i].best.sigma_y - fits[i].sigma_y) < 0.05f);
    CHECK(reports[i].chi_square >= 0.999f * fits[i].chi_square);
  }
}

static void seed_and_number_make_a_search(driftfit_fitter* fitter, const driftfit_images* images) {
  driftfit_result found[SEARCHED];
  driftfit_swarm_report all[SEARCHED], other[SEARCHED], last;
  driftfit_swarm_options swarm;
  driftfit_images one = *images;
  driftfit_default_swarm_options(&swarm, sizeof swarm);
  CHECK(swarm.size == sizeof swarm && swarm.particles == 256 && swarm.seed == 0);
  swarm.iterations = 5;
  swarm.seed = 7;
  CHECK(search(fitter, &swarm, images, found, all) == DRIFTFIT_OK);
  one.count = 1;
  one.pixels = (const uint8_t*)images->pixels + (SEARCHED - 1) * SIDE * SIDE;
  swarm.first_image = SEARCHED - 1;
  CHECK(search(fitter, &swarm, &one, found, &last) == DRIFTFIT_OK);
  CHECK(memcmp(&last, &all[SEARCHED - 1], sizeof last) == 0);
  swarm.first_image = 0;
  swarm.seed = 8;
  CHECK(search(fitter, &swarm, images, found, other) == DRIFTFIT_OK);
  CHECK(other[0].best.x != all[0].best.x);
  CHECK(search(fitter, &swarm, images, found, NULL) == DRIFTFIT_OK);
}

static void refuses_senseless_searches(driftfit_fitter* fitter, const driftfit_images* images) {
  char message[200];
  driftfit_result found[SEARCHED];
  driftfit_swarm_options swarm;
  const driftfit_start starts[SEARCHED] = {{4, 4, 1, 1}};
  driftfit_images started = *images;
  started.starts = starts;
  CHECK(search(fitter, NULL, &started, found, NULL) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(search(fitter, NULL, images, NULL, NULL) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(search(NULL, NULL, images, found, NULL) == DRIFTFIT_BAD_ARGUMENT);
  driftfit_default_swarm_options(&swarm, sizeof swarm);
  swarm.particles = 100;
  CHECK(driftfit_search(fitter, NULL, &swarm, images, found, NULL, NULL, NULL, message,
                        sizeof message) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(strstr(message, "particles is 100, allowed are whole multiples of 16") != NULL);
  swarm.size = 8;
  CHECK(driftfit_search(fitter, NULL, &swarm, images, found, NULL, NULL, NULL, message,
                        sizeof message) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(strstr(message, "swarm.size is 8, allowed is 48 or more") != NULL);
}

static void swarms(driftfit_fitter* fitter, const uint8_t* pixels) {
  uint8_t copies[SEARCHED][SIDE * SIDE];
  driftfit_images images = {0};
  for (int i = 0; i < SEARCHED; ++i) memcpy(copies[i], pixels, sizeof copies[i]);
  images.size = sizeof images;
  images.pixel_type = DRIFTFIT_U8;
  images.side = SIDE;
  images.count = SEARCHED;
  images.pixels = copies;
  finds_what_a_fit_finds(fitter, &images);
  seed_and_number_make_a_search(fitter, &images);
  refuses_senseless_searches(fitter, &images);
}

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
  CHECK(strcmp(driftfit_backend_reason(fitter), "the CPU was asked for") == 0);
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
  CHECK(options.excess_noise == 1 && options.integrated == 0);
  options.integrated = 2;
  CHECK(driftfit_fit(fitter, &options, pixels, DRIFTFIT_U8, SIDE, 1, NULL, &result, NULL, NULL,
                     message, sizeof message) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(strstr(message, "integrated is 2, allowed are 0 and 1") != NULL);
  options.integrated = 0;
  options.excess_noise = 17;
  CHECK(driftfit_fit(fitter, &options, pixels, DRIFTFIT_U8, SIDE, 1, NULL, &result, NULL, NULL,
                     message, sizeof message) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(strstr(message, "excess_noise is 17") != NULL);
  options.excess_noise = 2;
  options.estimator = DRIFTFIT_POISSON_LIKELIHOOD;
  options.gain = NAN;
  CHECK(driftfit_fit(fitter, &options, pixels, DRIFTFIT_U8, SIDE, 1, NULL, &result, NULL, NULL,
                     message, sizeof message) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(strstr(message, " gain is nan, allowed are ") != NULL);
  driftfit_default_options(&options, sizeof options);
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
  first_version(fitter, pixels);
  all_parameters(fitter, pixels);
  rotated(fitter);
  swarms(fitter, pixels);
  driftfit_destroy(fitter);
  driftfit_destroy(NULL);
  return failures != 0;
}
