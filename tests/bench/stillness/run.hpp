// SPDX-License-Identifier: MIT
// One lock in one world, in virtual time: the simulator's physics, a pilot, and what became of the
// sample by truth. Deterministic: the same world, seed and law give the same bits. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/bench/stillness/observed_flight.hpp"
#include "tests/bench/stillness/world.hpp"

namespace driftd::stillness {

/// Of z, both axes are that one.
struct Flight {
  double rate_hz = 0;                             ///< of the instants
  double engaged_s = 0;                           ///< from the start to the lock
  std::array<std::vector<float>, 2> residual_nm;  ///< truth at the instants since the lock
  std::vector<bool> left_out;                     ///< which the world says not to look at
  std::vector<bool> judged;                       ///< which count: neither left out nor learning
  /// Truth's means over each millisecond after `learn_s`, whatever the world leaves out.
  std::array<std::vector<float>, 2> millisecond_nm;
  double change_nm2 = 0;   ///< mean square per frame and axis
  double normalised2 = 0;  ///< mean square of errors of the published drift over their sd
  double locked_share = 0;
  std::map<std::string, std::int64_t> frames_held;  ///< not locked, by reason
  double noise_nm = 0;                              ///< of the best mean over the markers
  double foretold_nm2 = 0;  ///< mean square that the law foretold; 0: it foretells nothing
  Learnt learnt;            ///< at the end
  double acts_s = -1;       ///< when a law first decided where the stage goes, from the start
  double acting_share = 0;  ///< from 5 s after the start on
  std::string stage_found;  ///< of it, at the end
  int alarms = 0;           ///< held for its stage, so often
  std::string alarm_looks;  ///< like what, and when, in order
  double alarm_s = -1;      ///< when it was first held for its stage, from the lock
  double driven_nm = 0;  ///< farthest from where the lock engaged, beyond what it moved by itself
  double driven_at_alarm_nm = 0;
  std::array<control::StageError, control::kAxes> stage_errors;  ///< likewise, by `auto`
};

/// The true stage differs from what was learnt, from some time of the lock on.
struct Strain {
  Learnt learnt;        ///< what the observer flies with
  double from_s = 1e9;  ///< after the lock
  double gain = 1;      ///< it moves so many times as far as it is told, from where it is
  double late_ms = 0;   ///< its dead time is so much longer
};

/// With line phases and noise by `seed`. @throws std::invalid_argument for an unknown law
Flight fly(const World& world, const std::string& law, std::uint64_t seed);
/// The same by an observer that learns nothing.
Flight fly_strained(const World& world, const std::string& law, std::uint64_t seed,
                    const Strain& strain);

}  // namespace driftd::stillness
