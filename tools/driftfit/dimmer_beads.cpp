// SPDX-License-Identifier: MIT
#include "tools/driftfit/dimmer_beads.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

#include "base/median.hpp"
#include "fitter/pixel_type.hpp"
#include "tools/driftfit/errors.hpp"
#include "tools/driftfit/spot.hpp"

namespace driftd::tools {
namespace {

constexpr std::size_t kDraws = 8;

/// Squares of a frame about beads, in electrons.
struct Rois {
  std::vector<std::size_t> beads;
  std::vector<int> x_px, y_px;
  std::vector<float> electrons;
};

class Dimmer {
 public:
  Dimmer(camera::ImageStack& stack, const SpotFitterSettings& fit, const ZStackBeads& beads)
      : stack_(stack), beads_(beads), settings_(fit) {
    // Pixels are electrons here, and those above saturation were no fits.
    fitter::FitOptions& options = settings_.options;
    read_e_ = static_cast<double>(options.noise.read_noise_e);
    gain_ = static_cast<double>(options.noise.gain_e_per_adu);
    offset_adu_ = static_cast<double>(options.noise.offset_adu);
    options.noise = {
        .gain_e_per_adu = 1, .read_noise_e = options.noise.read_noise_e, .offset_adu = 0};
    options.saturation_adu = fitter::FitOptions{}.saturation_adu;
  }

  Rois cut(std::size_t plane) {
    const camera::StackShape& shape = stack_.shape();
    frame_.resize(shape.frame_bytes());
    stack_.read(beads_.frames[plane], 1, frame_.data());
    Rois rois;
    const int side = beads_.roi_px;
    for (std::size_t b = 0; b < beads_.beads; ++b) {
      const BeadFit& fit = beads_.at(plane, b);
      if (!fit.fitted || !(fit.dimness > 0)) continue;
      const int left = static_cast<int>(std::lround(fit.x_px)) - side / 2;
      const int top = static_cast<int>(std::lround(fit.y_px)) - side / 2;
      if (left < 0 || top < 0 || left + side > shape.width_px || top + side > shape.height_px)
        continue;
      rois.beads.push_back(b);
      rois.x_px.push_back(left);
      rois.y_px.push_back(top);
      fitter::with_pixels(fitter_type(shape.type), frame_.data(), [&](const auto* pixels) {
        for (int k = 0; k < side * side; ++k) {
          const int at = (top + k / side) * shape.width_px + left + k % side;
          rois.electrons.push_back(
              static_cast<float>(gain_ * (static_cast<double>(pixels[at]) - offset_adu_)));
        }
      });
    }
    return rois;
  }

  /// Fits `pixels`, several squares of each bead one after another.
  std::vector<BeadFit> fit(const Rois& rois, const std::vector<float>& pixels, std::size_t plane,
                           std::size_t of_each, double read_e) {
    const std::size_t count = rois.beads.size() * of_each;
    if (count == 0) return {};
    SpotFitterSettings settings = settings_;
    settings.options.noise.read_noise_e = static_cast<float>(read_e);
    SpotFitter fitter(settings);
    std::vector<fitter::Start> starts;
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = k / of_each;
      const BeadFit& known = beads_.at(plane, rois.beads[i]);
      starts.push_back({static_cast<float>(known.x_px - rois.x_px[i]),
                        static_cast<float>(known.y_px - rois.y_px[i]),
                        static_cast<float>(known.sigma_x_px),
                        static_cast<float>(known.sigma_y_px)});
    }
    std::vector<fitter::FitDetails> details(count);
    std::vector<fitter::Localization> results(count);
    fitter::Batch batch{.pixels = pixels.data(),
                        .type = fitter::PixelType::F32,
                        .roi_px = beads_.roi_px,
                        .count = count};
    batch.starts = starts.data();
    batch.details = details.data();
    fitter.fit(batch, results);
    std::vector<BeadFit> fits;
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = k / of_each;
      fits.push_back(bead_fit(results[k], details[k], rois.x_px[i], rois.y_px[i], beads_.roi_px,
                              settings.options));
    }
    return fits;
  }

  void add(std::size_t plane, const Rois& rois, double dimness, double assumed_read_e,
           DimmerBeads& to) {
    const std::vector<BeadFit> weighted = fit(rois, rois.electrons, plane, 1, assumed_read_e);
    for (std::size_t i = 0; i < rois.beads.size(); ++i)
      to.beads.fits[plane * beads_.beads + rois.beads[i]] = weighted[i];
    const auto area =
        static_cast<std::size_t>(beads_.roi_px) * static_cast<std::size_t>(beads_.roi_px);
    std::vector<float> drawn;
    for (std::size_t i = 0; i < rois.beads.size(); ++i) {
      const BeadFit& known = beads_.at(plane, rois.beads[i]);
      const double share = std::min(1.0, known.dimness / dimness);
      for (std::size_t draw = 0; draw < kDraws; ++draw)
        for (std::size_t k = 0; k < area; ++k)
          drawn.push_back(thinned(static_cast<double>(rois.electrons[i * area + k]), share,
                                  std::max(0.0, known.background_e)));
    }
    std::vector<BeadFit> fits = fit(rois, drawn, plane, kDraws, read_e_);
    for (BeadFit& one : fits) one.variance.xy_px2 = 0;
    for (std::size_t i = 0; i < rois.beads.size(); ++i) {
      const auto first = fits.begin() + static_cast<std::ptrdiff_t>(i * kDraws);
      to.dimmed.push_back({plane,
                           rois.beads[i],
                           std::min(1.0, beads_.at(plane, rois.beads[i]).dimness / dimness),
                           {first, first + kDraws}});
    }
  }

 private:
  /// A pixel of which each photon is kept with a probability, on the whole background.
  float thinned(double electrons, double share, double background_e) {
    std::poisson_distribution<int> background((1 - share) * background_e);
    const double lost_e2 =
        share * (1 - share) * std::max(0.0, electrons) + (1 - share * share) * read_e_ * read_e_;
    const double more = (1 - share) * background_e > 0 ? background(random_) : 0;
    return static_cast<float>(share * electrons + std::sqrt(lost_e2) * normal_(random_) + more);
  }

  camera::ImageStack& stack_;
  const ZStackBeads& beads_;
  SpotFitterSettings settings_;
  double read_e_ = 0, gain_ = 1, offset_adu_ = 0;
  std::vector<std::byte> frame_;
  std::mt19937_64 random_{1};
  std::normal_distribution<double> normal_;
};

/// What makes the median bead so dim.
double assumed_read_e(const ZStackBeads& beads, double dimness) {
  std::vector<double> noise_e2;
  for (const BeadFit& fit : beads.fits)
    if (fit.fitted && fit.photons > 0) noise_e2.push_back(dimness * fit.photons - fit.background_e);
  return noise_e2.empty() ? 0 : std::sqrt(std::max(0.0, median(noise_e2)));
}

}  // namespace

std::vector<DimmerBeads> dimmer_beads(camera::ImageStack& stack, const SpotFitterSettings& fit,
                                      const ZStackBeads& beads, std::span<const double> dimness,
                                      const std::function<bool()>& stop) {
  std::vector<DimmerBeads> all(dimness.size());
  for (DimmerBeads& one : all) {
    one.beads = beads;
    std::fill(one.beads.fits.begin(), one.beads.fits.end(), BeadFit{});
  }
  std::vector<double> read_e;
  for (const double dim : dimness) read_e.push_back(assumed_read_e(beads, dim));
  Dimmer dimmer(stack, fit, beads);
  for (std::size_t plane = 0; plane < beads.planes; ++plane) {
    if (stop()) throw Interrupted();
    const Rois rois = dimmer.cut(plane);
    for (std::size_t level = 0; level < dimness.size(); ++level)
      dimmer.add(plane, rois, dimness[level], read_e[level], all[level]);
  }
  return all;
}

}  // namespace driftd::tools
