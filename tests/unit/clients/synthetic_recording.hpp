// SPDX-License-Identifier: MIT
// A demo that went well, made by hand, for the tests of the report and the plot: 100 frames a
// second for 30 s. Unlocked the sample drifts by 10 nm/s in x and -8 nm/s in y. Referencing from 10
// s to 10.2 s, then locked with a residual that jumps between +kResidual_nm and -kResidual_nm from
// frame to frame, so that its rms is kResidual_nm. The camera is away from 20 s to 22 s; locked
// again at 22.5 s. z of deep() drifts by 6 nm/s, and is locked as x and y are, with twice the
// residual.
#pragma once

#include <cmath>
#include <functional>

#include "clients/demo/report.hpp"

namespace driftd::test {

constexpr std::int64_t kStart_ns = 5'000'000'000'000;
constexpr double kResidual_nm = 0.5;
constexpr clients::Expected kExpected{
    .rate_hz = 100, .frame_age_ms = 50, .step_limit_nm = 20, .z_step_limit_nm = {}};

inline std::int64_t at(double seconds) {
  return kStart_ns + static_cast<std::int64_t>(std::llround(seconds * 1e9));
}

inline clients::Phases phases() {
  return {.unlocked_ns = at(0),
          .lock_ns = at(10),
          .fault_ns = at(20),
          .fault_end_ns = at(22),
          .end_ns = at(30)};
}

/// One frame; `state` empty: no position was published for it.
struct MadeFrame {
  double t_s = 0;
  clients::TrueFrame truth;
  std::string state, z_state;
  double late_s = 0;  ///< how long it took to the daemon
};

/// A change of make_recording(): z is held, too.
inline void deep(MadeFrame& frame) {
  frame.z_state = frame.state;
  frame.truth.disturbance_z_nm = 6 * frame.t_s;
  const bool even = std::llround(frame.t_s * 100) % 2 == 0;
  frame.truth.sample_z_nm = frame.state == "locked" ? 6 * 10.095 + (even ? 2 : -2) * kResidual_nm
                                                    : frame.truth.disturbance_z_nm;
}

/// `change` may alter any frame before it is recorded.
inline clients::Recording make_recording(const std::function<void(MadeFrame&)>& change = {}) {
  clients::Recording recording;
  for (int i = 0; i < 3000; ++i) {
    MadeFrame frame;
    const double t_s = frame.t_s = i / 100.0;
    frame.truth.camera_time_ns = 1'000'000 + i * 10'000'000LL;
    frame.truth.time_ns = at(t_s);
    frame.truth.disturbance_nm = {10 * t_s, -8 * t_s};
    frame.truth.sent = t_s < 20 || t_s >= 22;
    frame.truth.sample_nm = frame.truth.disturbance_nm;
    frame.state = t_s < 10     ? "idle"
                  : t_s < 10.2 ? "referencing"
                  : t_s < 22.5 ? "holding"
                               : "locked";
    if (!frame.truth.sent) frame.state.clear();
    if (t_s >= 10.2 && (t_s < 20 || t_s >= 22.5)) {
      frame.state = "locked";
      const double residual_nm = i % 2 == 0 ? kResidual_nm : -kResidual_nm;
      // The mean of the reference frames, at 10.00, 10.01, ... 10.19 s, is at 10.095 s.
      frame.truth.sample_nm = {10 * 10.095 + residual_nm, -8 * 10.095 - residual_nm};
    }
    if (change) change(frame);
    recording.add(frame.truth);
    if (frame.state.empty()) continue;
    const std::int64_t arrival_ns =
        frame.truth.time_ns + static_cast<std::int64_t>(std::llround(frame.late_s * 1e9));
    recording.add(clients::PublishedPosition{frame.truth.camera_time_ns, arrival_ns, frame.state,
                                             frame.z_state});
    if (frame.z_state == "locked")
      recording.add_axial(clients::PublishedCorrection{frame.truth.time_ns, {-0.2, 0}});
    if (frame.state == "locked") {
      recording.add(clients::PublishedCorrection{frame.truth.time_ns, {0.1, -0.1}});
    }
  }
  return recording;
}

inline nlohmann::json status() {
  return {
      {"fitter", {{"backend", "cpu"}}},
      {"latency_us",
       {{"total", {{"n", 3000}, {"p50", 41.0}, {"p99", 66.0}, {"p99_9", 120.0}, {"max", 240.0}}}}}};
}

}  // namespace driftd::test
