// SPDX-License-Identifier: MIT
// The calls of libdriftfit for whole frames.
#include "fitter/c/driftfit.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "fitter/c/arguments.hpp"
#include "fitter/cuda_fitter.hpp"
#include "fitter/spots/localize.hpp"
#include "fitter/spots/spot_rules.hpp"

using namespace driftd::fitter;
using namespace driftd::fitter::c;

namespace {

static_assert(sizeof(driftfit_spot) == sizeof(FrameSpot));
static_assert(offsetof(driftfit_spot, net_gradient) == offsetof(FrameSpot, net_gradient));
static_assert(sizeof(driftfit_localization) == sizeof(PicassoLocalization));
static_assert(offsetof(driftfit_localization, net_gradient) ==
              offsetof(PicassoLocalization, net_gradient));

/// Size of the struct in its first version.
constexpr std::uint32_t kFirstFrames = offsetof(driftfit_frames, variance_map) + sizeof(void*);

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
          "driftfit: frames and maps in memory of a GPU; where spots are to be found they are "
          "taken "
          "from memory of the host");
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

}  // namespace

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
                   [&](const FrameSpots& whole) {
                     return whole.find(fitter->back_end, fitter->gpu_search, fitter->threads);
                   });
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
    side = f.side;
    excess_noise = std::exchange(o.excess_noise, 1.0f);
    return FrameSpots(whole, options_beside(whole, &o), box_of(side), min_net_gradient);
  };
  return in_frames(fitter, localizations, room, found, message, message_size, make,
                   [&](const FrameSpots& whole) {
                     return whole.localize(fitter->back_end, fitter->gpu_search, side, excess_noise,
                                           first, fitter->threads);
                   });
}
