// SPDX-License-Identifier: MIT
// DRIFTD_HD marks the mathematics that both back ends compile: a host and device function for a
// CUDA compiler, for a C++ compiler one that is inlined always, so that it is compiled for the SIMD
// target of its caller and small structs stay in registers. The only macro of the project's own.
#pragma once

#ifdef __CUDACC__
#define DRIFTD_HD __host__ __device__ __forceinline__
#else
#define DRIFTD_HD __attribute__((always_inline)) inline
#endif
