# SPDX-License-Identifier: MIT
"""Fits of 2-D Gaussians to numpy images through libdriftfit. Needs numpy.

    import driftd_fit

    fits = driftd_fit.fit(images)               # (n, side, side), uint8, uint16 or float32
    good = fits[driftd_fit.converged(fits)]
    print(good["x"], good["x_sd"])

    driftd_fit.fit(images, model="elliptical", estimator="poisson", fixed=("sigma_x",),
                   start=start, bounds={"sigma_y": (0.8, 2.5)}, gain=4.0, offset=100)

    details = np.empty(len(images), driftd_fit.DETAILS)     # angles and covariances
    driftd_fit.fit(images, model="rotated", details=details)

    fits, found = driftd_fit.search(images)     # each from where a particle swarm was best

    driftd_fit.fit(images)                      # of CuPy or torch on a GPU: where they lie

    fits = driftd_fit.fit_frames(frames, coordinates, 11, estimator="poisson",     # of an sCMOS
                                 gain_map=gain, offset_map=offset, variance_map=variance)

    locs = driftd_fit.localize(frames, 9, gain=0.46, offset=100)    # what driftfit --every-spot writes

Lengths are pixels, the centre of an image's first pixel is (0, 0), x counts columns. Amplitude and
background are in pixel units; ``*_sd`` are standard deviations. docs/internals/fitter.md has the method.
"""
from __future__ import annotations

import ctypes
import inspect
import math
import weakref
from typing import Callable, Mapping, Sequence

import numpy as np

from . import arguments, clipped, gpu, interrupts, libdriftfit, negative_light
from .arguments import MAX_SIDE, MIN_SIDE, PIXEL_TYPES
from .libdriftfit import PARAMETERS, FitError, LibraryMissing
from .records import (DETAILS, LEVELS, LOCALIZATION, PLACE, RESULT, SPOT, START, STATUS, SWARM_REPORT,
                      converged)
from .work import Work, frame_work, image_work, pointer

__all__ = ["BACKENDS", "DETAILS", "ESTIMATORS", "LEVELS", "LOCALIZATION", "MAX_SIDE", "MIN_SIDE", "MODELS",
           "PARAMETERS", "PIXEL_TYPES", "PLACE", "RESULT", "SPOT", "START", "STATUS", "SWARM_REPORT", "FitError",
           "Fitter", "LibraryMissing", "converged", "find_spots", "fit", "fit_frames", "instruction_set", "localize",
           "pinned", "search", "use_instruction_set"]

MODELS = {"circular": 0, "elliptical": 1, "rotated": 2}
ESTIMATORS = {"implicit": 0, "least_squares": 1, "weighted_least_squares": 2, "poisson": 3}
BACKENDS = {"auto": 0, "cpu": 1, "cuda": 2}
_BAD_ARGUMENT, _CANCELLED = 1, 4
_FIXED_PLACES = {name: i for i, name in enumerate((*PARAMETERS, "angle"))}

_library: ctypes.CDLL | None = None

_FITTING = ("this Fitter is fitting, in another thread or in the call that asks for progress, and does "
            "one thing at a time")


class Fitter:
    """A back end with its memory, for many calls; `fit` makes one for a single call.

    Parameters
    ----------
    backend : "auto", "cpu" or "cuda"
        auto: a GPU if there is one.
    threads : int
        Of the CPU; 0: one per core.
    devices : sequence of int
        GPUs that share the work; none: the first.

    Raises
    ------
    LibraryMissing
        There is no libdriftfit. It is an ImportError and a FitError.
    FitError
        The GPU cannot be had.
    ValueError
        A back end that is none, or a number that is not allowed.
    """

    _handle, _fitting, _calls = None, False, 0

    def __init__(self, backend: str = "auto", threads: int = 0, devices: Sequence[int] = ()):
        global _library
        self._handle = ctypes.c_void_p()
        number = arguments.one_of("backend", backend, BACKENDS)
        if _library is None:
            _library = libdriftfit.load()
        threads = arguments.number("threads", threads, arguments.THREADS)
        devices = [arguments.number("a device", device, arguments.DEVICE) for device in devices]
        numbers = (ctypes.c_int32 * len(devices))(*devices)
        message = ctypes.create_string_buffer(512)
        code = _library.driftfit_create(number, threads, numbers if devices else None, len(devices),
                                        ctypes.byref(self._handle), message, len(message))
        if code:
            raise (ValueError if code == _BAD_ARGUMENT else FitError)(message.value.decode())

    @property
    def backend(self) -> str:
        """What fits now: "cpu" or "cuda"."""
        return _library.driftfit_backend(self._handle).decode()

    @property
    def backend_reason(self) -> str:
        """Why: what was asked for, or what keeps "auto" from using a GPU."""
        return _library.driftfit_backend_reason(self._handle).decode()

    def close(self) -> None:
        """Gives the memory back; twice does no harm.

        Raises
        ------
        RuntimeError
            It is fitting: in `progress`, or another thread.
        """
        if self._fitting:
            raise RuntimeError(_FITTING)
        if self._handle:
            _library.driftfit_destroy(self._handle)
            self._handle = ctypes.c_void_p()

    def __enter__(self) -> "Fitter":
        return self

    def __exit__(self, error, *_) -> None:
        if not (error and self._fitting):  # let that error out; the memory goes with the last fit
            self.close()

    def __del__(self) -> None:
        self.close()

    def fit(self, images: np.ndarray, model: str = "circular", estimator: str = "implicit",
            start: np.ndarray | None = None,
            progress: Callable[[int, int], bool | None] | None = None, *,
            levels: np.ndarray | None = None, variances: np.ndarray | None = None,
            bounds: Mapping[str, tuple] | None = None, fixed: Sequence[str] = (),
            out: np.ndarray | None = None, angles: np.ndarray | None = None,
            details: np.ndarray | None = None, **options: float) -> np.ndarray:
        """Fits every image.

        Parameters
        ----------
        images : array, shape (n, side, side) or (side, side)
            uint8, uint16 or float32; 4 to 64 pixels a side. Not copied when C-contiguous. Arrays on a
            GPU that the fitter uses (CuPy, torch, whatever has ``__cuda_array_interface__`` or
            DLPack) are fitted where they lie; they have to be C-contiguous, and so `start`, `levels`
            and `variances` may be, with all columns and float32.
        model : "circular", "elliptical" or "rotated"
            One width; one along each axis; or one along each of two axes at right angles, sigma_x along
            the one at an angle that `details` tell.
        estimator : "implicit", "least_squares", "weighted_least_squares" or "poisson"
            The first searches position and widths alone, and is the fastest; the others search all
            parameters. weighted_least_squares needs `variances`; poisson is the maximum likelihood
            of Poisson noise in electrons (`gain`; unknown: pixels are electrons).
        start : array, shape (n,), dtype `START`; or shape (n, 3) of x, y, sigma; or (n, 4)
            Start values; None: each fit estimates its own.
        progress : callable
            Called as ``progress(done, n)`` after each block; a true result stops the fitting, and
            what is not done stays ``bad_input``.
        levels : array, shape (n,), dtype `LEVELS`; or shape (n, 2) of amplitude, background
            Start values of these; None: those that fit each start best.
        variances : array, the shape of images or (side, side) for all of them
            Variance of each pixel, pixel units squared: to poisson its read noise, to
            weighted_least_squares all of it, the light's included (of what is expected, not of each pixel's
            own count: that would make photons too few); not with the others, which do not use them.
            Infinite: the pixel is not there; it still has to be finite and below ``saturation``.
        bounds : mapping of a name of `PARAMETERS` to (lower, upper)
            Each a number, or an array of shape (n,). Not with implicit; sigma_y not of the circular model,
            whose only width is sigma_x.
        fixed : names of `PARAMETERS`, and "angle" of the rotated model
            These keep their start values. Not with implicit; sigma_y not of the circular model.
        out : array, shape (n,), dtype `RESULT`
            Receives the results and is returned: an array that is used again, or of `pinned`, spares a
            new one. What is not done, by `progress` or an error, is ``bad_input`` there, too. Or on
            the GPU, without `progress`, shape (n, 14) of float32: the columns are the fields of `RESULT`,
            the last one is the four bytes of status and iterations.
        angles : array, shape (n,)
            Of the rotated model, beside `start`: rad, from x towards y; None: 0. A quarter of a turn
            more and the widths exchanged make the same spot, which is told by the angle nearest to
            this; half turns where a width or the angle is fixed or bounded, or images have bounds of their own.
        details : array, shape (n,), dtype `DETAILS`
            Receives angles and covariances; None: they are not wanted. What is not done is NaN, after an error, too.
            Or on the GPU, without `progress`, shape (n, 51) of float32.
        **options
            gain : electrons per pixel unit, 1e-12 to 1e12; None or 0 (default): not known.
                Uncertainties then come from the residuals.
            offset : pixel value without light (0). A RuntimeWarning tells of images whose background is below.
            read_noise : electrons rms (0), 0 or more.
            excess_noise : variance of the signal over that of its photons, 1 (default) to 16: 2 for an
                EMCCD. To the likelihood and to uncertainties by `gain`; the gain is the whole one, and
                the read noise that referred to before the multiplication.
            integrated : True: a pixel is the Gaussian's mean over its area; False (default): its
                value at the pixel's centre, which makes sigma some 1 / (24 sigma) px larger.
            saturation : pixels at or above are bad input; 0 (default): none are, and a RuntimeWarning tells of
                images whose spots are cut off at their top.
            min_background : limit of the background (-inf: none).
            spots_only : True (default): a minimum that is no spot is not converged; False: any
                minimum will do.
            max_iterations : 1 to 255 (20).
            lambda_start, lambda_max : damping, 1e-9 to 1e9 (0.01, 1e4).
            min_chi_square : stop below this chi-square (0), pixel units squared; by poisson this and
                the next are of Pearson's chi-square, not of the deviance that results tell.
            min_decrease : stop below this relative decrease of chi-square, 0 to 1 (1e-6).
            min_step : stop when every parameter changes by less, relatively, and a likelihood hardly, 0 to 1 (1e-4).

        Returns
        -------
        array, shape (n,), dtype `RESULT`
            A fit that failed says so in ``status`` (`STATUS`); pixels that are NaN give bad_input.

        Raises
        ------
        TypeError, ValueError
            Arrays or options of another kind; the text says what was found and what is allowed.
        FitError
            What the GPU reported.
        """
        self._check_open()
        settings = _settings(model, estimator, fixed, options)
        work = image_work(images, settings, start, levels, variances, bounds, out, angles, details)
        self._call(_library.driftfit_fit_images, [ctypes.byref(settings)], work, [], progress)
        self._look_at(lambda: work.pixels, settings)
        return work.results if out is None else out

    def fit_frames(self, frames: np.ndarray, coordinates: np.ndarray, side: int,
                   model: str = "circular", estimator: str = "implicit",
                   start: np.ndarray | None = None,
                   progress: Callable[[int, int], bool | None] | None = None, *,
                   gain_map: np.ndarray | None = None, offset_map: np.ndarray | None = None,
                   variance_map: np.ndarray | None = None, levels: np.ndarray | None = None,
                   bounds: Mapping[str, tuple] | None = None, fixed: Sequence[str] = (),
                   out: np.ndarray | None = None, angles: np.ndarray | None = None,
                   details: np.ndarray | None = None, **options: float) -> np.ndarray:
        """Fits the ROIs of whole frames: what `fit` makes of the same ROIs cut by hand, with ``x``
        and ``y`` in the frame. They are cut a piece at a time by the threads that fit them; for a GPU
        in blocks by all threads, or by itself from frames that lie there.

        With `gain_map` or `offset_map`, ``(pixel - offset) * gain`` is fitted in place of each pixel,
        as float32; without one of them the option ``offset``, or no gain, takes its place. With
        `gain_map` that is electrons: ``amplitude``, ``background``, `levels`, `bounds` and
        ``min_background`` are then electrons, too. For sCMOS cameras, with "poisson" (Huang et al.
        2013, Nature Methods 10, 653, whose gain is the inverse of this one).

        Parameters
        ----------
        frames : array, shape (n, height, width) or (height, width)
            uint8, uint16 or float32; a memory map, too. Not copied where the pixels of a row lie side
            by side; a view with gaps between them, or turned over, is. Or an array on a GPU, as images of
            `fit`: then the maps lie there, too, and what else is given as one likes.
        coordinates : array of numbers, shape (m, 3) of x, y, frame; or, of one frame, (m, 2) of x, y
            The pixel in a ROI's middle, its pixel ``side // 2``: x counts columns, y rows, frames
            count from 0. x and y are rounded. A ROI that does not lie in its frame with all its pixels, and one
            whose x or y is NaN, ends as ``bad_input``; the others do not care. On a GPU: (m, 3) of int32, of
            which a frame that is not there is ``bad_input``, too.
        side : int
            Of the ROIs, 4 to 64 pixels.
        model, estimator, progress, fixed
            As in `fit`.
        start : as in `fit`, m of them
            x and y in the frame.
        gain_map : array, shape (height, width)
            Electrons per pixel unit. Not with the option ``gain``. A pixel whose gain is not above 0
            makes ``bad_input`` of the ROIs that it is in.
        offset_map : array, shape (height, width)
            Pixel values without light. Not with the option ``offset``.
        variance_map : array, shape (height, width)
            As `variances` of `fit`. `driftctl calibrate camera --dark-only --maps` measures that for
            poisson, and the map of offsets. Not with implicit and least_squares.
        levels : as in `fit`, m of them
        bounds : as in `fit`, arrays of shape (m,)
            Those of x and y count from the ROI's first pixel.
        out, angles, details : as in `fit`, m of them
        **options
            As in `fit`; ``saturation`` is compared with the pixels as they come.

        Returns
        -------
        array, shape (m,), dtype `RESULT`
            ``x`` and ``y`` in the frame, the centre of whose first pixel is (0, 0).

        Raises
        ------
        TypeError, ValueError
            Arrays or options of another kind, frames that are not there; the text says what was found
            and what is allowed.
        FitError
            What the GPU reported, or a libdriftfit without this call.
        """
        self._check_open()
        if not hasattr(_library, "driftfit_fit_frames"):
            raise FitError("fit_frames: the libdriftfit that is loaded is older and does not know it")
        settings = _settings(model, estimator, fixed, options)
        work = frame_work(frames, coordinates, side, settings, start, levels, bounds,
                           {"gain_map": gain_map, "offset_map": offset_map,
                            "variance_map": variance_map}, out, angles, details)
        self._call(_library.driftfit_fit_frames, [ctypes.byref(settings)], work, [], progress)
        self._look_at(work.some_rois, settings, None if offset_map is None else lambda: work.some_rois("offset_map"))
        return work.results if out is None else out

    def search(self, images: np.ndarray, model: str = "circular", estimator: str = "implicit",
               progress: Callable[[int, int], bool | None] | None = None, *,
               particles: int = 256, iterations: int = 30, seed: int = 0,
               levels: np.ndarray | None = None, variances: np.ndarray | None = None,
               bounds: Mapping[str, tuple] | None = None, fixed: Sequence[str] = (),
               details: np.ndarray | None = None, **options: float) -> tuple[np.ndarray, np.ndarray]:
        """Fits every image from where a particle swarm found its least squares.

        The swarm searches the whole image and needs no start value. Where the model does not
        describe the whole image, bound the widths (with another estimator than implicit): bounds are
        the swarm's domain, too.

        Parameters
        ----------
        images, model, estimator, progress, levels, variances, bounds, details
            As in `fit`. The swarm itself sees all pixels, whatever `variances` say of them, and looks for a
            round spot where the model is "rotated".
        particles : int
            A whole multiple of 16, 16 to 1024.
        iterations : int
            Of the swarm, 1 to 1000; all are made. Those of the fit end by `max_iterations`.
        seed : int, 0 to 2**64 - 1
            The same seed and number of an image give the same search.
        fixed : names of `PARAMETERS`
            Amplitude and background alone, with `levels`. Not with implicit.
        **options
            inertia : 0 to 2 (0.7298).
            own_pull, swarm_pull : towards the particle's and the swarm's best place, 0 to 4
                (1.4962).
            max_velocity : in an iteration, of the domain's extent, 0.001 to 1 (0.5).
            spread_of_last : best places that the spread is taken over, 2 to 32 (10).
            first_image : number of the first image, 0 to 2**64 - 1 (0): calls that count on give
                what one gives.
            And those of the fit, as in `fit`.

        Returns
        -------
        fits : array, shape (n,), dtype `RESULT`
            As from `fit`.
        found : array, shape (n,), dtype `SWARM_REPORT`
            What the swarm found before the fit improved it; ``chi_square`` is NaN for pixels that
            are bad input, and for images not done.

        Raises
        ------
        TypeError, ValueError
            Arrays or options of another kind; the text says what was found and what is allowed.
        FitError
            What the GPU reported.
        """
        self._check_open()
        swarm = _swarm({"particles": particles, "iterations": iterations, "seed": seed}
                       | {name: options.pop(name) for name in arguments.SWARM_OPTIONS
                          if name in options})
        settings = _settings(model, estimator, fixed, options)
        work = image_work(images, settings, None, levels, variances, bounds, details=details)
        found = np.zeros(len(work.results), SWARM_REPORT)
        found["chi_square"] = np.nan
        self._call(_library.driftfit_search, [ctypes.byref(settings), ctypes.byref(swarm)], work,
                   [found.ctypes.data], progress)
        self._look_at(lambda: work.pixels, settings)
        return work.results, found

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
                               _settings("circular", "implicit", (), options),
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
            But not "weighted_least_squares", whose weights are given to single images.
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
                               _settings(model, estimator, (), options),
                               {"gain_map": gain_map, "offset_map": offset_map, "variance_map": variance_map})

    def _in_frames(self, name: str, dtype: np.dtype, frames, side: int, box: int, min_net_gradient: float, first: list,
                   settings: libdriftfit.Options, maps: dict) -> np.ndarray:
        """Calls driftfit_NAME a block of frames at a time: there is room for as many spots as a block can hold."""
        self._check_open()
        function = getattr(_library, f"driftfit_{name}", None)
        if function is None:
            raise FitError(f"{name}: the libdriftfit that is loaded is older and does not know it")
        frames = arguments.frames(frames)
        if isinstance(frames, gpu.GpuArray):
            raise TypeError("frames lie on a GPU; spots are found by the CPU: allowed are numpy arrays, .get() of CuPy, "
                            ".cpu().numpy() of torch")
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
            raise RuntimeError(_FITTING)
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
                    raise (ValueError if code == _BAD_ARGUMENT else FitError)(message.value.decode())
                made.append(room[:found.value].copy())
                if not first:
                    made[-1]["frame"] += begin
        finally:
            self._fitting = False
        return np.concatenate(made)

    def _check_open(self) -> None:
        if not self._handle:
            raise ValueError("this Fitter is closed")

    def _look_at(self, images: Callable, settings: libdriftfit.Options, offsets: Callable | None = None) -> None:
        """Looks in the first call, the second, the fourth and so on: it takes as long as fitting a few images."""
        self._calls += 1
        if self._calls & (self._calls - 1) == 0:
            clipped.warn(images(), settings.saturation)
            given = settings.gain > 0 or settings.offset != 0 or settings.estimator == ESTIMATORS["poisson"]
            if offsets is not None or given:
                negative_light.warn(images(), settings.offset if offsets is None else offsets())

    def _call(self, function, settings: list, work: Work, outputs: list, progress) -> None:
        if progress is not None and not callable(progress):
            raise TypeError(f"progress is {progress!r}; allowed is a function of done and n")
        for name, array in (("out", work.results), ("details", work.details)):
            if progress is not None and isinstance(array, gpu.GpuArray):
                raise ValueError(f"progress may end the fits, and {name} lies on a GPU, where those not "
                                 "done would not be told; allowed is one of both")
        if work.on_gpu and self.backend == "cpu":
            raise ValueError(f"{work.on_gpu} on a GPU, and this Fitter is on the cpu "
                             f"({self.backend_reason}); allowed are numpy arrays: .get() of CuPy, "
                             ".cpu().numpy() of torch")
        failure: list[BaseException] = []
        fitted = 0

        def report(_user, done, total):
            nonlocal fitted
            fitted = done
            try:
                interrupt.raises = True
                return 1 if interrupt.seen or progress(done, total) else 0
            except BaseException as error:  # must not cross C; raised again below
                failure.append(error)
                return 1
            finally:
                interrupt.raises = False

        message = ctypes.create_string_buffer(512)
        if self._fitting:
            raise RuntimeError(_FITTING)
        self._fitting = True
        try:
            with interrupts.noted() as interrupt:
                code = function(
                    self._handle, *settings, ctypes.byref(work.given), pointer(work.results), *outputs,
                    libdriftfit.Progress(report) if progress else libdriftfit.Progress(), None, message,
                    len(message))
                if code and isinstance(work.results, np.ndarray):
                    work.results[fitted:] = np.zeros((), RESULT)
                    work.results["status"][fitted:] = STATUS.index("bad_input")
        finally:
            self._fitting = False
        if failure:
            raise failure[0]
        if code == _BAD_ARGUMENT:
            raise ValueError(message.value.decode())
        if code not in (0, _CANCELLED):
            raise FitError(message.value.decode())


def _assign(made: ctypes.Structure, options: dict, known: dict) -> None:
    for name, value in options.items():
        if name not in known:
            raise TypeError(f"unknown option {name!r}; allowed are {', '.join(known)}")
        setattr(made, name, arguments.number(name, value, known[name]))


def _settings(model: str, estimator: str, fixed: Sequence[str],
              options: dict) -> libdriftfit.Options:
    settings = libdriftfit.Options(integrated=-1)
    _library.driftfit_default_options(ctypes.byref(settings), ctypes.sizeof(settings))
    unknown = [name for name, older, default in (
        ("excess_noise", settings.excess_noise == 0, 1), ("integrated", settings.integrated == -1, 0))
        if older and options.get(name, default) != default]
    if unknown:
        raise FitError(f"{unknown[0]}: the libdriftfit that is loaded is older and does not know it")
    settings.model = arguments.one_of("model", model, MODELS)
    settings.estimator = arguments.one_of("estimator", estimator, ESTIMATORS)
    names = (fixed,) if isinstance(fixed, str) else tuple(fixed)
    for name in names:
        settings.fixed |= 1 << arguments.one_of("a parameter", name, _FIXED_PLACES)
    if "angle" in names and model != "rotated":
        raise ValueError(f"fixed is {fixed!r}, and the {model} model has no angle")
    _assign(settings, options, arguments.FIT_OPTIONS)
    return settings


def _swarm(options: dict) -> libdriftfit.SwarmOptions:
    swarm = libdriftfit.SwarmOptions()
    _library.driftfit_default_swarm_options(ctypes.byref(swarm), ctypes.sizeof(swarm))
    _assign(swarm, options, arguments.SWARM_OPTIONS)
    return swarm


def pinned(shape, dtype=np.float32) -> np.ndarray:
    """An array of zeros that GPUs read and write directly, for images, or with dtype `RESULT` for
    `out`: from there and to there fits are fastest. An ordinary one where there is no GPU.

    Raises
    ------
    MemoryError
        There is not so much of it: it is never swapped out.
    """
    global _library
    if _library is None:
        _library = libdriftfit.load()
    dtype = np.dtype(dtype)
    if dtype.hasobject or dtype.subdtype:
        raise TypeError(f"pinned: elements of {dtype}; allowed are numbers and records of numbers")
    shape = np.broadcast_to(np.zeros((), dtype), shape).shape
    size = math.prod(shape) * dtype.itemsize
    if size == 0 or not hasattr(_library, "driftfit_allocate_pinned") or (
            _library.driftfit_cuda_devices() == 0):
        return np.zeros(shape, dtype)
    memory = _library.driftfit_allocate_pinned(size)
    if not memory:
        raise MemoryError(f"pinned: {size} bytes that GPUs read directly cannot be had")
    held = (ctypes.c_uint8 * size).from_address(memory)
    # Not at exit: others may still write there.
    weakref.finalize(held, _library.driftfit_free_pinned, memory).atexit = False
    ctypes.memset(memory, 0, size)
    return np.frombuffer(held, dtype).reshape(shape)


def _home(name: str, given, backend: str) -> tuple[int, ...]:
    """The GPU that has `given`."""
    made = None if backend == "cpu" else gpu.gpu_array(name, given)
    return () if made is None or made.pointer == 0 else (gpu.device_of(made),)


def fit(images: np.ndarray, model: str = "circular", estimator: str = "implicit",
        start: np.ndarray | None = None, *, backend: str = "auto", threads: int = 0,
        devices: Sequence[int] = (), **more) -> np.ndarray:
    """One `Fitter.fit` with a `Fitter` of its own, on the GPU that has the images; see both."""
    with Fitter(backend, threads, tuple(devices) or _home("images", images, backend)) as fitter:
        return fitter.fit(images, model, estimator, start, **more)


def search(images: np.ndarray, model: str = "circular", estimator: str = "implicit", *,
           backend: str = "auto", threads: int = 0, devices: Sequence[int] = (),
           **more) -> tuple[np.ndarray, np.ndarray]:
    """One `Fitter.search` with a `Fitter` of its own, on the GPU that has the images; see both."""
    with Fitter(backend, threads, tuple(devices) or _home("images", images, backend)) as fitter:
        return fitter.search(images, model, estimator, **more)


def fit_frames(frames: np.ndarray, coordinates: np.ndarray, side: int, model: str = "circular",
               estimator: str = "implicit", start: np.ndarray | None = None, *,
               backend: str = "auto", threads: int = 0, devices: Sequence[int] = (),
               **more) -> np.ndarray:
    """One `Fitter.fit_frames` with a `Fitter` of its own, on the GPU that has the frames; see both."""
    with Fitter(backend, threads, tuple(devices) or _home("frames", frames, backend)) as fitter:
        return fitter.fit_frames(frames, coordinates, side, model, estimator, start, **more)


def find_spots(frames: np.ndarray, box: int, min_net_gradient: float = 0, *, threads: int = 0, **more) -> np.ndarray:
    """One `Fitter.find_spots` with a `Fitter` of its own; see both."""
    with Fitter("cpu", threads) as fitter:
        return fitter.find_spots(frames, box, min_net_gradient, **more)


def localize(frames: np.ndarray, side: int = 9, model: str = "circular", estimator: str = "implicit", *,
             backend: str = "auto", threads: int = 0, devices: Sequence[int] = (), **more) -> np.ndarray:
    """One `Fitter.localize` with a `Fitter` of its own; see both."""
    with Fitter(backend, threads, devices) as fitter:
        return fitter.localize(frames, side, model, estimator, **more)


def instruction_set() -> str:
    """Which one the CPU fits by: "avx512", "avx2", "sse4" or "baseline"."""
    with Fitter("cpu", 1):  # which loads the library
        if not hasattr(_library, "driftfit_instruction_set"):
            raise FitError("instruction_set: the libdriftfit that is loaded is older and does not know it")
        return _library.driftfit_instruction_set().decode()


def use_instruction_set(name: str) -> None:
    """Chooses one for the whole process, or "auto", the best that the processor has: results of one are the same to
    the bit on any processor that has it.

    Raises
    ------
    ValueError
        One that cannot be had; the text names those that can.
    """
    if not isinstance(name, str):
        raise TypeError(f"an instruction set is {name!r}; allowed is a name")
    instruction_set()
    message = ctypes.create_string_buffer(512)
    if _library.driftfit_use_instruction_set(name.encode(), message, len(message)):
        raise ValueError(message.value.decode())


for _function in (fit, search, fit_frames, find_spots, localize):
    _method = getattr(Fitter, _function.__name__)
    _own = list(inspect.signature(_function).parameters.values())[:-1]
    *_others, _options = list(inspect.signature(_method).parameters.values())[1:]
    _names = {parameter.name for parameter in _own}
    _function.__signature__ = inspect.Signature(_own + [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in _others
        if parameter.name not in _names] + [_options])
    _function.__doc__ = "\n\n".join([
        _function.__doc__, "backend, threads, devices are those of `Fitter`.",
        inspect.cleandoc(_method.__doc__)])
