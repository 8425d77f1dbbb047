// SPDX-License-Identifier: MIT
// Keys of earlier versions, and what to do where a file still has them.
#include "config/options.hpp"

namespace driftd::config {

std::span<const RemovedKey> removed_keys() {
  static constexpr RemovedKey kRemoved[] = {
      {"camera.buffers", "there are always 16; delete this line"},
      {"camera.frame_retention_us", "it is always 10000 us; delete this line"},
      {"camera.packet_timeout_us", "it is always 1000 us; delete this line"},
      {"camera.reconnect_max_ms", "it is always 5000 ms; delete this line"},
      {"camera.reconnect_min_ms", "it is always 200 ms; delete this line"},
      {"fitter.max_iterations", "it is always 20; delete this line"},
      {"fitter.min_decrease", "it is always 1e-6; delete this line"},
      {"fitter.min_step", "it is always 1e-4; delete this line"},
      {"fitter.warm_start", "fits always start from the last result; delete this line"},
      {"lock.good_frames_to_resume", "it is always 5; delete this line"},
      {"markers.find_interval_ms", "it is always 1000 ms; delete this line"},
      {"markers.max_residual_ratio", "it is always 3; delete this line"},
      {"markers.min_sigma_px",
       "it is 0.6 px, or 0.8 times optics.spot_sigma_px where that is less; delete this line"},
      {"markers.roi_hysteresis_px", "it is always 1 px; delete this line"},
      {"realtime.loop_priority", "write it as realtime.priority"},
      {"realtime.publisher_priority",
       "it is 5 less than realtime.priority, the tracking loop's; delete this line"},
      {"realtime.stream_priority",
       "it is 5 more than realtime.priority, the tracking loop's; delete this line"},
      {"wire.send_queue_messages", "it is always 1000; delete this line"},
  };
  return kRemoved;
}

}  // namespace driftd::config
