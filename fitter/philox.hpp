// SPDX-License-Identifier: MIT
// Philox 4x32-10: random numbers as a function of a counter and a key, without a state, so that
// every particle of every swarm has its own on any back end (Salmon, Moraes, Dror & Shaw 2011,
// "Parallel random numbers: as easy as 1, 2, 3"). Host and device.
#pragma once

#include <cstdint>

#include "fitter/host_device.hpp"

namespace driftd::fitter {

struct Philox {
  std::uint32_t v[4];
};

DRIFTD_HD Philox philox(Philox counter, std::uint32_t key0, std::uint32_t key1) {
  constexpr std::uint64_t kMultiply0 = 0xD2511F53u, kMultiply1 = 0xCD9E8D57u;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = kMultiply0 * counter.v[0];
    const std::uint64_t b = kMultiply1 * counter.v[2];
    counter = {
        {static_cast<std::uint32_t>(b >> 32) ^ counter.v[1] ^ key0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ counter.v[3] ^ key1, static_cast<std::uint32_t>(a)}};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

/// In [0, 1), in steps of 2^-24.
DRIFTD_HD float uniform(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 5.9604644775390625e-8f;
}

}  // namespace driftd::fitter
