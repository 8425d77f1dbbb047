// SPDX-License-Identifier: MIT
// A MarkerKeeper with a played loop and camera, and pictures of spots for it.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/markers/marker_keeper.hpp"
#include "housekeeping_for_tests.hpp"
#include "support/catch.hpp"
#include "turned_until.hpp"

namespace driftd::daemon::test {

using Spots = std::vector<std::pair<double, double>>;
using Kind = LoopCommand::Kind;

inline constexpr std::int64_t kMs = 1'000'000;
inline constexpr int kWidth = 140;
inline constexpr int kHeight = 110;

inline const Spots kSpots = {{30.3, 25.6}, {95.8, 40.2}, {60.1, 80.7}, {25.9, 70.4}, {115.5, 81.5}};

inline Spots moved(Spots spots, double dx_px, double dy_px) {
  for (auto& [x, y] : spots) {
    x += dx_px;
    y += dy_px;
  }
  return spots;
}

/// Mono16; its first pixel is (1000, 500) of the sensor.
struct Picture {
  std::vector<std::uint16_t> values;
  camera::Frame frame;

  Picture(const Spots& spots, std::uint64_t id, double sigma_px = 1.3)
      : values(std::size_t{kWidth} * kHeight) {
    std::mt19937 generator(5);
    std::normal_distribution<double> noise(0, 8);
    for (int y = 0; y < kHeight; ++y) {
      for (int x = 0; x < kWidth; ++x) {
        double value = 200 + noise(generator);
        for (const auto& [cx, cy] : spots) {
          value += 800 * std::exp(-((x - cx) * (x - cx) + (y - cy) * (y - cy)) /
                                  (2 * sigma_px * sigma_px));
        }
        values[static_cast<std::size_t>(y) * kWidth + static_cast<std::size_t>(x)] =
            static_cast<std::uint16_t>(value);
      }
    }
    frame.pixels = reinterpret_cast<const std::byte*>(values.data());  // NOLINT(*-reinterpret-cast)
    frame.format = camera::PixelFormat::Mono16;
    frame.width_px = kWidth;
    frame.height_px = kHeight;
    frame.offset_x_px = 1000;
    frame.offset_y_px = 500;
    frame.id = id;
  }
};

struct KeeperFixture {
  config::Config config = config::default_config();
  ChosenFitter fitter{.fitter = fitter::make_cpu_live_fitter(13, 16, {}),
                      .reason = {},
                      .estimator_reason = {},
                      .saturation_adu = 65535};
  PlayedLoop played;
  PlayedCamera source;
  Told told;
  LoopControl loop{played.ports};
  CameraWatch camera{config, source, loop, told.log};
  MarkerKeeper keeper{config, fitter, camera, loop, told.log};
  MarkerKeeper* turned = &keeper;  ///< by turn()
  std::int64_t now_ns = 1000 * kMs;

  KeeperFixture() {
    config.optics.spot_sigma_px = 1.3;
    config.fitter.roi_px = 13;
    config.drift.min_markers = 3;
    config.markers.border_px = 0;
    source.described.width_px = kWidth;
    source.described.height_px = kHeight;
    source.described.offset_x_px = 1000;
    source.described.offset_y_px = 500;
    camera.look();
  }
  void turn(std::int64_t later_ms = 10) {
    now_ns += later_ms * kMs;
    played.turn();
    loop.refresh();
    turned->turn(now_ns);
  }
  void show(const Spots& spots, std::uint64_t id = 1, double sigma_px = 1.3) {
    played.ports.frame_copy.offer(Picture(spots, id, sigma_px).frame);
  }
  /// Two of the spots are clipped by a camera that saturates at that level.
  void show_clipped(std::uint16_t level, std::uint64_t id) {
    Picture picture(kSpots, id);
    for (const auto& [cx, cy] : {kSpots[0], kSpots[1]})
      for (int y = 0; y < kHeight; ++y)
        for (int x = 0; x < kWidth; ++x) {
          const double r2 = (x - cx) * (x - cx) + (y - cy) * (y - cy);
          std::uint16_t& value = picture.values[static_cast<std::size_t>(y * kWidth + x)];
          const double bright = value + 3000 * std::exp(-r2 / (2 * 1.3 * 1.3));
          value = static_cast<std::uint16_t>(std::min<double>(bright, level));
        }
    played.ports.frame_copy.offer(picture.frame);
  }
  template <typename Condition>
  bool until(Condition condition) {
    return turned_until(condition, [this] { turn(0); });
  }
  const LoopCommand* last(Kind kind) const {
    for (auto command = played.taken.rbegin(); command != played.taken.rend(); ++command) {
      if (command->kind == kind) return &*command;
    }
    return nullptr;
  }
  /// What the loop was given last.
  std::span<const control::Marker> given() const {
    return last(Kind::Markers)->markers->estimator.markers();
  }
  /// With the first markers found and measured.
  void settle() {
    turn();
    show(kSpots);
    settle_shown();
  }
  void settle_shown() {
    REQUIRE(until([&] { return keeper.has_markers(); }));
    turn();
    played.tell_markers(2, last(Kind::Markers)->markers->estimator.markers());
    turn();
  }
};

}  // namespace driftd::daemon::test
