# SPDX-License-Identifier: MIT
"""The records that fits take and give, as numpy types: the bytes of fitter/c/driftfit.h."""
from __future__ import annotations

import numpy as np

from .libdriftfit import PARAMETERS

#: What a fit gives; the bytes of driftfit_result in fitter/c/driftfit.h.
RESULT = np.dtype(
    [(name, np.float32) for name in
     ("x", "y", "sigma_x", "sigma_y", "amplitude", "background", "chi_square", "x_sd", "y_sd",
      "sigma_x_sd", "sigma_y_sd", "amplitude_sd", "background_sd")]
    + [("status", np.uint8), ("iterations", np.uint8), ("_reserved", np.uint16)])
#: What `details` receive; the bytes of driftfit_details. Rows and columns of the covariance are those
#: of `PARAMETERS` and the angle.
DETAILS = np.dtype([("angle", np.float32), ("angle_sd", np.float32),
                    ("covariance", np.float32, (len(PARAMETERS) + 1,) * 2)])
#: Start values; sigma_x <= 0: none.
START = np.dtype([(name, np.float32) for name in ("x", "y", "sigma_x", "sigma_y")])
#: Start values of the other parameters.
LEVELS = np.dtype([(name, np.float32) for name in ("amplitude", "background")])
#: Where `Fitter.fit_frames` cuts; the bytes of driftfit_place.
PLACE = np.dtype([(name, np.int32) for name in ("x", "y", "frame")])
#: What a swarm found before the fit: its best place, the standard deviations of its last best ones
#: and its sum of squared residuals; the bytes of driftfit_swarm_report.
SWARM_REPORT = np.dtype([(name, np.float32) for name in
                         ("x", "y", "sigma_x", "sigma_y", "x_spread", "y_spread",
                          "sigma_x_spread", "sigma_y_spread", "chi_square")])
#: What `Fitter.find_spots` finds; the bytes of driftfit_spot.
SPOT = np.dtype([(name, np.int32) for name in ("x", "y", "frame")] + [("net_gradient", np.float32)])
#: What `Fitter.localize` gives: a row of Picasso's table /locs; the bytes of driftfit_localization.
LOCALIZATION = np.dtype([("frame", np.uint32)] + [(name, np.float32) for name in (
    "x", "y", "photons", "sx", "sy", "bg", "lpx", "lpy", "ellipticity", "net_gradient")])
#: Names of ``status``.
STATUS = ("converged_residuum", "converged_decrease", "converged_step", "iteration_limit",
          "not_converged", "bad_input")


def converged(fits: np.ndarray) -> np.ndarray:
    """Which fits are results: a boolean array."""
    return fits["status"] <= 2
