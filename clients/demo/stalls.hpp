// SPDX-License-Identifier: MIT
// When the computer was too busy for the simulated microscope: a real camera and a real stage do
// not wait for a processor, those of the demo do. Pure functions of the recording.
#pragma once

#include <cstdint>
#include <vector>

#include "clients/demo/recording.hpp"

namespace driftd::clients {

/// After the lock engages, after the fault and after a stall, this long is not judged: the loop
/// first has to catch up with the drift that it finds.
constexpr double kSettling_s = 1.0;

/// No frame reached the daemon in time from one to the other, both of CLOCK_MONOTONIC.
struct Stall {
  std::int64_t from_ns = 0, to_ns = 0;
};

/// In order of time; none overlap. A frame is late that was taken for more than `frame_age_ms` when
/// it arrived, and as long as no frame is in time, that is a stall.
std::vector<Stall> stalls_of(const Recording& recording, std::int64_t from_ns, std::int64_t to_ns,
                             double frame_age_ms);

/// Whether that time lies in a stall, or within kSettling_s after one.
bool is_disturbed(const std::vector<Stall>& stalls, std::int64_t time_ns);

double total_s(const std::vector<Stall>& stalls);

}  // namespace driftd::clients
