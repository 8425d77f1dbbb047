// SPDX-License-Identifier: MIT
// Spots of whole frames, found and fitted as driftfit --every-spot does, for libdriftfit: with a
// camera's maps, without pixels that are much noisier than most. Called by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitter/batch_back_end.hpp"
#include "fitter/frames.hpp"
#include "fitter/spots/gpu_search.hpp"
#include "fitter/spots/hot_pixels.hpp"
#include "fitter/spots/photons.hpp"
#include "fitter/spots/spot_search.hpp"

namespace driftd::fitter {

/// A row of Picasso's table /locs.
struct PicassoLocalization {
  std::uint32_t frame;
  float x, y, photons, sx, sy, bg, lpx, lpy, ellipticity, net_gradient;
};

/// @param x_px, y_px  in the frame
PicassoLocalization picasso_row(std::uint32_t frame, double x_px, double y_px,
                                const Localization& fit, float net_gradient,
                                const PhotonUnits& units);

class FrameSpots {
 public:
  /// @param frames   in the host's memory; their pixels and maps must outlive this
  /// @param options  of the pixels as they come
  /// @throws FitterError for maps with values that are none, or half of whose pixels are gone
  FrameSpots(const Frames& frames, const FitOptions& options, int box_px, double min_net_gradient);

  /// In the order of frames, and of reading in a frame. The same for any number of threads, and by
  /// a GPU. @throws FitterError
  std::vector<FrameSpot> find(BatchBackEnd& back_end, GpuSearch& gpu, int threads) const;
  /// Finds and fits them, with numbers of frames from `first` on.
  /// Weights of weighted least squares are FitWeights'.
  /// @param excess_noise  of the camera; the options are without
  /// @throws FitterError
  std::vector<PicassoLocalization> localize(BatchBackEnd& back_end, GpuSearch& gpu, int roi_px,
                                            float excess_noise, std::uint32_t first,
                                            int threads) const;

 private:
  /// What was found; and fitted with these options, where a GPU has done it.
  FoundInFrames found(BatchBackEnd& back_end, GpuSearch& gpu, int roi_px, const FitOptions& options,
                      int threads) const;
  const std::byte* from(std::size_t frame) const noexcept;
  bool lies_as_fitted() const noexcept;
  void convert(std::size_t frame, std::byte* to) const noexcept;
  const std::byte* converted(std::size_t frame, std::vector<std::byte>& copy) const;
  template <class Pixel>
  void convert(const std::byte* frame, float* to) const noexcept;
  void fit(BatchBackEnd& back_end, const std::vector<FrameSpot>& spots, int roi_px,
           const FitOptions& options, int threads, std::vector<Localization>& fits) const;
  void cut(const std::vector<FrameSpot>& spots, int roi_px, std::vector<std::byte>& pixels,
           std::vector<float>& variances) const;

  Frames frames_;
  FitOptions options_;  ///< of the pixels as they are fitted
  bool converts_ = false;
  float offset_adu_, gain_, saturation_adu_;
  FrameShape shape_;  ///< as they are fitted
  std::vector<float> variances_;
  std::vector<std::size_t> gone_;
  HotPixels hot_;
  SpotSearchSettings search_;
};

}  // namespace driftd::fitter
