#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What refilling the lanes that are done could bring at most to batches of the CPU fitter.

Times fits of the paper's molecules, cold, on one thread, with fewer and fewer iterations allowed: from
the difference comes the time of one more, from the iterations of groups of 16 what they wait.

    DRIFTFIT_LIBRARY=build/release/lib/libdriftfit.so.1 PYTHONPATH=fitter/python tests/bench/waiting_lanes_bench.py
"""
import time

import numpy as np

import driftd_fit

FITS, LANES, REPEATS = 16384, 16, 12
FEW, ALL = 2, 20  # iterations allowed


def molecules(side, random):
    sigma = random.uniform(1, 2, FITS)[:, None]
    places = [(side - 1) / 2 + random.uniform(-0.5, 0.5, FITS)[:, None] for _ in "xy"]
    x, y = (np.exp(-0.5 * ((np.arange(side) - place) / sigma) ** 2) for place in places)
    return random.poisson(400 * y[:, :, None] * x[:, None, :] + 40).astype(np.uint16)


def timed(images, estimator, most):
    """Least time of a fit, ns, and the iterations of the slowest of each group."""
    best = np.inf
    for _ in range(REPEATS):
        begun = time.perf_counter()
        fits = driftd_fit.fit(images, estimator=estimator, threads=1, max_iterations=most)
        best = min(best, time.perf_counter() - begun)
    return best / FITS * 1e9, fits["iterations"].astype(float).reshape(-1, LANES)


random = np.random.default_rng(1)
print("side  estimator  iterations  of the slowest  one more, ns  a fit, ns  to gain at most")
for side in (7, 9, 13, 16):
    images = molecules(side, random)
    for estimator in ("implicit", "poisson"):
        short, few = timed(images, estimator, FEW)
        whole, iterations = timed(images, estimator, ALL)
        mean, slowest = iterations.mean(), iterations.max(axis=1).mean()
        one_more = (whole - short) / (slowest - few.max(axis=1).mean())
        print(f"{side:4}  {estimator:9}  {mean:10.2f}  {slowest:14.2f}  {one_more:12.0f}  {whole:9.0f}  "
              f"{(slowest - mean) * one_more / whole:14.0%}")
