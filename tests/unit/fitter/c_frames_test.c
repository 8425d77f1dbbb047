/* SPDX-License-Identifier: MIT */
/* driftfit_fit_frames() from C: strides, errors and progress. What it makes of pixels and maps is
 * in python/test_fit_frames.py. */
#include <math.h>
#include <string.h>

#include "fitter/c/driftfit.h"
#include "support/c_check.h"

enum { SIDE = 9, WIDTH = 40, HEIGHT = 30, FRAMES = 2, GAP = 3, PLACES = 5 };

static uint16_t pixels[FRAMES][HEIGHT + 1][WIDTH + GAP];
static const driftfit_place places[PLACES] = {
    {10, 10, 0}, {28, 20, 1}, {10, 10, 1}, {39, 10, 0}, {INT32_MIN, INT32_MAX, 0}};

static driftfit_frames whole(void) {
  driftfit_frames frames = {0};
  frames.size = sizeof frames;
  frames.pixel_type = DRIFTFIT_U16;
  frames.width = WIDTH;
  frames.height = HEIGHT;
  frames.frame_count = FRAMES;
  frames.pixels = pixels;
  frames.row_stride = sizeof pixels[0][0];
  frames.frame_stride = sizeof pixels[0];
  frames.side = SIDE;
  frames.count = PLACES;
  frames.places = places;
  return frames;
}

static void draw(void) {
  for (int f = 0; f < FRAMES; ++f)
    for (int row = 0; row <= HEIGHT; ++row)
      for (int column = 0; column < WIDTH + GAP; ++column) {
        const double x = column - (f == 0 ? 10.3 : 28.4), y = row - (f == 0 ? 9.8 : 20.1);
        pixels[f][row][column] =
            (uint16_t)(100.5 + 2000 * exp(-(x * x + y * y) / (2 * 1.4 * 1.4)) + (row + column) % 3);
      }
}

static void finds_spots_in_the_frame(driftfit_fitter* fitter) {
  const driftfit_frames frames = whole();
  driftfit_result results[PLACES];
  char message[200] = "old";
  CHECK(driftfit_fit_frames(fitter, NULL, &frames, results, NULL, NULL, message, sizeof message) ==
        DRIFTFIT_OK);
  CHECK(message[0] == '\0');
  CHECK(results[0].status <= DRIFTFIT_CONVERGED_STEP);
  CHECK(fabsf(results[0].x - 10.3f) < 0.01f && fabsf(results[0].y - 9.8f) < 0.01f);
  CHECK(results[1].status <= DRIFTFIT_CONVERGED_STEP);
  CHECK(fabsf(results[1].x - 28.4f) < 0.01f && fabsf(results[1].y - 20.1f) < 0.01f);
  CHECK(results[2].status > DRIFTFIT_CONVERGED_STEP && results[2].status != DRIFTFIT_BAD_INPUT);
  CHECK(results[3].status == DRIFTFIT_BAD_INPUT && isnan(results[3].x));
  CHECK(results[4].status == DRIFTFIT_BAD_INPUT && isnan(results[4].y));
}

/* Without strides, rows and frames have no gaps. */
static void strides_are_filled_in(driftfit_fitter* fitter) {
  static uint16_t packed[FRAMES][HEIGHT][WIDTH];
  driftfit_frames frames = whole();
  driftfit_result with_gaps[PLACES], without[PLACES];
  for (int f = 0; f < FRAMES; ++f)
    for (int row = 0; row < HEIGHT; ++row)
      memcpy(packed[f][row], pixels[f][row], sizeof packed[f][row]);
  CHECK(driftfit_fit_frames(fitter, NULL, &frames, with_gaps, NULL, NULL, NULL, 0) == DRIFTFIT_OK);
  frames.pixels = packed;
  frames.row_stride = frames.frame_stride = 0;
  CHECK(driftfit_fit_frames(fitter, NULL, &frames, without, NULL, NULL, NULL, 0) == DRIFTFIT_OK);
  CHECK(memcmp(with_gaps, without, sizeof without) == 0);
}

static void refused(driftfit_fitter* fitter, const driftfit_frames* frames,
                    const driftfit_options* options, const char* text) {
  driftfit_result results[PLACES];
  char message[200];
  memset(results, 0x55, sizeof results);
  CHECK(driftfit_fit_frames(fitter, options, frames, results, NULL, NULL, message,
                            sizeof message) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(strstr(message, text) != NULL);
  if (strstr(message, text) == NULL) printf("  not \"%s\" but \"%s\"\n", text, message);
  for (size_t i = 0; i < sizeof results; ++i) CHECK(((const uint8_t*)results)[i] == 0x55);
}

static void refuses_senseless_frames(driftfit_fitter* fitter) {
  driftfit_frames frames = whole();
  driftfit_place elsewhere[PLACES];
  driftfit_options options;
  const float map = 1;
  refused(NULL, &frames, NULL, "no fitter given");
  refused(fitter, NULL, NULL, "no frames given");
  frames.size = 100;
  refused(fitter, &frames, NULL, "frames.size is 100, allowed is 120 or more; set it with");
  frames = whole();
  frames.pixel_type = 3;
  refused(fitter, &frames, NULL, "pixel_type is 3, allowed are 0 (u8), 1 (u16) and 2 (f32)");
  frames = whole();
  frames.side = 65;
  refused(fitter, &frames, NULL, "side is 65, allowed are 4 to 64");
  frames = whole();
  frames.width = 8;
  refused(fitter, &frames, NULL, "width is 8, allowed are 9 to 16777216");
  frames = whole();
  frames.height = -1;
  refused(fitter, &frames, NULL, "height is -1, allowed are 9 to 16777216");
  frames = whole();
  frames.row_stride = WIDTH;
  refused(fitter, &frames, NULL, "row_stride is 40 bytes, allowed are 80");
  frames = whole();
  frames.row_stride = SIZE_MAX / 2;
  frames.frame_stride = 0;
  refused(fitter, &frames, NULL, "more than memory has for");
  frames = whole();
  frames.frame_stride = FRAMES;
  refused(fitter, &frames, NULL, "frame_stride is 2 bytes, allowed are 80");
  frames = whole();
  frames.pixels = NULL;
  refused(fitter, &frames, NULL, "no pixels given");
  frames = whole();
  frames.places = NULL;
  refused(fitter, &frames, NULL, "no places given");
  memcpy(elsewhere, places, sizeof places);
  frames.places = elsewhere;
  elsewhere[4].frame = FRAMES;
  refused(fitter, &frames, NULL, "place 4 is in frame 2, of frames there are 2, counted from 0");
  elsewhere[1].frame = -1;
  refused(fitter, &frames, NULL, "place 1 is in frame -1");
  frames = whole();
  frames.frame_count = 0;
  refused(fitter, &frames, NULL, "place 0 is in frame 0, of frames there are 0");

  frames = whole();
  driftfit_default_options(&options, sizeof options);
  options.gain = NAN;
  frames.gain_map = &map;
  refused(fitter, &frames, &options, "beside a gain_map, allowed is 0 (unknown)");
  frames = whole();
  options.gain = 0;
  options.offset = 100;
  frames.offset_map = &map;
  refused(fitter, &frames, &options, "beside an offset_map, allowed is 0");
  frames = whole();
  options.estimator = DRIFTFIT_WEIGHTED_LEAST_SQUARES;
  refused(fitter, &frames, &options, "needs the variances");
  CHECK(driftfit_fit_frames(fitter, NULL, &frames, NULL, NULL, NULL, NULL, 0) ==
        DRIFTFIT_BAD_ARGUMENT);
  memset(&frames, 0, sizeof frames);
  frames.size = sizeof frames;
  frames.side = SIDE;
  CHECK(driftfit_fit_frames(fitter, NULL, &frames, NULL, NULL, NULL, NULL, 0) == DRIFTFIT_OK);
}

enum { MANY = (1 << 17) + 100 };

static driftfit_place many[MANY]; /* all but the last are outside: nothing to search */
static driftfit_start starts[MANY];
static driftfit_levels levels[MANY];
static driftfit_bounds bounds[MANY];
static driftfit_result results[MANY];

/* Counts its calls in a size_t: an odd one does not stop. */
static int stop(void* user, size_t done, size_t count) {
  const size_t calls = (*(size_t*)user)++;
  return done < count && calls % 2 == 0;
}

static void goes_on_between_blocks(driftfit_fitter* fitter) {
  driftfit_frames frames = whole();
  driftfit_options options;
  size_t calls = 0;
  const driftfit_result untouched = {.status = 77};
  const size_t last = MANY - 1;
  driftfit_default_options(&options, sizeof options);
  options.estimator = DRIFTFIT_LEAST_SQUARES;
  options.fixed = 1u << DRIFTFIT_X | 1u << DRIFTFIT_BACKGROUND;
  for (size_t i = 0; i < MANY; ++i) bounds[i] = options.bounds;
  many[last].x = many[last].y = 10;
  starts[last] = (driftfit_start){10.25f, 10, 1.3f, 1.3f};
  levels[last] = (driftfit_levels){2000, 101.5f};
  bounds[last].upper[DRIFTFIT_Y] = 3.75f; /* of the ROI */
  results[last] = untouched;
  frames.places = many;
  frames.count = MANY;
  frames.starts = starts;
  frames.levels = levels;
  frames.bounds = bounds;
  CHECK(driftfit_fit_frames(fitter, &options, &frames, results, stop, &calls, NULL, 0) ==
        DRIFTFIT_CANCELLED);
  CHECK(calls == 1 && results[0].status == DRIFTFIT_BAD_INPUT);
  CHECK(results[(1 << 17) - 1].status == DRIFTFIT_BAD_INPUT && results[last].status == 77);
  CHECK(driftfit_fit_frames(fitter, &options, &frames, results, stop, &calls, NULL, 0) ==
        DRIFTFIT_OK);
  CHECK(calls == 3 && results[last - 1].status == DRIFTFIT_BAD_INPUT);
  CHECK(results[last].status <= DRIFTFIT_CONVERGED_STEP);
  CHECK(results[last].x == 10.25f && results[last].y == 9.75f);
  CHECK(results[last].background == 101.5f);
}

/* Of frames with gaps, as many as there is room for; the others are counted. */
static void finds_and_localizes_spots(driftfit_fitter* fitter) {
  driftfit_frames frames = whole();
  driftfit_spot spots[FRAMES] = {{-1, -1, -1, 0}, {-1, -1, -1, 0}};
  driftfit_localization locs[FRAMES];
  char message[200] = "old";
  size_t found = 77;
  frames.count = 0;
  frames.places = NULL;
  CHECK(driftfit_find_spots(fitter, NULL, &frames, 1000, spots, FRAMES, &found, message,
                            sizeof message) == DRIFTFIT_OK);
  CHECK(message[0] == '\0' && found == FRAMES);
  CHECK(spots[0].x == 10 && spots[0].y == 10 && spots[0].frame == 0);
  CHECK(spots[1].x == 28 && spots[1].y == 20 && spots[1].frame == 1);
  CHECK(spots[0].net_gradient > 1000);
  spots[0].x = spots[1].x = -1;
  CHECK(driftfit_find_spots(fitter, NULL, &frames, 1000, spots, 1, &found, NULL, 0) == DRIFTFIT_OK);
  CHECK(found == FRAMES && spots[0].x == 10 && spots[1].x == -1);
  CHECK(driftfit_find_spots(fitter, NULL, &frames, 1000, NULL, 0, &found, NULL, 0) == DRIFTFIT_OK);
  CHECK(found == FRAMES);
  CHECK(driftfit_localize(fitter, NULL, &frames, 1000, 5, locs, FRAMES, &found, NULL, 0) ==
        DRIFTFIT_OK);
  CHECK(found == FRAMES && locs[0].frame == 5 && locs[1].frame == 6);
  CHECK(fabsf(locs[0].x - 10.3f) < 0.01f && fabsf(locs[1].y - 20.1f) < 0.01f);
  CHECK(fabsf(locs[0].sx - 1.4f) < 0.02f && locs[0].lpx > 0);

  found = 77;
  frames.side = 4;
  CHECK(driftfit_find_spots(fitter, NULL, &frames, 0, spots, FRAMES, &found, message,
                            sizeof message) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(strstr(message, "odd") != NULL && found == 0);
  frames.side = SIDE;
  frames.places = places;
  CHECK(driftfit_localize(fitter, NULL, &frames, 0, 0, locs, FRAMES, &found, message,
                          sizeof message) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(strstr(message, "places") != NULL);
  frames.places = NULL;
  frames.row_stride = 3;
  CHECK(driftfit_localize(fitter, NULL, &frames, 0, 0, locs, FRAMES, &found, message,
                          sizeof message) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(strstr(message, "row_stride") != NULL);
  frames = whole();
  frames.places = NULL;
  CHECK(driftfit_localize(fitter, NULL, &frames, 0, UINT32_MAX, locs, FRAMES, &found, message,
                          sizeof message) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(strstr(message, "first is 4294967295 of 2 frames") != NULL);
  CHECK(driftfit_localize(fitter, NULL, &frames, 0, 0, NULL, 1, &found, message, sizeof message) ==
        DRIFTFIT_BAD_ARGUMENT);
  CHECK(driftfit_localize(fitter, NULL, NULL, 0, 0, locs, 1, &found, message, sizeof message) ==
        DRIFTFIT_BAD_ARGUMENT);
  CHECK(driftfit_localize(NULL, NULL, &frames, 0, 0, locs, 1, &found, message, sizeof message) ==
        DRIFTFIT_BAD_ARGUMENT);
}

static void an_instruction_set_is_chosen(void) {
  char message[200] = "old";
  CHECK(driftfit_use_instruction_set("baseline", message, sizeof message) == DRIFTFIT_OK);
  CHECK(strcmp(driftfit_instruction_set(), "baseline") == 0 && message[0] == '\0');
  CHECK(driftfit_use_instruction_set("mmx", message, sizeof message) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(strstr(message, "baseline") != NULL && strcmp(driftfit_instruction_set(), "baseline") == 0);
  CHECK(driftfit_use_instruction_set(NULL, message, sizeof message) == DRIFTFIT_BAD_ARGUMENT);
  CHECK(driftfit_use_instruction_set("auto", message, sizeof message) == DRIFTFIT_OK);
}

int main(void) {
  draw();
  an_instruction_set_is_chosen();
  for (int threads = 1; threads <= 2; ++threads) {
    driftfit_fitter* fitter = NULL;
    CHECK(driftfit_create(DRIFTFIT_CPU, threads, NULL, 0, &fitter, NULL, 0) == DRIFTFIT_OK);
    finds_spots_in_the_frame(fitter);
    strides_are_filled_in(fitter);
    refuses_senseless_frames(fitter);
    goes_on_between_blocks(fitter);
    finds_and_localizes_spots(fitter);
    driftfit_destroy(fitter);
  }
  return failures != 0;
}
