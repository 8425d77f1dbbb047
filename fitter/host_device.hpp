// SPDX-License-Identifier: MIT
// DRIFTD_HD marks the mathematics that both back ends compile: a host and device function for a
// CUDA compiler, for a C++ compiler one that is inlined always, so that small structs stay in
// registers; but not under a sanitizer (DRIFTD_INLINE_LESS), where one function of everything takes
// clang ten minutes and 4 GiB: there each source file has its own, because they are compiled for
// different instruction sets. The only macro of the project's own.
#pragma once

#ifdef __CUDACC__
#define DRIFTD_HD __host__ __device__ __forceinline__
#elif defined(DRIFTD_INLINE_LESS) && defined(__clang__)
#define DRIFTD_HD __attribute__((internal_linkage)) inline
#else
#define DRIFTD_HD __attribute__((always_inline)) inline
#endif
