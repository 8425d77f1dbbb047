/* SPDX-License-Identifier: MIT */
/* libdriftfit: the fits of driftd for other programs, in C. Fits 2-D Gaussians to square images of
 * 4x4 to 64x64 pixels, on the CPU or on NVIDIA GPUs; docs/internals/fitter.md has model, status rules and
 * accuracy.
 *
 * No call throws, prints, or keeps an error to itself: each returns a code and writes a sentence
 * into the caller's buffer. Different fitters may be used by different threads at once; one fitter
 * is used by one thread at a time. */
/* NOLINTBEGIN(readability-identifier-naming,modernize-*): names and headers of C */
#ifndef DRIFTFIT_H
#define DRIFTFIT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call returns. */
enum {
  DRIFTFIT_OK = 0,
  DRIFTFIT_BAD_ARGUMENT = 1, /* nothing was fitted */
  DRIFTFIT_NO_BACKEND = 2,   /* the GPU asked for cannot be had */
  DRIFTFIT_NO_MEMORY = 3,
  DRIFTFIT_CANCELLED = 4, /* by the progress callback; results so far are valid */
  DRIFTFIT_FAILED = 5     /* what the GPU reported */
};

/* auto: a GPU if there is one that can be used. If it fails later, the CPU fits the same images and
 * all that follow, unless they lie in memory of the GPU. */
enum { DRIFTFIT_AUTO = 0, DRIFTFIT_CPU = 1, DRIFTFIT_CUDA = 2 };
enum { DRIFTFIT_U8 = 0, DRIFTFIT_U16 = 1, DRIFTFIT_F32 = 2 }; /* pixels */

/* Models. Elliptical: widths of its own in x and y. Rotated: widths of its own along two axes at
 * right angles, sigma_x along the one at `angle` from x towards y (driftfit_details). A quarter of
 * a turn more and the widths exchanged make the same spot, which is told by the angle nearest to
 * the start value, 0 without one; half turns where a width or the angle is fixed or bounded, or
 * images have bounds of their own. */
enum {
  DRIFTFIT_CIRCULAR_GAUSSIAN = 0,
  DRIFTFIT_ELLIPTICAL_GAUSSIAN = 1,
  DRIFTFIT_ROTATED_GAUSSIAN = 2
};

/* Estimators. The first searches x, y and widths alone and is the fastest; the others search all
 * parameters, which can be fixed and bounded. The third needs variances; the fourth is the maximum
 * likelihood of Poisson noise, its chi-square the deviance. */
enum {
  DRIFTFIT_IMPLICIT_LEAST_SQUARES = 0,
  DRIFTFIT_LEAST_SQUARES = 1,
  DRIFTFIT_WEIGHTED_LEAST_SQUARES = 2,
  DRIFTFIT_POISSON_LIKELIHOOD = 3
};

/* The circular model has no sigma_y: sigma_x is its sigma. */
enum {
  DRIFTFIT_X = 0,
  DRIFTFIT_Y = 1,
  DRIFTFIT_SIGMA_X = 2,
  DRIFTFIT_SIGMA_Y = 3,
  DRIFTFIT_AMPLITUDE = 4,
  DRIFTFIT_BACKGROUND = 5,
  DRIFTFIT_PARAMETERS = 6,
  DRIFTFIT_ANGLE = 6, /* of the rotated model; can be fixed, and has no bounds */
  DRIFTFIT_DETAILED = 7
};

/* How a fit ended. The first three are converged; with the others the numbers are no result. */
enum {
  DRIFTFIT_CONVERGED_RESIDUUM = 0,
  DRIFTFIT_CONVERGED_DECREASE = 1,
  DRIFTFIT_CONVERGED_STEP = 2,
  DRIFTFIT_ITERATION_LIMIT = 3,
  DRIFTFIT_NOT_CONVERGED = 4,
  DRIFTFIT_BAD_INPUT = 5
};

/* Limits of each parameter; -infinity and infinity: none. */
typedef struct driftfit_bounds {
  float lower[DRIFTFIT_PARAMETERS], upper[DRIFTFIT_PARAMETERS];
} driftfit_bounds;

/* Later versions append members; `size` says which version the caller was compiled with. */
typedef struct driftfit_options {
  uint32_t size; /* sizeof(driftfit_options); driftfit_default_options() sets it */
  int32_t model;
  int32_t estimator;
  int32_t max_iterations; /* 20 */
  float lambda_start;     /* 0.01, damping */
  float lambda_max;       /* 1e4 */
  float min_chi_square;   /* 0: stop below this chi-square; pixel units squared. By likelihood this
                           * and the next are of Pearson's, the squares over what is expected */
  float min_decrease;     /* 1e-6: stop below this relative decrease of chi-square */
  float min_step;         /* 1e-4: stop when every parameter changes by less, relatively (a likelihood hardly) */
  float saturation;       /* pixels at or above are bad input; <= 0: none are (default) */
  float min_background;   /* limit of the background; -infinity (default): none */
  float gain;             /* electrons per pixel unit, for uncertainties; <= 0 (default): unknown */
  float read_noise;       /* electrons, rms */
  float offset;           /* pixel value without light; a background below it, as results have it,
                           * shows that the dark level is lower */
  /* The first version ended here. */
  uint32_t fixed;     /* bit 1u << DRIFTFIT_X .. DRIFTFIT_ANGLE: keeps its start value; not with
                       * implicit */
  int32_t spots_only; /* 1: a minimum that is no spot is not converged; 0: any minimum will do */
  driftfit_bounds bounds; /* of all images; not with implicit */
  /* The second version ended here. */
  float excess_noise; /* 1 (default) to 16: variance of the signal over that of its photons, by a
                       * camera's multiplication; 2 for an EMCCD. read_noise is referred to before
                       * it. */
  /* The third version ended here. */
  int32_t integrated; /* 1: a pixel is the Gaussian's mean over its area; 0 (default): its value at
                       * the pixel's centre */
} driftfit_options;

/* Start values in pixels, the centre of the first pixel at (0, 0). sigma_x <= 0: none given. */
typedef struct driftfit_start {
  float x, y, sigma_x, sigma_y;
} driftfit_start;

/* Start values of the parameters that driftfit_start leaves out. */
typedef struct driftfit_levels {
  float amplitude, background;
} driftfit_levels;

/* What driftfit_result has no room for. Rows and columns of the covariance: x, y, sigma_x, sigma_y,
 * amplitude, background, angle; 0 of what is fixed and of what the model does not have, but for the
 * circular model's sigma_y, which is its sigma_x. NaN with bad input; of other fits that have
 * not converged for diagnosis only, NaN for variances below 0. */
typedef struct driftfit_details {
  float angle, angle_sd; /* rotated model, rad; else 0 */
  float covariance[DRIFTFIT_DETAILED][DRIFTFIT_DETAILED];
} driftfit_details;

/* What is fitted: `count` images of side x side pixels, row after row, image after image without
 * gaps. Later versions append members. */
typedef struct driftfit_images {
  uint32_t size; /* sizeof(driftfit_images) */
  int32_t pixel_type;
  int32_t side;
  int32_t reserved; /* 0 */
  size_t count;
  const void* pixels;
  const driftfit_start* starts;  /* `count`, or null: each fit begins with its own estimate */
  const driftfit_levels* levels; /* `count`, or null: those that fit the start best */
  const float* variances;        /* of each pixel, pixel units squared; or null. Likelihood: its
                                  * read noise. Infinite: weighted least squares and likelihood
                                  * leave the pixel out, if it is finite and below saturation */
  const driftfit_bounds* bounds; /* `count`, beside those of the options; or null */
  /* The first version ended here. */
  const float* angles;       /* rotated model, beside starts: `count` angles, rad; or null: 0 */
  driftfit_details* details; /* receives `count`; or null */
} driftfit_images;

/* Lengths in pixels; amplitude and background in pixel units; *_sd: standard deviations. */
typedef struct driftfit_result {
  float x, y, sigma_x, sigma_y;
  float amplitude, background;
  float chi_square;
  float x_sd, y_sd, sigma_x_sd, sigma_y_sd;
  float amplitude_sd, background_sd;
  uint8_t status;
  uint8_t iterations;
  uint8_t reserved[2];
} driftfit_result;

/* A particle swarm, which searches a whole image for the place to start its fit from. Members are
 * appended as in driftfit_options. */
typedef struct driftfit_swarm_options {
  uint32_t size;          /* sizeof(driftfit_swarm_options); driftfit_default_swarm_options() */
  int32_t particles;      /* 256; whole multiples of 16, 16 to 1024 */
  int32_t iterations;     /* 30; all are made: 1 to 1000 */
  float inertia;          /* 0.7298, 0 to 2 */
  float own_pull;         /* 1.4962, 0 to 4: towards the particle's best place */
  float swarm_pull;       /* 1.4962, 0 to 4: towards the swarm's best place */
  float max_velocity;     /* 0.5, 0.001 to 1: in an iteration, of the domain's extent */
  int32_t spread_of_last; /* 10; best places that the spread is taken over: 2 to 32 */
  uint64_t seed;          /* 0; the same seed and number of an image give the same search */
  uint64_t first_image; /* 0; number of the first image: calls that count on give what one gives */
} driftfit_swarm_options;

/* What the swarm found, before the fit improved it; pixels. By the Gaussian at the pixels' centres,
 * also where the fit integrates. */
typedef struct driftfit_swarm_report {
  driftfit_start best;
  driftfit_start spread; /* standard deviation of the last best places: how far it contracted */
  float chi_square;      /* squared residuals there, pixel units squared; NaN: bad input */
} driftfit_swarm_report;

/* Where a ROI is cut: its pixel (side / 2, side / 2), side / 2 rounded down, is pixel (x, y) of a
 * frame. x counts columns, y rows, frames count from 0. */
typedef struct driftfit_place {
  int32_t x, y, frame;
} driftfit_place;

/* What is fitted: `count` ROIs of side x side pixels, cut from whole frames. Later versions append
 * members. Maps have a value for each pixel of a frame, row after row without gaps, or are null. */
typedef struct driftfit_frames {
  uint32_t size; /* sizeof(driftfit_frames) */
  int32_t pixel_type;
  int32_t width, height; /* of a frame: `side` or more */
  size_t frame_count;
  const void* pixels;
  size_t row_stride;   /* bytes from a row to the next; 0: rows without gaps */
  size_t frame_stride; /* bytes from a frame to the next; 0: frames without gaps */
  int32_t side;
  int32_t reserved; /* 0 */
  size_t count;
  const driftfit_place* places;  /* `count` */
  const driftfit_start* starts;  /* as in driftfit_images, x and y of the frame */
  const driftfit_levels* levels; /* as in driftfit_images */
  const driftfit_bounds* bounds; /* as in driftfit_images, x and y of the ROI */
  const float* gain_map;         /* electrons per pixel unit */
  const float* offset_map;       /* pixel value without light */
  const float* variance_map;     /* as variances of driftfit_images, pixel units squared */
  /* The first version ended here. */
  const float* angles; /* this and the next: as in driftfit_images */
  driftfit_details* details;
} driftfit_frames;

typedef struct driftfit_fitter driftfit_fitter;

/* Called after each block of fits, on the calling thread. Non-zero: stop. */
typedef int (*driftfit_progress)(void* user, size_t done, size_t count);

/* "0.1.0" */
const char* driftfit_version(void);

/* How many GPUs CUDA knows, also those that cannot run the fits; 0 without a driver or in a build
 * without CUDA. */
int32_t driftfit_cuda_devices(void);

/* Memory of the host that GPUs read and write directly ("pinned"), for arrays that are fitted
 * often: batches from it go as fast as the bus. Null without a GPU, and where there is not so much.
 * It is never swapped out; driftfit_free_pinned() ends it (null is allowed). */
void* driftfit_allocate_pinned(size_t bytes);
void driftfit_free_pinned(void* memory);

/* The defaults, in as much of the struct as `size` bytes hold (sizeof(driftfit_options)). */
void driftfit_default_options(driftfit_options* options, uint32_t size);

/* Makes a fitter. It takes memory, a GPU's too, as its calls need it, and keeps it.
 *   threads       of the CPU; 0: one per core
 *   devices       GPUs to share the work, `device_count` of them; null and 0: the first
 *   fitter        receives it; null when the call fails. driftfit_destroy() ends it
 *   message       receives a sentence when the call fails, else ""; may be null with size 0
 * Returns DRIFTFIT_OK, _BAD_ARGUMENT, _NO_BACKEND or _NO_MEMORY. */
int driftfit_create(int32_t backend, int32_t threads, const int32_t* devices, size_t device_count,
                    driftfit_fitter** fitter, char* message, size_t message_size);

void driftfit_destroy(driftfit_fitter* fitter); /* null is allowed */

/* "cpu" or "cuda", what fits now; lives as long as the fitter. */
const char* driftfit_backend(const driftfit_fitter* fitter);

/* Why: what was asked for, or what keeps DRIFTFIT_AUTO from using a GPU, a sentence. Lives until
 * the next call with the fitter. */
const char* driftfit_backend_reason(const driftfit_fitter* fitter);

/* Fits images.
 *   options     null: the defaults
 *   results     images->count of them, in the order of the images
 *   progress    may be null; `user` is handed to it
 * With a GPU, all arrays of the images, details and results may each lie in memory of the host
 * (fastest when pinned) or of one of the fitter's devices (written by its default stream, or by
 * streams that are done). On the CPU they all lie in memory of the host. Returns DRIFTFIT_OK, also
 * when some fits failed (see their status), _BAD_ARGUMENT, _NO_MEMORY, _CANCELLED or _FAILED. */
int driftfit_fit_images(driftfit_fitter* fitter, const driftfit_options* options,
                        const driftfit_images* images, driftfit_result* results,
                        driftfit_progress progress, void* user, char* message, size_t message_size);

/* The same without levels, variances and bounds of single images. */
int driftfit_fit(driftfit_fitter* fitter, const driftfit_options* options, const void* pixels,
                 int32_t pixel_type, int32_t side, size_t count, const driftfit_start* starts,
                 driftfit_result* results, driftfit_progress progress, void* user, char* message,
                 size_t message_size);

/* Fits ROIs of frames: what driftfit_fit_images() makes of the same ROIs cut by hand, x and y in
 * the frame (the centre of its first pixel is (0, 0)). results: frames->count of them, in the order
 * of the places. ROIs are cut a piece at a time by the threads that fit them; for a GPU by all
 * threads of the CPU, a block of 16 MiB while the one before is fitted; then all arrays lie in
 * memory of the host. Or frames and maps lie in memory of one of the fitter's devices, pixels and
 * strides at multiples of a pixel: then the device cuts, and the other arrays lie where those of
 * driftfit_fit_images() may. A ROI that does not lie in its frame with all its pixels has
 * DRIFTFIT_BAD_INPUT; places in memory of a device are not looked at before: there one in a frame
 * that is not there has it, too. With a map of gains or offsets, a float is fitted in place of
 * each pixel, (pixel - offset) * gain; without one of them, `offset` of the options, or no gain,
 * takes its place. With gains, it is electrons, as is all that is said in pixel units, but for
 * saturation, offsets and variances (which are converted: variance * gain^2): beside a map of gains
 * `gain` has to be unknown, beside one of offsets `offset` has to be 0. A pixel whose gain is not
 * above 0, or whose offset is no number, makes bad input of the ROIs that it is in. The maps of
 * sCMOS cameras: Huang et al. 2013, Nature Methods 10, 653, whose gain is the inverse of this one.
 * Returns what driftfit_fit_images() does. */
int driftfit_fit_frames(driftfit_fitter* fitter, const driftfit_options* options,
                        const driftfit_frames* frames, driftfit_result* results,
                        driftfit_progress progress, void* user, char* message, size_t message_size);

/* A spot that was found: its brightest pixel, its frame from 0, and how much the intensities of its
 * box point towards it (Schnitzbauer et al. 2017), pixel units; electrons with a map of gains. */
typedef struct driftfit_spot {
  int32_t x, y, frame;
  float net_gradient;
} driftfit_spot;

/* Finds the spots of whole frames in the host's memory, as `driftfit --every-spot` does: where a
 * pixel is the largest of a box whose net gradient exceeds a limit. Maps are applied as in
 * driftfit_fit_frames(); a pixel that the map of variances calls more than 16 times noisier than the
 * median pixel, or gone, is seen as the mean of its neighbours.
 *   options           null: the defaults. offset and saturation count, beside maps
 *   frames            side is that of the box, odd, 3 to 63; without places and what comes with them
 *   min_net_gradient  0: 8 standard deviations of that of each frame's own noise
 *   spots             room for `room` of them, in the order of frames and of reading in a frame
 *   found             receives how many there are; where that is more than `room`, the first `room`
 *                     are told. There are never more than one in (side / 2 + 1)^2 pixels of a frame
 * Returns DRIFTFIT_OK, _BAD_ARGUMENT, _NO_MEMORY or _FAILED. */
int driftfit_find_spots(driftfit_fitter* fitter, const driftfit_options* options,
                        const driftfit_frames* frames, double min_net_gradient,
                        driftfit_spot* spots, size_t room, size_t* found, char* message,
                        size_t message_size);

/* A row of Picasso's table /locs: pixels, from the centre of a frame's first one; photons are the
 * whole Gaussian's, bg a pixel's, both in electrons, or pixel units without a gain. */
typedef struct driftfit_localization {
  uint32_t frame;
  float x, y, photons, sx, sy, bg, lpx, lpy, ellipticity, net_gradient;
} driftfit_localization;

/* Finds the spots of whole frames and fits them: the rows of `driftfit --every-spot`, to the bit.
 * Fits that have not converged, and those that end more than a quarter of the side (2 px at least)
 * from where their spot was found, are left out. The weights of weighted least squares are made of
 * gain, offset, read noise (or variance_map) and the light that a first fit expects.
 *   options, frames  as in driftfit_find_spots(), but that side is that of the ROIs, 4 to 64; the
 *                    box has that, or one less where it is even
 *   first            number of the first frame
 *   found            never more than driftfit_find_spots() finds with that box */
int driftfit_localize(driftfit_fitter* fitter, const driftfit_options* options,
                      const driftfit_frames* frames, double min_net_gradient, uint32_t first,
                      driftfit_localization* localizations, size_t room, size_t* found,
                      char* message, size_t message_size);

/* Which instruction set the CPU fits by: "avx512", "avx2", "sse4" or "baseline", the best that the
 * processor has unless one is chosen. Results of one are the same to the bit wherever it is. */
const char* driftfit_instruction_set(void);

/* Chooses one, or with "auto" the best, for the whole process. Returns DRIFTFIT_OK, or
 * _BAD_ARGUMENT with a sentence that names those that can be had. */
int driftfit_use_instruction_set(const char* name, char* message, size_t message_size);

/* The defaults, in as much of the struct as `size` bytes hold (sizeof(driftfit_swarm_options)). */
void driftfit_default_swarm_options(driftfit_swarm_options* swarm, uint32_t size);

/* As driftfit_fit_images(), each fit starting from where a particle swarm found the least squares
 * of the whole image; the bounds given, of the options (not with implicit) and of single images,
 * are its domain too. The swarm sees all pixels, whatever the variances say of them; for the
 * rotated model it looks for a round spot.
 *   swarm       null: the defaults
 *   images      without starts
 *   reports     images->count of them, or null */
int driftfit_search(driftfit_fitter* fitter, const driftfit_options* options,
                    const driftfit_swarm_options* swarm, const driftfit_images* images,
                    driftfit_result* results, driftfit_swarm_report* reports,
                    driftfit_progress progress, void* user, char* message, size_t message_size);

#ifdef __cplusplus
}
#endif

#endif
/* NOLINTEND(readability-identifier-naming,modernize-*) */
