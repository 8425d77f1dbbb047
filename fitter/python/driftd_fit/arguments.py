# SPDX-License-Identifier: MIT
"""What callers give, checked: errors are TypeError for another kind of thing and ValueError for
another value, call the argument by its name, and say what was found, what is allowed and what would
help."""
from __future__ import annotations

import math
import numbers
import operator
from typing import Mapping, NamedTuple

import numpy as np

from .gpu import GpuArray, gpu_array

PIXEL_TYPES = {np.dtype(np.uint8): 0, np.dtype(np.uint16): 1, np.dtype(np.float32): 2}
MIN_SIDE, MAX_SIDE = 4, 64
_LARGEST = float(np.finfo(np.float32).max)


class Range(NamedTuple):
    """What a number may be; ``also`` are values outside, ``infinite`` allows infinities."""
    low: float
    high: float
    whole: bool = False
    also: tuple = ()
    infinite: bool = False

    def __str__(self) -> str:
        kind = "whole numbers " if self.whole else ""
        bounded = abs(self.low) < _LARGEST, abs(self.high) < _LARGEST
        high = f"{self.high}" if self.whole else f"{self.high:g}"
        text = (f"{kind}{self.low:g} to {high}" if all(bounded) and self.high < 1e16
                else f"{kind}{self.low:g} to 2**64 - 1" if all(bounded)
                else f"{kind}{self.low:g} or more" if bounded[0]
                else "numbers" if self.infinite else "finite numbers")
        return "".join(f"{value}, " for value in self.also) + text


ANY, NOT_NEGATIVE = Range(-_LARGEST, _LARGEST), Range(0, _LARGEST)
#: Options of the fit. A gain of None or 0 is not known; others are electrons per count or whatever unit
#: float pixels have.
FIT_OPTIONS = {
    "max_iterations": Range(1, 255, whole=True), "lambda_start": Range(1e-9, 1e9),
    "lambda_max": Range(1e-9, 1e9), "min_chi_square": NOT_NEGATIVE, "min_decrease": Range(0, 1),
    "min_step": Range(0, 1), "saturation": Range(0, _LARGEST, infinite=True),
    "min_background": Range(-_LARGEST, _LARGEST, infinite=True),
    "gain": Range(1e-12, 1e12, also=(None, 0)), "read_noise": NOT_NEGATIVE, "offset": ANY,
    "excess_noise": Range(1, 16), "integrated": Range(0, 1, whole=True), "spots_only": Range(0, 1, whole=True)}
SWARM_OPTIONS = {
    "particles": Range(16, 1024, whole=True), "iterations": Range(1, 1000, whole=True),
    "inertia": Range(0, 2), "own_pull": Range(0, 4), "swarm_pull": Range(0, 4),
    "max_velocity": Range(1e-3, 1), "spread_of_last": Range(2, 32, whole=True),
    "seed": Range(0, 2**64 - 1, whole=True), "first_image": Range(0, 2**64 - 1, whole=True)}
THREADS, DEVICE = Range(0, 1024, whole=True), Range(0, 1023, whole=True)
SIDE = Range(MIN_SIDE, MAX_SIDE, whole=True)
BOX, FIRST_FRAME = Range(3, 63, whole=True), Range(0, 2**32 - 1, whole=True)


def _kind(value) -> str:
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def number(name: str, value, allowed: Range):
    """`value` as an int or float; None becomes 0 where it is allowed."""
    if value is None and None in allowed.also:
        return 0
    try:
        if allowed.whole:
            made = operator.index(value)
        elif isinstance(value, (numbers.Real, np.number)) or np.ndim(value) == 0 and isinstance(
                value, np.ndarray) and value.dtype.kind in "biuf":
            made = float(value)
        else:
            raise TypeError
    except TypeError:
        raise TypeError(f"{name} is {value!r}, {_kind(value)}; allowed are {allowed}") from None
    inside = allowed.low <= made <= allowed.high or allowed.infinite and math.isinf(made)
    if not inside and made not in allowed.also:
        raise ValueError(f"{name} is {value}; allowed are {allowed}")
    return made


def one_of(what: str, name: str, known: Mapping[str, int]) -> int:
    if not isinstance(name, str):
        raise TypeError(f"{what} is {name!r}, {_kind(name)}; allowed are the names "
                        f"{', '.join(known)}")
    if name not in known:
        raise ValueError(f"{what} is {name!r}; allowed are {', '.join(known)}")
    return known[name]


def array(name: str, given) -> np.ndarray:
    """`given` as an array of numbers. Masks would be lost in silence, so they are refused."""
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(f"{name}: a masked array; its mask would be ignored. Give {name}.data; images "
                        "to be left out are those with nan among float32 pixels (bad_input)")
    try:
        made = np.asanyarray(given)
    except ValueError:
        made = np.empty(0, object)
    if made.dtype.kind not in "biuf" and made.dtype.names is None:
        raise TypeError(f"{name}: {_kind(given)} of {made.dtype}; allowed are arrays of numbers of "
                        "one length in each dimension")
    return made


def _pixels(name: str, given, shape: str) -> np.ndarray:
    """An array of PIXEL_TYPES, of three dimensions where it has two."""
    made = array(name, given)
    if made.ndim == 0:
        raise TypeError(f"{name}: a single value, {given!r}; allowed is an array of shape (n, "
                        f"{shape}) or ({shape})")
    if not isinstance(given, np.ndarray):
        raise TypeError(f"{name}: {_kind(given)}; allowed is an array: "
                        f"numpy.asarray({name}, numpy.float32)")
    _require_pixel_type(name, made)
    return made[np.newaxis] if made.ndim == 2 else made


def _gpu_pixels(name: str, given) -> GpuArray | None:
    """The same for an array on a GPU."""
    made = gpu_array(name, given)
    if made is None:
        return None
    _require_pixel_type(name, made)
    return made._replace(shape=(1, *made.shape)) if len(made.shape) == 2 else made


def _require_pixel_type(name: str, made) -> None:
    if made.dtype not in PIXEL_TYPES:
        raise TypeError(f"{name} are {made.dtype}; allowed are "
                        f"{', '.join(str(t) for t in PIXEL_TYPES)}: {_cure(name, made)}")


def images(given) -> np.ndarray | GpuArray:
    """Checks images: (n, side, side), C-contiguous."""
    made = _gpu_pixels("images", given)
    if made is not None:
        return _image_shape(made)
    made = _image_shape(_pixels("images", given, "side, side"))
    return np.require(made, requirements=["C", "ALIGNED"])


def _image_shape(made):
    if len(made.shape) != 3 or made.shape[1] != made.shape[2]:
        raise ValueError(f"images have shape {made.shape}; allowed is (n, side, side)")
    if not MIN_SIDE <= made.shape[1] <= MAX_SIDE:
        raise ValueError(f"images have {made.shape[1]} x {made.shape[1]} pixels; allowed are "
                         f"{MIN_SIDE} to {MAX_SIDE} a side")
    return made


def _cure(name: str, made: np.ndarray) -> str:
    """The call that makes such pixels one of PIXEL_TYPES without loss, or nearly."""
    if made.dtype.newbyteorder("=") == np.uint16:
        return f"{name}.astype(numpy.uint16)"
    if made.dtype.kind in "iu":
        return (f"{name}.astype(numpy.uint16) where they are 0 to 65535, else "
                f"{name}.astype(numpy.float32)")
    return f"{name}.astype(numpy.float32)"


def frames(given) -> np.ndarray | GpuArray:
    """(n, height, width), the pixels of a row without gaps: copied only where they have some."""
    made = _gpu_pixels("frames", given)
    if made is not None:
        return _frame_shape(made)
    made = _frame_shape(_pixels("frames", given, "height, width"))
    strides = made.strides if len(made) > 1 else made.strides[1:]
    gapless = strides[-1] == made.itemsize and min(strides[:-1]) >= made.shape[2] * made.itemsize
    return made if gapless else np.ascontiguousarray(made)


def _frame_shape(made):
    if len(made.shape) != 3:
        raise ValueError(f"frames have shape {made.shape}; allowed are (n, height, width) and "
                         "(height, width)")
    return made


def places(given, dtype: np.dtype, frame_count: int) -> np.ndarray | GpuArray:
    """`dtype` from columns x, y and, where there are several frames, frame. Positions are rounded;
    those that are no number become one outside of every frame. On a GPU: all columns, int32."""
    made = gpu_array("coordinates", given)
    if made is not None:
        if len(made.shape) != 2 or made.shape[1] != 3 or made.dtype != np.int32:
            raise ValueError(f"coordinates, on a GPU, have shape {made.shape} of {made.dtype}; allowed "
                             "is (n, 3) of int32: x, y, frame")
        return made
    given = array("coordinates", given)
    columns = (3,) if frame_count > 1 else (2, 3)
    if given.ndim != 2 or given.shape[1] not in columns:
        what = "(n, 3) of x, y, frame" + ("" if frame_count > 1 else ", and (n, 2) of x, y")
        raise ValueError(f"coordinates have shape {given.shape}; allowed are, for {frame_count} "
                         f"frame{'s' * (frame_count != 1)}, {what}")
    ready = given.shape[1] == 3 and given.dtype == np.int32 and given.flags.carray and len(given)
    if ready and given[:, 2].min() >= 0 and given[:, 2].max() < frame_count:
        return given.view(dtype)[:, 0]
    made = np.zeros(len(given), dtype)
    for name, column in zip(dtype.names, given.T):
        if name == "frame":
            wrong = np.flatnonzero(~((column >= 0) & (column < frame_count) &
                                     (column == np.trunc(column.astype(float)))))
            if len(wrong):
                allowed = (f"whole numbers from 0 to {frame_count - 1}" if frame_count else
                           "none, as there are no frames")
                raise ValueError(f"coordinates: the frame of {wrong[0]} is {column[wrong[0]]}; allowed: "
                                 f"{allowed}")
            made[name] = column
        else:
            pixel = np.rint(column.astype(float)).clip(-2**31, 2**31 - 1)
            made[name] = np.where(np.isnan(pixel), -2**31, pixel)
    return made


def camera_map(name: str, given, shape: tuple) -> np.ndarray | GpuArray:
    made = gpu_array(name, given)
    if made is not None:
        return _on_gpu(name, made, shape)
    given = array(name, given)
    if given.shape != shape:
        raise ValueError(f"{name} has shape {given.shape}; allowed is that of a frame, {shape}")
    return np.require(given, np.float32, ["C", "ALIGNED"])


def _on_gpu(name: str, made: GpuArray, shape: tuple) -> GpuArray:
    if made.shape != shape or made.dtype != np.float32:
        raise ValueError(f"{name}, on a GPU, have shape {made.shape} of {made.dtype}; allowed is {shape} "
                         "of float32")
    return made


def records(given, what: str, dtype: np.dtype, count: int,
            fewest: int | None = None) -> np.ndarray | GpuArray:
    """`dtype` from the same or from columns; the last one given stands for the missing ones. On a GPU:
    all columns."""
    made = gpu_array(what, given)
    if made is not None:
        return _on_gpu(what, made, (count, len(dtype)))
    given = array(what, given)
    if given.dtype == dtype:
        if given.shape != (count,):
            raise ValueError(f"{what} has shape {given.shape}; allowed is ({count},)")
        return np.ascontiguousarray(given)
    shapes = [(count, columns) for columns in range(fewest or len(dtype), len(dtype) + 1)]
    if given.shape not in shapes:
        allowed = " and ".join(f"{s} of {', '.join(dtype.names[:s[1]])}" for s in shapes)
        raise ValueError(f"{what} has shape {given.shape}; allowed are {allowed}")
    made = np.zeros(count, dtype)
    for column, name in enumerate(dtype.names):
        made[name] = given[:, min(column, given.shape[1] - 1)]
    return made


def room(name: str, given, dtype: np.dtype, count: int) -> np.ndarray | GpuArray:
    """Room for `count` of `dtype`; on a GPU rows of so many float32 as have its bytes."""
    made = gpu_array(name, given)
    if made is not None:
        made = _on_gpu(name, made, (count, dtype.itemsize // 4))
        if not made.writeable:
            raise ValueError(f"{name} is read-only")
        return made
    if (not isinstance(given, np.ndarray) or isinstance(given, np.ma.MaskedArray)
            or given.dtype != dtype or given.shape != (count,)):
        found = _kind(given) if type(given) is not np.ndarray else (
            f"an array of shape {given.shape} of {given.dtype}")
        kind = "RESULT" if name == "out" else name.upper()
        raise TypeError(f"{name} is {found}; allowed is one of shape ({count},) of driftd_fit.{kind}")
    if not (given.flags.c_contiguous and given.flags.writeable) or given.ctypes.data % 4:
        raise ValueError(f"{name} is read-only, has gaps or lies at an address that is no multiple of 4; "
                         "allowed is a C-contiguous array to write to")
    return given


def angles(given, count: int) -> np.ndarray | GpuArray:
    made = gpu_array("angles", given)
    if made is not None:
        return _on_gpu("angles", made, (count,))
    given = array("angles", given)
    if given.shape != (count,):
        raise ValueError(f"angles have shape {given.shape}; allowed is ({count},)")
    return np.require(given, np.float32, ["C", "ALIGNED"])


def variances(given, shape: tuple) -> np.ndarray | GpuArray:
    made = gpu_array("variances", given)
    if made is not None:
        alone = made.shape == shape[1:] and shape[0] == 1
        return _on_gpu("variances", made._replace(shape=shape) if alone else made, shape)
    given = array("variances", given)
    if given.shape not in (shape, shape[1:]):
        raise ValueError(f"variances have shape {given.shape}; allowed are {shape} and {shape[1:]}")
    return np.require(np.broadcast_to(given, shape), np.float32, ["C", "ALIGNED"])


def bounds(given, places: Mapping[str, int], lower, upper, count: int) -> np.ndarray | None:
    """Numbers go into `lower` and `upper`; a parameter with an array gives bounds of each image."""
    if not isinstance(given, Mapping):
        raise TypeError(f"bounds: {_kind(given)}; allowed is a mapping such as "
                        '{"x": (lower, upper)}')
    single = np.empty((count, 2, len(places)), np.float32)
    single[:] = [[-np.inf], [np.inf]]
    any_single = False
    for name, pair in given.items():
        place = one_of("a parameter", name, places)
        if not hasattr(pair, "__len__") or len(pair) != 2:
            raise ValueError(f"bounds of {name} are {pair!r}; allowed are two: lower, upper")
        sides = []
        for side, (limits, value) in enumerate(zip((lower, upper), pair)):
            value = array(f"a bound of {name}", value)
            if value.shape not in ((), (count,)):
                raise ValueError(f"a bound of {name} has shape {value.shape}; allowed are a number "
                                 f"and ({count},)")
            sides.append(value)
            if value.ndim == 0:
                limits[place] = value
            else:
                single[:, side, place] = value
                any_single = True
        if not np.all(sides[0] <= sides[1]):  # true for NaN
            wrong = np.flatnonzero(~(np.broadcast_to(sides[0], count) <= sides[1]))
            where = f" of image {wrong[0]}" if any(side.ndim for side in sides) else ""
            low, high = (float(np.broadcast_to(side, max(count, 1))[wrong[0] if where else 0])
                         for side in sides)
            raise ValueError(f"bounds of {name}{where} are {low:g} and {high:g}; allowed are a lower "
                             "one and one not below it")
    return single if any_single else None
