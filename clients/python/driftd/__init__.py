# SPDX-License-Identifier: MIT
"""Messages and commands of driftd from Python (docs/reference/protocol.md). Needs pyzmq only.

    import driftd

    driftd.Client().lock()
    for topic, message in driftd.subscribe(topics=["position"]):
        print(message["x_nm"], message["y_nm"])

Lengths are nanometres in the sample plane (``_nm``), pixels are full-sensor pixels (``_px``), times
are nanoseconds of the daemon host's monotonic clock (``_ns``): ``time.monotonic_ns()`` there.
Axes: x right, y down, z up; corrections are in stage axes. A value that does not exist is ``None``: so is ``z_nm`` where z
is not measured.

From another computer, with keys (docs/use/security.md), Windows and macOS as well:

    scope = driftd.server("tcp://HOST:5555")
    driftd.Client(scope).status()
    driftd.subscribe(scope, topics=["position"])

`driftd.stages` is for drivers of stages. `fit` and `search` call those of driftd_fit, which needs numpy and
libdriftfit, too.
"""
from __future__ import annotations

from typing import Any

from .axial import Axial, AxialLock, Pattern, axial_of, pattern_of  # all are public here
from .client import Client, server
from .keys import Keys, read_keys, user_folder
from .lock_words import lock_in_words, why_not_in_lock
from .messages import TOPICS, Corrections, Message, Subscription, subscribe
from .places import (COMMANDS, CORRECTIONS, PUBLISH, DriftdError, Endpoints, Unreachable, endpoints, find_endpoint,
                     runtime_directories)


def fit(images: Any, *arguments: Any, **options: Any) -> Any:
    """`driftd_fit.fit`, which has the parameters. It is imported here: messages need no numpy."""
    import driftd_fit
    return driftd_fit.fit(images, *arguments, **options)


def search(images: Any, *arguments: Any, **options: Any) -> Any:
    """`driftd_fit.search`, which has the parameters."""
    import driftd_fit
    return driftd_fit.search(images, *arguments, **options)
