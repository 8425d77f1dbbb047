# SPDX-License-Identifier: MIT
"""A warning of spots that are cut off at their top: clipped, by the camera or by whoever saved them. They fit too wide,
and no status tells of it. driftfit judges by the same rules (tools/driftfit/clipped_pixels.cpp): neighbouring pixels of
exactly one value at a spot's top, in the shape of a spot's middle (no row of hot pixels, no track of a particle), from
where the spot falls off (no hot pixels on the background, no bead with a flat top), in images that have noise."""
from __future__ import annotations

import warnings

import numpy as np

_MOST_IMAGES = 128  # so many are looked at, evenly among all
_FEWEST_PIXELS = 3  # a spot cut off at three quarters of its height
_HOT_PIXELS = 2     # so many may be brighter
_FEW_STEPS = 64     # of the smallest between an image's values: lower spots have equal pixels by chance
_STEPS_BELOW = 8    # in which a round top has as many pixels as at any level
_LEAST_FALL, _MOST_FALL = 0.03, 0.8  # beside the flat top, of its height: less is a bead, more no spot
_LEAST_FULL_SCALE = 255


def _near(at: np.ndarray) -> np.ndarray:
    """Where a neighbour is one of these pixels."""
    around = np.pad(at, 1)
    near = np.zeros_like(at)
    for y in (0, 1, 2):
        for x in (0, 1, 2):
            if (y, x) != (1, 1):
                near |= around[y:y + at.shape[0], x:x + at.shape[1]]
    return near


def _is_flat_spot(image: np.ndarray, level, lowest: float) -> bool:
    """Enough pixels of a level lie together as a spot's middle does, beside none that is brighter, and it falls off."""
    equal = image == level
    at = equal & _near(equal)
    if at.sum() < _FEWEST_PIXELS:
        return False
    height, width = (np.ptp(places) + 1 for places in np.nonzero(at))
    if max(height, width) > 2 * min(height, width) or 2 * at.sum() < height * width:
        return False
    beside = image[_near(equal) & ~equal].astype(float)
    if (beside > level).any() or not np.isfinite(beside).any():
        return False
    fall = (level - beside[np.isfinite(beside)]).mean() / (level - lowest)
    return bool(_LEAST_FALL <= fall <= _MOST_FALL)


def _is_full_scale(level) -> bool:
    """Of 8 bits or more."""
    return bool(level >= _LEAST_FULL_SCALE and level == np.floor(level) and np.log2(float(level) + 1) % 1 == 0)


def _is_cut_off(image: np.ndarray, level) -> bool:
    values = np.sort(image[np.isfinite(image) & (image <= level)].astype(float))
    lower = values[values < level]
    steps = np.diff(values)
    if not steps.any():
        return False
    step = steps[steps > 0].min()
    if level - values[0] < _FEW_STEPS * step:
        return False
    if (lower >= level - (_STEPS_BELOW + 0.5) * step).sum() >= len(values) - len(lower):
        return False
    # Without noise equal pixels tell nothing: a spot is the same on all its sides, a background everywhere.
    if (lower == lower[-1]).sum() >= _FEWEST_PIXELS:
        return False
    if 2 * np.unique(lower, return_counts=True)[1].max() > len(lower) and not _is_full_scale(level):
        return False
    return _is_flat_spot(image, level, values[0])


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
    level = levels[most]
    # Nor do the tops of more images stand above a level that cuts off, but for hot pixels.
    above = (some > level).any(axis=(1, 2)).sum()
    if not _is_full_scale(level) and above > counts[most]:
        return None
    reach = int((some >= level).any(axis=(1, 2)).sum())
    left = (f"makes bad_input of the {reach} of {len(some)} that reach it" if reach < len(some) else
            "would leave none: only less light helps")
    level = np.format_float_positional(level, trim="-")
    return (f"{counts[most] / len(some):.0%} of the images have {_FEWEST_PIXELS} neighbouring pixels or more of exactly "
            f"{level} at the top of their spot: spots that are clipped fit too wide, and pass. saturation={level} {left}")


def warn(images, saturation: float) -> None:
    """Warns about images of numpy, where no saturation is given."""
    if isinstance(images, np.ndarray) and not saturation > 0:
        text = sentence(images)
        if text:
            warnings.warn(text, RuntimeWarning, stacklevel=5)
