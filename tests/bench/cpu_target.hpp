// SPDX-License-Identifier: MIT
// A benchmark's choice of the instruction set that the CPU fitter uses.
#pragma once

#include <hwy/highway.h>

#include <cstdint>
#include <map>
#include <string>

namespace driftd::bench {

/// Targets of x86; elsewhere the best one is taken.
inline const std::map<std::string, std::int64_t> kCpuTargets = {
    {"avx512", HWY_AVX3}, {"avx2", HWY_AVX2}, {"sse4", HWY_SSE4}};

/// Nothing better than this from now on. @param target  of kCpuTargets; 0: all
inline void use_cpu_target(std::int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace driftd::bench
