// SPDX-License-Identifier: MIT
// DRIFTD_HD marks the mathematics that both back ends compile. For a CUDA compiler it makes a host
// and device function; for a C++ compiler one that is always inlined, so that small structs stay in
// registers. Under a sanitizer (DRIFTD_INLINE_LESS) inlining is left to the compiler, because clang
// takes ten minutes and 4 GiB for one function of everything. Each source file then has functions
// of its own, because the files are compiled for different instruction sets. This is the project's
// only macro of its own.
#pragma once

#ifdef __CUDACC__
#define DRIFTD_HD __host__ __device__ __forceinline__
#elif defined(DRIFTD_INLINE_LESS) && defined(__clang__)
#define DRIFTD_HD __attribute__((internal_linkage)) inline
#else
#define DRIFTD_HD __attribute__((always_inline)) inline
#endif
