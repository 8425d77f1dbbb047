// SPDX-License-Identifier: MIT
#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>

#include "fitter/cpu/kernel.hpp"
#include "fitter/instruction_sets.hpp"

// The other instruction sets that there are kernels for.
#ifdef DRIFTD_CPU_avx512
namespace driftd::fitter::cpu::N_AVX3 {
Kernels kernels();
}
#endif
#ifdef DRIFTD_CPU_avx2
namespace driftd::fitter::cpu::N_AVX2 {
Kernels kernels();
}
#endif
#ifdef DRIFTD_CPU_sse4
namespace driftd::fitter::cpu::N_SSE4 {
Kernels kernels();
}
#endif

namespace driftd::fitter::cpu {

namespace {

/// What this processor has, asked once, because a virtual machine takes microseconds to say; again
/// after a test has said hwy::GetChosenTarget().DeInit(). Others may have asked Highway before.
std::int64_t supported_targets() {
  static std::atomic<std::int64_t> supported = 0;
  hwy::ChosenTarget& chosen = hwy::GetChosenTarget();
  std::int64_t targets = supported;
  if (targets != 0 && chosen.IsInitialized()) return targets;
  targets = hwy::SupportedTargets();
  supported = targets;
  chosen.Update(targets);
  return targets;
}

struct InstructionSet {
  const char* name;
  std::int64_t target;  ///< Highway's bit; 0: every processor has it
  Kernels (*kernels)();
};

/// Best first.
constexpr InstructionSet kInstructionSets[] = {
#ifdef DRIFTD_CPU_avx512
    {"avx512", HWY_AVX3, &N_AVX3::kernels},
#endif
#ifdef DRIFTD_CPU_avx2
    {"avx2", HWY_AVX2, &N_AVX2::kernels},
#endif
#ifdef DRIFTD_CPU_sse4
    {"sse4", HWY_SSE4, &N_SSE4::kernels},
#endif
    {"baseline", 0, &HWY_NAMESPACE::kernels}};

std::atomic<const InstructionSet*> pinned = nullptr;

bool can_be_had(const InstructionSet& set) {
  return set.target == 0 || (supported_targets() & set.target) != 0;
}

const InstructionSet& best_set() {
  return *std::find_if(std::begin(kInstructionSets), std::end(kInstructionSets), can_be_had);
}

}  // namespace

Kernels choose_kernels() {
  const InstructionSet* const set = pinned;
  return (set != nullptr ? *set : best_set()).kernels();
}

bool batch_in_lanes(const Kernels& kernels, int roi_px) {
  return kernels.fit_in_lanes != nullptr && roi_px <= kMostLaneRoiPx;
}

std::size_t live_in_lanes(const Kernels& kernels, int roi_px, Estimator estimator,
                          std::size_t count) {
  if (!batch_in_lanes(kernels, roi_px)) return 0;
  // A group of lanes takes as long as this many warm fits across them, or less: measured with
  // driftd_lanes_bench (docs/measured/benchmarks.md) with 4, 8 and 16 lanes and sides from 5 to 32.
  const double squares = static_cast<double>(kernels.lanes) * (6 + roi_px) / 80;
  const double as_long_as =
      std::max(1.5, estimator == Estimator::PoissonLikelihood ? 1.7 * squares : squares);
  const std::size_t rest = count % kernels.lanes;
  return static_cast<double>(rest) < as_long_as ? count - rest : count;
}

}  // namespace driftd::fitter::cpu

namespace driftd::fitter {

std::vector<std::string> cpu_instruction_sets() {
  std::vector<std::string> names;
  for (const cpu::InstructionSet& set : cpu::kInstructionSets)
    if (cpu::can_be_had(set)) names.emplace_back(set.name);
  return names;
}

std::string_view cpu_instruction_set() {
  const cpu::InstructionSet* const set = cpu::pinned;
  return (set != nullptr ? *set : cpu::best_set()).name;
}

void use_cpu_instruction_set(const std::string& name) {
  if (name == "auto") {
    cpu::pinned = nullptr;
    return;
  }
  std::string there;
  for (const cpu::InstructionSet& set : cpu::kInstructionSets) {
    if (!cpu::can_be_had(set)) continue;
    if (name == set.name) {
      cpu::pinned = &set;
      return;
    }
    there += (there.empty() ? "" : ", ") + std::string(set.name);
  }
  throw FitterError("the instruction set '" + name +
                    "' cannot be had: this processor, by what this build has kernels for, has " +
                    there);
}

}  // namespace driftd::fitter
