# SPDX-License-Identifier: MIT
"""A warning of images whose background lies below the dark level that was given for them. driftfit judges whole frames
by the same share (tools/driftfit/negative_light.cpp)."""
from __future__ import annotations

import warnings

import numpy as np

_MOST_IMAGES = 128  # so many are looked at, evenly among all
_SHARE = 0.9        # of the pixels at the images' edges, where the background is; in the dark half are


def sentence(images: np.ndarray, offset: float | np.ndarray) -> str | None:
    """What is wrong with images (n, side, side); None: nothing. The offset is one, or of the images' shape."""
    if not len(images):
        return None
    step = -(-len(images) // _MOST_IMAGES)
    below = images[::step] < (offset[::step] if isinstance(offset, np.ndarray) else offset)
    edge = np.ones(images.shape[1:], bool)
    edge[1:-1, 1:-1] = False
    share = below[:, edge].mean()
    if share < _SHARE:
        return None
    level = "the offset_map" if isinstance(offset, np.ndarray) else f"the offset, {offset:g}"
    return (f"{share:.0%} of the pixels at the images' edges are below {level}: there is no negative light, so the dark "
            "level is lower. Uncertainties are wrong, and a likelihood's photons, too")


def warn(images, offset) -> None:
    """Warns about images of numpy."""
    if isinstance(images, np.ndarray) and isinstance(offset, (float, np.ndarray)):
        text = sentence(images, offset)
        if text:
            warnings.warn(text, RuntimeWarning, stacklevel=5)
