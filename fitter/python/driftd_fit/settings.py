# SPDX-License-Identifier: MIT
"""Options of fits and searches by their names in Python, as the library takes them."""
from __future__ import annotations

import ctypes
from typing import Sequence

from . import arguments, libdriftfit
from .libdriftfit import PARAMETERS, FitError

MODELS = {"circular": 0, "elliptical": 1, "rotated": 2}
ESTIMATORS = {"implicit": 0, "least_squares": 1, "weighted_least_squares": 2, "poisson": 3}
_FIXED_PLACES = {name: i for i, name in enumerate((*PARAMETERS, "angle"))}


def _assign(made: ctypes.Structure, options: dict, known: dict) -> None:
    for name, value in options.items():
        if name not in known:
            raise TypeError(f"unknown option {name!r}; allowed are {', '.join(known)}")
        setattr(made, name, arguments.number(name, value, known[name]))


def settings_of(model: str, estimator: str, fixed: Sequence[str],
              options: dict) -> libdriftfit.Options:
    settings = libdriftfit.Options(integrated=-1)
    libdriftfit.loaded().driftfit_default_options(ctypes.byref(settings), ctypes.sizeof(settings))
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


def swarm_of(options: dict) -> libdriftfit.SwarmOptions:
    swarm = libdriftfit.SwarmOptions()
    libdriftfit.loaded().driftfit_default_swarm_options(ctypes.byref(swarm), ctypes.sizeof(swarm))
    _assign(swarm, options, arguments.SWARM_OPTIONS)
    return swarm
