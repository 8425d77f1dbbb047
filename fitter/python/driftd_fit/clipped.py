# SPDX-License-Identifier: MIT
"""A warning of spots that are cut off at their top: neighbouring pixels of exactly one value, next to none above
it and next to none right below. Clipped, by the camera or by whoever saved them: they fit too wide, and no status
tells of it. driftfit judges by the same rules (tools/driftfit/clipped_pixels.cpp)."""
from __future__ import annotations

import warnings

import numpy as np

_MOST_IMAGES = 128  # so many are looked at, evenly among all
_FEWEST_PIXELS = 3  # a spot cut off at three quarters of its height
_HOT_PIXELS = 2     # so many may be brighter
_FEW_STEPS = 64     # of the smallest between an image's values: lower spots have equal pixels by chance
_STEPS_BELOW = 8    # in which a round top has as many pixels as at any level


def _near(at: np.ndarray) -> np.ndarray:
    """Where a neighbour is one of these pixels."""
    around = np.pad(at, 1)
    near = np.zeros_like(at)
    for y in (0, 1, 2):
        for x in (0, 1, 2):
            if (y, x) != (1, 1):
                near |= around[y:y + at.shape[0], x:x + at.shape[1]]
    return near


def _is_flat(image: np.ndarray, level) -> bool:
    """Enough pixels of a level lie together, and none that is brighter beside them: that were a spot's own top."""
    at = image == level
    return (at & _near(at)).sum() >= _FEWEST_PIXELS and not (at & _near(image > level)).any()


def _is_cut_off(image: np.ndarray, level) -> bool:
    values = np.sort(image[image <= level].astype(float))
    steps = np.diff(values)
    if not steps.any():
        return False
    step = steps[steps > 0].min()
    equal = (values == level).sum()
    next_below = values[-equal - 1] if equal < len(values) else level
    if (values == next_below).sum() >= _FEWEST_PIXELS:  # a spot without noise, the same on all its sides
        return False
    below = (values >= level - (_STEPS_BELOW + 0.5) * step).sum() - equal
    return bool(level - values[0] >= _FEW_STEPS * step and equal > below and _is_flat(image, level))


def _levels(images: np.ndarray) -> list:
    """The level of each image that is cut off."""
    flat = images.reshape(len(images), -1) if len(images) else np.empty((0, 0))
    if flat.dtype.kind == "f":
        flat = np.where(np.isfinite(flat), flat, -np.inf)
    if flat.shape[1] < _HOT_PIXELS + _FEWEST_PIXELS:
        return []
    top = np.sort(np.partition(flat, -(_HOT_PIXELS + _FEWEST_PIXELS), axis=1)[:, -(_HOT_PIXELS + _FEWEST_PIXELS):])[:, ::-1]
    levels = []
    for i in np.flatnonzero((top[:, :_HOT_PIXELS + 1] == top[:, _FEWEST_PIXELS - 1:]).any(axis=1)):
        level = top[i, np.argmax(top[i, :_HOT_PIXELS + 1] == top[i, _FEWEST_PIXELS - 1:])]
        image = flat[i].reshape(images.shape[1:])
        if np.isfinite(level) and _is_cut_off(image, level):
            levels.append(level)
    return levels


def sentence(images: np.ndarray) -> str | None:
    """What is wrong with images (n, side, side), of which some are looked at; None: they are as they should be."""
    some = images[::-(-len(images) // _MOST_IMAGES)] if len(images) else images
    levels, counts = np.unique(_levels(some), return_counts=True)
    if not len(counts):
        return None
    most = counts.argmax()
    # Equal pixels by chance stand at many levels.
    if counts[most] < min(2, len(some)) or 2 * counts[most] < counts.sum() or counts[most] < 0.01 * len(some):
        return None
    level = np.format_float_positional(levels[most], trim="-")
    return (f"{counts[most] / len(some):.0%} of the images have {_FEWEST_PIXELS} neighbouring pixels or more of exactly "
            f"{level} at the top of their spot: spots that are clipped fit too wide, and pass. saturation={level} makes "
            "them bad_input")


def warn(images, saturation: float) -> None:
    """Warns about images of numpy, where no saturation is given."""
    if isinstance(images, np.ndarray) and not saturation > 0:
        text = sentence(images)
        if text:
            warnings.warn(text, RuntimeWarning, stacklevel=5)
