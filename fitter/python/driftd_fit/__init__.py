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
from typing import Sequence

import numpy as np

from . import gpu, libdriftfit
from .arguments import MAX_SIDE, MIN_SIDE, PIXEL_TYPES
from .fitter import BACKENDS, Fitter
from .libdriftfit import PARAMETERS, FitError, LibraryMissing
from .records import (DETAILS, LEVELS, LOCALIZATION, PLACE, RESULT, SPOT, START, STATUS, SWARM_REPORT,
                      converged)
from .settings import ESTIMATORS, MODELS

__all__ = ["BACKENDS", "DETAILS", "ESTIMATORS", "LEVELS", "LOCALIZATION", "MAX_SIDE", "MIN_SIDE", "MODELS",
           "PARAMETERS", "PIXEL_TYPES", "PLACE", "RESULT", "SPOT", "START", "STATUS", "SWARM_REPORT", "FitError",
           "Fitter", "LibraryMissing", "converged", "find_spots", "fit", "fit_frames", "instruction_set", "localize",
           "pinned", "search", "use_instruction_set"]


def pinned(shape, dtype=np.float32) -> np.ndarray:
    """An array of zeros that GPUs read and write directly, for images, or with dtype `RESULT` for
    `out`: from there and to there fits are fastest. An ordinary one where there is no GPU.

    Raises
    ------
    MemoryError
        There is not so much of it: it is never swapped out.
    """
    library = libdriftfit.loaded()
    dtype = np.dtype(dtype)
    if dtype.hasobject or dtype.subdtype:
        raise TypeError(f"pinned: elements of {dtype}; allowed are numbers and records of numbers")
    shape = np.broadcast_to(np.zeros((), dtype), shape).shape
    size = math.prod(shape) * dtype.itemsize
    if size == 0 or not hasattr(library, "driftfit_allocate_pinned") or (
            library.driftfit_cuda_devices() == 0):
        return np.zeros(shape, dtype)
    memory = library.driftfit_allocate_pinned(size)
    if not memory:
        raise MemoryError(f"pinned: {size} bytes that GPUs read directly cannot be had")
    held = (ctypes.c_uint8 * size).from_address(memory)
    # Not at exit: others may still write there.
    weakref.finalize(held, library.driftfit_free_pinned, memory).atexit = False
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


def find_spots(frames: np.ndarray, box: int, min_net_gradient: float = 0, *, backend: str = "auto", threads: int = 0,
               devices: Sequence[int] = (), **more) -> np.ndarray:
    """One `Fitter.find_spots` with a `Fitter` of its own; see both."""
    with Fitter(backend, threads, devices) as fitter:
        return fitter.find_spots(frames, box, min_net_gradient, **more)


def localize(frames: np.ndarray, side: int = 9, model: str = "circular", estimator: str = "implicit", *,
             backend: str = "auto", threads: int = 0, devices: Sequence[int] = (), **more) -> np.ndarray:
    """One `Fitter.localize` with a `Fitter` of its own; see both."""
    with Fitter(backend, threads, devices) as fitter:
        return fitter.localize(frames, side, model, estimator, **more)


def instruction_set() -> str:
    """Which one the CPU fits by: "avx512", "avx2", "sse4" or "baseline"."""
    with Fitter("cpu", 1):  # which loads the library
        if not hasattr(libdriftfit.loaded(), "driftfit_instruction_set"):
            raise FitError("instruction_set: the libdriftfit that is loaded is older and does not know it")
        return libdriftfit.loaded().driftfit_instruction_set().decode()


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
    if libdriftfit.loaded().driftfit_use_instruction_set(name.encode(), message, len(message)):
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
