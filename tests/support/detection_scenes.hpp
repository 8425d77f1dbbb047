// SPDX-License-Identifier: MIT
// Random images of markers with known truth, for the detection's bench: Gaussians of any width over
// a background, photon noise, read noise and gain, hot pixels and what is out of focus. Knows
// nothing of the detection.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <random>
#include <string>
#include <vector>

namespace driftd::test {

enum class SceneKind : std::uint8_t { Plain, Dense, Weak, Uneven, Mixed };
constexpr std::array kSceneKinds = {"plain", "dense", "weak", "uneven", "dense+uneven"};

struct SceneMarker {
  double x_px, y_px, sigma_px;
  bool asked_for;  ///< five sigma and 5 px from the border: a detection has no excuse
};

struct DetectionScene {
  SceneKind kind;
  int width_px, height_px;
  double sigma_px;  ///< the markers' own differ by 2 % (sd)
  std::vector<SceneMarker> markers;
  std::vector<std::uint16_t> pixels;
};

class SceneMaker {
 public:
  explicit SceneMaker(std::uint64_t seed) : random_(seed) {}

  DetectionScene scene(SceneKind kind, bool with_markers = true) {
    constexpr std::array<std::array<int, 2>, 6> kShapes = {
        {{256, 256}, {256, 256}, {320, 200}, {180, 300}, {512, 160}, {400, 400}}};
    const auto& shape = kShapes[pick(kShapes.size())];
    DetectionScene s{kind, shape[0], shape[1], log_uniform(0.8, 8), {}, {}};
    light_.assign(static_cast<std::size_t>(s.width_px * s.height_px), log_uniform(20, 1000));
    if (kind == SceneKind::Uneven || kind == SceneKind::Mixed) add_unevenness(s);
    background_ = light_;
    if (with_markers) {
      add_markers(s);
      if (uniform(0, 1) < 0.2) add_defocused(s, uniform(0, 1) < 0.5);
    }
    expose(s);
    return s;
  }

 private:
  double uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  double log_uniform(double low, double high) {
    return std::exp(uniform(std::log(low), std::log(high)));
  }
  std::size_t pick(std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
  }
  static std::size_t place(const DetectionScene& s, int x, int y) {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(s.width_px) +
           static_cast<std::size_t>(x);
  }

  void add_gaussian(const DetectionScene& s, double x_px, double y_px, double sigma_px,
                    double height_e) {
    const double reach = 6 * sigma_px;
    const int right = std::min(s.width_px - 1, static_cast<int>(x_px + reach));
    const int bottom = std::min(s.height_px - 1, static_cast<int>(y_px + reach));
    for (int y = std::max(0, static_cast<int>(y_px - reach)); y <= bottom; ++y)
      for (int x = std::max(0, static_cast<int>(x_px - reach)); x <= right; ++x)
        light_[place(s, x, y)] +=
            height_e *
            std::exp(-(std::pow(x - x_px, 2) + std::pow(y - y_px, 2)) / (2 * sigma_px * sigma_px));
  }

  /// Light that falls off from some place, by up to three quarters, and three broad clouds.
  void add_unevenness(const DetectionScene& s) {
    const double x0 = uniform(0, s.width_px);
    const double y0 = uniform(0, s.height_px);
    const double width = uniform(0.5, 1) * std::max(s.width_px, s.height_px);
    const double level = light_[0];
    const double share = uniform(0.4, 0.75);
    for (int y = 0; y < s.height_px; ++y)
      for (int x = 0; x < s.width_px; ++x) {
        const double r2 = std::pow(x - x0, 2) + std::pow(y - y0, 2);
        light_[place(s, x, y)] *= 1 - share * (1 - std::exp(-r2 / (2 * width * width)));
      }
    for (int i = 0; i < 3; ++i)
      add_gaussian(s, uniform(0, s.width_px), uniform(0, s.height_px),
                   std::max(30.0, 5 * s.sigma_px) * uniform(1, 2), uniform(0.1, 0.4) * level);
  }

  void add_markers(DetectionScene& s) {
    const bool dense = s.kind == SceneKind::Dense || s.kind == SceneKind::Mixed;
    const double apart_px = (dense ? uniform(5.5, 8) : 12) * s.sigma_px;
    const double snr = s.kind == SceneKind::Weak ? log_uniform(14, 25) : log_uniform(25, 200);
    const auto wanted = static_cast<std::size_t>(log_uniform(3, 101));
    std::normal_distribution<double> normal;
    // A dense field is as full as its distances allow, or nearly.
    for (int tries = 0; tries < 4000 && s.markers.size() < wanted; ++tries) {
      const bool near = dense && !s.markers.empty();
      SceneMarker m{uniform(0, s.width_px - 1), uniform(0, s.height_px - 1), 0, false};
      if (near) {
        const SceneMarker& other = s.markers[pick(s.markers.size())];
        m.x_px = other.x_px + uniform(-1.5, 1.5) * apart_px;
        m.y_px = other.y_px + uniform(-1.5, 1.5) * apart_px;
      }
      const double border_px = std::min(std::min(m.x_px, s.width_px - 1 - m.x_px),
                                        std::min(m.y_px, s.height_px - 1 - m.y_px));
      if (border_px < 0 || std::any_of(s.markers.begin(), s.markers.end(), [&](const auto& other) {
            return std::hypot(other.x_px - m.x_px, other.y_px - m.y_px) < apart_px;
          }))
        continue;
      m.sigma_px = s.sigma_px * std::exp(0.02 * normal(random_));
      m.asked_for = border_px >= 5 * s.sigma_px + 5;
      s.markers.push_back(m);
    }
    for (const SceneMarker& m : s.markers) {
      const double background_e =
          background_[place(s, static_cast<int>(m.x_px), static_cast<int>(m.y_px))];
      add_gaussian(s, m.x_px, m.y_px, m.sigma_px,
                   snr * uniform(0.9, 1.8) * std::sqrt(background_e + kReadNoise * kReadNoise));
    }
  }

  /// Something far out of focus, a disk or a ring, away from the markers.
  void add_defocused(const DetectionScene& s, bool ring) {
    const double sigma_px = uniform(3, 4) * s.sigma_px;
    for (int tries = 0; tries < 100; ++tries) {
      const double x = uniform(0, s.width_px);
      const double y = uniform(0, s.height_px);
      if (std::any_of(s.markers.begin(), s.markers.end(), [&](const SceneMarker& m) {
            return std::hypot(m.x_px - x, m.y_px - y) < 3 * sigma_px + 5 * s.sigma_px;
          }))
        continue;
      const double height_e = uniform(20, 100) * std::sqrt(light_[0]);
      if (!ring) return add_gaussian(s, x, y, sigma_px, height_e);
      constexpr int kPieces = 24;
      for (int i = 0; i < kPieces; ++i) {
        const double angle = 2 * std::numbers::pi * i / kPieces;
        add_gaussian(s, x + sigma_px * std::cos(angle), y + sigma_px * std::sin(angle),
                     0.8 * s.sigma_px, 0.3 * height_e);
      }
      return;
    }
  }

  /// Electrons become counts; a few pixels are hot.
  void expose(DetectionScene& s) {
    const double gain_e_per_adu = log_uniform(0.3, 3);
    std::normal_distribution<double> normal;
    s.pixels.resize(light_.size());
    for (std::size_t i = 0; i < light_.size(); ++i) {
      const double e = light_[i] + std::sqrt(light_[i] + kReadNoise * kReadNoise) * normal(random_);
      s.pixels[i] = static_cast<std::uint16_t>(
          std::clamp(std::round(100 + e / gain_e_per_adu), 0.0, 65535.0));
    }
    const std::size_t hot = pick(6);
    for (std::size_t i = 0; i < hot; ++i) {
      const std::size_t at = pick(light_.size());
      const double more = log_uniform(20, 200) * std::sqrt(light_[at]) / gain_e_per_adu;
      s.pixels[at] = static_cast<std::uint16_t>(std::min(65535.0, s.pixels[at] + more));
    }
  }

  static constexpr double kReadNoise = 3;
  std::mt19937_64 random_;
  std::vector<double> light_, background_;  // electrons
};

}  // namespace driftd::test
