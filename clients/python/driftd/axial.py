# SPDX-License-Identifier: MIT
"""What `status` tells of z and of the markers' pattern, as values with types. What does not exist is ``None``."""
from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class AxialLock:
    """The lock of z.

    Attributes
    ----------
    state : str
        ``idle``, ``referencing``, ``locked``, ``holding``, ``lost``, ``fault`` or ``calibrating``.
    reason, held_for, held_first, cure : str
        Why, and what helps: a sentence, or "".
    lock_id : int, optional
        Its number, of one count with the locks of x and y.
    stage : str
        What the z stage's response looks like: ``following``, ``stuck``, ``reversed``, ``wrong_gain``...
    total_z_nm : float, optional
        Where the z stage was told last to be, from its place when the lock engaged.
    gate, control, move, stage_driver : dict
        As in ``status``, of z: ``gate["residual_z_nm"]``, ``move["z_nm"]``; `stage_driver` is None while no driver
        has reported that it moves z.
    """

    state: str
    reason: str = "none"
    cure: str = ""
    held_for: str = "none"
    held_first: str = "none"
    state_since_ns: int | None = None
    lock_id: int | None = None
    reference_frames_left: int = 0
    stage: str = ""
    total_z_nm: float | None = None
    gate: dict = dataclasses.field(default_factory=dict)
    control: dict = dataclasses.field(default_factory=dict)
    move: dict = dataclasses.field(default_factory=dict)
    stage_driver: dict | None = None

    @property
    def in_lock(self) -> bool:
        """Whether z lies within ``gate.z_tolerance_nm``; False while it is not locked."""
        return self.gate.get("in_lock") is True


@dataclasses.dataclass(frozen=True)
class Axial:
    """How z is measured, and what it is now.

    Attributes
    ----------
    method : str
        ``astigmatic``, ``defocus`` or ``reflection``.
    curve : str, optional
        The curve's file.
    valid : bool
        Whether z is measured; False: `z_nm` and `sd_nm` are None, and `reason` and `text` say why.
    z_nm, sd_nm : float, optional
        The sample's z from the reference, and its standard deviation.
    in_range, markers_used, markers_total : int, optional
        Tracking markers whose z was read, that agreed in it, that there are.
    distance_from_crossing_nm : float, optional
        How far the markers are from where both widths are equal.
    warning : str
        A sentence, or "".
    lock : AxialLock, optional
        None where z is measured only: ``axial.hold`` is false, and nobody has locked it.
    """

    method: str
    valid: bool
    curve: str | None = None
    reason: str = ""
    text: str = ""
    z_nm: float | None = None
    sd_nm: float | None = None
    witness_z_nm: float | None = None
    in_range: int | None = None
    markers_used: int | None = None
    markers_total: int | None = None
    distance_from_crossing_nm: float | None = None
    warning: str = ""
    lock: AxialLock | None = None


@dataclasses.dataclass(frozen=True)
class Pattern:
    """How the markers' pattern lies against its reference: turned about the optical axis (from x towards y), grown,
    and tilted (how z has come to grow along x and y; None without z). ``sd``: standard deviations."""

    rotation_mrad: float | None = None
    rotation_sd_mrad: float | None = None
    scale_ppm: float | None = None
    scale_sd_ppm: float | None = None
    markers_used: int | None = None
    tilt_x_mrad: float | None = None
    tilt_x_sd_mrad: float | None = None
    tilt_y_mrad: float | None = None
    tilt_y_sd_mrad: float | None = None


def _known(kind: type, fields: dict) -> Any:
    """Fields of a newer daemon are left out, those that an older one lacks have their defaults."""
    names = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in fields.items() if name in names})


def axial_of(status: dict) -> Axial | None:
    """`Axial` from a status; None where z is not measured: ``axial.method: none``, or an older daemon."""
    told = status.get("axial")
    if told is None:
        return None
    lock = told.get("lock")
    return _known(Axial, {**told, "lock": None if lock is None else _known(AxialLock, lock)})


def pattern_of(status: dict) -> Pattern | None:
    """`Pattern` from a status; None while it is not known."""
    told = status.get("pattern")
    return None if told is None else _known(Pattern, told)
