# SPDX-License-Identifier: MIT
"""Fits of 2-D Gaussians to numpy images through libdriftfit. Needs numpy.

    import driftd_fit

    fits = driftd_fit.fit(images)               # (n, side, side), uint8, uint16 or float32
    good = fits[driftd_fit.converged(fits)]
    print(good["x"], good["x_sd"])

    driftd_fit.fit(images, model="elliptical", estimator="poisson", fixed=("sigma_x",),
                   start=start, bounds={"sigma_y": (0.8, 2.5)}, gain=4.0, offset=100)

    fits, found = driftd_fit.search(images)     # each from where a particle swarm was best

Lengths are pixels, the centre of an image's first pixel is (0, 0), x counts columns. Amplitude and
background are in pixel units; ``*_sd`` are standard deviations. docs/fitter.md has the method.
"""
from __future__ import annotations

import ctypes
import ctypes.util
import os
import pathlib
from typing import Callable, Mapping, Sequence

import numpy as np

#: What a fit gives; the bytes of driftfit_result in fitter/c/driftfit.h.
RESULT = np.dtype(
    [(name, np.float32) for name in
     ("x", "y", "sigma_x", "sigma_y", "amplitude", "background", "chi_square", "x_sd", "y_sd",
      "sigma_x_sd", "sigma_y_sd", "amplitude_sd", "background_sd")]
    + [("status", np.uint8), ("iterations", np.uint8), ("_reserved", np.uint16)])
#: Start values; sigma_x <= 0: none.
START = np.dtype([(name, np.float32) for name in ("x", "y", "sigma_x", "sigma_y")])
#: Start values of the other parameters.
LEVELS = np.dtype([(name, np.float32) for name in ("amplitude", "background")])
#: What a swarm found before the fit: its best place, the standard deviations of its last best ones
#: and its sum of squared residuals; the bytes of driftfit_swarm_report.
SWARM_REPORT = np.dtype([(name, np.float32) for name in
                         ("x", "y", "sigma_x", "sigma_y", "x_spread", "y_spread",
                          "sigma_x_spread", "sigma_y_spread", "chi_square")])
#: What can be fixed and bounded. The circular model has no sigma_y: sigma_x is its sigma.
PARAMETERS = ("x", "y", "sigma_x", "sigma_y", "amplitude", "background")
#: Names of ``status``.
STATUS = ("converged_residuum", "converged_decrease", "converged_step", "iteration_limit",
          "not_converged", "bad_input")

MODELS = {"circular": 0, "elliptical": 1}
ESTIMATORS = {"implicit": 0, "least_squares": 1, "weighted_least_squares": 2, "poisson": 3}
BACKENDS = {"auto": 0, "cpu": 1, "cuda": 2}
PIXEL_TYPES = {np.dtype(np.uint8): 0, np.dtype(np.uint16): 1, np.dtype(np.float32): 2}
MIN_SIDE, MAX_SIDE = 4, 64
_CANCELLED = 4


class FitError(Exception):
    """The library could not fit; the text says why."""


class _Options(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_uint32), ("model", ctypes.c_int32),
                 ("estimator", ctypes.c_int32), ("max_iterations", ctypes.c_int32)]
                + [(name, ctypes.c_float) for name in
                   ("lambda_start", "lambda_max", "min_chi_square", "min_decrease", "min_step",
                    "saturation", "min_background", "gain", "read_noise", "offset")]
                + [("fixed", ctypes.c_uint32), ("spots_only", ctypes.c_int32),
                   ("lower", ctypes.c_float * len(PARAMETERS)),
                   ("upper", ctypes.c_float * len(PARAMETERS))])


class _SwarmOptions(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_uint32), ("particles", ctypes.c_int32),
                 ("iterations", ctypes.c_int32)]
                + [(name, ctypes.c_float) for name in
                   ("inertia", "own_pull", "swarm_pull", "max_velocity")]
                + [("spread_of_last", ctypes.c_int32), ("seed", ctypes.c_uint64),
                   ("first_image", ctypes.c_uint64)])


class _Images(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_uint32), ("pixel_type", ctypes.c_int32),
                 ("side", ctypes.c_int32), ("reserved", ctypes.c_int32),
                 ("count", ctypes.c_size_t)]
                + [(name, ctypes.c_void_p) for name in
                   ("pixels", "starts", "levels", "variances", "bounds")])


#: Options that are numbers.
_NUMBERS = tuple(name for name, _ in _Options._fields_
                 if name not in ("size", "model", "estimator", "fixed", "lower", "upper"))
_SWARM_NUMBERS = tuple(name for name, _ in _SwarmOptions._fields_ if name != "size")


_Progress = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


def _load() -> ctypes.CDLL:
    """$DRIFTFIT_LIBRARY, else a build beside this file's source tree, else the system's."""
    built = pathlib.Path(__file__).resolve().parents[2] / "build/release/lib/libdriftfit.so.1"
    name = os.environ.get("DRIFTFIT_LIBRARY") or (built if built.exists() else "libdriftfit.so.1")
    try:
        library = ctypes.CDLL(str(name))
    except OSError as error:
        raise FitError(
            f"{error}; build driftd, or set DRIFTFIT_LIBRARY to libdriftfit.so.1") from None
    pointer, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32
    library.driftfit_create.argtypes = [integer, integer, pointer, size, pointer, ctypes.c_char_p,
                                        size]
    library.driftfit_destroy.argtypes = [pointer]
    library.driftfit_destroy.restype = None
    library.driftfit_backend.argtypes = [pointer]
    library.driftfit_backend.restype = ctypes.c_char_p
    library.driftfit_default_options.argtypes = [pointer, ctypes.c_uint32]
    library.driftfit_default_options.restype = None
    library.driftfit_fit_images.argtypes = [pointer, pointer, pointer, pointer, _Progress, pointer,
                                            ctypes.c_char_p, size]
    library.driftfit_default_swarm_options.argtypes = [pointer, ctypes.c_uint32]
    library.driftfit_default_swarm_options.restype = None
    library.driftfit_search.argtypes = [pointer, pointer, pointer, pointer, pointer, pointer,
                                        _Progress, pointer, ctypes.c_char_p, size]
    return library


_library: ctypes.CDLL | None = None


def _one_of(what: str, name: str, known: dict) -> int:
    if name not in known:
        raise ValueError(f"{what} is {name!r}; allowed are {', '.join(known)}")
    return known[name]


def converged(fits: np.ndarray) -> np.ndarray:
    """Which fits are results: a boolean array."""
    return fits["status"] <= 2


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
    FitError
        The library or the GPU cannot be had.
    """

    def __init__(self, backend: str = "auto", threads: int = 0, devices: Sequence[int] = ()):
        global _library
        self._handle = ctypes.c_void_p()
        number = _one_of("backend", backend, BACKENDS)
        if _library is None:
            _library = _load()
        numbers = (ctypes.c_int32 * len(devices))(*devices)
        message = ctypes.create_string_buffer(512)
        if _library.driftfit_create(number, threads, numbers if devices else None, len(devices),
                                    ctypes.byref(self._handle), message, len(message)):
            raise FitError(message.value.decode())
        #: "cpu" or "cuda"
        self.backend = _library.driftfit_backend(self._handle).decode()

    def close(self) -> None:
        """Gives the memory back; twice does no harm."""
        if self._handle:
            _library.driftfit_destroy(self._handle)
            self._handle = ctypes.c_void_p()

    def __enter__(self) -> "Fitter":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def fit(self, images: np.ndarray, model: str = "circular", estimator: str = "implicit",
            start: np.ndarray | None = None,
            progress: Callable[[int, int], bool | None] | None = None, *,
            levels: np.ndarray | None = None, variances: np.ndarray | None = None,
            bounds: Mapping[str, tuple] | None = None, fixed: Sequence[str] = (),
            **options: float) -> np.ndarray:
        """Fits every image.

        Parameters
        ----------
        images : array, shape (n, side, side) or (side, side)
            uint8, uint16 or float32; 4 to 64 pixels a side. Not copied when C-contiguous.
        model : "circular" or "elliptical"
            One width, or one along each axis.
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
            Variance of each pixel, pixel units squared; to poisson, its read noise.
        bounds : mapping of a name of `PARAMETERS` to (lower, upper)
            Each a number, or an array of shape (n,). Not with implicit.
        fixed : names of `PARAMETERS`
            These keep their start values. Not with implicit.
        **options
            max_iterations, lambda_start, lambda_max, min_chi_square, min_decrease, min_step,
            saturation, min_background, gain, read_noise, offset, spots_only: see
            fitter/c/driftfit.h.

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
        work = _Work(images, settings, start, levels, variances, bounds)
        self._call(_library.driftfit_fit_images, [ctypes.byref(settings)], work, [], progress)
        return work.results

    def search(self, images: np.ndarray, model: str = "circular", estimator: str = "implicit",
               progress: Callable[[int, int], bool | None] | None = None, *,
               particles: int = 256, iterations: int = 30, seed: int = 0,
               levels: np.ndarray | None = None, variances: np.ndarray | None = None,
               bounds: Mapping[str, tuple] | None = None, fixed: Sequence[str] = (),
               **options: float) -> tuple[np.ndarray, np.ndarray]:
        """Fits every image from where a particle swarm found its least squares.

        The swarm searches the whole image and needs no start value. Where the model does not
        describe the whole image, bound the widths (with another estimator than implicit): bounds are the swarm's domain, too.

        Parameters
        ----------
        images, model, estimator, progress, levels, variances, bounds
            As in `fit`.
        particles : int
            A whole multiple of 16, 16 to 1024.
        iterations : int
            Of the swarm, 1 to 1000; all are made. Those of the fit end by `max_iterations`.
        seed : int, 0 to 2**64 - 1
            The same seed and number of an image give the same search.
        fixed : names of `PARAMETERS`
            Amplitude and background alone, with `levels`. Not with implicit.
        **options
            Of the swarm: inertia, own_pull, swarm_pull, max_velocity, spread_of_last, first_image
            (the number of the first image: calls that count on give what one gives); and of the
            fit, as in `fit`. See fitter/c/driftfit.h.

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
                       | {name: options.pop(name) for name in _SWARM_NUMBERS if name in options})
        settings = _settings(model, estimator, fixed, options)
        work = _Work(images, settings, None, levels, variances, bounds)
        found = np.zeros(len(work.results), SWARM_REPORT)
        found["chi_square"] = np.nan
        self._call(_library.driftfit_search, [ctypes.byref(settings), ctypes.byref(swarm)], work,
                   [found.ctypes.data], progress)
        return work.results, found

    def _check_open(self) -> None:
        if not self._handle:
            raise ValueError("this Fitter is closed")

    def _call(self, function, settings: list, work: "_Work", outputs: list, progress) -> None:
        failure: list[BaseException] = []

        def report(_user, done, total):
            try:
                return 1 if progress(done, total) else 0
            except BaseException as error:  # must not cross C; raised again below
                failure.append(error)
                return 1

        message = ctypes.create_string_buffer(512)
        code = function(
            self._handle, *settings, ctypes.byref(work.images), work.results.ctypes.data, *outputs,
            _Progress(report) if progress else _Progress(), None, message, len(message))
        if failure:
            raise failure[0]
        if code == 1:
            raise ValueError(message.value.decode())
        if code not in (0, _CANCELLED):
            raise FitError(message.value.decode())


class _Work:
    """What is fitted, as the library takes it, with room for the results. Keeps the arrays alive.
    Bounds that are numbers go into `settings`."""

    def __init__(self, images, settings: _Options, start, levels, variances, bounds):
        images = _checked_images(images)
        count, side = images.shape[:2]
        self._arrays = {
            "pixels": images,
            "starts": None if start is None else _records(start, "start", START, count, fewest=3),
            "levels": None if levels is None else _records(levels, "levels", LEVELS, count),
            "variances": None if variances is None else _variances(variances, images.shape),
            "bounds": None if bounds is None else _take_bounds(bounds, settings, count)}
        self.images = _Images(ctypes.sizeof(_Images), PIXEL_TYPES[images.dtype], side, 0, count,
                              **{name: array.ctypes.data for name, array in self._arrays.items()
                                 if array is not None})
        self.results = np.zeros(count, RESULT)
        self.results["status"] = STATUS.index("bad_input")


def _checked_images(images: np.ndarray) -> np.ndarray:
    images = np.asanyarray(images)
    if images.dtype not in PIXEL_TYPES:
        raise TypeError(f"images are {images.dtype}; allowed are "
                        f"{', '.join(str(t) for t in PIXEL_TYPES)}")
    if images.ndim == 2:
        images = images[np.newaxis]
    if images.ndim != 3 or images.shape[1] != images.shape[2]:
        raise ValueError(f"images have shape {images.shape}; allowed is (n, side, side)")
    if not MIN_SIDE <= images.shape[1] <= MAX_SIDE:
        raise ValueError(f"images have {images.shape[1]} x {images.shape[1]} pixels; allowed are "
                         f"{MIN_SIDE} to {MAX_SIDE} a side")
    return np.ascontiguousarray(images)


def _records(given: np.ndarray, what: str, dtype: np.dtype, count: int,
             fewest: int | None = None) -> np.ndarray:
    """`dtype` from the same or from columns; the last one given stands for the missing ones."""
    given = np.asanyarray(given)
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


def _variances(given: np.ndarray, shape: tuple) -> np.ndarray:
    given = np.asanyarray(given)
    if given.shape not in (shape, shape[1:]):
        raise ValueError(f"variances have shape {given.shape}; allowed are {shape} and {shape[1:]}")
    return np.ascontiguousarray(np.broadcast_to(given, shape), np.float32)


def _take_bounds(bounds: Mapping[str, tuple], settings: _Options, count: int) -> np.ndarray | None:
    """Numbers go into the settings; a parameter with an array gives bounds of each image."""
    single = np.empty((count, 2, len(PARAMETERS)), np.float32)
    single[:] = [[-np.inf], [np.inf]]
    any_single = False
    for name, pair in bounds.items():
        place = _place(name)
        if len(pair) != 2:
            raise ValueError(f"bounds of {name} are {len(pair)}; allowed are two: lower, upper")
        for side, (limits, value) in enumerate(zip((settings.lower, settings.upper), pair)):
            if np.ndim(value) == 0:
                limits[place] = value
            elif np.shape(value) == (count,):
                single[:, side, place] = value
                any_single = True
            else:
                raise ValueError(f"a bound of {name} has shape {np.shape(value)}; allowed are a "
                                 f"number and ({count},)")
    return single if any_single else None


def _place(name: str) -> int:
    return _one_of("a parameter", name, {p: i for i, p in enumerate(PARAMETERS)})


def _settings(model: str, estimator: str, fixed: Sequence[str], options: dict) -> _Options:
    settings = _Options()
    _library.driftfit_default_options(ctypes.byref(settings), ctypes.sizeof(settings))
    settings.model = _one_of("model", model, MODELS)
    settings.estimator = _one_of("estimator", estimator, ESTIMATORS)
    for name in (fixed,) if isinstance(fixed, str) else fixed:
        settings.fixed |= 1 << _place(name)
    for name, value in options.items():
        if name not in _NUMBERS:
            raise TypeError(f"unknown option {name!r}; allowed are {', '.join(_NUMBERS)}")
        setattr(settings, name, value)
    return settings


def _swarm(options: dict) -> _SwarmOptions:
    swarm = _SwarmOptions()
    _library.driftfit_default_swarm_options(ctypes.byref(swarm), ctypes.sizeof(swarm))
    for name, value in options.items():
        if name in ("seed", "first_image") and not 0 <= value < 2**64:  # ctypes would cut it off
            raise ValueError(f"{name} is {value}; allowed are 0 to 2**64 - 1")
        setattr(swarm, name, value)
    return swarm


def fit(images: np.ndarray, model: str = "circular", estimator: str = "implicit",
        start: np.ndarray | None = None, *, backend: str = "auto", threads: int = 0,
        devices: Sequence[int] = (), progress: Callable[[int, int], bool | None] | None = None,
        levels: np.ndarray | None = None, variances: np.ndarray | None = None,
        bounds: Mapping[str, tuple] | None = None, fixed: Sequence[str] = (),
        **options: float) -> np.ndarray:
    """One `Fitter.fit` with a `Fitter` of its own; see both."""
    with Fitter(backend, threads, devices) as fitter:
        return fitter.fit(images, model, estimator, start, progress, levels=levels,
                          variances=variances, bounds=bounds, fixed=fixed, **options)


def search(images: np.ndarray, model: str = "circular", estimator: str = "implicit", *,
           backend: str = "auto", threads: int = 0,
           progress: Callable[[int, int], bool | None] | None = None, particles: int = 256,
           iterations: int = 30, seed: int = 0, levels: np.ndarray | None = None,
           variances: np.ndarray | None = None, bounds: Mapping[str, tuple] | None = None,
           fixed: Sequence[str] = (), **options: float) -> tuple[np.ndarray, np.ndarray]:
    """One `Fitter.search` with a `Fitter` of its own; see both."""
    with Fitter(backend, threads) as fitter:
        return fitter.search(images, model, estimator, progress, particles=particles,
                             iterations=iterations, seed=seed, levels=levels, variances=variances,
                             bounds=bounds, fixed=fixed, **options)
