// SPDX-License-Identifier: MIT
// Real beads and particles: found in every frame, at the places of the reference fits; and followed
// from frame to frame through tracker and estimator, with the drift of the reference traces.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "control/drift/drift_estimator.hpp"
#include "control/drift/roi_tracker.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"
#include "support/test_data.hpp"
#include "unit/control/detection_images.hpp"

namespace driftd::control {
namespace {

struct Recording {
  std::filesystem::path stack, fits, drift;
  int first_page = 0, last_page = 0;
  double pixel_nm = 0;
  DetectionSettings detection;
};

/// 200 nm beads, u8, out of focus towards slice 19: sigma 1.5 .. 3.1 px.
Recording beads(const std::filesystem::path& folder) {
  Recording r{folder / "psfextractor_zstack/zstack_34x512x512_u8.tif",
              folder / "ref_zstack_fits.csv",
              folder / "ref_zstack_drift.csv",
              15,
              19,
              108,
              driftd::test::default_detection_settings()};
  r.detection.expected_sigma_px = 2;
  r.detection.saturation_adu = 255;
  r.detection.max_count = 64;
  return r;
}

/// Stuck particles, u16, peak 53 on 500 with noise 4.9: SNR about 11, half of them below 10.
Recording particles(const std::filesystem::path& folder) {
  Recording r{folder / "trackpy_stuck/stuck.tif",
              folder / "ref_stuck_fits.csv",
              folder / "ref_stuck_drift.csv",
              0,
              4,
              100,
              driftd::test::default_detection_settings()};
  r.detection.expected_sigma_px = 1.1;
  r.detection.roi_px = 9;
  r.detection.min_snr = 6;
  r.detection.max_count = 64;
  return r;
}

/// Rows of numbers of a CSV file with one header line; empty or worded fields read as 0.
std::vector<std::vector<double>> read_csv(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line, field;
  std::getline(in, line);
  std::vector<std::vector<double>> rows;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    rows.emplace_back();
    while (std::getline(fields, field, ',')) rows.back().push_back(std::atof(field.c_str()));
  }
  return rows;
}

/// Reference fits of one page that are marked ok: columns marker, frame, roi x, y, w, x, y, ...
std::vector<Vec2> reference_places(const Recording& recording, int page) {
  std::vector<Vec2> places;
  for (const std::vector<double>& row : read_csv(recording.fits))
    if (static_cast<int>(row[1]) == page && row[15] == 1) places.push_back({row[5], row[6]});
  return places;
}

double nearest(const std::vector<Marker>& markers, Vec2 place) {
  double best = 1e9;
  for (const Marker& m : markers)
    best = std::min(best, std::hypot(m.x_px - place.x, m.y_px - place.y));
  return best;
}

void check_found(const Recording& recording, int page, double share, double agree_px) {
  const DetectionResult found =
      test::detect(test::read_page(recording.stack, page), recording.detection);
  const std::vector<Vec2> places = reference_places(recording, page);
  REQUIRE(places.size() >= 30);
  int matched = 0;
  double worst_px = 0;
  for (const Vec2& place : places) {
    const double distance_px = nearest(found.markers, place);
    if (distance_px > 1) continue;
    ++matched;
    worst_px = std::max(worst_px, distance_px);
  }
  INFO(recording.stack << " page " << page << ": " << found.markers.size() << " markers, "
                       << matched << " of " << places.size() << " reference spots, at most "
                       << worst_px << " px off");
  CHECK(matched >= share * static_cast<double>(places.size()));
  CHECK(worst_px < agree_px);
}

TEST_CASE("the beads of a real z-stack are found where the reference fits have them") {
  const auto folder = driftd::test::test_data();
  if (!folder) return;
  const Recording recording = beads(*folder);
  // One bead of slice 18 lies just beyond the limit on the shape. Where the ROI is not the
  // reference's, rings that a Gaussian does not describe move the fit: 0.02 px measured.
  for (const int page : {15, 16, 17, 18}) check_found(recording, page, 0.95, 0.05);
  // 3 px wide and ringed: a quarter is refused for the shape; 0.14 px measured.
  check_found(recording, 19, 0.6, 0.3);
}

TEST_CASE("weak particles at ten times the noise are found where the reference fits have them") {
  const auto folder = driftd::test::test_data();
  if (!folder) return;
  const Recording recording = particles(*folder);
  for (int page = 0; page <= 4; ++page) check_found(recording, page, 0.9, 0.05);
}

/// Detects on the first page, then follows the markers as the daemon does; drift in px per page.
std::vector<Vec2> follow(const Recording& recording) {
  const int roi_px = recording.detection.roi_px;
  const std::vector<Marker> markers =
      test::detect(test::read_page(recording.stack, recording.first_page), recording.detection)
          .markers;
  EstimatorSettings settings = driftd::test::default_estimator_settings();
  settings.pixel_size_nm = recording.pixel_nm;
  DriftEstimator estimator(settings);
  estimator.set_markers(markers);
  RoiTracker tracker(roi_px, 1);
  tracker.set_markers(markers);
  std::vector<Vec2> drift_px;
  for (int page = recording.first_page; page <= recording.last_page; ++page) {
    const test::Picture picture = test::read_page(recording.stack, page);
    std::vector<Candidate> rois;
    for (std::size_t i = 0; i < markers.size(); ++i) {
      const RoiOrigin o = tracker.origin(i);
      rois.push_back({.x_px = 0, .y_px = 0, .roi_x_px = o.x_px, .roi_y_px = o.y_px});
    }
    const auto fits = test::fit_candidates(picture, rois, recording.detection);
    std::vector<MarkerObservation> observations;
    for (std::size_t i = 0; i < markers.size(); ++i)
      observations.push_back({.fitted = fitter::converged(fits[i].status),
                              .inside_frame = true,
                              .x_px = rois[i].roi_x_px + static_cast<double>(fits[i].x_px),
                              .y_px = rois[i].roi_y_px + static_cast<double>(fits[i].y_px),
                              .x_sd_px = fits[i].x_sd_px,
                              .y_sd_px = fits[i].y_sd_px,
                              .sigma_px = fits[i].sigma_x_px,
                              .amplitude_adu = fits[i].amplitude_adu,
                              .background_adu = fits[i].background_adu});
    const DriftEstimate& e = estimator.update(observations);
    INFO("page " << page << ": " << e.markers_used << " of " << e.markers_total << " used");
    REQUIRE(e.valid);
    CHECK(e.markers_used >= e.markers_total / 2);
    drift_px.push_back({e.drift_nm.x / recording.pixel_nm, e.drift_nm.y / recording.pixel_nm});
    tracker.follow(observations, estimator.results(), estimator.reference_px(), drift_px.back());
  }
  return drift_px;
}

void check_drift(const Recording& recording, double agree_px) {
  const std::vector<Vec2> drift_px = follow(recording);
  std::vector<Vec2> expected_px;
  for (const std::vector<double>& row : read_csv(recording.drift))
    if (row[0] >= recording.first_page && row[0] <= recording.last_page)
      expected_px.push_back({row[2], row[3]});
  REQUIRE(expected_px.size() == drift_px.size());
  for (std::size_t i = 0; i < drift_px.size(); ++i) {
    const Vec2 step{drift_px[i].x - drift_px[0].x, drift_px[i].y - drift_px[0].y};
    const Vec2 expected{expected_px[i].x - expected_px[0].x, expected_px[i].y - expected_px[0].y};
    INFO("frame " << i << ": " << step.x << ' ' << step.y << " px, expected " << expected.x << ' '
                  << expected.y);
    CHECK(std::hypot(step.x - expected.x, step.y - expected.y) < agree_px);
  }
}

TEST_CASE("the drift of the real z-stack is that of the reference trace to 0.1 px") {
  const auto folder = driftd::test::test_data();
  if (folder) check_drift(beads(*folder), 0.1);
}

TEST_CASE("stuck particles do not drift") {
  const auto folder = driftd::test::test_data();
  if (folder) check_drift(particles(*folder), 0.1);
}

}  // namespace
}  // namespace driftd::control
