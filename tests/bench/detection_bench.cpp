// SPDX-License-Identifier: MIT
// How much of random scenes with known truth the marker detection finds: with the default
// configuration as it stands, and with the spots' size and the ROI chosen from the image. A table
// to stdout. "found" is the share of the markers that are asked for, "wrong" that of markers found
// where there is none.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "control/search/spot_size.hpp"
#include "support/default_settings.hpp"
#include "support/detection_scenes.hpp"

namespace driftd {
namespace {

using control::DetectionSettings;
using test::DetectionScene;

struct Figures {
  int scenes = 0, sigma_right = 0, not_chosen = 0;
  std::size_t asked = 0, found = 0, detected = 0, wrong = 0;

  void add(const DetectionScene& scene, double sigma_px,
           const std::vector<control::Marker>& markers) {
    ++scenes;
    if (sigma_px == 0) ++not_chosen;
    if (std::abs(sigma_px / scene.sigma_px - 1) <= 0.1) ++sigma_right;
    const double near_px = std::max(0.5, 0.3 * scene.sigma_px);
    const auto is_near = [&](const control::Marker& m, const test::SceneMarker& truth) {
      return std::hypot(m.x_px - truth.x_px, m.y_px - truth.y_px) < near_px;
    };
    for (const test::SceneMarker& truth : scene.markers) {
      if (!truth.asked_for) continue;
      ++asked;
      if (std::any_of(markers.begin(), markers.end(),
                      [&](const auto& m) { return is_near(m, truth); }))
        ++found;
    }
    detected += markers.size();
    for (const control::Marker& m : markers)
      if (std::none_of(scene.markers.begin(), scene.markers.end(),
                       [&](const auto& truth) { return is_near(m, truth); }))
        ++wrong;
  }
  void print(const char* name) const {
    const auto percent = [](auto part, auto whole) {
      return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
    };
    std::printf("  %-14s %6d %8zu %7.1f %% %7.2f %% %9.1f %% %6d\n", name, scenes, asked,
                percent(found, asked), percent(wrong, detected), percent(sigma_right, scenes),
                not_chosen);
  }
};

constexpr std::array<double, 5> kSigmaBins = {0.8, 1.4, 2.5, 4.5, 8.0};

struct Table {
  std::array<Figures, test::kSceneKinds.size()> by_kind;
  std::array<Figures, kSigmaBins.size() - 1> by_sigma;
  Figures all;

  void add(const DetectionScene& scene, double sigma_px,
           const std::vector<control::Marker>& markers) {
    by_kind[static_cast<std::size_t>(scene.kind)].add(scene, sigma_px, markers);
    std::size_t bin = 0;
    while (bin + 1 < by_sigma.size() && scene.sigma_px >= kSigmaBins[bin + 1]) ++bin;
    by_sigma[bin].add(scene, sigma_px, markers);
    all.add(scene, sigma_px, markers);
  }
  void print(const char* title) const {
    std::printf("%s\n  %-14s %6s %8s %9s %9s %11s %6s\n", title, "", "scenes", "markers", "found",
                "wrong", "sigma right", "none");
    for (std::size_t i = 0; i < by_kind.size(); ++i) by_kind[i].print(test::kSceneKinds[i]);
    for (std::size_t i = 0; i < by_sigma.size(); ++i) {
      char name[32];
      std::snprintf(name, sizeof name, "%.1f .. %.1f px", kSigmaBins[i], kSigmaBins[i + 1]);
      by_sigma[i].print(name);
    }
    all.print("all");
  }
};

std::vector<control::Marker> markers_of(const DetectionScene& scene,
                                        const DetectionSettings& settings) {
  const auto candidates =
      control::find_candidates(scene.pixels, scene.width_px, scene.height_px, settings);
  const auto fits =
      control::fit_candidates(scene.pixels, scene.width_px, candidates, settings.roi_px, {});
  return control::judge_candidates(candidates, fits, scene.width_px, scene.height_px, 0, 0,
                                   settings)
      .markers;
}

/// Nothing is known of the spots.
DetectionSettings open_settings(DetectionSettings settings) {
  settings.expected_sigma_px = 0;
  settings.roi_px = 0;
  settings.max_sigma_px = 16;  // the default of 8 px would refuse half of the spots of 8 px
  return settings;
}

int run(int scenes, std::uint64_t seed, int shown) {
  DetectionSettings settings = test::default_detection_settings();
  settings.max_count = static_cast<int>(control::kMaxMarkers);
  settings.saturation_adu = 65535;
  test::SceneMaker maker(seed);
  Table configured;
  Table chosen;
  double seconds = 0;
  for (int i = 0; i < scenes; ++i) {
    const auto kind = static_cast<test::SceneKind>(i % static_cast<int>(test::kSceneKinds.size()));
    const DetectionScene scene = maker.scene(kind);
    configured.add(scene, settings.expected_sigma_px, markers_of(scene, settings));
    const DetectionSettings open = open_settings(settings);
    const std::clock_t begin = std::clock();
    const control::SpotSize size =
        control::choose_spot_size(scene.pixels, scene.width_px, scene.height_px, open);
    seconds += static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    const auto markers = size.chosen() ? markers_of(scene, control::settings_for(size, open))
                                       : std::vector<control::Marker>{};
    chosen.add(scene, size.sigma_px, markers);
    if (i < shown)
      std::printf("%d: %s %dx%d, %zu markers of %.2f px: %zu found; %s\n", i,
                  test::kSceneKinds[static_cast<std::size_t>(kind)], scene.width_px,
                  scene.height_px, scene.markers.size(), scene.sigma_px, markers.size(),
                  size.reason.c_str());
  }
  configured.print("as configured by default: sigma 1.3 px, ROI 13 px");
  chosen.print("chosen from the image");
  int empty = 0;
  int markers = 0;
  const int blanks = scenes / 10;
  for (int i = 0; i < blanks; ++i) {
    const auto kind = i % 2 == 0 ? test::SceneKind::Plain : test::SceneKind::Uneven;
    const DetectionScene scene = maker.scene(kind, false);
    const DetectionSettings open = open_settings(settings);
    const control::SpotSize size =
        control::choose_spot_size(scene.pixels, scene.width_px, scene.height_px, open);
    if (!size.chosen())
      ++empty;
    else
      markers += static_cast<int>(markers_of(scene, control::settings_for(size, open)).size());
  }
  std::printf(
      "without markers: nothing chosen in %d of %d scenes, %d markers found in the others\n", empty,
      blanks, markers);
  std::printf("choosing took %.0f ms of a processor a scene\n", 1000 * seconds / scenes);
  return 0;
}

}  // namespace
}  // namespace driftd

int main(int argc, char** argv) {
  CLI::App app("Marker detection on random scenes with known truth");
  int scenes = 1000;
  int shown = 0;
  std::uint64_t seed = 1;
  app.add_option("--scenes", scenes)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--seed", seed)->capture_default_str();
  app.add_option("--show", shown, "say what was chosen in the first so many");
  CLI11_PARSE(app, argc, argv);
  return driftd::run(scenes, seed, shown);
}
