# SPDX-License-Identifier: MIT
"""The axes behind an emulated controller: ranges, servos, a first-order response, sensor noise.

Positions are the controller's own, in nm. An axis answers its target after a dead time as a low-pass
of first order, worked out when somebody asks; nothing is stepped. With a simulated stage (driftd-sim)
its targets go there and positions are read there; moving and on-target are then still this model's, as a
controller's are its sensor's.
"""
from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

REPLACE, QUEUE, REFUSE = "replace", "queue", "refuse"  #: what a move during a move does


@dataclass
class StageSettings:
    """Times in ns, lengths in nm."""

    tau_ns: float = 1e6  #: time constant
    dead_ns: int = 0  #: between a move that is carried out and the axis that begins to go
    window_nm: float = 10.0  #: on target when this near ...
    settle_ns: int = 5_000_000  #: ... for so long
    noise_nm: float = 0.3  #: of a position read, one standard deviation
    during: str = REPLACE
    beyond: str = "clamp"  #: where a controller has no error for a target out of range: clamp, ignore
    seed: int = 1


@dataclass
class Axis:
    name: str
    low_nm: float
    high_nm: float
    resolution_nm: float
    servo: bool = False
    referenced: bool = True
    target_nm: float = 0.0
    # The response: from `from_nm` at `since_ns` towards `aim_nm`; `coming` begins later.
    aim_nm: float = 0.0
    from_nm: float = 0.0
    since_ns: int = 0
    inside_ns: int = 0  #: since when it is within the window, foreseen
    coming: list[tuple[int, float]] = field(default_factory=list)
    queued: list[float] = field(default_factory=list)

    def legal(self, nm: float) -> bool:
        return self.low_nm <= nm <= self.high_nm

    def clamped(self, nm: float) -> float:
        return min(max(nm, self.low_nm), self.high_nm)

    def quantised(self, nm: float) -> float:
        return round(nm / self.resolution_nm) * self.resolution_nm if self.resolution_nm > 0 else nm

    def quiet_at(self, nm: float, now_ns: int) -> None:
        """Sets the axis there, at rest."""
        self.target_nm = self.aim_nm = self.from_nm = nm
        self.since_ns = self.inside_ns = now_ns
        self.coming.clear()
        self.queued.clear()


class Stage:
    """One or more axes; the first are those of the simulated stage, by default x and y.

    Parameters
    ----------
    zero_nm : sequence
        The controller's place that is 0 of the simulated stage, per axis.
    sim : SimulatedStage or None
    """

    def __init__(self, axes: list[Axis], settings: StageSettings, zero_nm, sim=None) -> None:
        self.axes = axes
        self.settings = settings
        self.zero_nm = list(zero_nm)
        self.sim = sim
        self._random = random.Random(settings.seed)
        self.frozen = False  # what is commanded no longer moves it: a driver without feedback would not know

    def named(self, name: str) -> int:
        """Index of the axis, -1: there is none."""
        for index, axis in enumerate(self.axes):
            if axis.name == name:
                return index
        return -1

    def place_at_once(self, places_nm, now_ns: int) -> None:
        """Power-on: the stage has long been there."""
        for axis, nm in zip(self.axes, places_nm):
            axis.quiet_at(nm, now_ns - self.settings.settle_ns)
        self._tell_sim()

    # --- moving ---
    def move(self, targets: list[tuple[int, float]], now_ns: int) -> bool:
        """Sends axes to targets that are legal. False: refused, for one of them is still moving."""
        if self.settings.during == REFUSE and any(self.moving(i, now_ns) for i, _ in targets):
            return False
        for index, nm in targets:
            axis = self.axes[index]
            if self.settings.during == QUEUE and (axis.queued or self.moving(index, now_ns)):
                axis.queued.append(nm)
            else:
                self._send(axis, nm, now_ns)
        self._tell_sim()
        return True

    def hold_target(self, index: int, nm: float) -> None:
        """The controller notes a target that the axis does not follow (open loop)."""
        self.axes[index].target_nm = nm

    def halt(self, indices, now_ns: int) -> None:
        for index in indices:
            axis = self.axes[index]
            axis.quiet_at(self.place_nm(index, now_ns), now_ns)
        self._tell_sim()

    def _send(self, axis: Axis, nm: float, now_ns: int) -> None:
        axis.target_nm = nm
        self._follow(axis, now_ns)  # so that nothing piles up when nobody asks
        if not self.frozen:
            axis.coming.append((now_ns + self.settings.dead_ns, axis.quantised(nm)))

    def _tell_sim(self) -> None:
        if self.sim is None:
            return
        aims = [(axis.coming[-1][1] if axis.coming else axis.aim_nm) - zero
                for axis, zero in zip(self.axes, self.zero_nm)]
        self.sim.move((aims + [0.0])[:len(self.sim.letters)])

    # --- the response ---
    def _follow(self, axis: Axis, now_ns: int) -> None:
        while axis.coming and axis.coming[0][0] <= now_ns:
            due_ns, aim_nm = axis.coming.pop(0)
            axis.from_nm = self._along(axis, due_ns)
            axis.aim_nm, axis.since_ns = aim_nm, due_ns
            error_nm, window_nm = abs(axis.from_nm - aim_nm), self.settings.window_nm
            if error_nm > window_nm > 0 and self.settings.tau_ns > 0:
                axis.inside_ns = due_ns + round(self.settings.tau_ns * math.log(error_nm / window_nm))
            elif axis.inside_ns > due_ns:  # it was not there yet, and now is by the new aim
                axis.inside_ns = due_ns

    def _along(self, axis: Axis, time_ns: int) -> float:
        if self.settings.tau_ns <= 0:
            return axis.aim_nm
        left = math.exp(-max(0, time_ns - axis.since_ns) / self.settings.tau_ns)
        return axis.aim_nm + (axis.from_nm - axis.aim_nm) * left

    def place_nm(self, index: int, now_ns: int) -> float:
        """Where the model says that the axis is."""
        axis = self.axes[index]
        self._follow(axis, now_ns)
        return self._along(axis, now_ns)

    def measured_nm(self, now_ns: int) -> list[float]:
        """What the sensors of all axes show."""
        places = None
        if self.sim is not None:
            places = self.sim.read()
        result = []
        for index in range(len(self.axes)):
            if places is not None and index < len(places):
                nm = places[index] + self.zero_nm[index]
            else:
                nm = self.place_nm(index, now_ns)
            result.append(nm + self._random.gauss(0, self.settings.noise_nm))
        return result

    def moving(self, index: int, now_ns: int) -> bool:
        """Whether it is not there yet, or not yet for as long as it takes to settle."""
        axis = self.axes[index]
        self._follow(axis, now_ns)
        return bool(axis.coming) or now_ns < axis.inside_ns + self.settings.settle_ns

    def on_target(self, index: int, now_ns: int) -> bool:
        return (self.axes[index].servo and not self.axes[index].queued
                and not self.moving(index, now_ns))

    # --- queued moves ---
    def next_event_ns(self, now_ns: int) -> int | None:
        """When a queued move may begin."""
        due = [max(axis.inside_ns + self.settings.settle_ns,
                   axis.coming[-1][0] + 1000 if axis.coming else 0)
               for axis in self.axes if axis.queued]
        return min(due) if due else None

    def advance(self, now_ns: int) -> None:
        """Begins queued moves that are due."""
        begun = False
        for index, axis in enumerate(self.axes):
            if axis.queued and not self.moving(index, now_ns):
                self._send(axis, axis.queued.pop(0), now_ns)
                begun = True
        if begun:
            self._tell_sim()
