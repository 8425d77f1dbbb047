# SPDX-License-Identifier: MIT
"""What a stage is to a driver: the class to derive from and what its calls return.

One thread owns a `Stage`, that of `driftd.stages.Driver`. Positions are the stage's own, in nm, one for
each of the axes that `Stage.connect` returned, in that order; signs, scales, limits and zeros of
locks are the driver's business.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

#: What `Health.state` may be. ``disconnected`` and ``stopped`` are said by the driver itself.
CONDITIONS = ("ready", "servo_off", "not_referenced", "limit", "error")


@dataclass(frozen=True)
class Axis:
    """An axis of a stage.

    Attributes
    ----------
    name : str
        As the controller calls it.
    min_nm, max_nm : float, optional
        The travel that the controller allows; None where nobody knows.
    resolution_nm : float, optional
        Smallest step of a target that the link or the controller can tell; None where nobody knows.
    closed_loop : bool
        Whether the controller moves by a sensor of its own.
    """

    name: str
    min_nm: float | None = None
    max_nm: float | None = None
    resolution_nm: float | None = None
    closed_loop: bool = True


@dataclass(frozen=True)
class Health:
    """Whether the stage would obey.

    Attributes
    ----------
    state : str
        One of `CONDITIONS`. With ``servo_off`` and ``not_referenced`` nothing is moved.
    text : str
        What is wrong, for people.
    error : int
        The controller's own code; 0: none.
    on_target : bool, optional
        None where the controller does not say.
    """

    state: str = "ready"
    text: str = ""
    error: int = 0
    on_target: bool | None = None


class Refused(Exception):
    """The stage did not take a target, and is still there. ``code`` is the controller's own."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = int(code or 0)


class SettingsError(Exception):
    """What the stage was told can never work, such as an axis that it does not have. Ends the driver."""


class Stage:
    """Derive from this, and write `connect`, `move_to` and `read`; `health` if the stage can tell.

    An exception from any call, other than `Refused` and `SettingsError`, means that the stage is gone:
    the driver reports its text as ``disconnected`` and calls `connect` again, after pauses that grow.
    """

    #: The word for this kind of stage in the driver's reports.
    driver = "python"

    def connect(self) -> Sequence[Axis]:
        """Open the stage, again after it was gone; tell its axes anew when its servo is on again. Moves nothing.

        Returns
        -------
        sequence of Axis
            Those that driftd is to move, two of x and y, three with z, or that of z; `Settings` says which is which.
        """
        raise NotImplementedError(f"{type(self).__name__} has no connect()")

    def description(self) -> str:
        """Maker, model, serial number and firmware, once connected."""
        return type(self).__name__

    def move_to(self, positions_nm: Sequence[float | None]) -> None:
        """Send a target for each axis; do not wait until it is reached.

        A target of None, where there are x, y and z: leave that axis as it is. Nobody holds it now, or nobody says
        anything new of it.

        Raises
        ------
        Refused
            The controller did not take it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no move_to()")

    def read(self) -> Sequence[float]:
        """Where the stage is now. Asked some twenty times a second, between moves."""
        raise NotImplementedError(f"{type(self).__name__} has no read()")

    def health(self) -> Health:
        """Whether the stage would obey a move. Asked some ten times a second, between moves."""
        return Health()

    def stop(self) -> None:
        """The driver ends: the stage is to stay where it is."""
