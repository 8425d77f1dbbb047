// SPDX-License-Identifier: MIT
#include "fitter/spots/localize.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <string>
#include <thread>

#include "fitter/options.hpp"
#include "fitter/pixel_type.hpp"
#include "fitter/spots/fit_weights.hpp"
#include "fitter/spots/spot_rules.hpp"

namespace driftd::fitter {
namespace {

/// @throws FitterError with the first pixel that is not allowed
template <class Allowed>
void check_map(const char* name, const float* map, const Frames& frames, const Allowed& allowed,
               const char* what_is_allowed) {
  if (map == nullptr) return;
  const auto width = static_cast<std::size_t>(frames.width_px);
  const std::size_t pixels = width * static_cast<std::size_t>(frames.height_px);
  const float* const wrong =
      std::find_if(map, map + pixels, [&](float value) { return !allowed(value); });
  if (wrong == map + pixels) return;
  const auto at = static_cast<std::size_t>(wrong - map);
  throw FitterError("driftfit: " + std::string(name) + " is " + std::to_string(*wrong) +
                    " in column " + std::to_string(at % width) + ", row " +
                    std::to_string(at / width) + " (from 0); allowed are " + what_is_allowed);
}

/// Calls work(i) for i below `count`, by several threads; rethrows what one of them threw.
template <class Work>
void share(std::size_t count, int wanted, const Work& work) {
  const auto cores = std::max(1u, std::thread::hardware_concurrency());
  const auto most = wanted > 0 ? static_cast<std::size_t>(wanted) : std::size_t{cores};
  const std::size_t threads = std::max<std::size_t>(1, std::min(count, most));
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> failures(threads);
  const auto run = [&](std::size_t thread) {
    try {
      std::vector<std::byte> copy, filled;
      for (std::size_t i = next++; i < count; i = next++) work(i, copy, filled);
    } catch (...) {
      failures[thread] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
    run(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace

FrameSpots::FrameSpots(const Frames& frames, const FitOptions& options, int box_px,
                       double min_net_gradient)
    : frames_(frames),
      options_(options),
      offset_adu_(options.noise.offset_adu),
      gain_(1),
      saturation_adu_(options.saturation_adu),
      shape_{frames.width_px, frames.height_px, frames.type},
      search_{.box_px = box_px, .min_net_gradient = min_net_gradient} {
  check_map(
      "gain_map", frames.gains_e_per_adu, frames, [](float v) { return v >= 1e-12f && v <= 1e12f; },
      "1e-12 to 1e12 (a dead pixel: any of these, and an infinite variance)");
  check_map(
      "offset_map", frames.offsets_adu, frames, [](float v) { return std::isfinite(v); },
      "finite numbers");
  check_map(
      "variance_map", frames.variances_adu2, frames, [](float v) { return v >= 0; },
      "0, numbers above it, and infinity for a pixel that is gone");
  const float* const gains = frames.gains_e_per_adu;
  const float gain = gains == nullptr ? 1 : median_of({gains, gains + shape_.pixels()});
  if (frames.variances_adu2 != nullptr) {
    variances_.assign(frames.variances_adu2, frames.variances_adu2 + shape_.pixels());
    for (std::size_t i = 0; i < variances_.size(); ++i) {
      if (gains != nullptr) variances_[i] *= gains[i] * gains[i];
      if (std::isinf(variances_[i])) gone_.push_back(i);
    }
    hot_ = HotPixels(shape_.width_px, variances_, gain * gain * kRoundingVariance);
    if (!std::isfinite(hot_.median_variance()))
      throw FitterError("driftfit: half of the pixels of variance_map or more are gone (infinite)");
  }
  converts_ = frames.converted() || !gone_.empty();
  NoiseModel& noise = options_.noise;
  if (converts_) {
    if (frames.type != PixelType::F32)
      search_.least_noise = std::sqrt(static_cast<double>(kRoundingVariance)) * gain;
    if (gains != nullptr) noise.gain_e_per_adu = 1;
    noise.offset_adu = 0;
    options_.saturation_adu = std::numeric_limits<float>::infinity();
    shape_.type = PixelType::F32;
  }
  if (!variances_.empty() && noise.gain_e_per_adu > 0)
    noise.read_noise_e = std::sqrt(hot_.median_variance()) * noise.gain_e_per_adu;
}

template <class Pixel>
void FrameSpots::convert(const std::byte* frame, float* to) const noexcept {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  const float* const gains = frames_.gains_e_per_adu;
  const float* const offsets = frames_.offsets_adu;
  std::size_t i = 0;
  for (int y = 0; y < shape_.height_px; ++y, frame += frames_.row_bytes) {
    const std::byte* from = frame;
    for (int x = 0; x < shape_.width_px; ++x, ++i, from += sizeof(Pixel)) {
      Pixel pixel;  // of any alignment
      std::memcpy(&pixel, from, sizeof pixel);
      const auto value = static_cast<float>(pixel);
      const float light = (value - (offsets != nullptr ? offsets[i] : offset_adu_)) *
                          (gains != nullptr ? gains[i] : gain_);
      to[i] = value < saturation_adu_ ? light : kNone;
    }
  }
  for (const std::size_t pixel : gone_) to[pixel] = 0;
}

const std::byte* FrameSpots::from(std::size_t frame) const noexcept {
  return static_cast<const std::byte*>(frames_.pixels) + frame * frames_.frame_bytes;
}

/// Whether a frame's pixels are those that are fitted, side by side, at such addresses.
bool FrameSpots::lies_as_fitted() const noexcept {
  const std::size_t bytes = bytes_per_pixel(shape_.type);
  return !converts_ && frames_.row_bytes == static_cast<std::size_t>(shape_.width_px) * bytes &&
         frames_.frame_bytes % bytes == 0 &&
         reinterpret_cast<std::uintptr_t>(frames_.pixels) % bytes == 0;
}

/// The frame as it is fitted, without gaps.
void FrameSpots::convert(std::size_t frame, std::byte* to) const noexcept {
  if (converts_) {
    auto* const floats = reinterpret_cast<float*>(to);
    switch (frames_.type) {
      case PixelType::U8:
        return convert<std::uint8_t>(from(frame), floats);
      case PixelType::U16:
        return convert<std::uint16_t>(from(frame), floats);
      case PixelType::F32:
        return convert<float>(from(frame), floats);
    }
  }
  const std::size_t row = static_cast<std::size_t>(shape_.width_px) * bytes_per_pixel(shape_.type);
  for (std::size_t y = 0; y < static_cast<std::size_t>(shape_.height_px); ++y)
    std::memcpy(to + y * row, from(frame) + y * frames_.row_bytes, row);
}

/// The same, in `copy` or where it lies.
const std::byte* FrameSpots::converted(std::size_t frame, std::vector<std::byte>& copy) const {
  if (lies_as_fitted()) return from(frame);
  copy.resize(shape_.pixels() * bytes_per_pixel(shape_.type));
  convert(frame, copy.data());
  return copy.data();
}

FoundInFrames FrameSpots::found(BatchBackEnd& back_end, GpuSearch& gpu, int roi_px,
                                const FitOptions& options, int threads) const {
  FoundInFrames found;
  const SpotSearch search(search_);
  const bool in_one =
      lies_as_fitted() &&
      frames_.frame_bytes == frames_.row_bytes * static_cast<std::size_t>(shape_.height_px);
  SpotJob job{.shape = shape_,
              .count = frames_.count,
              .frames = in_one ? from(0) : nullptr,
              .bring = [this](std::size_t frame, std::byte* to) { convert(frame, to); },
              .search = &search,
              .hot = &hot_,
              .roi_px = needs_variances(options.estimator) ? 0 : roi_px,  // weights: by the host
              .options = options,
              .variances = variances_.empty() ? nullptr : variances_.data()};
  if (gpu.find(back_end, job, found)) return found;
  std::vector<std::vector<FoundSpot>> in_frame(frames_.count);
  share(frames_.count, threads,
        [&](std::size_t i, std::vector<std::byte>& copy, std::vector<std::byte>& filled) {
          in_frame[i] = search.find(shape_, hot_.filled(shape_, converted(i, copy), filled));
        });
  for (std::size_t i = 0; i < in_frame.size(); ++i)
    for (const FoundSpot& spot : in_frame[i])
      found.spots.push_back(
          {spot.x_px, spot.y_px, static_cast<std::int32_t>(i), spot.net_gradient});
  return found;
}

std::vector<FrameSpot> FrameSpots::find(BatchBackEnd& back_end, GpuSearch& gpu, int threads) const {
  return found(back_end, gpu, 0, options_, threads).spots;
}

/// The squares around the spots, which are in the order of frames.
void FrameSpots::cut(const std::vector<FrameSpot>& spots, int roi_px,
                     std::vector<std::byte>& pixels, std::vector<float>& variances) const {
  const auto side = static_cast<std::size_t>(roi_px);
  const auto width = static_cast<std::size_t>(shape_.width_px);
  const std::size_t bytes = bytes_per_pixel(shape_.type);
  pixels.resize(spots.size() * side * side * bytes);
  if (!variances_.empty()) variances.resize(spots.size() * side * side);
  std::vector<std::byte> copy;
  const std::byte* frame = nullptr;
  std::int32_t number = -1;
  std::size_t to = 0;
  for (const FrameSpot& spot : spots) {
    if (spot.frame != number) frame = converted(static_cast<std::size_t>(spot.frame), copy);
    number = spot.frame;
    const auto x = static_cast<std::size_t>(roi_origin(spot.x_px, roi_px, shape_.width_px));
    const auto y = static_cast<std::size_t>(roi_origin(spot.y_px, roi_px, shape_.height_px));
    for (std::size_t row = 0; row < side; ++row, to += side) {
      const std::size_t from = (y + row) * width + x;
      std::memcpy(pixels.data() + to * bytes, frame + from * bytes, side * bytes);
      if (!variances_.empty()) std::copy_n(variances_.data() + from, side, variances.data() + to);
    }
  }
}

void FrameSpots::fit(BatchBackEnd& back_end, const std::vector<FrameSpot>& spots, int roi_px,
                     const FitOptions& options, int threads,
                     std::vector<Localization>& fits) const {
  std::vector<std::byte> pixels;
  std::vector<float> variances;
  cut(spots, roi_px, pixels, variances);
  fits.resize(spots.size());
  Batch batch{.pixels = pixels.data(),
              .type = shape_.type,
              .roi_px = roi_px,
              .count = spots.size(),
              .variances = variances_.empty() ? nullptr : variances.data()};
  if (!needs_variances(options.estimator)) return back_end.fit(batch, options, fits, threads);
  const Batch given = batch;
  FitWeights weights;
  weights.weigh_evenly(given, options);
  batch.variances = weights.variances();
  batch.details = weights.details();
  back_end.fit(batch, options, fits, threads);
  weights.weigh_by_fits(given, options.noise, fits);
  batch.details = nullptr;
  batch.starts = weights.starts();
  batch.angles_rad = weights.angles_rad();
  back_end.fit(batch, options, fits, threads);
}

std::vector<PicassoLocalization> FrameSpots::localize(BatchBackEnd& back_end, GpuSearch& gpu,
                                                      int roi_px, float excess_noise,
                                                      std::uint32_t first, int threads) const {
  FitOptions options = options_;
  options.noise = with_excess(options.noise, excess_noise);
  FoundInFrames found = this->found(back_end, gpu, roi_px, options, threads);
  const std::vector<FrameSpot>& spots = found.spots;
  std::vector<Localization>& fits = found.fits;
  std::vector<PicassoLocalization> localizations;
  if (spots.empty()) return localizations;
  if (fits.empty()) fit(back_end, spots, roi_px, options, threads, fits);
  const PhotonUnits units{.roi_px = roi_px,
                          .estimator = options_.estimator,
                          .noise = options_.noise,
                          .excess_noise = excess_noise};
  for (std::size_t i = 0; i < spots.size(); ++i) {
    const Localization& fit = fits[i];
    if (!converged(fit.status)) continue;
    const double x = roi_origin(spots[i].x_px, roi_px, shape_.width_px) + double{fit.x_px};
    const double y = roi_origin(spots[i].y_px, roi_px, shape_.height_px) + double{fit.y_px};
    if (std::hypot(x - spots[i].x_px, y - spots[i].y_px) > reach_px(roi_px)) continue;
    localizations.push_back(picasso_row(first + static_cast<std::uint32_t>(spots[i].frame), x, y,
                                        fit, spots[i].net_gradient, units));
  }
  return localizations;
}

PicassoLocalization picasso_row(std::uint32_t frame, double x_px, double y_px,
                                const Localization& fit, float net_gradient,
                                const PhotonUnits& units) {
  const Photons photons = photons_of(fit, units);
  const auto [narrow, wide] = std::minmax(fit.sigma_x_px, fit.sigma_y_px);
  return {.frame = frame,
          .x = static_cast<float>(x_px),
          .y = static_cast<float>(y_px),
          .photons = static_cast<float>(photons.signal),
          .sx = fit.sigma_x_px,
          .sy = fit.sigma_y_px,
          .bg = static_cast<float>(photons.background),
          .lpx = fit.x_sd_px,
          .lpy = fit.y_sd_px,
          .ellipticity = (wide - narrow) / wide,
          .net_gradient = net_gradient};
}

}  // namespace driftd::fitter
