// SPDX-License-Identifier: MIT
#include "tools/driftfit/zstack_beads.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "base/counted.hpp"
#include "control/axial/brightness_curves.hpp"
#include "fitter/pixel_type.hpp"
#include "tools/driftfit/clipped_pixels.hpp"
#include "tools/driftfit/cut_rois.hpp"
#include "tools/driftfit/errors.hpp"
#include "tools/driftfit/marker_search.hpp"

namespace driftd::tools {
namespace {

/// Planes that are searched for beads, evenly over the stack, at most.
constexpr std::size_t kSearched = 40;
/// Of the most beads that any plane shows.
constexpr double kMostShare = 0.9;
/// A spot further from where the others say a bead is, over the ROI's side, is another.
constexpr double kReachShare = 0.2;
/// A bead further from the middle of its ROI is cut out anew, as in a lock.
constexpr double kOffMiddlePx = 0.6;
constexpr int kCuts = 3;

using Frame = std::vector<std::byte>;

struct Corner {
  int x_px = 0, y_px = 0;
};

struct Found {
  std::vector<Pick> picks;
  std::size_t plane = 0;
  int roi_px = 0;
  double sigma_px = 0;
};

constexpr const char* kLessLight = "less light or a shorter exposure helps";

bool reaches(const camera::StackShape& shape, const Frame& frame, float level) {
  bool any = false;
  fitter::with_pixels(fitter_type(shape.type), frame.data(), [&](const auto* pixels) {
    any = std::any_of(pixels, pixels + static_cast<std::ptrdiff_t>(shape.pixels()),
                      [&](auto pixel) { return static_cast<float>(pixel) >= level; });
  });
  return any;
}

/// Of the planes with about the most beads in that where they are narrowest.
Found find_beads(camera::ImageStack& stack, const ZStackSettings& settings,
                 const std::function<bool()>& stop) {
  SpotFitter fitter(settings.find);
  std::vector<Found> all;
  std::string why;
  std::size_t searched = 0, saturated = 0;
  const float saturation = settings.fit.options.saturation_adu;
  Frame frame(stack.shape().frame_bytes());
  const std::size_t planes = settings.frames.size();
  const std::size_t step = (planes + kSearched - 1) / kSearched;
  for (std::size_t plane = 0; plane < planes; plane += step) {
    if (stop()) throw Interrupted();
    stack.read(settings.frames[plane], 1, frame.data());
    ++searched;
    saturated += reaches(stack.shape(), frame, saturation) ? 1U : 0U;
    const control::SpotSize size = size_of_spots(stack.shape(), frame.data(), settings.detection);
    if (!size.chosen()) {
      if (why.empty()) why = size.reason;
      continue;
    }
    MarkerSearchResult search = find_markers(
        stack.shape(), frame.data(), control::settings_for(size, settings.detection), fitter);
    if (search.markers.empty() && why.empty() && !search.rejected.empty())
      why = search.rejected.front();
    if (!search.markers.empty())
      all.push_back({std::move(search.markers), plane, size.roi_px, size.sigma_px});
  }
  if (all.empty() && saturated > 0)
    throw InputError(fmt::format(
        "no bead is found in any plane: {} of {} searched have pixels that reach --saturation {}, "
        "and no bead that does is taken; {} (or a --saturation above it, if the camera's is)",
        saturated, counted(searched, "plane"), level_in_digits(static_cast<double>(saturation)),
        kLessLight));
  if (all.empty())
    throw InputError(fmt::format(
        "no bead is found in any plane{}{}; what may help: --min-snr, --spot-sigma and --roi of "
        "their size, or --picks with the beads of the first plane",
        why.empty() ? "" : ": ", why));
  std::size_t most = 0;
  for (const Found& found : all) most = std::max(most, found.picks.size());
  std::erase_if(all, [most](const Found& found) {
    return static_cast<double>(found.picks.size()) < kMostShare * static_cast<double>(most);
  });
  return *std::ranges::min_element(all, {}, &Found::sigma_px);
}

/// What the ROIs' largest pixels are.
struct Tops {
  ClippedPixels clipped;
  std::size_t saturated = 0;
};

/// Follows the beads from plane to plane, either way.
class Follower {
 public:
  Follower(camera::ImageStack& stack, const ZStackSettings& settings, int roi_px, Tops& tops)
      : stack_(stack), settings_(settings), fitter_(settings.fit), roi_px_(roi_px), tops_(tops) {}

  /// Begins where the beads are known.
  void begin(std::vector<Pick> places, std::size_t plane) {
    places_ = std::move(places);
    widths_.assign(places_.size(), {});
    read(plane);
    previous_ = image_;
    previous_places_ = places_;
  }
  /// The beads in a plane next to the last one.
  /// @param anew  whether nobody has looked at this plane's tops
  void follow(std::size_t plane, std::span<BeadFit> fits, bool anew = true) {
    read(plane);
    anew_ = anew;
    const Pick shift = shift_from_last();
    for (Pick& place : places_) {
      place.x_px += shift.x_px;
      place.y_px += shift.y_px;
    }
    fit(fits);
    previous_ = image_;
    previous_places_ = places_;
  }

 private:
  void read(std::size_t plane) {
    const camera::StackShape& shape = stack_.shape();
    frame_.resize(shape.frame_bytes());
    stack_.read(settings_.frames[plane], 1, frame_.data());
    image_.resize(shape.pixels());
    fitter::with_pixels(fitter_type(shape.type), frame_.data(), [&](const auto* pixels) {
      for (std::size_t i = 0; i < image_.size(); ++i) image_[i] = static_cast<float>(pixels[i]);
    });
  }

  [[nodiscard]] bool is_inside(Corner corner) const {
    return corner.x_px >= 0 && corner.y_px >= 0 &&
           corner.x_px + roi_px_ <= stack_.shape().width_px &&
           corner.y_px + roi_px_ <= stack_.shape().height_px;
  }
  [[nodiscard]] Corner corner_at(const Pick& place) const {
    return {static_cast<int>(std::lround(place.x_px)) - roi_px_ / 2,
            static_cast<int>(std::lround(place.y_px)) - roi_px_ / 2};
  }

  /// The pixels of a window less their mean, 0 in sum.
  void window(const std::vector<float>& image, Corner corner, std::vector<float>& out) const {
    const auto side = static_cast<std::size_t>(roi_px_);
    out.resize(side * side);
    float sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto row = static_cast<std::size_t>(corner.y_px) + i / side;
      const auto column = static_cast<std::size_t>(corner.x_px) + i % side;
      out[i] = image[row * static_cast<std::size_t>(stack_.shape().width_px) + column];
      sum += out[i];
    }
    const float mean = sum / static_cast<float>(out.size());
    for (float& value : out) value -= mean;
  }

  /// By whole pixels: where the windows around all beads look most like those of the last plane.
  Pick shift_from_last() {
    const int reach = roi_px_;
    std::vector<std::vector<float>> before(places_.size());
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (const Corner corner = corner_at(previous_places_[i]); is_inside(corner))
        window(previous_, corner, before[i]);
    double best = -1;
    Pick shift;
    std::vector<float> now;
    for (int dy = -reach; dy <= reach; ++dy) {
      for (int dx = -reach; dx <= reach; ++dx) {
        double sum = 0;
        for (std::size_t i = 0; i < places_.size(); ++i) {
          Corner corner = corner_at(previous_places_[i]);
          corner.x_px += dx;
          corner.y_px += dy;
          if (before[i].empty() || !is_inside(corner)) continue;
          window(image_, corner, now);
          double product = 0, squares = 0, of_before = 0;
          for (std::size_t k = 0; k < now.size(); ++k) {
            product += static_cast<double>(now[k] * before[i][k]);
            squares += static_cast<double>(now[k] * now[k]);
            of_before += static_cast<double>(before[i][k] * before[i][k]);
          }
          if (squares > 0 && of_before > 0) sum += product / std::sqrt(squares * of_before);
        }
        if (sum <= best) continue;
        best = sum;
        shift = {static_cast<double>(dx), static_cast<double>(dy)};
      }
    }
    return shift;
  }

  void fit(std::span<BeadFit> fits) {
    const std::vector<Pick> expected = places_;
    CutRois rois(stack_.shape(), roi_px_, maps_);
    for (int cut = 0; cut < kCuts; ++cut) {
      std::vector<std::size_t> which;
      std::vector<Corner> corners;
      std::vector<fitter::Start> starts;
      for (std::size_t i = 0; i < places_.size(); ++i) {
        const Corner corner = corner_at(places_[i]);
        if (!is_inside(corner)) continue;
        which.push_back(i);
        corners.push_back(corner);
        starts.push_back({static_cast<float>(places_[i].x_px - corner.x_px),
                          static_cast<float>(places_[i].y_px - corner.y_px), widths_[i].x_px,
                          widths_[i].y_px});
      }
      if (which.empty()) return;
      rois.resize(which.size());
      for (std::size_t k = 0; k < which.size(); ++k)
        rois.cut(k, frame_.data(), corners[k].x_px, corners[k].y_px);
      fitter::Batch batch = rois.batch();
      if (cut == 0 && anew_) look_at(batch);
      std::vector<fitter::FitDetails> details(which.size());
      std::vector<fitter::Localization> results(which.size());
      batch.starts = starts.data();
      batch.details = details.data();
      fitter_.fit(batch, results);
      bool again = false;
      for (std::size_t k = 0; k < which.size(); ++k)
        again |=
            take(results[k], details[k], corners[k], expected[which[k]], which[k], fits[which[k]]);
      recentre(expected, fits);
      if (!again) break;
    }
  }

  void look_at(const fitter::Batch& batch) {
    tops_.clipped.look_at(batch);
    for (const float top : tops_.clipped.tops())
      tops_.saturated += top >= settings_.fit.options.saturation_adu ? 1U : 0U;
  }

  /// @returns whether the bead is off the middle of its ROI
  bool take(const fitter::Localization& result, const fitter::FitDetails& details, Corner corner,
            const Pick& expected, std::size_t bead, BeadFit& fit) {
    fit = {};
    if (!fitter::converged(result.status)) {
      widths_[bead] = {};
      return false;
    }
    fit = bead_fit(result, details, corner.x_px, corner.y_px, roi_px_, settings_.fit.options);
    const double x = fit.x_px, y = fit.y_px;
    fit.fitted = std::hypot(x - expected.x_px, y - expected.y_px) < kReachShare * roi_px_ + 1;
    if (!fit.fitted) return false;
    widths_[bead] = {result.sigma_x_px, result.sigma_y_px};
    const double half = 0.5 * (roi_px_ - 1);
    const bool off = std::abs(x - corner.x_px - half) > kOffMiddlePx ||
                     std::abs(y - corner.y_px - half) > kOffMiddlePx;
    places_[bead] = {x, y};
    return off;
  }

  /// Beads that were not fitted go with the others.
  void recentre(const std::vector<Pick>& expected, std::span<const BeadFit> fits) {
    Pick moved;
    int count = 0;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (!fits[i].fitted) continue;
      moved.x_px += places_[i].x_px - expected[i].x_px;
      moved.y_px += places_[i].y_px - expected[i].y_px;
      ++count;
    }
    for (std::size_t i = 0; i < places_.size() && count > 0; ++i)
      if (!fits[i].fitted)
        places_[i] = {expected[i].x_px + moved.x_px / count, expected[i].y_px + moved.y_px / count};
  }

  struct Widths {
    float x_px = 0, y_px = 0;
  };
  camera::ImageStack& stack_;
  const ZStackSettings& settings_;
  SpotFitter fitter_;
  CameraMaps maps_;
  int roi_px_;
  Tops& tops_;
  bool anew_ = true;
  Frame frame_;
  std::vector<float> image_, previous_;
  std::vector<Pick> places_, previous_places_;
  std::vector<Widths> widths_;  ///< of the last fit; 0: none
};

}  // namespace

BeadFit bead_fit(const fitter::Localization& result, const fitter::FitDetails& details, int x_px,
                 int y_px, int roi_px, const fitter::FitOptions& options) {
  const auto& c = details.covariance;
  constexpr auto kOfX = static_cast<int>(fitter::Parameter::SigmaX);
  constexpr auto kOfY = static_cast<int>(fitter::Parameter::SigmaY);
  const fitter::NoiseModel& noise = options.noise;
  const double gain = noise.gain_e_per_adu > 0 ? static_cast<double>(noise.gain_e_per_adu) : 1.0;
  BeadFit fit{
      .fitted = fitter::converged(result.status),
      .x_px = x_px + static_cast<double>(result.x_px),
      .y_px = y_px + static_cast<double>(result.y_px),
      .sigma_x_px = static_cast<double>(result.sigma_x_px),
      .sigma_y_px = static_cast<double>(result.sigma_y_px),
      .variance = {static_cast<double>(c[kOfX][kOfX]), static_cast<double>(c[kOfY][kOfY]),
                   static_cast<double>(c[kOfX][kOfY])},
      .photons = photons_of(result,
                            Units{.roi_px = roi_px, .estimator = options.estimator, .noise = noise})
                     .signal,
      .background_e = gain * static_cast<double>(result.background_adu - noise.offset_adu)};
  const control::SpotFit spot{.sigma_x_px = fit.sigma_x_px,
                              .sigma_y_px = fit.sigma_y_px,
                              .variance = fit.variance,
                              .amplitude_e = gain * static_cast<double>(result.amplitude_adu),
                              .background_e = fit.background_e,
                              .read_noise_e = static_cast<double>(noise.read_noise_e)};
  fit.dimness = spot.dimness();
  fit.excess = (static_cast<double>(result.chi_square) / (roi_px * roi_px) - 1) / spot.electrons();
  return fit;
}

ZStackBeads beads_of(camera::ImageStack& stack, const ZStackSettings& settings,
                     const std::function<bool()>& stop) {
  Found found{settings.picks, 0, settings.roi_px, 0};
  if (settings.picks.empty()) found = find_beads(stack, settings, stop);
  if (settings.roi_px > 0) found.roi_px = settings.roi_px;
  if (found.roi_px == 0) found.roi_px = control::kAssumedRoiPx;
  if (settings.roi_px == 0)
    found.roi_px =
        std::min(static_cast<int>(found.roi_px * settings.roi_scale) | 1, fitter::kMaxRoiPx - 1);
  ZStackBeads beads{.beads = found.picks.size(),
                    .planes = settings.frames.size(),
                    .fits = {},
                    .frames = settings.frames,
                    .found_in = settings.frames[found.plane],
                    .roi_px = found.roi_px};
  beads.fits.resize(beads.beads * beads.planes);
  const auto row = [&](std::size_t plane) {
    return std::span(beads.fits).subspan(plane * beads.beads, beads.beads);
  };
  Tops tops{ClippedPixels(settings.fit.options.saturation_adu)};
  for (const bool upwards : {true, false}) {
    Follower follower(stack, settings, found.roi_px, tops);
    follower.begin(found.picks, found.plane);
    follower.follow(found.plane, row(found.plane), upwards);
    for (std::size_t i = 1; i < beads.planes; ++i) {
      if (upwards ? found.plane + i >= beads.planes : i > found.plane) break;
      if (stop()) throw Interrupted();
      const std::size_t plane = upwards ? found.plane + i : found.plane - i;
      follower.follow(plane, row(plane));
    }
  }
  if (const auto level = tops.clipped.level()) {
    const std::size_t left = tops.clipped.below(*level);
    throw InputError(
        fmt::format("{}; {} (--saturation {} would leave out {} of {} images of beads)",
                    tops.clipped.told(*level), kLessLight, level_in_digits(*level),
                    tops.clipped.rois() - left, tops.clipped.rois()));
  }
  beads.saturated = tops.saturated;
  return beads;
}

}  // namespace driftd::tools
