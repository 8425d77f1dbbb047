# SPDX-License-Identifier: MIT
"""pyGpufit's calls on driftd's libGpufit, for programs written for it. Needs numpy.

    from pygpufit import gpufit as gf

    parameters, states, chi_squares, iterations, seconds = gf.fit(
        data, None, gf.ModelID.GAUSS_2D, initial_parameters, tolerance=1e-4)

Fitted are GAUSS_1D (amplitude, x, sigma, offset) on 5 to 4096 points, LINEAR_1D (offset, slope) on 2 or
more, and GAUSS_2D (amplitude, x, y, sigma, offset), GAUSS_2D_ELLIPTIC and CAUCHY_2D_ELLIPTIC (amplitude,
x, y, sigma_x, sigma_y, offset) and GAUSS_2D_ROTATED (the same and rotation, in radians) on square images
of 4 to 64 pixels a side, by both estimators;
docs/use/gpufit.md says what else differs from Gpufit. Mistakes are a RuntimeError, as there.
"""
import ctypes
import os
import pathlib
import sysconfig
import time

import numpy as np


class ModelID:
    GAUSS_1D = 0
    GAUSS_2D = 1
    GAUSS_2D_ELLIPTIC = 2
    GAUSS_2D_ROTATED = 3
    CAUCHY_2D_ELLIPTIC = 4
    LINEAR_1D = 5
    FLETCHER_POWELL = 6
    BROWN_DENNIS = 7
    SPLINE_1D = 8
    SPLINE_2D = 9
    SPLINE_3D = 10
    SPLINE_3D_MULTICHANNEL = 11
    SPLINE_3D_PHASE_MULTICHANNEL = 12
    SPLINE_4D = 13
    SPLINE_5D = 14


class EstimatorID:
    LSE = 0
    MLE = 1


class ConstraintType:
    FREE = 0
    LOWER = 1
    UPPER = 2
    LOWER_UPPER = 3


class Status:
    Ok = 0
    Error = 1


def _valid_id(cls, id):
    """Whether one of the constants of `cls` is `id`; some programs call it by this name."""
    return any(value == id for name, value in vars(cls).items() if not name.startswith("__"))


def _places(name):
    """Where the library lies in a checkout that was built, and in an installation."""
    folder = pathlib.Path(__file__).resolve().parent.parent
    if folder.parts[-2:] == ("fitter", "python"):
        return [folder.parent.parent / "build/release/lib" / name]
    if folder.name in ("dist-packages", "site-packages"):  # of PREFIX/lib/python3.x
        libraries = folder.parent.parent
        multiarch = sysconfig.get_config_var("MULTIARCH") or ""
        return [libraries / name, libraries / multiarch / name]
    return []


def _load():
    """$GPUFIT_LIBRARY alone if it is set, else the first of `_places`, else the system's."""
    name = "libGpufit.so"
    chosen = os.environ.get("GPUFIT_LIBRARY")
    places = [] if chosen else _places(name)
    try:
        library = ctypes.CDLL(chosen or str(next((p for p in places if p.exists()), name)))
    except OSError as error:  # an ImportError tells programs that Gpufit is not installed
        looked = "in GPUFIT_LIBRARY" if chosen else " and ".join(
            [f"at {place}" for place in places] + ["in the system's library path"])
        raise ImportError(
            f"{error}. {name} was looked for {looked}. Build driftd (./run build), install it, or "
            f"set GPUFIT_LIBRARY to the path of {name}") from None
    size, pointer, integer = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
    library.gpufit_constrained.argtypes = [
        size, size, pointer, pointer, integer, pointer, pointer, pointer, ctypes.c_float, integer,
        pointer, integer, size, pointer, pointer, pointer, pointer, pointer]
    library.gpufit_get_last_error.argtypes = []
    library.gpufit_get_last_error.restype = ctypes.c_char_p
    library.gpufit_cuda_available.argtypes = []
    library.gpufit_get_cuda_version.argtypes = [ctypes.POINTER(integer)] * 2
    return library


_library = _load()


def fit(data, weights, model_id, initial_parameters, tolerance=None, max_number_iterations=None,
        parameters_to_fit=None, estimator_id=None, user_info=None):
    """Fits every row of `data`; `fit_constrained` without constraints.

    Parameters
    ----------
    data : array, shape (number_fits, number_points), float32
        Images, flattened row by row.
    weights : array like data, or None
        1 / variance of each point; of EstimatorID.LSE only.
    model_id : of ModelID
    initial_parameters : array, shape (number_fits, number_parameters), float32
    tolerance : float
        A relative change of chi-square below it ends a fit; None: 1e-4.
    max_number_iterations : int
        None: 25.
    parameters_to_fit : array, shape (number_parameters,), int32
        0: keeps its initial value; None: all are fitted.
    estimator_id : of EstimatorID
        None: LSE.
    user_info : array, shape (number_points,) or (number_fits, number_points), float32, or None
        Places of the points, of GAUSS_1D and LINEAR_1D; None: 0, 1, 2 ...

    Returns
    -------
    parameters : array, shape (number_fits, number_parameters), float32
    states : array, shape (number_fits,), int32
        0: converged; docs/use/gpufit.md has the others.
    chi_squares : array, shape (number_fits,), float32
    number_iterations : array, shape (number_fits,), int32
    execution_time : float
        Seconds of the call of the library.

    Raises
    ------
    RuntimeError
        Arrays of another kind, or what the library says.
    """
    return fit_constrained(data, weights, model_id, initial_parameters, tolerance=tolerance,
                           max_number_iterations=max_number_iterations,
                           parameters_to_fit=parameters_to_fit, estimator_id=estimator_id,
                           user_info=user_info)


def fit_constrained(data, weights, model_id, initial_parameters, constraints=None,
                    constraint_types=None, tolerance=None, max_number_iterations=None,
                    parameters_to_fit=None, estimator_id=None, user_info=None):
    """As `fit`, with bounds.

    Parameters
    ----------
    constraints : array, shape (number_fits, 2 * number_parameters), float32
        Lower and upper bound of each parameter in turn; None: none.
    constraint_types : array, shape (number_parameters,), int32, of ConstraintType
        Which of the bounds hold; None: none.
    """
    for name, array in (("data", data), ("initial_parameters", initial_parameters)):
        _check(name, array, np.float32, (None, None))
    if estimator_id is None:
        estimator_id = EstimatorID.LSE
    if max_number_iterations is None:
        max_number_iterations = 25
    for name, value in (("model_id", model_id), ("estimator_id", estimator_id),
                        ("max_number_iterations", max_number_iterations)):
        _check_integer(name, value)
    fits, points = data.shape
    count = initial_parameters.shape[1]
    if parameters_to_fit is None:
        parameters_to_fit = np.ones(count, np.int32)
    if constraint_types is None:
        constraint_types = np.full(count, ConstraintType.FREE, np.int32)
    _check("weights", weights, np.float32, (fits, points))
    _check("initial_parameters", initial_parameters, np.float32, (fits, None))
    _check("constraints", constraints, np.float32, (fits, 2 * count))
    _check("constraint_types", constraint_types, np.int32, (count,))
    _check("parameters_to_fit", parameters_to_fit, np.int32, (count,))
    _check_model(model_id, count)
    if user_info is not None and np.ndim(user_info) == 1:
        _check("user_info", user_info, np.float32, (points,))
    else:
        _check("user_info", user_info, np.float32, (fits, points))

    parameters = np.zeros((fits, count), np.float32)
    states = np.zeros(fits, np.int32)
    chi_squares = np.zeros(fits, np.float32)
    number_iterations = np.zeros(fits, np.int32)
    begin = time.perf_counter()
    status = _library.gpufit_constrained(
        fits, points, _at(data), _at(weights), model_id, _at(initial_parameters),
        _at(constraints), _at(constraint_types), 1e-4 if tolerance is None else tolerance,
        max_number_iterations, _at(parameters_to_fit), estimator_id,
        0 if user_info is None else user_info.nbytes, _at(user_info), _at(parameters), _at(states),
        _at(chi_squares), _at(number_iterations))
    seconds = time.perf_counter() - begin
    _raise_for(status)
    return parameters, states, chi_squares, number_iterations, seconds


def get_last_error():
    """The library's sentence of this thread's last error, as bytes."""
    return _library.gpufit_get_last_error()


def cuda_available():
    """Whether there is a GPU that the library can use; without one, fits run on the CPU."""
    return _library.gpufit_cuda_available() != 0


def get_cuda_version():
    """(major, minor) of the runtime and of the driver; (0, 0): there is none."""
    versions = ctypes.c_int(), ctypes.c_int()
    _raise_for(_library.gpufit_get_cuda_version(*(ctypes.byref(v) for v in versions)))
    runtime, driver = ((v.value // 1000, v.value % 1000 // 10) for v in versions)
    return runtime, driver


def _at(array):
    return None if array is None else array.ctypes.data


def _check(name, array, dtype, shape):
    """None in `shape`: any number."""
    if array is None:
        return
    if array.dtype != dtype:
        raise RuntimeError(f"{name} is {array.dtype}, allowed is {np.dtype(dtype)}")
    if array.ndim != len(shape) or any(wanted not in (None, found)
                                       for wanted, found in zip(shape, array.shape)):
        raise RuntimeError(f"{name} has shape {array.shape}, allowed is "
                           f"{tuple('any' if n is None else n for n in shape)}")
    if not array.flags.c_contiguous:
        raise RuntimeError(f"{name} is not C-contiguous")


def _check_integer(name, value):
    if ctypes.c_int(value).value != value:  # ctypes would cut it off without a word
        raise RuntimeError(f"{name} is {value}; its 32 bits hold -2**31 to 2**31 - 1")


def _check_model(model_id, count):
    wanted = {ModelID.GAUSS_1D: 4, ModelID.GAUSS_2D: 5, ModelID.GAUSS_2D_ELLIPTIC: 6,
              ModelID.GAUSS_2D_ROTATED: 7, ModelID.CAUCHY_2D_ELLIPTIC: 6, ModelID.LINEAR_1D: 2}.get(model_id, count)
    if count != wanted:
        raise RuntimeError(f"initial_parameters has {count} parameters, the model has {wanted}")


def _raise_for(status):
    if status != Status.Ok:
        raise RuntimeError(f"status = {status}, message = {get_last_error().decode()}")
