# SPDX-License-Identifier: MIT
# DRIFTD_CPU_TARGETS: the instruction sets that the CPU fitter has kernels for beside the baseline's, on x86-64: some
# of sse4, avx2 and avx512; `all`; or `native`, the best that this processor has. DRIFTD_CPU_KERNELS is made of it:
# empty on other processors.
set(DRIFTD_CPU_TARGETS native CACHE STRING "Instruction sets: native, all, or a list of sse4, avx2, avx512")
set(all_instruction_sets sse4 avx2 avx512)
set(flags_of_sse4 ssse3 sse4_2 popcnt)                                     # x86-64-v2
set(flags_of_avx2 ${flags_of_sse4} avx2 bmi1 bmi2 f16c fma movbe)          # x86-64-v3
set(flags_of_avx512 ${flags_of_avx2} avx512f avx512bw avx512cd avx512dq avx512vl)  # x86-64-v4
set(DRIFTD_CPU_KERNELS ${DRIFTD_CPU_TARGETS})
if(DRIFTD_CPU_TARGETS STREQUAL "all")
  set(DRIFTD_CPU_KERNELS ${all_instruction_sets})
elseif(DRIFTD_CPU_TARGETS STREQUAL "native")
  set(DRIFTD_CPU_KERNELS)
  set(flags)
  if(EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo flags REGEX "^flags" LIMIT_COUNT 1)
  endif()
  foreach(set ${all_instruction_sets})
    set(has_all ON)
    foreach(flag ${flags_of_${set}})
      if(NOT flags MATCHES " ${flag}( |$)")
        set(has_all OFF)
      endif()
    endforeach()
    if(has_all)
      set(DRIFTD_CPU_KERNELS ${set})
    endif()
  endforeach()
endif()
foreach(set ${DRIFTD_CPU_KERNELS})
  if(NOT set IN_LIST all_instruction_sets)
    message(FATAL_ERROR "DRIFTD_CPU_TARGETS has '${set}'; allowed are native, all, or some of ${all_instruction_sets}")
  endif()
endforeach()
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(DRIFTD_CPU_KERNELS)  # the baseline's are all
endif()
