// SPDX-License-Identifier: MIT
// What came in during the demo, kept for the report: the simulator's truth of every frame, and the
// daemon's positions and corrections. Truth and positions are of the same frame when their
// camera_time_ns is the same: it never repeats, while a frame id is 16 bits and starts again with
// the camera. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "clients/common/subscriber.hpp"

namespace driftd::clients {

constexpr std::size_t kX = 0;
constexpr std::size_t kY = 1;
using PerAxis = std::array<double, 2>;

/// The truth of one frame. All of it is the simulator's own; no measurement is in it.
struct TrueFrame {
  std::int64_t camera_time_ns = 0;
  std::int64_t time_ns = 0;  ///< of the exposure, CLOCK_MONOTONIC
  PerAxis sample_nm{};       ///< displacement that the image shows
  PerAxis disturbance_nm{};  ///< displacement it would show had the stage never moved
  bool sent = false;         ///< it left the camera (nobody streams, or a fault: it does not)
  double sample_z_nm = 0, disturbance_z_nm = 0;  ///< the same, up
};

struct PublishedPosition {
  std::int64_t camera_time_ns = 0;
  std::int64_t arrival_ns = 0;
  std::string state;
  std::string z_state;  ///< of the lock of z; empty without one
};

struct PublishedCorrection {
  std::int64_t sent_ns = 0;
  PerAxis delta_nm{};
};

class Recording {
 public:
  /// Keeps what is of interest. @throws nlohmann::json::exception when a field is missing
  void add(const Message& message);

  void add(const TrueFrame& frame) { truth_.push_back(frame); }
  void add(const PublishedPosition& position);
  void add(const PublishedCorrection& correction) { corrections_.push_back(correction); }
  /// One of z; y is 0.
  void add_axial(const PublishedCorrection& correction) {
    axial_corrections_.push_back(correction);
  }

  const std::vector<TrueFrame>& truth() const noexcept { return truth_; }
  const std::vector<PublishedPosition>& positions() const noexcept { return positions_; }
  const std::vector<PublishedCorrection>& corrections() const noexcept { return corrections_; }
  /// The daemon's position of this frame; null when it published none.
  const PublishedPosition* position_of(const TrueFrame& frame) const;
  /// The same of z, in place of x; y is 0.
  Recording axial() const;
  /// Messages that were sent and did not reach this recording.
  std::uint64_t missed() const noexcept { return missed_; }

 private:
  std::vector<TrueFrame> truth_;
  std::vector<PublishedPosition> positions_;
  std::vector<PublishedCorrection> corrections_, axial_corrections_;
  std::unordered_map<std::int64_t, std::size_t> position_by_camera_time_;
  std::uint64_t missed_ = 0;
};

}  // namespace driftd::clients
