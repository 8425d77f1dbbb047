// SPDX-License-Identifier: MIT
// DRIFTD_HD marks the mathematics that both back ends compile: a plain function for a C++ compiler,
// a host and device function for a CUDA compiler. The only macro of the project's own.
#pragma once

#ifdef __CUDACC__
#define DRIFTD_HD __host__ __device__
#else
#define DRIFTD_HD
#endif
