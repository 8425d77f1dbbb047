// SPDX-License-Identifier: MIT
// A camera, its clock and the link between it and the host, for the tests of CameraClock.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <utility>

#include "camera/clock_rate.hpp"
#include "daemon/loop/camera_clock.hpp"

namespace driftd::daemon::test {

constexpr double kMillisecond = 1e6;
constexpr double kSecond = 1e9;
constexpr double kFresh = 50 * kMillisecond;  // an age that a lock would allow
/// The smallest delay stands for none, and 2 ms, scatter aside, is no step.
constexpr double kAccuracy = 3 * kMillisecond;

/// Exposures at a rate, a link that may hold frames up, and a clock that may do anything.
/// Everything in ns of real time but what camera_time() makes of it.
class World {
 public:
  explicit World(double rate_hz, std::uint64_t seed = 1)
      : period_ns(kSecond / rate_hz), random_(seed) {}

  struct Seen {
    std::uint64_t id;
    std::int64_t camera_ns, arrival_ns;
    double delay_ns;  ///< the truth
  };

  /// The next frame that the link does not lose.
  Seen next() {
    while (true) {
      exposed_ns += period_ns * (1 + spacing_spread * (2 * uniform() - 1));
      ++id;
      const double scatter_ns = 0.05 * kMillisecond + jitter_ns * -std::log(1 - uniform());
      const double free_ns = std::max(last_arrival_ns_ + service_ns, held_until_ns);
      const double arrival_ns = std::max(exposed_ns + kLatencyNs + scatter_ns, free_ns);
      // A full queue loses the newest.
      if (arrival_ns - exposed_ns > queue_ns && arrival_ns == last_arrival_ns_ + service_ns)
        continue;
      last_arrival_ns_ = arrival_ns;
      const double jump_ns = std::exchange(jump_next_ns, 0.0);
      return {id, static_cast<std::int64_t>(camera_time(exposed_ns) + jump_ns) + zero_ns,
              static_cast<std::int64_t>(arrival_ns) + kHostZeroNs,
              arrival_ns - exposed_ns - kLatencyNs};
    }
  }
  /// What the camera answers, within 2 ms, when it is asked for its time.
  camera::ClockReading latch(std::int64_t asked_ns) {
    const double took_ns = between(0.1, 2) * kMillisecond;
    const double latched_ns = static_cast<double>(asked_ns - kHostZeroNs) + uniform() * took_ns;
    return {camera_time(latched_ns) * latch_unit, asked_ns,
            asked_ns + static_cast<std::int64_t>(took_ns)};
  }
  /// Without std::uniform_real_distribution, which takes longer than all the rest where it is not
  /// optimised.
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  double between(double low, double high) { return low + (high - low) * uniform(); }
  void hold(double seconds) { held_until_ns = exposed_ns + seconds * kSecond; }

  double period_ns;  ///< may be changed
  double exposed_ns = 0;
  std::uint64_t id = 0;
  double spacing_spread = 0;
  double jitter_ns = 0.1 * kMillisecond;
  double service_ns = 0.01 * kMillisecond;
  double held_until_ns = 0;
  double queue_ns = 1e15;
  double jump_next_ns = 0;
  std::int64_t zero_ns = -123'456'789'000;
  double latch_unit = 1;  ///< of its answer, in those of its frames
  std::function<double(double)> camera_time = [](double t) { return t; };

 private:
  static constexpr std::int64_t kHostZeroNs = 7'000'000'000'000;
  static constexpr double kLatencyNs = 1.3 * kMillisecond;
  std::mt19937_64 random_;
  double last_arrival_ns_ = 0;
};

/// Runs the world for a while. What a lock would suffer from is counted.
struct Watch {
  CameraClock clock;
  double worst_error_ns = 0;  ///< while trusted
  double untrusted_ns = 0;    ///< since the last reset
  int stale_taken_for_fresh = 0;
  int fresh_taken_for_stale = 0;
  double last_delay_ns = 0;
  double first_stale_ns = 0;  ///< as the clock says
  int lose_of = 0;            ///< every so many frames one never comes; 0: none
  bool asks = false;          ///< the camera, when the clock wants that

  void run(World& world, double seconds) {
    const double end_ns = world.exposed_ns + seconds * kSecond;
    while (world.exposed_ns < end_ns) {
      const double before_ns = world.exposed_ns;
      const World::Seen seen = world.next();
      if (lose_of > 0 && seen.id % static_cast<std::uint64_t>(lose_of) == 0) continue;
      if (asks) ask(world, seen.arrival_ns);
      last_delay_ns = static_cast<double>(clock.delay_ns(seen.id, seen.camera_ns, seen.arrival_ns));
      if (clock.trust() == ClockTrust::Trusted)
        worst_error_ns = std::max(worst_error_ns, std::abs(last_delay_ns - seen.delay_ns));
      else
        untrusted_ns += world.exposed_ns - before_ns;
      if (last_delay_ns > kFresh && first_stale_ns == 0) first_stale_ns = world.exposed_ns;
      if (seen.delay_ns > kFresh && last_delay_ns < kFresh - kAccuracy) ++stale_taken_for_fresh;
      if (seen.delay_ns < kFresh - kAccuracy && last_delay_ns > kFresh) ++fresh_taken_for_stale;
    }
  }

 private:
  void ask(World& world, std::int64_t now_ns) {
    if (clock.wants_rate()) wanted_until_ns_ = now_ns + 2'000'000'000;
    if (now_ns > wanted_until_ns_) {
      readings_.clear();
    } else if (now_ns >= next_ns_) {
      next_ns_ = now_ns + 250'000'000;
      readings_.add(world.latch(now_ns - 2'000'000));
    }
    clock.set_rate(readings_.rate());
  }

  camera::ClockReadings readings_;
  std::int64_t wanted_until_ns_ = 0, next_ns_ = 0;
};

}  // namespace driftd::daemon::test
