// SPDX-License-Identifier: MIT
#include "clients/demo/stalls.hpp"

#include <algorithm>

namespace driftd::clients {
namespace {

constexpr auto kNotJudged_ns = static_cast<std::int64_t>(kSettling_s * 1e9);

}  // namespace

std::vector<Stall> stalls_of(const Recording& recording, std::int64_t from_ns, std::int64_t to_ns,
                             double frame_age_ms) {
  const auto most_ns = static_cast<std::int64_t>(frame_age_ms * 1e6);
  std::vector<Stall> stalls;
  std::int64_t in_time_ns = from_ns;
  bool late = false;
  const auto end_at = [&](std::int64_t time_ns) {
    if (late || time_ns - in_time_ns > most_ns) stalls.push_back({in_time_ns, time_ns});
  };
  for (const TrueFrame& frame : recording.truth()) {
    if (frame.time_ns < from_ns || frame.time_ns >= to_ns) continue;
    const PublishedPosition* position = recording.position_of(frame);
    if (position == nullptr) continue;
    if (position->arrival_ns - frame.time_ns > most_ns) {
      late = true;
      continue;
    }
    end_at(frame.time_ns);
    in_time_ns = frame.time_ns;
    late = false;
  }
  end_at(to_ns);
  return stalls;
}

bool is_disturbed(const std::vector<Stall>& stalls, std::int64_t time_ns) {
  const auto after = std::partition_point(stalls.begin(), stalls.end(), [&](const Stall& stall) {
    return stall.to_ns + kNotJudged_ns <= time_ns;
  });
  return after != stalls.end() && time_ns > after->from_ns;
}

double total_s(const std::vector<Stall>& stalls) {
  double sum_s = 0;
  for (const Stall& stall : stalls)
    sum_s += static_cast<double>(stall.to_ns - stall.from_ns) * 1e-9;
  return sum_s;
}

}  // namespace driftd::clients
