// SPDX-License-Identifier: MIT
// A group's report to the daemon (docs/reference/protocol.md, command `stage`), and the lines
// that people read. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/process/latency_histogram.hpp"
#include "clients/stage/board.hpp"

namespace driftd::stage {

/// What does not change while the program runs.
struct Introduction {
  std::string instance;  ///< 16 hex digits, new at each start
  std::string driver;
  double max_rate_hz = 0;
  Group group = Group::Lateral;
};

/// Sums up all that the state knows in one word and the reason.
struct Standing {
  std::string_view state;  ///< as on the wire
  std::string text;        ///< empty when ready
  int error = 0;
};
/// @param waits_ns  since when the controller owes an answer; 0: it does not
Standing standing(const DriverState& state, std::int64_t waits_ns);

/// The command as one line of JSON. `ended`: the last one, this program leaves the stage where it
/// is.
std::string report_json(const Introduction& introduction, DriverState state,
                        const LatencySummary& latency, std::int64_t waits_ns, bool ended,
                        std::int64_t now_ns);

/// "41230 moves, 499.8 a second now; correction to controller p50 120 us, p99 310 us, ..."
std::string figures(DriverState state, const LatencySummary& latency, std::int64_t now_ns);

}  // namespace driftd::stage
