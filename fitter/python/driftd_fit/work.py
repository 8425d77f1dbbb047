# SPDX-License-Identifier: MIT
"""What a call of the library fits: arrays that were checked, where they lie, and room for results."""
from __future__ import annotations

import ctypes
from typing import Mapping

import numpy as np

from . import arguments, gpu, libdriftfit
from .arguments import PIXEL_TYPES
from .libdriftfit import PARAMETERS
from .records import DETAILS, LEVELS, PLACE, RESULT, START

_PLACES = {name: i for i, name in enumerate(PARAMETERS)}
_CIRCULAR = 0


def _overlap(array: np.ndarray | gpu.GpuArray | None, other: np.ndarray | gpu.GpuArray) -> bool:
    if isinstance(array, np.ndarray) and isinstance(other, np.ndarray):
        return np.may_share_memory(array, other)
    return (isinstance(array, gpu.GpuArray) and isinstance(other, gpu.GpuArray)
            and array.pointer < other.end and other.pointer < array.end)


def pointer(array: np.ndarray | gpu.GpuArray) -> int:
    return array.pointer if isinstance(array, gpu.GpuArray) else array.ctypes.data


class Work:
    """What is fitted, as the library takes it, with room for the results. Keeps the arrays alive.
    Bounds that are numbers go into `settings`."""

    def __init__(self, kind: type, pixels: np.ndarray | gpu.GpuArray, side: int, count: int,
                 settings: libdriftfit.Options, start, levels, bounds, more: dict, out=None,
                 angles=None, details=None, **sizes: int):
        if isinstance(bounds, Mapping) and "sigma_y" in bounds and settings.model == _CIRCULAR:
            raise ValueError("bounds: of sigma_y, which the circular model has not; its only width is sigma_x")
        self.pixels = pixels
        self._arrays = {
            "pixels": pixels,
            "starts": None if start is None else
            arguments.records(start, "start", START, count, fewest=3),
            "levels": None if levels is None else
            arguments.records(levels, "levels", LEVELS, count),
            "bounds": None if bounds is None else
            arguments.bounds(bounds, _PLACES, settings.lower, settings.upper, count),
            "angles": None if angles is None else arguments.angles(angles, count)} | more
        self.details = (None if details is None else
                        arguments.room("details", details, DETAILS, count))
        if isinstance(self.details, np.ndarray):  # of what is not done, and with older libraries
            self.details.view(np.float32)[:] = np.nan
        self.given = kind(
            size=ctypes.sizeof(kind), pixel_type=PIXEL_TYPES[pixels.dtype], side=side, count=count,
            **sizes, **{name: pointer(array)
                        for name, array in (self._arrays | {"details": self.details}).items()
                        if array is not None})
        self.results = (np.empty(count, RESULT) if out is None else
                        arguments.room("out", out, RESULT, count))
        written = {"details": self.details} | ({} if out is None else {"out": self.results})
        for name, room in written.items():
            others = list(self._arrays.values()) + [self.results] * (name != "out")
            if any(_overlap(array, room) for array in others):
                raise ValueError(f"{name} shares memory with what is fitted, or with out; allowed is room "
                                 "of its own")
        self._side = side
        #: Names of what lies there.
        self.on_gpu = ", ".join(name for name, array in (self._arrays | written).items()
                                if isinstance(array, gpu.GpuArray))


    def some_rois(self, of: str = "pixels") -> np.ndarray | None:
        """Some of the ROIs in frames, or of a map in their place, evenly among all; None where these lie on a GPU."""
        frames, places = self._arrays[of], self._arrays["places"]
        if not isinstance(frames, np.ndarray) or not isinstance(places, np.ndarray):
            return None
        frames = np.broadcast_to(frames, self.pixels.shape)
        step, half, size = -(-len(places) // 64) or 1, self._side // 2, self._side
        _, height, width = frames.shape
        rois = [frames[frame, y - half:y - half + size, x - half:x - half + size]
                for x, y, frame in places[::step].tolist()
                if half <= x <= width - size + half and half <= y <= height - size + half]
        return np.array(rois) if rois else None


def image_work(images, settings, start, levels, variances, bounds, out=None, angles=None,
               details=None) -> Work:
    images = arguments.images(images)
    if variances is not None:
        variances = arguments.variances(variances, images.shape)
    return Work(libdriftfit.Images, images, images.shape[1], images.shape[0], settings, start, levels,
                bounds, {"variances": variances}, out, angles, details)


def frame_work(frames, coordinates, side, settings, start, levels, bounds, maps: dict,
               out=None, angles=None, details=None) -> Work:
    frames = arguments.frames(frames)
    count, height, width = frames.shape
    side = arguments.number("side", side, arguments.SIDE)
    places = arguments.places(coordinates, PLACE, count)
    on_gpu = isinstance(frames, gpu.GpuArray)
    more = {name: None if given is None else arguments.camera_map(name, given, (height, width))
            for name, given in maps.items()}
    return Work(libdriftfit.Frames, frames, side, places.shape[0], settings, start, levels, bounds,
                {"places": places} | more, out, angles, details, width=width, height=height, frame_count=count,
                row_stride=0 if on_gpu else frames.strides[1],
                frame_stride=frames.strides[0] if count > 1 and not on_gpu else 0)
