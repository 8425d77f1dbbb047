# SPDX-License-Identifier: MIT
"""Images for the tests of the Python binding, and what is true of them."""
import os
import sys

try:
    import numpy as np
except ImportError:
    print("SKIPPED: python3-numpy is not installed")
    sys.exit(0)

import driftd_fit
from driftd_fit import Fitter

SIDE = 11


def spots(count, side=SIDE, dtype=np.uint16, seed=1):
    """Noisy images and the (x, y, sigma, amplitude, background) they were drawn from."""
    random = np.random.default_rng(seed)
    truth = np.column_stack([random.uniform(side / 2 - 1, side / 2, (count, 2)),
                             random.uniform(1.1, 1.8, count), random.uniform(300, 900, count),
                             np.full(count, 50.0)])
    y, x = np.mgrid[:side, :side]
    x0, y0, sigma, amplitude, background = truth.T[:, :, None, None]
    mean = amplitude * np.exp(-((x - x0)**2 + (y - y0)**2) / (2 * sigma**2)) + background
    return random.poisson(mean).clip(0, np.iinfo(dtype).max if dtype != np.float32 else None
                                     ).astype(dtype), truth


def gaussian(p, side=SIDE):
    """p: x, y, sigma_x, sigma_y, amplitude, background, in the order of PARAMETERS."""
    y, x = np.mgrid[:side, :side]
    return p[4] * np.exp(-(x - p[0])**2 / (2 * p[2]**2) - (y - p[1])**2 / (2 * p[3]**2)) + p[5]


def ellipses(count, seed=1):
    """Photons, and the parameters they were drawn from."""
    random = np.random.default_rng(seed)
    truth = np.column_stack([random.uniform(4, 6, (count, 2)), random.uniform(1.1, 1.9, (count, 2)),
                             random.uniform(150, 500, count), random.uniform(5, 20, count)])
    return random.poisson([gaussian(p) for p in truth]).astype(np.float32), truth


def parameters_of(fits):
    return np.column_stack([fits[name] for name in driftd_fit.PARAMETERS]).astype(float)


def can_have_gpu() -> bool:
    """A GPU is there, and the library was built for some."""
    try:
        Fitter("cuda")
    except driftd_fit.FitError as error:
        return os.path.exists("/dev/nvidia0") and "no CUDA back end" not in str(error)
    return True
