// SPDX-License-Identifier: MIT
// Markers on a drifting sample, as their fits would report them, for the estimator's tests.
// Deterministic for a seed. A misdeed changes the bad markers' observations from a frame on.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <random>
#include <vector>

#include "control/drift/drift_estimator.hpp"
#include "support/default_settings.hpp"

namespace driftd::control::test {

constexpr double kPixelNm = 100;

struct Scene {
  int markers = 16;
  int witnesses = 0;
  double sd_nm = 0.8;     ///< of a position, per axis (rms of both), of the median marker
  double y_over_x = 1.3;  ///< the uncertainty along y over that along x
  double spread = 1.5;    ///< markers' sd lies between sd / spread and sd * spread
  double listing_px = 0;  ///< listed positions are wrong by up to this
  double drift_nm = 40;   ///< amplitude of the common drift
};

/// What a bad marker does, `age` frames after it went bad.
using Misdeed = std::function<void(MarkerObservation& observation, int age, std::mt19937& random)>;

class MarkerScene {
 public:
  MarkerScene(const Scene& scene, unsigned seed) : scene_(scene), random_(seed) {
    std::uniform_real_distribution<double> x(20, 230), y(330, 460), error(-1, 1);
    for (int i = 0; i < scene.markers + scene.witnesses; ++i) {
      places_.push_back({x(random_), y(random_)});
      sds_nm_.push_back(scene.sd_nm * std::pow(scene.spread, error(random_)));
      listed_.push_back({.id = static_cast<unsigned>(i + 1),
                         .role = i < scene.markers ? MarkerRole::Tracking : MarkerRole::Witness,
                         .x_px = places_.back().x + scene.listing_px * error(random_),
                         .y_px = places_.back().y + scene.listing_px * error(random_)});
    }
    observations_.resize(listed_.size());
  }

  const std::vector<Marker>& markers() const { return listed_; }
  Vec2 truth_nm(int frame) const {
    return {scene_.drift_nm * std::sin(0.003 * frame),
            0.8 * scene_.drift_nm * std::cos(0.002 * frame)};
  }
  /// Error of a marker's reference that stands for the drift `reference_nm`.
  Vec2 reference_error_nm(std::size_t i, Vec2 place_px, Vec2 reference_nm) const {
    return {(place_px.x - places_[i].x) * kPixelNm - reference_nm.x,
            (place_px.y - places_[i].y) * kPixelNm - reference_nm.y};
  }
  /// The first `bad` markers misbehave from frame `since` on.
  const std::vector<MarkerObservation>& observe(int frame, int bad = 0, int since = 0,
                                                const Misdeed& misdeed = {}) {
    std::normal_distribution<double> normal;
    const Vec2 truth = truth_nm(frame);
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const double x_sd_px =
          sds_nm_[i] / kPixelNm * std::sqrt(2 / (1 + scene_.y_over_x * scene_.y_over_x));
      const double y_sd_px = scene_.y_over_x * x_sd_px;
      observations_[i] = {.fitted = true,
                          .inside_frame = true,
                          .x_px = places_[i].x + truth.x / kPixelNm + x_sd_px * normal(random_),
                          .y_px = places_[i].y + truth.y / kPixelNm + y_sd_px * normal(random_),
                          .x_sd_px = static_cast<float>(x_sd_px),
                          .y_sd_px = static_cast<float>(y_sd_px),
                          .sigma_px = static_cast<float>(1.3 + 0.01 * normal(random_)),
                          .amplitude_adu = static_cast<float>(800 + 10 * normal(random_)),
                          .background_adu = 100};
      if (static_cast<int>(i) < bad && frame >= since && misdeed)
        misdeed(observations_[i], frame - since, random_);
    }
    return observations_;
  }

 private:
  Scene scene_;
  std::mt19937 random_;
  std::vector<Vec2> places_;
  std::vector<double> sds_nm_;
  std::vector<Marker> listed_;
  std::vector<MarkerObservation> observations_;
};

inline EstimatorSettings scene_settings() {
  EstimatorSettings settings = driftd::test::default_estimator_settings();
  settings.pixel_size_nm = kPixelNm;
  return settings;
}

/// Locked on the scene: a reference over frames 0 .. frames - 1 (after a first provisional one).
/// Returns the true drift that the reference stands for.
inline Vec2 take_reference(DriftEstimator& estimator, MarkerScene& scene, int frames) {
  Vec2 mean;
  estimator.set_markers(scene.markers());
  estimator.begin_reference(frames);
  for (int frame = 0; frame < frames; ++frame) {
    estimator.update(scene.observe(frame));
    mean.x += scene.truth_nm(frame).x / frames;
    mean.y += scene.truth_nm(frame).y / frames;
  }
  return mean;
}

}  // namespace driftd::control::test
