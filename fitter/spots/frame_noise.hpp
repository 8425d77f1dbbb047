// SPDX-License-Identifier: MIT
// The noise of a frame by the differences of its neighbours, for a group of threads that share
// memory: medians by counting digits, so that whatever the threads, the bits are those of
// spot_search.cpp. Host and device.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>

#include "fitter/host_device.hpp"
#include "fitter/spots/frame_shape.hpp"
#include "fitter/spots/spot_at.hpp"

namespace driftd::fitter {

/// Median of |N(0, 1)|: turns a median absolute difference into a standard deviation.
constexpr double kMadOfNormal = 0.6744897501960817;
constexpr double kMadOfDifferences = kMadOfNormal * std::numbers::sqrt2;
/// Rounding to whole counts has this standard deviation (1 / sqrt 12).
constexpr double kQuantisationNoise = 0.28867513459481287;
/// Enough differences of neighbours for a median good to 1 %.
constexpr std::size_t kNoiseSamples = 16384;
/// Where more neighbours are equal, and those that differ do so by more than a count, most are not
/// equal by chance: a background was cut off at 0, or a part of the chip is masked.
constexpr double kMostEqual = 0.3;
/// In white noise the middle one of three neighbours that differ is the largest or the smallest
/// twice in three times; without noise it is so once in the width of a spot.
constexpr double kLeastTurns = 0.4;
constexpr std::size_t kFewestTurns = 20;
/// A count that was multiplied by a gain is a little more at times.
constexpr double kAlmost = 1.5;

/// Memory that the threads of a group share.
struct NoiseMemory {
  static constexpr int kDigits = 256;
  std::uint32_t counts[kDigits];
  std::uint32_t tallies[4];
};

/// @tparam Group  rank() of size() threads; sync(); add(to, value) to a number that they share
template <class Group>
class FrameNoise {
 public:
  DRIFTD_HD FrameNoise(Group& group, NoiseMemory& memory) : group_(group), memory_(memory) {}

  /// Standard deviation of a pixel's noise; the same to all threads, which all have to call.
  /// @param least  of float pixels
  template <class Pixel>
  DRIFTD_HD double of(const FrameShape& shape, const Pixel* frame, double least) {
    constexpr bool kIsWhole = std::numeric_limits<Pixel>::is_integer;
    constexpr int kBits = kIsWhole ? 16 : 32;
    const std::size_t pixels = shape.pixels();
    const std::size_t stride = pixels / kNoiseSamples > 1 ? pixels / kNoiseSamples : 1;
    const auto for_each = [&](const auto& action) {
      for (std::size_t i = group_.rank() * stride; i + 1 < pixels; i += group_.size() * stride) {
        const Pixel a = frame[i], b = frame[i + 1];
        const auto difference = static_cast<Pixel>(a < b ? b - a : a - b);
        if (kIsWhole || is_finite(static_cast<float>(difference))) action(key_of(difference));
      }
    };
    std::uint32_t sums[4] = {};
    for_each([&](std::uint32_t key) {
      ++sums[0];
      sums[1] += key == 0 ? 1 : 0;
    });
    tally(sums);
    const std::uint32_t all = sums[0], equal = sums[1];
    if (all == 0) return least;
    double middle = value_of<Pixel>(in_order<kBits>(all / 2, for_each));
    // Differences of one count are those of little noise.
    const double count = kIsWhole ? 1 : least / kQuantisationNoise;
    const bool many_equal = static_cast<double>(equal) > kMostEqual * static_cast<double>(all);
    if (many_equal &&
        (equal == all ||
         value_of<Pixel>(in_order<kBits>(equal + (all - equal) / 2, for_each)) > kAlmost * count)) {
      const double different = where_different(shape, frame);
      if (different > kAlmost * count) middle = different;
    }
    const double sd = middle / kMadOfDifferences;
    const double floor = kIsWhole ? kQuantisationNoise : least;
    return sd < floor ? floor : sd;
  }

 private:
  DRIFTD_HD static std::uint32_t key_of(float difference) {
    return std::bit_cast<std::uint32_t>(difference) &
           0x7fffffffu;  // the order of those not below 0
  }
  DRIFTD_HD static std::uint32_t key_of(std::uint16_t difference) { return difference; }
  DRIFTD_HD static std::uint32_t key_of(std::uint8_t difference) { return difference; }
  template <class Pixel>
  DRIFTD_HD static double value_of(std::uint32_t key) {
    if constexpr (std::numeric_limits<Pixel>::is_integer) return static_cast<double>(key);
    return static_cast<double>(std::bit_cast<float>(key));
  }

  /// Every thread's added up, in place.
  DRIFTD_HD void tally(std::uint32_t (&sums)[4]) {
    group_.sync();
    for (std::size_t i = group_.rank(); i < 4; i += group_.size()) memory_.tallies[i] = 0;
    group_.sync();
    for (int i = 0; i < 4; ++i)
      if (sums[i] != 0) group_.add(memory_.tallies[i], sums[i]);
    group_.sync();
    for (int i = 0; i < 4; ++i) sums[i] = memory_.tallies[i];
  }

  /// The key that comes after `rank` others in their order.
  template <int kBits, class ForEach>
  DRIFTD_HD std::uint32_t in_order(std::uint32_t rank, const ForEach& for_each) {
    std::uint32_t found = 0;
    for (int shift = kBits - 8; shift >= 0; shift -= 8) {
      group_.sync();
      for (std::size_t i = group_.rank(); i < NoiseMemory::kDigits; i += group_.size())
        memory_.counts[i] = 0;
      group_.sync();
      for_each([&](std::uint32_t key) {
        if (shift == kBits - 8 || key >> (shift + 8) == found)
          group_.add(memory_.counts[key >> shift & 255u], 1);
      });
      group_.sync();
      std::uint32_t digit = 0;
      while (rank >= memory_.counts[digit]) rank -= memory_.counts[digit++];
      found = found << 8 | digit;
    }
    return found;
  }

  /// The median difference of horizontal neighbours that differ; 0 where these are few, or are the
  /// flanks of spots in an image without noise.
  template <class Pixel>
  DRIFTD_HD double where_different(const FrameShape& shape, const Pixel* frame) {
    const auto width = static_cast<std::size_t>(shape.width_px);
    const std::size_t pixels = shape.pixels();
    const auto step = [&](std::size_t i) {
      return static_cast<float>(frame[i]) - static_cast<float>(frame[i - 1]);
    };
    const auto for_each = [&](const auto& action) {
      for (std::size_t i = group_.rank(); i < pixels; i += group_.size()) {
        if (i % width == 0) continue;
        const float here = step(i);
        if (here != 0 && is_finite(here)) action(key_of(here));
      }
    };
    std::uint32_t sums[4] = {};  // of those that differ, triples of them, turns of these
    for (std::size_t i = group_.rank(); i < pixels; i += group_.size()) {
      if (i % width == 0) continue;
      const float here = step(i);
      if (here == 0 || !is_finite(here)) continue;
      ++sums[0];
      const float before = i % width > 1 ? step(i - 1) : 0;
      if (before == 0 || !is_finite(before)) continue;
      ++sums[1];
      sums[2] += (before > 0) != (here > 0) ? 1 : 0;
    }
    tally(sums);
    if (sums[1] < kFewestTurns ||
        static_cast<double>(sums[2]) < kLeastTurns * static_cast<double>(sums[1]))
      return 0;
    return value_of<float>(in_order<32>(sums[0] / 2, for_each));
  }

  Group& group_;
  NoiseMemory& memory_;
};

}  // namespace driftd::fitter
