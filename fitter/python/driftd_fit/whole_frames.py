# SPDX-License-Identifier: MIT
"""Spots of whole frames, found and fitted: the part of `Fitter` that needs no places."""
from __future__ import annotations

import ctypes

import numpy as np

from . import arguments, gpu, libdriftfit
from .arguments import PIXEL_TYPES
from .libdriftfit import BAD_ARGUMENT, FitError
from .records import LOCALIZATION, SPOT
from .settings import settings_of

FITTING = ("this Fitter is fitting, in another thread or in the call that asks for progress, and does "
           "one thing at a time")


class WholeFrames:
    def find_spots(self, frames: np.ndarray, box: int, min_net_gradient: float = 0, *,
                   gain_map: np.ndarray | None = None, offset_map: np.ndarray | None = None,
                   variance_map: np.ndarray | None = None, **options: float) -> np.ndarray:
        """Finds the spots of whole frames, as ``driftfit --every-spot`` does: where a pixel is the largest
        of a box whose net gradient (Schnitzbauer et al. 2017, as in Picasso) exceeds a limit.

        Parameters
        ----------
        frames : as in `fit_frames`, but not on a GPU
        box : int
            Side of the box, odd, 3 to 63.
        min_net_gradient : float
            In the unit of the pixels, electrons with `gain_map`; 0: 8 standard deviations of the net
            gradient of each frame's own noise.
        gain_map, offset_map, variance_map : as in `fit_frames`
            What the variances call more than 16 times noisier than the median pixel, or gone (infinite),
            is seen as the mean of its neighbours. A pixel that has no such gain (1e-12 to 1e12), offset
            (finite) or variance (0 or more) is refused.
        **options
            offset, saturation, with maps: as in `fit_frames`.

        Returns
        -------
        array, shape (n,), dtype `SPOT`
            In the order of frames, and of rows and columns in a frame.

        Raises
        ------
        TypeError, ValueError
            Arrays or options of another kind; the text says what was found and what is allowed.
        FitError
            A libdriftfit without this call.
        """
        box = arguments.number("box", box, arguments.BOX)
        if box % 2 == 0:
            raise ValueError(f"box is {box}; allowed are odd {arguments.BOX}")
        return self._in_frames("find_spots", SPOT, frames, box, box, min_net_gradient, [],
                               settings_of("circular", "implicit", (), options),
                               {"gain_map": gain_map, "offset_map": offset_map, "variance_map": variance_map})

    def localize(self, frames: np.ndarray, side: int = 9, model: str = "circular", estimator: str = "implicit", *,
                 first: int = 0, min_net_gradient: float = 0, gain_map: np.ndarray | None = None,
                 offset_map: np.ndarray | None = None, variance_map: np.ndarray | None = None,
                 **options: float) -> np.ndarray:
        """Finds and fits the spots of whole frames: the rows that ``driftfit --every-spot`` writes, to the bit.

        Parameters
        ----------
        frames, min_net_gradient, gain_map, offset_map, variance_map : as in `find_spots`
        side : int
            Of the ROIs, 4 to 64 pixels; spots are sought in boxes of that, or one pixel less where it is even.
        model, estimator : as in `fit`
            Weights of "weighted_least_squares" are made of gain, offset, read noise (or `variance_map`) and the
            light that a first fit expects.
        first : int
            Number of the first frame.
        **options
            As in `fit`.

        Returns
        -------
        array, shape (n,), dtype `LOCALIZATION`
            Picasso's: pixels from the centre of the first one; photons and background in electrons with a
            gain, else in the pixels' unit.

        Raises
        ------
        TypeError, ValueError
            Arrays or options of another kind; the text says what was found and what is allowed.
        FitError
            What the GPU reported, or a libdriftfit without this call.
        """
        side = arguments.number("side", side, arguments.SIDE)
        first = arguments.number("first", first, arguments.FIRST_FRAME)
        return self._in_frames("localize", LOCALIZATION, frames, side, side - 1 + side % 2, min_net_gradient, [first],
                               settings_of(model, estimator, (), options),
                               {"gain_map": gain_map, "offset_map": offset_map, "variance_map": variance_map})

    def _in_frames(self, name: str, dtype: np.dtype, frames, side: int, box: int, min_net_gradient: float, first: list,
                   settings: libdriftfit.Options, maps: dict) -> np.ndarray:
        """Calls driftfit_NAME a block of frames at a time: there is room for as many spots as a block can hold."""
        self._check_open()
        function = getattr(libdriftfit.loaded(), f"driftfit_{name}", None)
        if function is None:
            raise FitError(f"{name}: the libdriftfit that is loaded is older and does not know it")
        frames = arguments.frames(frames)
        if isinstance(frames, gpu.GpuArray):
            raise TypeError("frames lie on a GPU, and are taken from the host where spots are to be found: allowed are numpy "
                            "arrays, .get() of CuPy, .cpu().numpy() of torch")
        limit = arguments.number("min_net_gradient", min_net_gradient, arguments.NOT_NEGATIVE)
        count, height, width = frames.shape
        for number in first:
            arguments.number(f"first + {count} frames - 1", number + max(count - 1, 0), arguments.FIRST_FRAME)
        maps = {what: arguments.camera_map(what, given, (height, width))
                for what, given in maps.items() if given is not None}
        apart = box // 2 + 1  # any two spots of a frame, along rows or columns
        most = max(-(-height // apart) * -(-width // apart), 1)
        step = max((1 << 26) // max(frames[:1].nbytes, most * dtype.itemsize), 1)
        found, message, made = ctypes.c_size_t(), ctypes.create_string_buffer(512), [np.empty(0, dtype)]
        if self._fitting:
            raise RuntimeError(FITTING)
        self._fitting = True
        try:
            for begin in range(0, count, step):
                block = frames[begin:begin + step]
                room = np.empty(most * len(block), dtype)
                given = libdriftfit.Frames(
                    size=ctypes.sizeof(libdriftfit.Frames), pixel_type=PIXEL_TYPES[frames.dtype], side=side, width=width,
                    height=height, frame_count=len(block), pixels=block.ctypes.data, row_stride=frames.strides[1],
                    frame_stride=frames.strides[0] if count > 1 else 0,
                    **{what: array.ctypes.data for what, array in maps.items()})
                code = function(self._handle, ctypes.byref(settings), ctypes.byref(given), limit,
                                *(number + begin for number in first), room.ctypes.data, len(room), ctypes.byref(found),
                                message, len(message))
                if code:
                    raise (ValueError if code == BAD_ARGUMENT else FitError)(message.value.decode())
                made.append(room[:found.value].copy())
                if not first:
                    made[-1]["frame"] += begin
        finally:
            self._fitting = False
        return np.concatenate(made)
