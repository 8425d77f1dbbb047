# SPDX-License-Identifier: MIT
"""A warning of spots whose brightest pixels are all one value, the largest there is: clipped, by the camera or
by whoever saved them. They fit too wide, and no status tells of it."""
from __future__ import annotations

import warnings

import numpy as np

_MOST_IMAGES = 128  # that are looked at, evenly among all: some 20 us
_FEWEST_PIXELS = 3  # a spot cut off at three quarters of its height
_FEW_COUNTS = 64    # are equal by chance


def sentence(images: np.ndarray) -> str | None:
    """Of images (n, side, side) that were looked at; None: they are as they should be."""
    some = images[::-(-len(images) // _MOST_IMAGES)] if len(images) else images
    largest = some.max(initial=0)
    if not (np.isfinite(largest) and largest >= _FEW_COUNTS):
        return None
    equal = (some == largest).sum(axis=(1, 2))
    share = np.mean((equal >= _FEWEST_PIXELS) & (equal < some[0].size))
    if share < 0.01 or share * len(some) < min(2, len(some)):
        return None
    return (f"{share:.0%} of the images have {_FEWEST_PIXELS} pixels or more of {largest:g}, the largest value "
            "there is: spots that are clipped fit too wide, and pass. saturation="
            f"{largest:g} makes them bad_input")


def warn(images, saturation: float) -> None:
    """Of numpy's images, where no saturation is given."""
    if isinstance(images, np.ndarray) and not saturation > 0:
        text = sentence(images)
        if text:
            warnings.warn(text, RuntimeWarning, stacklevel=5)
