// SPDX-License-Identifier: MIT
// Philox 4x32-7: random numbers as a function of a counter and a key, without a state, so that
// every particle of every swarm has its own on any back end (Salmon, Moraes, Dror & Shaw 2011,
// "Parallel random numbers: as easy as 1, 2, 3", where seven rounds pass all tests of BigCrush).
// Host and device.
#pragma once

#include <cstdint>

#include "fitter/host_device.hpp"

namespace driftd::fitter {

/// @tparam Word  std::uint32_t, or a vector of them with wide_product() and ^
template <class Word>
struct PhiloxOf {
  Word v[4];
};
using Philox = PhiloxOf<std::uint32_t>;

/// A product of 64 bits, as two words.
template <class Word>
struct WideProduct {
  Word high, low;
};

DRIFTD_HD WideProduct<std::uint32_t> wide_product(std::uint32_t a, std::uint32_t b) {
  const std::uint64_t product = static_cast<std::uint64_t>(a) * b;
  return {static_cast<std::uint32_t>(product >> 32), static_cast<std::uint32_t>(product)};
}

template <class Word = std::uint32_t>
DRIFTD_HD PhiloxOf<Word> philox(PhiloxOf<Word> counter, std::uint32_t key0, std::uint32_t key1) {
  constexpr std::uint32_t kMultiply0 = 0xD2511F53u, kMultiply1 = 0xCD9E8D57u;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  for (int round = 0; round < 7; ++round) {
    const WideProduct<Word> a = wide_product(counter.v[0], kMultiply0);
    const WideProduct<Word> b = wide_product(counter.v[2], kMultiply1);
    counter = {{b.high ^ counter.v[1] ^ key0, b.low, a.high ^ counter.v[3] ^ key1, a.low}};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

constexpr float kUniformStep = 1.52587890625e-5f;  // 2^-16

/// Numbers between 0 and 1 of the halves of a word: 2^16 of each, whose mean is 1/2.
template <class Real>
struct UniformPair {
  Real of_low, of_high;
};

DRIFTD_HD UniformPair<float> uniform_pair(std::uint32_t word) {
  return {(static_cast<float>(word & 0xFFFFu) + 0.5f) * kUniformStep,
          (static_cast<float>(word >> 16) + 0.5f) * kUniformStep};
}

}  // namespace driftd::fitter
