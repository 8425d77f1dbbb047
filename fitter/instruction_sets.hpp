// SPDX-License-Identifier: MIT
// Which instruction set the CPU's fits are made by: the best that this processor has, unless one is
// pinned. Results of one set are the same to the bit on any processor that has it; those of two
// differ by rounding. For the whole process: fitters made later, and batches begun later, follow.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace driftd::fitter {

/// Those that this processor has and this build has kernels for, best first: some of "avx512",
/// "avx2", "sse4", and "baseline", which every processor has.
std::vector<std::string> cpu_instruction_sets();

/// The one that is used; ends with a zero byte.
std::string_view cpu_instruction_set();

/// @param name  of cpu_instruction_sets(), or "auto": the best
/// @throws FitterError of one that cannot be had, with those that can
void use_cpu_instruction_set(const std::string& name);

}  // namespace driftd::fitter
