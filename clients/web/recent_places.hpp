// SPDX-License-Identifier: MIT
// The sample's place in each frame of the last seconds, for the spectrum and the Allan deviation.
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>

#include "clients/web/history.hpp"

namespace driftd::web {

class RecentPlaces {
 public:
  static constexpr double kSeconds = 16;
  static constexpr std::size_t kMostFrames = 16384;  ///< of fast cameras fewer seconds

  /// Frames in their order; after a gap it begins anew.
  void add(std::uint64_t frame_id, double t_s, const Pair& place_nm);
  void clear() { frames_.clear(); }
  /// The message `spectrum`; nothing with fewer than 64 frames, or with fewer than half of those
  /// there were.
  std::optional<nlohmann::json> spectrum() const;

 private:
  struct Frame {
    std::uint64_t id;
    double t_s;
    Pair nm;
  };
  std::deque<Frame> frames_;
};

}  // namespace driftd::web
