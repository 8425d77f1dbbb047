// SPDX-License-Identifier: MIT
#include "control/search/spot_size.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/median.hpp"
#include "control/search/roi_choice.hpp"
#include "control/search/scale_search.hpp"
#include "control/values/number_text.hpp"

namespace driftd::control {
namespace {

constexpr double kMinSigmaPx = 0.7;
constexpr double kMaxSigmaPx = 10;
/// Fitted amplitude over the fit's residuals.
constexpr double kMinSnr = 5;
/// Standard deviation of a fitted width, over the width, up to which it says something.
constexpr double kMaxWidthError = 0.2;
/// Scales are half an octave apart: a fit of another width measured something else.
constexpr double kScaleRatio = 1.7;
/// Standard deviation of the kernel that smooths the histogram of ln(sigma) to find its mode.
constexpr double kModeWidth = 0.1;
/// Spots of one image may be this much wider or narrower than most.
constexpr double kSameWidth = 1.35;
/// What is so much wider or narrower than the spots is none of them: out of focus, a clump, dirt.
constexpr double kMarkerWidth = 2;
/// Largest ratio of the widths that two searches find.
constexpr double kAgreement = 1.1;
constexpr int kMostSearches = 4;

double median_width(std::span<const MeasuredSpot> spots) {
  std::vector<double> widths;
  for (const MeasuredSpot& s : spots) widths.push_back(s.sigma_px);
  return median(std::move(widths));
}

/// A later one at the place of an earlier is the same spot.
void add_once(std::vector<MeasuredSpot>& spots, const MeasuredSpot& spot) {
  const auto same = [&](const MeasuredSpot& other) {
    return std::hypot(other.x_px - spot.x_px, other.y_px - spot.y_px) <
           std::max(1.0, 0.5 * spot.sigma_px);
  };
  if (std::none_of(spots.begin(), spots.end(), same)) spots.push_back(spot);
}

/// The spots whose width is near the one that most spots have.
std::vector<MeasuredSpot> of_shared_width(std::span<const MeasuredSpot> spots) {
  double best = 0;
  double shared_px = 0;
  for (const MeasuredSpot& s : spots) {
    double density = 0;
    for (const MeasuredSpot& other : spots)
      density += std::exp(-0.5 * std::pow(std::log(other.sigma_px / s.sigma_px) / kModeWidth, 2));
    if (density <= best) continue;
    best = density;
    shared_px = s.sigma_px;
  }
  std::vector<MeasuredSpot> same;
  for (const MeasuredSpot& s : spots)
    if (std::abs(std::log(s.sigma_px / shared_px)) <= std::log(kSameWidth)) same.push_back(s);
  return same;
}

/// A scale at which to measure, and the ratio of widths up to which a fit belongs to it.
struct Scale {
  double sigma_px;
  double ratio;
  int roi_px;
  double least_px, most_px;  ///< widths that a spot may have at all
};

/// Whether the fit found a spot of the scale where the candidate is.
bool is_spot(const Candidate& c, const fitter::Localization& f, const Scale& scale) {
  if (!fitter::converged(f.status)) return false;
  const double width_px = mean_width(f.sigma_x_px, f.sigma_y_px);
  if (width_px < std::max(scale.least_px, scale.sigma_px / scale.ratio)) return false;
  if (width_px > std::min(scale.most_px, scale.sigma_px * scale.ratio)) return false;
  if (!(static_cast<double>(f.sigma_x_sd_px) <= kMaxWidthError * width_px)) return false;
  const double freedom = std::max(1, scale.roi_px * scale.roi_px - 5);  // x, y, sigma, two levels
  const double rms = std::sqrt(static_cast<double>(f.chi_square) / freedom);
  if (!(static_cast<double>(f.amplitude_adu) >= kMinSnr * rms)) return false;
  const double off_px = std::hypot(c.roi_x_px + static_cast<double>(f.x_px) - c.x_px,
                                   c.roi_y_px + static_cast<double>(f.y_px) - c.y_px);
  return off_px <= std::max(1.0, scale.sigma_px);
}

SpotSize nothing(std::string why) {
  SpotSize size;
  size.reason = "nothing chosen: " + std::move(why);
  return size;
}

class Choice {
 public:
  Choice(std::span<const std::uint16_t> image, ImageSize size, const DetectionSettings& settings,
         const std::stop_token& stop)
      : image_(image), size_(size), settings_(settings), stop_(stop) {}

  SpotSize choose() {
    double sigma_px = settings_.expected_sigma_px;
    if (sigma_px > 0) {
      search_at(sigma_px);
      return spots_.empty() && roi_px_ > 0 ? nothing(no_spot(sigma_px, sigma_px))
                                           : described(sigma_px);
    }
    search_any_scale();
    if (spots_.empty()) return nothing(no_spot(least_px(), most_px()));
    double before_px = 0;
    for (int search = 0; search < kMostSearches; ++search) {
      before_px = median_width(spots_);
      search_at(before_px);
      if (roi_px_ == 0) return described(before_px);
      if (spots_.empty())
        return nothing("spots of sigma " + number(before_px, 2) +
                       " px were not found a second time; out of focus `optics.spot_sigma_px` "
                       "tells their width (axial.method: defocus: about 2)");
      sigma_px = median_width(spots_);
      if (std::abs(std::log(sigma_px / before_px)) < std::log(kAgreement))
        return described(sigma_px);
    }
    return nothing("one search found a sigma of " + number(before_px, 2) + " px, the next of " +
                   number(sigma_px, 2) + " px");
  }

 private:
  void measure(std::span<const Candidate> candidates, const Scale& scale) {
    fitter::FitOptions options;
    if (settings_.saturation_adu > 0)
      options.saturation_adu = static_cast<float>(settings_.saturation_adu);
    const auto fits = fit_candidates(image_, size_.width_px, candidates, scale.roi_px, options);
    for (std::size_t i = 0; i < fits.size(); ++i) {
      const Candidate& c = candidates[i];
      const fitter::Localization& f = fits[i];
      if (settings_.saturation_adu > 0 && f.status == fitter::FitStatus::BadInput) ++saturated_;
      if (!is_spot(c, f, scale)) continue;
      add_once(spots_, {.x_px = c.roi_x_px + static_cast<double>(f.x_px),
                        .y_px = c.roi_y_px + static_cast<double>(f.y_px),
                        .sigma_px = mean_width(f.sigma_x_px, f.sigma_y_px),
                        .height_adu = static_cast<double>(f.amplitude_adu)});
    }
  }

  void search_any_scale() {
    for (const ScaleLevel& level : search_scales(image_, size_.width_px, size_.height_px, stop_))
      measure(level.candidates, {level.sigma_px, kScaleRatio, level.roi_px, least_px(), most_px()});
    spots_ = of_shared_width(spots_);
  }

  /// Searches with the ROI that follows from the spots of the search before.
  void search_at(double sigma_px) {
    roi_px_ = choose_roi(sigma_px, spots_, all_, size_, settings_).roi_px;
    if (roi_px_ == 0) return;
    DetectionSettings settings = settings_;
    settings.expected_sigma_px = sigma_px;
    settings.roi_px = roi_px_;
    settings.min_snr = kMinSnr;
    SearchBounds bounds{.stop = stop_};
    all_ = find_candidates(image_, size_.width_px, size_.height_px, settings, &bounds);
    spots_.clear();
    saturated_ = 0;
    measure(all_, {sigma_px, kSameWidth, roi_px_, least_px(), most_px()});
  }

  double least_px() const { return std::max(kMinSigmaPx, settings_.min_sigma_px); }
  double most_px() const {
    return settings_.max_sigma_px > 0 ? std::min(kMaxSigmaPx, settings_.max_sigma_px) : kMaxSigmaPx;
  }

  std::string no_spot(double from_px, double to_px) const {
    std::string words = "no spot of sigma " + number(from_px, 1);
    if (to_px > from_px) words += " to " + number(to_px, 0);
    words += " px stands out of the noise of this image of " + std::to_string(size_.width_px) +
             " x " + std::to_string(size_.height_px) + " px";
    if (saturated_ > 0) words += " without saturated pixels in its ROI";
    return words;
  }

  SpotSize described(double sigma_px) const {
    const RoiChoice roi = choose_roi(sigma_px, spots_, all_, size_, settings_);
    SpotSize size{.sigma_px = sigma_px,
                  .roi_px = roi.roi_px,
                  .spots = spots_.size(),
                  .spread_px = 0,
                  .neighbour_px = roi.neighbour_px,
                  .reason = "sigma " + number(sigma_px, 2) + " px"};
    constexpr double kSdOverMedianDeviation = 1.4826;
    const double middle_px = median_width(spots_);
    std::vector<double> deviations;
    for (const MeasuredSpot& s : spots_) deviations.push_back(std::abs(s.sigma_px - middle_px));
    size.spread_px = kSdOverMedianDeviation * median(std::move(deviations));
    size.reason += settings_.expected_sigma_px > 0 ? " as given, " : ", the median of ";
    size.reason += std::to_string(size.spots) + (size.spots == 1 ? " spot" : " spots");
    if (size.spots > 1) size.reason += " (spread " + number(size.spread_px, 2) + " px)";
    if (size.neighbour_px > 0)
      size.reason +=
          ", the nearest neighbour " + number(size.neighbour_px, 1) + " px away (median)";
    size.reason += "; " + roi.reason;
    return size;
  }

  std::span<const std::uint16_t> image_;
  ImageSize size_;
  const DetectionSettings& settings_;
  const std::stop_token& stop_;
  std::vector<MeasuredSpot> spots_;  ///< of the latest search
  std::vector<Candidate> all_;       ///< whatever else it saw
  int roi_px_ = 0;
  std::size_t saturated_ = 0;
};

}  // namespace

SpotSize choose_spot_size(std::span<const std::uint16_t> image, int width_px, int height_px,
                          const DetectionSettings& settings, const std::stop_token& stop) {
  return Choice(image, {width_px, height_px}, settings, stop).choose();
}

DetectionSettings settings_for(const SpotSize& size, DetectionSettings settings) {
  if (!size.chosen()) return settings;
  settings.expected_sigma_px = size.sigma_px;
  settings.roi_px = size.roi_px;
  settings.min_sigma_px = std::max(settings.min_sigma_px, size.sigma_px / kMarkerWidth);
  settings.max_sigma_px = std::min(settings.max_sigma_px, size.sigma_px * kMarkerWidth);
  return settings;
}

}  // namespace driftd::control
