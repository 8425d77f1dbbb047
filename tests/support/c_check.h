/* SPDX-License-Identifier: MIT */
/* CHECK for the tests in C: says what failed and goes on; main() returns whether `failures` is 0. */
#ifndef DRIFTD_C_CHECK_H
#define DRIFTD_C_CHECK_H

#include <stdio.h>

static int failures;

#define CHECK(condition)                                             \
  do {                                                               \
    if (!(condition)) {                                              \
      printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                    \
    }                                                                \
  } while (0)

#endif
