#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""How much of the C interface's rate batches from Python have, by where images and results lie.

  tests/bench/python_fit_bench.py [--count 1000000] [--side 9] [--repeats 15]
In one run and in turn: the call of driftfit_fit_images() itself on pinned memory, then driftd_fit.fit with
its arrays made anew (pageable), with `out`, with `pinned` arrays, and on the GPU with CuPy or torch, where
one is installed. Medians; a ratio above 1 is slower than the first. DRIFTFIT_LIBRARY says which library."""
import argparse
import ctypes
import statistics
import sys
import time

import numpy as np

import driftd_fit
from driftd_fit import RESULT, libdriftfit


def spots(count, side):
    random = np.random.default_rng(1)
    y, x = np.mgrid[:side, :side]
    kinds = min(count, 20_000)
    centre = (side - 1) / 2 + random.uniform(-0.5, 0.5, (kinds, 2))
    photons = 10 + 200 * np.exp(-((x - centre[:, :1, None])**2 + (y - centre[:, 1:, None])**2) / 3.4)
    made = random.poisson(photons).astype(np.uint16)
    return np.ascontiguousarray(np.resize(made, (count, side, side)))


def on_gpu(images, count):
    """(name, images, results) of a library that is installed."""
    try:
        import cupy
        return "GPU, CuPy", cupy.asarray(images), cupy.zeros((count, 14), np.float32)
    except ImportError:
        pass
    try:
        import torch
        return "GPU, torch", torch.from_numpy(images).cuda(), torch.zeros((count, 14)).cuda()
    except ImportError:
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--side", type=int, default=9)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    count = options.count
    images = spots(count, options.side)
    with driftd_fit.Fitter() as fitter:
        pinned, out = driftd_fit.pinned(images.shape, np.uint16), driftd_fit.pinned(count, RESULT)
        pinned[:] = images
        own = np.zeros(count, RESULT)
        library = libdriftfit.load()
        settings = libdriftfit.Options()
        library.driftfit_default_options(ctypes.byref(settings), ctypes.sizeof(settings))
        given = libdriftfit.Images(size=ctypes.sizeof(libdriftfit.Images), pixel_type=1,
                                   side=options.side, count=count, pixels=pinned.ctypes.data)
        message = ctypes.create_string_buffer(512)

        def by_c():
            code = library.driftfit_fit_images(
                fitter._handle, ctypes.byref(settings), ctypes.byref(given), out.ctypes.data,
                libdriftfit.Progress(), None, message, len(message))
            if code:
                sys.exit(message.value.decode())

        ways = {"C interface, pinned": by_c,
                "new results": lambda: fitter.fit(images),
                "out": lambda: fitter.fit(images, out=own),
                "pinned, out": lambda: fitter.fit(pinned, out=out)}
        there = on_gpu(images, count) if fitter.backend == "cuda" else None
        if there is not None:
            name, images_there, out_there = there
            ways[name] = lambda: fitter.fit(images_there)
            ways[f"{name}, out"] = lambda: fitter.fit(images_there, out=out_there)
        times = {name: [] for name in ways}
        for _ in range(options.repeats + 1):
            for name, way in ways.items():
                begin = time.perf_counter()
                way()
                times[name].append(time.perf_counter() - begin)
        print(f"{count} of {options.side} x {options.side}, uint16, {fitter.backend}")
        first = statistics.median(times["C interface, pinned"][1:])
        for name, seconds in times.items():
            median = statistics.median(seconds[1:])
            print(f"{name:22} {1e-6 * count / median:8.1f} M fits/s {median / first:8.2f} times")


if __name__ == "__main__":
    main()
