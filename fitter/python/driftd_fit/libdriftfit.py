# SPDX-License-Identifier: MIT
"""libdriftfit itself: where it lies, and its structures and functions (fitter/c/driftfit.h)."""
from __future__ import annotations

import ctypes
import os
import pathlib
import sysconfig

#: What can be fixed and bounded. The circular model has no sigma_y: sigma_x is its sigma.
PARAMETERS = ("x", "y", "sigma_x", "sigma_y", "amplitude", "background")


class FitError(RuntimeError):
    """The library could not fit; the text says why."""


class LibraryMissing(FitError, ImportError):
    """There is no libdriftfit; the text says where it was looked for and what to set."""


class Options(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_uint32), ("model", ctypes.c_int32),
                 ("estimator", ctypes.c_int32), ("max_iterations", ctypes.c_int32)]
                + [(name, ctypes.c_float) for name in
                   ("lambda_start", "lambda_max", "min_chi_square", "min_decrease", "min_step",
                    "saturation", "min_background", "gain", "read_noise", "offset")]
                + [("fixed", ctypes.c_uint32), ("spots_only", ctypes.c_int32),
                   ("lower", ctypes.c_float * len(PARAMETERS)),
                   ("upper", ctypes.c_float * len(PARAMETERS)),
                   ("excess_noise", ctypes.c_float), ("integrated", ctypes.c_int32)])


class SwarmOptions(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_uint32), ("particles", ctypes.c_int32),
                 ("iterations", ctypes.c_int32)]
                + [(name, ctypes.c_float) for name in
                   ("inertia", "own_pull", "swarm_pull", "max_velocity")]
                + [("spread_of_last", ctypes.c_int32), ("seed", ctypes.c_uint64),
                   ("first_image", ctypes.c_uint64)])


class Images(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_uint32), ("pixel_type", ctypes.c_int32),
                 ("side", ctypes.c_int32), ("reserved", ctypes.c_int32),
                 ("count", ctypes.c_size_t)]
                + [(name, ctypes.c_void_p) for name in
                   ("pixels", "starts", "levels", "variances", "bounds", "angles", "details")])


class Frames(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("pixel_type", ctypes.c_int32),
                ("width", ctypes.c_int32), ("height", ctypes.c_int32),
                ("frame_count", ctypes.c_size_t), ("pixels", ctypes.c_void_p),
                ("row_stride", ctypes.c_size_t), ("frame_stride", ctypes.c_size_t),
                ("side", ctypes.c_int32), ("reserved", ctypes.c_int32), ("count", ctypes.c_size_t)
                ] + [(name, ctypes.c_void_p) for name in
                     ("places", "starts", "levels", "bounds", "gain_map", "offset_map",
                      "variance_map", "angles", "details")]


#: Codes that calls return.
BAD_ARGUMENT, CANCELLED = 1, 4

#: Called with user, done, total; other than 0 stops the fitting.
Progress = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


def _places(name: str) -> list[pathlib.Path]:
    """Where the library lies in a checkout that was built, and in an installation."""
    folder = pathlib.Path(__file__).resolve().parent.parent
    if folder.parts[-2:] == ("fitter", "python"):
        return [folder.parent.parent / "build/release/lib" / name]
    if folder.name in ("dist-packages", "site-packages"):  # of PREFIX/lib/python3.x
        libraries = folder.parent.parent
        multiarch = sysconfig.get_config_var("MULTIARCH") or ""
        return [libraries / name, libraries / multiarch / name]
    return []


def load() -> ctypes.CDLL:
    """$DRIFTFIT_LIBRARY alone if it is set, else the first of `_places`, else the system's."""
    name = "libdriftfit.so.1"
    chosen = os.environ.get("DRIFTFIT_LIBRARY")
    places = [] if chosen else _places(name)
    try:
        library = ctypes.CDLL(chosen or str(next((p for p in places if p.exists()), name)))
    except OSError as error:
        looked = "in DRIFTFIT_LIBRARY" if chosen else " and ".join(
            [f"at {place}" for place in places] + ["in the system's library path"])
        raise LibraryMissing(
            f"{error}. {name} was looked for {looked}. Build driftd (./run build), install it, or "
            f"set DRIFTFIT_LIBRARY to the path of {name}") from None
    pointer, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32
    library.driftfit_create.argtypes = [integer, integer, pointer, size, pointer, ctypes.c_char_p,
                                        size]
    library.driftfit_destroy.argtypes = [pointer]
    library.driftfit_destroy.restype = None
    library.driftfit_backend.argtypes = [pointer]
    library.driftfit_backend.restype = ctypes.c_char_p
    library.driftfit_backend_reason.argtypes = [pointer]
    library.driftfit_backend_reason.restype = ctypes.c_char_p
    library.driftfit_default_options.argtypes = [pointer, ctypes.c_uint32]
    library.driftfit_default_options.restype = None
    library.driftfit_fit_images.argtypes = [pointer, pointer, pointer, pointer, Progress, pointer,
                                            ctypes.c_char_p, size]
    if hasattr(library, "driftfit_fit_frames"):  # not in older ones
        library.driftfit_fit_frames.argtypes = library.driftfit_fit_images.argtypes
    if hasattr(library, "driftfit_allocate_pinned"):
        library.driftfit_allocate_pinned.argtypes, library.driftfit_allocate_pinned.restype = (
            [size], pointer)
        library.driftfit_free_pinned.argtypes, library.driftfit_free_pinned.restype = [pointer], None
    if hasattr(library, "driftfit_localize"):
        library.driftfit_find_spots.argtypes = [pointer, pointer, pointer, ctypes.c_double, pointer, size, pointer,
                                                ctypes.c_char_p, size]
        library.driftfit_localize.argtypes = [pointer, pointer, pointer, ctypes.c_double, ctypes.c_uint32, pointer, size,
                                              pointer, ctypes.c_char_p, size]
        library.driftfit_instruction_set.restype = ctypes.c_char_p
        library.driftfit_use_instruction_set.argtypes = [ctypes.c_char_p, ctypes.c_char_p, size]
    library.driftfit_default_swarm_options.argtypes = [pointer, ctypes.c_uint32]
    library.driftfit_default_swarm_options.restype = None
    library.driftfit_search.argtypes = [pointer, pointer, pointer, pointer, pointer, pointer,
                                        Progress, pointer, ctypes.c_char_p, size]
    return library


_loaded: ctypes.CDLL | None = None


def loaded() -> ctypes.CDLL:
    """The one of this process."""
    global _loaded
    if _loaded is None:
        _loaded = load()
    return _loaded
