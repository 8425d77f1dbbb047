// SPDX-License-Identifier: MIT
// How fast a camera's clock runs, from readings that the camera gave when it was asked: they come
// over the control channel, which no queue of frames delays. Values; one thread.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>

namespace driftd::camera {

struct alignas(8) ClockRate {  // as an atomic of its size, for every compiler
  float slow = 0;              ///< 1 - the camera's rate / the host's
  float uncertainty = std::numeric_limits<float>::infinity();  ///< of `slow`; infinite: not known
};

/// What the clock showed at some moment between the question and the answer (CLOCK_MONOTONIC).
struct ClockReading {
  double camera_ns = 0;
  std::int64_t asked_ns = 0, answered_ns = 0;
};

/// The readings of the last seconds, and the rate that they tell.
class ClockReadings {
 public:
  void clear() { readings_.clear(); }
  void add(const ClockReading& reading) {
    if (reading.answered_ns - reading.asked_ns > kLongestNs) return;
    while (!readings_.empty() && reading.asked_ns - readings_.front().asked_ns > kKeptNs)
      readings_.pop_front();
    readings_.push_back(reading);
  }
  /// From those readings, up to the last, that leave it least uncertain.
  ClockRate rate() const {
    ClockRate best;
    for (std::size_t first = 0; first + 3 <= readings_.size(); ++first) {
      const ClockRate rate = since(first);
      if (rate.uncertainty < best.uncertainty) best = rate;
    }
    return best;
  }

 private:
  /// The uncertainty is what the time from question to answer leaves open, and by how much the
  /// clock ran unevenly: it was set meanwhile, or began to run slow.
  ClockRate since(std::size_t first) const {
    const ClockReading& from = readings_[first];
    const ClockReading& middle = readings_[(first + readings_.size()) / 2];
    const ClockReading& to = readings_.back();
    const ClockRate all = between(from, to);
    const float uneven = between(from, middle).slow - between(middle, to).slow;
    return {.slow = all.slow, .uncertainty = all.uncertainty + std::abs(uneven)};
  }

  static constexpr std::int64_t kKeptNs = 8'000'000'000;
  static constexpr std::int64_t kLongestNs = 20'000'000;  // a question that got lost, or late

  static ClockRate between(const ClockReading& a, const ClockReading& b) {
    const auto a_took_ns = static_cast<double>(a.answered_ns - a.asked_ns);
    const auto b_took_ns = static_cast<double>(b.answered_ns - b.asked_ns);
    const double host_ns =
        static_cast<double>(b.asked_ns - a.asked_ns) + (b_took_ns - a_took_ns) / 2;
    return {.slow = static_cast<float>(1 - (b.camera_ns - a.camera_ns) / host_ns),
            .uncertainty = static_cast<float>((a_took_ns + b_took_ns) / 2 / host_ns)};
  }

  std::deque<ClockReading> readings_;
};

}  // namespace driftd::camera
