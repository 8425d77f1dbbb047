// SPDX-License-Identifier: MIT
#include "fitter/c/driftfit.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fitter/batch_back_end.hpp"
#include "fitter/cuda_fitter.hpp"
#include "fitter/fitter.hpp"
#include "fitter/frames.hpp"
#include "fitter/instruction_sets.hpp"
#include "fitter/options.hpp"
#include "fitter/pixel_terms.hpp"
#include "fitter/spots/localize.hpp"
#include "fitter/spots/spot_rules.hpp"
#include "fitter/swarm.hpp"

using namespace driftd::fitter;

struct driftfit_fitter {
  int threads;
  BatchBackEnd back_end;
};

namespace {

// The C structs are the C++ ones under other names.
static_assert(sizeof(driftfit_result) == sizeof(Localization));
static_assert(offsetof(driftfit_result, x_sd) == offsetof(Localization, x_sd_px));
static_assert(offsetof(driftfit_result, background_sd) ==
              offsetof(Localization, background_sd_adu));
static_assert(offsetof(driftfit_result, status) == offsetof(Localization, status));
static_assert(offsetof(driftfit_result, iterations) == offsetof(Localization, iterations));
static_assert(sizeof(driftfit_start) == sizeof(Start));
static_assert(sizeof(driftfit_swarm_report) == sizeof(SwarmReport));
static_assert(offsetof(driftfit_swarm_report, chi_square) == offsetof(SwarmReport, chi_square));
static_assert(sizeof(driftfit_levels) == sizeof(StartLevels));
static_assert(sizeof(driftfit_bounds) == sizeof(Bounds));
static_assert(sizeof(driftfit_place) == sizeof(Place));
static_assert(sizeof(driftfit_spot) == sizeof(FrameSpot));
static_assert(offsetof(driftfit_spot, net_gradient) == offsetof(FrameSpot, net_gradient));
static_assert(sizeof(driftfit_localization) == sizeof(PicassoLocalization));
static_assert(offsetof(driftfit_localization, net_gradient) ==
              offsetof(PicassoLocalization, net_gradient));
static_assert(offsetof(driftfit_place, frame) == offsetof(Place, frame));
static_assert(offsetof(driftfit_bounds, upper) == offsetof(Bounds, upper));
static_assert(DRIFTFIT_PARAMETERS == kParameters);
static_assert(DRIFTFIT_AUTO == static_cast<int>(BackEnd::Auto));
static_assert(DRIFTFIT_CUDA == static_cast<int>(BackEnd::Cuda));
static_assert(DRIFTFIT_BACKGROUND == static_cast<int>(Parameter::Background));
static_assert(DRIFTFIT_ROTATED_GAUSSIAN == static_cast<int>(Model::RotatedGaussian));
static_assert(DRIFTFIT_ANGLE == kAngle);
static_assert(DRIFTFIT_DETAILED == FitDetails::kOrder);
static_assert(sizeof(driftfit_details) == sizeof(FitDetails));
static_assert(offsetof(driftfit_details, covariance) == offsetof(FitDetails, covariance));
static_assert(DRIFTFIT_POISSON_LIKELIHOOD == static_cast<int>(kLastEstimator));
static_assert(DRIFTFIT_BAD_INPUT == static_cast<int>(FitStatus::BadInput));
static_assert(DRIFTFIT_F32 == static_cast<int>(PixelType::F32));

/// Images between two calls of the progress callback.
constexpr std::size_t kBlock = std::size_t{1} << 17;
constexpr std::size_t kSearchBlock = std::size_t{1} << 11;
/// Sizes of the structs in their first versions.
constexpr std::uint32_t kFirstOptions = offsetof(driftfit_options, offset) + sizeof(float);
constexpr std::uint32_t kFirstImages = offsetof(driftfit_images, bounds) + sizeof(void*);
constexpr std::uint32_t kFirstFrames = offsetof(driftfit_frames, variance_map) + sizeof(void*);
constexpr std::uint32_t kFirstSwarm =
    offsetof(driftfit_swarm_options, first_image) + sizeof(std::uint64_t);

void tell(char* message, std::size_t size, std::string_view text) {
  if (message == nullptr || size == 0) return;
  const std::size_t length = std::min(size - 1, text.size());
  std::memcpy(message, text.data(), length);
  message[length] = '\0';
}

/// Runs `body`, which returns a code, and turns what it throws into a code and a message.
/// @param on_fitter_error  code of a FitterError
template <class Body>
int guarded(int on_fitter_error, char* message, std::size_t size, Body body) noexcept {
  tell(message, size, "");
  try {
    return body();
  } catch (const FitterError& error) {
    tell(message, size, error.what());
    return on_fitter_error;
  } catch (const std::bad_alloc&) {
    tell(message, size, "driftfit: out of memory");
    return DRIFTFIT_NO_MEMORY;
  } catch (const std::exception& error) {
    tell(message, size, error.what());
    return DRIFTFIT_FAILED;
  } catch (...) {
    tell(message, size, "driftfit: unknown failure");
    return DRIFTFIT_FAILED;
  }
}

/// Copies as much of a struct as its caller knew.
/// @param set_with  what gives `size` its value
/// @throws FitterError
template <class Struct>
void take(const Struct& given, std::uint32_t first_size, const char* name, const char* set_with,
          Struct& taken) {
  if (given.size < first_size)
    throw FitterError(std::string("driftfit: ") + name + ".size is " + std::to_string(given.size) +
                      ", allowed is " + std::to_string(first_size) + " or more; set it with " +
                      set_with);
  std::memcpy(&taken, &given, std::min<std::size_t>(given.size, sizeof taken));
}

/// @throws FitterError
void check_one_of(const char* name, std::int32_t value, std::int32_t last, const char* allowed) {
  if (value < 0 || value > last)
    throw FitterError(std::string("driftfit: ") + name + " is " + std::to_string(value) +
                      ", allowed are " + allowed);
}

/// @throws FitterError for a struct of no known version
driftfit_options all_options(const driftfit_options* given) {
  driftfit_options o;
  driftfit_default_options(&o, sizeof o);
  if (given != nullptr) take(*given, kFirstOptions, "options", "driftfit_default_options()", o);
  return o;
}

/// @throws FitterError for a name unknown
FitOptions options_from(const driftfit_options& o) {
  check_one_of("model", o.model, DRIFTFIT_ROTATED_GAUSSIAN,
               "0 (circular), 1 (elliptical) and 2 (rotated Gaussian)");
  check_one_of("estimator", o.estimator, static_cast<int>(kLastEstimator),
               "0 (implicit), 1 (plain), 2 (weighted least squares) and 3 (Poisson likelihood)");
  if (o.fixed >= 1u << DRIFTFIT_DETAILED)
    throw FitterError("driftfit: fixed is " + std::to_string(o.fixed) +
                      ", allowed are six bits, and a seventh for the rotated model's angle");
  FitOptions options;
  options.model = static_cast<Model>(o.model);
  options.estimator = static_cast<Estimator>(o.estimator);
  check_one_of("integrated", o.integrated, 1, "0 and 1");
  options.integrated = o.integrated != 0;
  options.fixed = static_cast<std::uint8_t>(o.fixed);
  options.spots_only = o.spots_only != 0;
  options.bounds = std::bit_cast<Bounds>(o.bounds);
  options.max_iterations = o.max_iterations;
  options.lambda_start = o.lambda_start;
  options.lambda_max = o.lambda_max;
  options.min_chi_square = o.min_chi_square;
  options.min_decrease = o.min_decrease;
  options.min_step = o.min_step;
  if (!(o.saturation <= 0)) options.saturation_adu = o.saturation;
  options.min_background_adu = o.min_background;
  // By the names that the caller knows; check_options() has its own.
  constexpr auto kHuge = static_cast<double>(std::numeric_limits<float>::max());
  check_range("gain", static_cast<double>(o.gain), -kHuge, kHuge);
  check_range("read_noise", static_cast<double>(o.read_noise), 0, kHuge);
  check_range("offset", static_cast<double>(o.offset), -kHuge, kHuge);
  check_range("excess_noise", static_cast<double>(o.excess_noise), 1, 16);
  const bool multiplied = o.excess_noise > 1;
  const bool assumed = multiplied && is_likelihood(options.estimator);
  const float gain = o.gain <= 0 && assumed ? 1.0f : o.gain;
  options.noise = with_excess({gain, o.read_noise, o.offset}, o.excess_noise);
  return options;
}

/// @throws FitterError for a struct of no known version
SwarmOptions swarm_from(const driftfit_swarm_options* given) {
  driftfit_swarm_options s;
  driftfit_default_swarm_options(&s, sizeof s);
  if (given != nullptr) take(*given, kFirstSwarm, "swarm", "driftfit_default_swarm_options()", s);
  return {.particles = s.particles,
          .iterations = s.iterations,
          .inertia = s.inertia,
          .own_pull = s.own_pull,
          .swarm_pull = s.swarm_pull,
          .max_velocity = s.max_velocity,
          .spread_of_last = s.spread_of_last,
          .seed = s.seed,
          .first_roi = s.first_image};
}

/// @throws FitterError
void check_pixel_type(std::int32_t type) {
  check_one_of("pixel_type", type, DRIFTFIT_F32, "0 (u8), 1 (u16) and 2 (f32)");
}

/// @throws FitterError
Batch batch_from(const driftfit_images* given) {
  if (given == nullptr) throw FitterError("driftfit: no images given");
  driftfit_images i = {};
  take(*given, kFirstImages, "images", "sizeof(driftfit_images)", i);
  check_pixel_type(i.pixel_type);
  check_range("side", i.side, kMinRoiPx, kMaxRoiPx);
  return {.pixels = i.pixels,
          .type = static_cast<PixelType>(i.pixel_type),
          .roi_px = i.side,
          .count = i.count,
          .starts = reinterpret_cast<const Start*>(i.starts),
          .levels = reinterpret_cast<const StartLevels*>(i.levels),
          .variances = i.variances,
          .bounds = reinterpret_cast<const Bounds*>(i.bounds),
          .angles_rad = i.angles,
          .details = reinterpret_cast<FitDetails*>(i.details)};
}

/// Bounds of single images are looked at where the host can read them, and of the first ones: those
/// of one parameter are given for all images.
/// @throws FitterError
void check_bounds(const Bounds* bounds, std::size_t count, Model model) {
  constexpr std::size_t kMost = 1000;
  if (bounds == nullptr || model > kLastModel || !host_can_read(bounds)) return;
  for (std::size_t i = 0; i < std::min(count, kMost); ++i) check_model_has(model, 0, bounds[i]);
}

/// What a call was given, once it is known to make sense.
struct CheckedCall {
  Batch batch;
  FitOptions options;
};

/// @throws FitterError
CheckedCall checked_call(const driftfit_fitter* fitter, const driftfit_options* options,
                         const driftfit_images* images, const driftfit_result* results) {
  if (fitter == nullptr) throw FitterError("driftfit: no fitter given");
  const Batch batch = batch_from(images);
  if (batch.count > 0 && results == nullptr)
    throw FitterError("driftfit: no place given for results");
  CheckedCall call = {batch, options_from(all_options(options))};
  check_batch(call.batch, call.options, call.batch.count);
  check_bounds(call.batch.bounds, call.batch.count, call.options.model);
  return call;
}

/// @throws FitterError
driftfit_frames all_frames(const driftfit_frames* given) {
  if (given == nullptr) throw FitterError("driftfit: no frames given");
  driftfit_frames f = {};
  take(*given, kFirstFrames, "frames", "sizeof(driftfit_frames)", f);
  return f;
}

/// @throws FitterError
FrameFits frames_from(const driftfit_frames* given) {
  const driftfit_frames f = all_frames(given);
  check_pixel_type(f.pixel_type);
  check_range("side", f.side, kMinRoiPx, kMaxRoiPx);
  const auto type = static_cast<PixelType>(f.pixel_type);
  const std::size_t row =
      f.row_stride != 0 ? f.row_stride
                        : static_cast<std::size_t>(std::max(f.width, 0)) * bytes_per_pixel(type);
  const auto height = static_cast<std::size_t>(std::max(f.height, 1));
  if (row > std::numeric_limits<std::size_t>::max() / height)
    throw FitterError("driftfit: row_stride is " + std::to_string(row) +
                      " bytes, more than memory has for " + std::to_string(f.height) + " rows");
  return {.frames = {.pixels = f.pixels,
                     .type = type,
                     .width_px = f.width,
                     .height_px = f.height,
                     .count = f.frame_count,
                     .row_bytes = row,
                     .frame_bytes = f.frame_stride != 0
                                        ? f.frame_stride
                                        : static_cast<std::size_t>(std::max(f.height, 0)) * row,
                     .gains_e_per_adu = f.gain_map,
                     .offsets_adu = f.offset_map,
                     .variances_adu2 = f.variance_map},
          .places = reinterpret_cast<const Place*>(f.places),
          .rois = {.roi_px = f.side,
                   .count = f.count,
                   .starts = reinterpret_cast<const Start*>(f.starts),
                   .levels = reinterpret_cast<const StartLevels*>(f.levels),
                   .bounds = reinterpret_cast<const Bounds*>(f.bounds),
                   .angles_rad = f.angles,
                   .details = reinterpret_cast<FitDetails*>(f.details)}};
}

/// Options of fits to pixels converted by maps. @throws FitterError
FitOptions options_beside(const Frames& frames, const driftfit_options* given) {
  driftfit_options o = all_options(given);
  if (frames.gains_e_per_adu != nullptr) {
    if (!(o.gain <= 0))
      throw FitterError("driftfit: gain is " + std::to_string(o.gain) +
                        " beside a gain_map, allowed is 0 (unknown)");
    o.gain = 1;
  }
  if (frames.offsets_adu != nullptr && o.offset != 0)
    throw FitterError("driftfit: offset is " + std::to_string(o.offset) +
                      " beside an offset_map, allowed is 0");
  return options_from(o);
}

/// Frames whose spots are to be found. @param least_px  of their sides  @throws FitterError
Frames whole_frames(const driftfit_frames& given, int least_px) {
  if (given.places != nullptr || given.starts != nullptr || given.levels != nullptr ||
      given.bounds != nullptr || given.angles != nullptr || given.details != nullptr)
    throw FitterError(
        "driftfit: places, starts, levels, bounds, angles and details are of spots "
        "that are known; allowed is null where they are to be found");
  driftfit_frames f = given;
  f.count = 0;
  const FrameFits fits = frames_from(&f);
  const Frames& frames = fits.frames;
  constexpr int kMostPx = 1 << 24;  // to which float counts
  check_range("width", f.width, least_px, kMostPx);
  check_range("height", f.height, least_px, kMostPx);
  const std::size_t row = static_cast<std::size_t>(f.width) * bytes_per_pixel(frames.type);
  if (frames.row_bytes < row || frames.frame_bytes < row)
    throw FitterError(
        "driftfit: row_stride and frame_stride are " + std::to_string(frames.row_bytes) + " and " +
        std::to_string(frames.frame_bytes) + " bytes; a row has " + std::to_string(row));
  if (frames.count > 0 && frames.pixels == nullptr) throw FitterError("driftfit: no pixels given");
  if (frames.count > std::size_t{1} << 31)
    throw FitterError("driftfit: frame_count is " + std::to_string(frames.count) +
                      ", allowed are 2^31 frames in one call");
  for (const void* memory :
       {fits.frames.pixels, static_cast<const void*>(f.gain_map),
        static_cast<const void*>(f.offset_map), static_cast<const void*>(f.variance_map)})
    if (!host_can_read(memory))
      throw FitterError(
          "driftfit: frames and maps in memory of a GPU; spots are found by the CPU, "
          "which needs them in memory of the host");
  return fits.frames;
}

/// Hands on what find() finds by what make() has made of the arguments, as much of it as there is
/// room for. @returns a code
template <class Result, class Make, class Find>
int in_frames(const driftfit_fitter* fitter, Result* results, std::size_t room, std::size_t* count,
              char* message, std::size_t message_size, const Make& make, const Find& find) {
  std::optional<FrameSpots> frames;
  const int checked = guarded(DRIFTFIT_BAD_ARGUMENT, message, message_size, [&] {
    if (fitter == nullptr) throw FitterError("driftfit: no fitter given");
    if (count == nullptr || (results == nullptr && room > 0))
      throw FitterError("driftfit: no place given for results, or for how many there are");
    *count = 0;
    frames.emplace(make());
    return DRIFTFIT_OK;
  });
  if (checked != DRIFTFIT_OK) return checked;
  return guarded(DRIFTFIT_FAILED, message, message_size, [&] {
    const auto found = find(*frames);
    static_assert(sizeof(Result) == sizeof(found[0]));
    *count = found.size();
    if (!found.empty() && room > 0)
      std::memcpy(results, found.data(), std::min(room, found.size()) * sizeof(Result));
    return DRIFTFIT_OK;
  });
}

/// Whom a call tells how it gets on.
struct Listener {
  driftfit_progress progress;
  void* user;
  char* message;
  std::size_t message_size;
};

/// Calls fit(first, n) for all images, in blocks where somebody wants to know. @returns a code
template <class Fit>
int in_blocks(std::size_t count, std::size_t block, const Listener& listener, const Fit& fit) {
  return guarded(DRIFTFIT_FAILED, listener.message, listener.message_size, [&] {
    if (listener.progress == nullptr) block = std::max<std::size_t>(count, 1);
    for (std::size_t done = 0; done < count;) {
      const std::size_t n = std::min(block, count - done);
      fit(done, n);
      done += n;
      if (listener.progress != nullptr && listener.progress(listener.user, done, count) != 0 &&
          done < count) {
        tell(listener.message, listener.message_size,
             "driftfit: cancelled after " + std::to_string(done) + " fits");
        return DRIFTFIT_CANCELLED;
      }
    }
    return DRIFTFIT_OK;
  });
}

}  // namespace

const char* driftfit_version(void) {
  return DRIFTD_VERSION;
}

int32_t driftfit_cuda_devices(void) {
  return cuda_device_count();
}

void* driftfit_allocate_pinned(size_t bytes) {
  return allocate_pinned(bytes);
}

void driftfit_free_pinned(void* memory) {
  free_pinned(memory);
}

void driftfit_default_options(driftfit_options* options, uint32_t size) {
  const FitOptions d;
  const driftfit_options all = {.size = size,
                                .model = DRIFTFIT_CIRCULAR_GAUSSIAN,
                                .estimator = DRIFTFIT_IMPLICIT_LEAST_SQUARES,
                                .max_iterations = d.max_iterations,
                                .lambda_start = d.lambda_start,
                                .lambda_max = d.lambda_max,
                                .min_chi_square = d.min_chi_square,
                                .min_decrease = d.min_decrease,
                                .min_step = d.min_step,
                                .saturation = 0,
                                .min_background = d.min_background_adu,
                                .gain = d.noise.gain_e_per_adu,
                                .read_noise = d.noise.read_noise_e,
                                .offset = d.noise.offset_adu,
                                .fixed = d.fixed,
                                .spots_only = d.spots_only ? 1 : 0,
                                .bounds = std::bit_cast<driftfit_bounds>(d.bounds),
                                .excess_noise = 1,
                                .integrated = d.integrated ? 1 : 0};
  if (options != nullptr) std::memcpy(options, &all, std::min<std::size_t>(size, sizeof all));
}

int driftfit_create(int32_t backend, int32_t threads, const int32_t* devices, size_t device_count,
                    driftfit_fitter** fitter, char* message, size_t message_size) {
  if (fitter == nullptr) {
    tell(message, message_size, "driftfit: no place given for the fitter");
    return DRIFTFIT_BAD_ARGUMENT;
  }
  *fitter = nullptr;
  return guarded(DRIFTFIT_NO_BACKEND, message, message_size, [&] {
    if (backend < DRIFTFIT_AUTO || backend > DRIFTFIT_CUDA) {
      tell(message, message_size,
           "driftfit: backend is " + std::to_string(backend) +
               ", allowed are 0 (auto), 1 (cpu) and 2 (cuda)");
      return DRIFTFIT_BAD_ARGUMENT;
    }
    if (threads < 0 || (devices == nullptr && device_count > 0)) {
      tell(message, message_size,
           threads < 0
               ? "driftfit: threads is " + std::to_string(threads) + ", allowed is 0 or more"
               : "driftfit: devices counted but not given");
      return DRIFTFIT_BAD_ARGUMENT;
    }
    CudaBatchOptions options;
    if (device_count > 0) options.devices.assign(devices, devices + device_count);
    *fitter = new driftfit_fitter{threads, BatchBackEnd(static_cast<BackEnd>(backend), options)};
    return DRIFTFIT_OK;
  });
}

void driftfit_destroy(driftfit_fitter* fitter) {
  delete fitter;
}

const char* driftfit_backend(const driftfit_fitter* fitter) {
  return fitter != nullptr && fitter->back_end.on_gpu() ? "cuda" : "cpu";
}

const char* driftfit_backend_reason(const driftfit_fitter* fitter) {
  return fitter != nullptr ? fitter->back_end.reason().c_str() : "";
}

int driftfit_fit_images(driftfit_fitter* fitter, const driftfit_options* given,
                        const driftfit_images* images, driftfit_result* results,
                        driftfit_progress progress, void* user, char* message,
                        size_t message_size) {
  CheckedCall call;
  const int checked = guarded(DRIFTFIT_BAD_ARGUMENT, message, message_size, [&] {
    call = checked_call(fitter, given, images, results);
    return DRIFTFIT_OK;
  });
  if (checked != DRIFTFIT_OK) return checked;
  auto* const fits = reinterpret_cast<Localization*>(results);
  return in_blocks(call.batch.count, kBlock, {progress, user, message, message_size},
                   [&](std::size_t first, std::size_t n) {
                     fitter->back_end.fit(part_of(call.batch, first, n), call.options,
                                          {fits + first, n}, fitter->threads);
                   });
}

int driftfit_fit(driftfit_fitter* fitter, const driftfit_options* options, const void* pixels,
                 int32_t pixel_type, int32_t side, size_t count, const driftfit_start* starts,
                 driftfit_result* results, driftfit_progress progress, void* user, char* message,
                 size_t message_size) {
  const driftfit_images images = {.size = sizeof images,
                                  .pixel_type = pixel_type,
                                  .side = side,
                                  .reserved = 0,
                                  .count = count,
                                  .pixels = pixels,
                                  .starts = starts,
                                  .levels = nullptr,
                                  .variances = nullptr,
                                  .bounds = nullptr,
                                  .angles = nullptr,
                                  .details = nullptr};
  return driftfit_fit_images(fitter, options, &images, results, progress, user, message,
                             message_size);
}

int driftfit_fit_frames(driftfit_fitter* fitter, const driftfit_options* given,
                        const driftfit_frames* frames, driftfit_result* results,
                        driftfit_progress progress, void* user, char* message,
                        size_t message_size) {
  FrameFits fits;
  FitOptions options;
  const int checked = guarded(DRIFTFIT_BAD_ARGUMENT, message, message_size, [&] {
    if (fitter == nullptr) throw FitterError("driftfit: no fitter given");
    fits = frames_from(frames);
    if (fits.rois.count > 0 && results == nullptr)
      throw FitterError("driftfit: no place given for results");
    options = options_beside(fits.frames, given);
    fitter->back_end.check(fits, options,
                           {reinterpret_cast<const Localization*>(results), fits.rois.count});
    check_bounds(fits.rois.bounds, fits.rois.count, options.model);
    return DRIFTFIT_OK;
  });
  if (checked != DRIFTFIT_OK) return checked;
  auto* const found = reinterpret_cast<Localization*>(results);
  return in_blocks(fits.rois.count, kBlock, {progress, user, message, message_size},
                   [&](std::size_t first, std::size_t n) {
                     fitter->back_end.fit_frames(part_of(fits, first, n), options,
                                                 {found + first, n}, fitter->threads);
                   });
}

int driftfit_find_spots(driftfit_fitter* fitter, const driftfit_options* given,
                        const driftfit_frames* frames, double min_net_gradient,
                        driftfit_spot* spots, size_t room, size_t* found, char* message,
                        size_t message_size) {
  const auto make = [&] {
    driftfit_frames f = all_frames(frames);
    const int box_px = f.side;
    if (box_px % 2 == 0 || box_px < 3 || box_px > kMostBoxPx)
      throw FitterError("driftfit: side is " + std::to_string(box_px) +
                        ", allowed are of a box odd numbers from 3 to " +
                        std::to_string(kMostBoxPx));
    f.side = kMinRoiPx;
    const Frames whole = whole_frames(f, 1);
    return FrameSpots(whole, options_beside(whole, given), box_px, min_net_gradient);
  };
  return in_frames(fitter, spots, room, found, message, message_size, make,
                   [&](const FrameSpots& whole) { return whole.find(fitter->threads); });
}

int driftfit_localize(driftfit_fitter* fitter, const driftfit_options* given,
                      const driftfit_frames* frames, double min_net_gradient, uint32_t first,
                      driftfit_localization* localizations, size_t room, size_t* found,
                      char* message, size_t message_size) {
  int side = 0;
  float excess_noise = 1;
  const auto make = [&] {
    const driftfit_frames f = all_frames(frames);
    const Frames whole = whole_frames(f, f.side);
    constexpr std::size_t kMostFrame = std::numeric_limits<std::uint32_t>::max();
    if (f.frame_count > 0 && f.frame_count - 1 > kMostFrame - first)
      throw FitterError("driftfit: first is " + std::to_string(first) + " of " +
                        std::to_string(f.frame_count) + " frames; numbers are allowed to " +
                        std::to_string(kMostFrame));
    driftfit_options o = all_options(given);
    const FitOptions all = options_beside(whole, &o);
    check_options(all);
    if (needs_variances(all.estimator))
      throw FitterError(
          "driftfit: estimator is 2 (weighted least squares), whose weights are given to single "
          "images; allowed are 0 (implicit), 1 (plain least squares) and 3 (Poisson likelihood)");
    side = f.side;
    excess_noise = std::exchange(o.excess_noise, 1.0f);
    return FrameSpots(whole, options_beside(whole, &o), box_of(side), min_net_gradient);
  };
  return in_frames(fitter, localizations, room, found, message, message_size, make,
                   [&](const FrameSpots& whole) {
                     return whole.localize(fitter->back_end, side, excess_noise, first,
                                           fitter->threads);
                   });
}

const char* driftfit_instruction_set(void) {
  return cpu_instruction_set().data();
}

int driftfit_use_instruction_set(const char* name, char* message, size_t message_size) {
  return guarded(DRIFTFIT_BAD_ARGUMENT, message, message_size, [&] {
    use_cpu_instruction_set(name != nullptr ? name : "");
    return DRIFTFIT_OK;
  });
}

void driftfit_default_swarm_options(driftfit_swarm_options* swarm, uint32_t size) {
  const SwarmOptions d;
  const driftfit_swarm_options all = {.size = size,
                                      .particles = d.particles,
                                      .iterations = d.iterations,
                                      .inertia = d.inertia,
                                      .own_pull = d.own_pull,
                                      .swarm_pull = d.swarm_pull,
                                      .max_velocity = d.max_velocity,
                                      .spread_of_last = d.spread_of_last,
                                      .seed = d.seed,
                                      .first_image = d.first_roi};
  if (swarm != nullptr) std::memcpy(swarm, &all, std::min<std::size_t>(size, sizeof all));
}

int driftfit_search(driftfit_fitter* fitter, const driftfit_options* options,
                    const driftfit_swarm_options* given, const driftfit_images* images,
                    driftfit_result* results, driftfit_swarm_report* reports,
                    driftfit_progress progress, void* user, char* message, size_t message_size) {
  CheckedCall call;
  SwarmOptions swarm;
  const int checked = guarded(DRIFTFIT_BAD_ARGUMENT, message, message_size, [&] {
    call = checked_call(fitter, options, images, results);
    swarm = swarm_from(given);
    check_swarm(call.batch, swarm);
    return DRIFTFIT_OK;
  });
  if (checked != DRIFTFIT_OK) return checked;
  auto* const fits = reinterpret_cast<Localization*>(results);
  auto* const found = reinterpret_cast<SwarmReport*>(reports);
  const std::uint64_t first_roi = swarm.first_roi;
  return in_blocks(call.batch.count, kSearchBlock, {progress, user, message, message_size},
                   [&](std::size_t first, std::size_t n) {
                     swarm.first_roi = first_roi + first;
                     const std::span<SwarmReport> block(found == nullptr ? found : found + first,
                                                        found == nullptr ? 0 : n);
                     fitter->back_end.search(part_of(call.batch, first, n), call.options, swarm,
                                             {fits + first, n}, block, fitter->threads);
                   });
}
