# SPDX-License-Identifier: MIT
"""Fits of 2-D Gaussians to numpy images through libdriftfit. Needs numpy.

    import driftd_fit

    fits = driftd_fit.fit(images)               # (n, side, side), uint8, uint16 or float32
    good = fits[driftd_fit.converged(fits)]
    print(good["x"], good["x_sd"])

Lengths are pixels, the centre of an image's first pixel is (0, 0), x counts columns. Amplitude and
background are in pixel units; ``*_sd`` are standard deviations. docs/fitter.md has the method.
"""
from __future__ import annotations

import ctypes
import ctypes.util
import os
import pathlib
from typing import Callable, Sequence

import numpy as np

#: What a fit gives; the bytes of driftfit_result in fitter/c/driftfit.h.
RESULT = np.dtype(
    [(name, np.float32) for name in
     ("x", "y", "sigma_x", "sigma_y", "amplitude", "background", "chi_square", "x_sd", "y_sd",
      "sigma_x_sd", "sigma_y_sd", "amplitude_sd", "background_sd")]
    + [("status", np.uint8), ("iterations", np.uint8), ("_reserved", np.uint16)])
#: Start values; sigma_x <= 0: none.
START = np.dtype([(name, np.float32) for name in ("x", "y", "sigma_x", "sigma_y")])
#: Names of ``status``.
STATUS = ("converged_residuum", "converged_decrease", "converged_step", "iteration_limit",
          "not_converged", "bad_input")

MODELS = {"circular": 0}
ESTIMATORS = {"implicit": 0}
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
                    "saturation", "min_background", "gain", "read_noise", "offset")])


_Progress = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


def _load() -> ctypes.CDLL:
    """$DRIFTFIT_LIBRARY, else a build beside this file's source tree, else the system's."""
    built = pathlib.Path(__file__).resolve().parents[2] / "build/release/lib/libdriftfit.so.1"
    name = os.environ.get("DRIFTFIT_LIBRARY") or (built if built.exists() else "libdriftfit.so.1")
    try:
        library = ctypes.CDLL(str(name))
    except OSError as error:
        raise FitError(f"{error}; build driftd, or set DRIFTFIT_LIBRARY to libdriftfit.so.1") from None
    pointer, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32
    library.driftfit_create.argtypes = [integer, integer, pointer, size, pointer, ctypes.c_char_p,
                                        size]
    library.driftfit_destroy.argtypes = [pointer]
    library.driftfit_destroy.restype = None
    library.driftfit_backend.argtypes = [pointer]
    library.driftfit_backend.restype = ctypes.c_char_p
    library.driftfit_default_options.argtypes = [pointer, ctypes.c_uint32]
    library.driftfit_default_options.restype = None
    library.driftfit_fit.argtypes = [pointer, pointer, pointer, integer, integer, size, pointer,
                                     pointer, _Progress, pointer, ctypes.c_char_p, size]
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
            progress: Callable[[int, int], bool | None] | None = None,
            **options: float) -> np.ndarray:
        """Fits every image.

        Parameters
        ----------
        images : array, shape (n, side, side) or (side, side)
            uint8, uint16 or float32; 4 to 64 pixels a side. Not copied when C-contiguous.
        start : array, shape (n,), dtype `START`; or shape (n, 3) of x, y, sigma; or (n, 4)
            Start values; None: each fit estimates its own.
        progress : callable
            Called as ``progress(done, n)`` after each block; a true result stops the fitting, and
            what is not done stays ``bad_input``.
        **options
            max_iterations, lambda_start, lambda_max, min_chi_square, min_decrease, min_step,
            saturation, min_background, gain, read_noise, offset: see fitter/c/driftfit.h.

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
        if not self._handle:
            raise ValueError("this Fitter is closed")
        images = np.asanyarray(images)
        if images.dtype not in PIXEL_TYPES:
            raise TypeError(f"images are {images.dtype}; allowed are "
                            f"{', '.join(str(t) for t in PIXEL_TYPES)}")
        if images.ndim == 2:
            images = images[np.newaxis]
        if images.ndim != 3 or images.shape[1] != images.shape[2]:
            raise ValueError(f"images have shape {images.shape}; allowed is (n, side, side)")
        count, side = images.shape[:2]
        if not MIN_SIDE <= side <= MAX_SIDE:
            raise ValueError(f"images have {side} x {side} pixels; allowed are {MIN_SIDE} to "
                             f"{MAX_SIDE} a side")
        images = np.ascontiguousarray(images)
        starts = None if start is None else _starts(start, count)
        settings = _settings(model, estimator, options)
        results = np.zeros(count, RESULT)
        results["status"] = STATUS.index("bad_input")

        failure: list[BaseException] = []

        def report(_user, done, total):
            try:
                return 1 if progress(done, total) else 0
            except BaseException as error:  # must not cross C; raised again below
                failure.append(error)
                return 1

        message = ctypes.create_string_buffer(512)
        code = _library.driftfit_fit(
            self._handle, ctypes.byref(settings), images.ctypes.data, PIXEL_TYPES[images.dtype],
            side, count, None if starts is None else starts.ctypes.data, results.ctypes.data,
            _Progress(report) if progress else _Progress(), None, message, len(message))
        if failure:
            raise failure[0]
        if code == 1:
            raise ValueError(message.value.decode())
        if code not in (0, _CANCELLED):
            raise FitError(message.value.decode())
        return results


def _starts(start: np.ndarray, count: int) -> np.ndarray:
    start = np.asanyarray(start)
    if start.dtype == START:
        if start.shape != (count,):
            raise ValueError(f"start has shape {start.shape}; allowed is ({count},)")
        return np.ascontiguousarray(start)
    if start.shape not in ((count, 3), (count, 4)):
        raise ValueError(f"start has shape {start.shape}; allowed are ({count}, 3) of x, y, sigma "
                         f"and ({count}, 4) of x, y, sigma_x, sigma_y")
    made = np.zeros(count, START)
    for column, name in enumerate(START.names):
        made[name] = start[:, min(column, start.shape[1] - 1)]
    return made


def _settings(model: str, estimator: str, options: dict) -> _Options:
    settings = _Options()
    _library.driftfit_default_options(ctypes.byref(settings), ctypes.sizeof(settings))
    settings.model = _one_of("model", model, MODELS)
    settings.estimator = _one_of("estimator", estimator, ESTIMATORS)
    allowed = [name for name, _ in _Options._fields_[3:]]
    for name, value in options.items():
        if name not in allowed:
            raise TypeError(f"unknown option {name!r}; allowed are {', '.join(allowed)}")
        setattr(settings, name, value)
    return settings


def fit(images: np.ndarray, model: str = "circular", estimator: str = "implicit",
        start: np.ndarray | None = None, *, backend: str = "auto", threads: int = 0,
        devices: Sequence[int] = (), progress: Callable[[int, int], bool | None] | None = None,
        **options: float) -> np.ndarray:
    """One `Fitter.fit` with a `Fitter` of its own; see both."""
    with Fitter(backend, threads, devices) as fitter:
        return fitter.fit(images, model, estimator, start, progress, **options)
