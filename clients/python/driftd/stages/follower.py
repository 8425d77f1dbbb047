# SPDX-License-Identifier: MIT
"""Where a correction sends the stage: zeros of locks, signs and scales, limits. No sockets, no clock.

The rules (docs/stages-python.md): a correction is absolute, relative to the place that the stage was
last commanded to when its lock began; where that place is not known, because this driver began in the
middle of a lock or the stage was found elsewhere, the zero is such that the first correction moves the
stage by no more than its own change. Owned by `driftd.stages.Driver`, used by its thread.
"""
from __future__ import annotations

import collections
import math
from dataclasses import dataclass, field
from typing import Sequence

from .contract import Axis, SettingsError

RECENT_NS = 200_000_000  # a stage may be at any target of so long, and is where it was sent after that
LEARNING_NS = 300_000_000  # of how far the sensor is from the target, since the first target
APART_NS, ALIKE_NM = 40_000_000, 5.0  # two readings that it is learnt from
IN_DOUBT_NS = 10**9  # so long it may have been learnt from wrong readings
MUCH_NM, IGNORED_NS = 25.0, 10**9  # targets have moved by so much for so long, and the stage has not
LAG_S = 0.1  # a stage that moves is at most so far behind its target, at the limit of the rate
FARTHEST_NM = 1e9  # of a correction: a metre; more is no correction


@dataclass(frozen=True)
class Direction:
    """Which axis of the stage is x (or y) of the corrections, and how it counts.

    Attributes
    ----------
    axis : int or str, optional
        Number of the axis as connected, from 0, or its name; None: 0 for x, 1 for y.
    sign : int
        1, or -1 where the axis counts the other way.
    scale : float
        Units of the axis, called nm, for each nm of the stage.
    """

    axis: int | str | None = None
    sign: int = 1
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.sign not in (1, -1):
            raise SettingsError(f"a sign is 1 or -1, not {self.sign!r}")
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise SettingsError(f"a scale is a number above 0, not {self.scale!r}")


@dataclass(frozen=True)
class Limits:
    """What the driver never goes beyond, whatever a correction says; nm on the stage's own axes.

    Attributes
    ----------
    step_nm : float
        Largest distance between two targets.
    rate_nm_per_s : float
        Fastest change of targets.
    range_nm : float
        Largest distance from where the stage was found, at the start or elsewhere later. The stage's own
        travel holds besides.
    """

    step_nm: float = 100.0
    rate_nm_per_s: float = 10_000.0
    range_nm: float = 10_000.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (math.isfinite(value) and value > 0):
                raise SettingsError(f"{name} is a number above 0, not {value!r}")


@dataclass(frozen=True)
class Move:
    """What is to be sent to the stage, and which limits made it other than the correction said."""

    targets_nm: tuple[float, ...]
    limited: frozenset[str] = field(default_factory=frozenset)  # of step, rate, range, travel


@dataclass
class _Seen:
    """An axis as it was seen once, to tell later whether it follows its targets."""

    here_nm: float
    targets_nm: tuple[float, float]  # it may have been at, from and to
    offset_nm: float
    since_ns: int | None = None  # when its targets were first found to have moved, and it not


class Follower:
    """Follows corrections with one stage.

    Parameters
    ----------
    x, y : Direction
    limits : Limits
    """

    def __init__(self, x: Direction, y: Direction, limits: Limits) -> None:
        self._directions = (x, y)
        self._limits = limits
        self._axes: tuple[Axis, ...] = ()
        self._numbers = (0, 1)  # of the stage's axes: x's and y's
        self._home_nm = [math.nan, math.nan]  # where the stage was found
        self._target_nm = [math.nan, math.nan]  # where it was sent last, or found
        self._span_nm = [(math.nan, math.nan)] * 2  # where it may be: apart when a target may be lost or owed
        self._commanded = [False, False]  # by this driver, since it was found
        self._unsure = False  # whether it took the last target
        self._moved_ns = 0
        self._offset_nm = [0.0, 0.0]  # of the sensor from the target, when the stage is there
        self._learnt_ns: list[int | None] = [None, None]  # when the offset is known; None: nothing was sent
        self._off: list[tuple[int, float] | None] = [None, None]  # a reading to learn from: when, how far off
        self._before_nm = [0.0, 0.0]  # the offset before it was learnt
        self._doubt_ns = [0, 0]  # until when that may have been wrong
        self._seen: list[_Seen | None] = [None, None]
        self._recent: collections.deque[tuple[int, list[float]]] = collections.deque()  # targets, until when
        self._lock: tuple[str, int] | None = None
        self._zero_nm: list[float | None] = [None, None]  # None: from the next correction, wherever it is

    def use(self, axes: Sequence[Axis]) -> None:
        """The axes, at each connection. Raises SettingsError where they are not the two meant."""
        if len(axes) != 2:
            raise SettingsError(f"a stage has two axes for driftd, this one has {len(axes)}")
        for axis in axes:
            low, high = -math.inf if axis.min_nm is None else axis.min_nm, axis.max_nm
            if not low < (math.inf if high is None else high):
                raise SettingsError(f"axis `{axis.name}` has a travel of {axis.min_nm} to {axis.max_nm} nm")
        names = [axis.name for axis in axes]
        numbers = []
        for direction, default, letter in zip(self._directions, (0, 1), "xy"):
            axis = default if direction.axis is None else direction.axis
            if isinstance(axis, str):
                if axis not in names:
                    raise SettingsError(f"{letter} is to be axis `{axis}`, but the stage has "
                                        f"{' and '.join(names)}")
                axis = names.index(axis)
            numbers.append(axis)
        if sorted(numbers) != [0, 1]:
            raise SettingsError("x and y are to be the stage's two axes, one each")
        self._axes, self._numbers = tuple(axes), (numbers[0], numbers[1])

    @property
    def numbers(self) -> tuple[int, int]:
        """Which of the stage's axes is x, and which y."""
        return self._numbers

    def travel_nm(self, number: int) -> tuple[float, float]:
        """How far an axis may be sent: the range around where it was found, within its travel."""
        axis, home_nm = self._axes[number], self._home_nm[number]
        low, high = home_nm - self._limits.range_nm, home_nm + self._limits.range_nm
        return (low if axis.min_nm is None else max(low, axis.min_nm),
                high if axis.max_nm is None else min(high, axis.max_nm))

    def found_at(self, positions_nm: Sequence[float], now_ns: int, connected: bool = False) -> bool:
        """The stage is here: at a connection, when its servo is on again, and before a lock.

        Parameters
        ----------
        connected : bool
            It was connected anew: elsewhere, nothing is known of how far its sensor is off.

        Returns
        -------
        bool
            Whether an axis is elsewhere than it was sent, by more than a step: then its zero of the lock is
            found anew, so that it does not jump.
        """
        elsewhere = False
        for number, here_nm in enumerate(positions_nm):
            if not connected and self._may_be_off(number, here_nm):
                continue
            if (now_ns < self._doubt_ns[number] and not self._is_near(number, here_nm)
                    and abs(here_nm - self._before_nm[number] - self._target_nm[number]) <= self._near_nm):
                self._offset_nm[number] = self._before_nm[number]
            # As a target: what the sensor says otherwise at rest, it says of every place.
            place_nm = here_nm - self._offset_nm[number]
            if self._is_near(number, here_nm):
                span_nm = (place_nm, self._target_nm[number], *self._span_nm[number])
                if not self._commanded[number]:
                    self._home_nm[number], span_nm = place_nm, (place_nm,)
                self._span_nm[number] = min(span_nm), max(span_nm)
                if self._unsure or not self._commanded[number]:
                    self._target_nm[number] = place_nm
                continue
            # Without a sensor, what it says otherwise was of the place that it left.
            if connected or not self._axes[number].closed_loop:
                place_nm, self._offset_nm[number] = here_nm, 0.0
            self._begin_at(number, place_nm, now_ns)
            elsewhere = True
            if connected:
                self._seen[number] = None
        self._unsure = False
        return elsewhere

    def _begin_at(self, number: int, place_nm: float, now_ns: int) -> None:
        """The axis is here, wherever it was sent: its zero of the lock is found anew."""
        self._home_nm[number] = self._target_nm[number] = place_nm
        self._span_nm[number] = place_nm, place_nm
        self._commanded[number], self._zero_nm[number], self._learnt_ns[number] = False, None, None
        self._off[number] = None
        for _, targets_nm in self._recent:
            targets_nm[number] = place_nm
        self._moved_ns = now_ns

    def find_ignored(self, positions_nm: Sequence[float], now_ns: int) -> list[str]:
        """The axes that ignore their targets: for a second these were elsewhere than when it was seen here.

        Each is taken for where it is. To be asked after `is_away` with the same reading.
        """
        names = []
        for number, (axis, here_nm) in enumerate(zip(self._axes, positions_nm)):
            low, high = self._targets_nm_of(number)
            seen = self._seen[number]
            if seen is not None and axis.closed_loop:
                moved_nm = max(low - seen.targets_nm[1], seen.targets_nm[0] - high)
                if moved_nm <= max(MUCH_NM, 2 * (axis.resolution_nm or 0)):
                    seen.since_ns = None
                    continue
                if abs(here_nm - seen.here_nm) < moved_nm / 4:
                    if seen.since_ns is None:
                        seen.since_ns = now_ns
                    elif now_ns - seen.since_ns >= IGNORED_NS:
                        self._offset_nm[number] = seen.offset_nm
                        self._begin_at(number, here_nm - seen.offset_nm, now_ns)
                        self._seen[number] = None
                        names.append(axis.name)
                    continue
            self._seen[number] = _Seen(here_nm, (low, high), self._offset_nm[number])
        return names

    def _targets_nm_of(self, number: int) -> tuple[float, float]:
        """The stage may be at any target between these."""
        targets_nm = [target[number] for _, target in self._recent] + [self._target_nm[number]]
        return min(targets_nm), max(targets_nm)

    def is_elsewhere(self, positions_nm: Sequence[float]) -> bool:
        """Whether an axis is farther than a step from where it was sent, and no sensor may be off as far."""
        return not all(self._is_near(number, here_nm) or self._may_be_off(number, here_nm)
                       for number, here_nm in enumerate(positions_nm))

    def _is_near(self, number: int, here_nm: float) -> bool:
        return abs(here_nm - self._offset_nm[number] - self._target_nm[number]) <= self._near_nm

    def _may_be_off(self, number: int, here_nm: float) -> bool:
        """Whether a reading to learn from was seen, which the next is to tell from a wrong one."""
        return (self._off[number] is not None
                and abs(here_nm - self._target_nm[number]) <= self._most_off_nm)

    def _learn(self, number: int, here_nm: float, beyond_nm: float, now_ns: int) -> bool:
        """Whether this may be a sensor that is off: learnt once two readings some time apart say the same."""
        off_nm, seen, learnt_ns = here_nm - self._target_nm[number], self._off[number], self._learnt_ns[number]
        in_time = learnt_ns is not None and now_ns < learnt_ns
        if abs(self._offset_nm[number] + beyond_nm) > self._most_off_nm:
            self._off[number] = None
            return False
        if seen is None or abs(off_nm - seen[1]) > ALIKE_NM:
            self._off[number] = (now_ns, off_nm) if in_time else None
            return in_time
        if now_ns - seen[0] >= APART_NS:
            self._offset_nm[number] += beyond_nm
            self._off[number], self._doubt_ns[number] = None, now_ns + IN_DOUBT_NS
            self._seen[number] = None
        return True

    def agree(self, readings_nm: Sequence[Sequence[float]]) -> bool:
        """Whether these are readings of one place: no axis differs by more than a step."""
        return all(max(axis_nm) - min(axis_nm) <= self._near_nm for axis_nm in zip(*readings_nm))

    @property
    def _near_nm(self) -> float:
        return self._limits.step_nm * (1 + 1e-6)  # a step that was not taken is near

    @property
    def _most_off_nm(self) -> float:
        return self._limits.step_nm + LAG_S * self._limits.rate_nm_per_s

    def is_away(self, positions_nm: Sequence[float], now_ns: int) -> bool:
        """Whether somebody else has moved the stage, which was here at this time.

        It may be on its way between targets, and its sensor may say something else than the target, always
        by as much: only a change of that by more than a step counts.
        """
        while self._recent and self._recent[0][0] < now_ns - RECENT_NS:
            self._recent.popleft()
        away = False
        for number, axis in enumerate(self._axes):
            if not axis.closed_loop:  # it is where it was sent, whatever its sensor says
                if self._commanded[number]:
                    self._offset_nm[number] = positions_nm[number] - self._target_nm[number]
                continue
            low, high = self._targets_nm_of(number)
            place_nm = positions_nm[number] - self._offset_nm[number]
            beyond_nm = place_nm - min(max(place_nm, low), high)
            if abs(beyond_nm) <= self._near_nm:
                self._off[number] = None
                if self._recent and high - low <= self._limits.step_nm:
                    offset_nm = self._offset_nm[number] + 0.1 * (place_nm - self._target_nm[number])
                    most_nm = self._most_off_nm  # beyond, what is more counts as moved
                    self._offset_nm[number] = min(max(offset_nm, -most_nm), most_nm)
            elif not self._learn(number, positions_nm[number], beyond_nm, now_ns):
                away = True
        return away

    def is_new(self, message: dict) -> bool:
        """Whether this correction belongs to another lock than the one before."""
        return self._lock != (message["session"], message["lock_id"])

    def follow(self, message: dict, now_ns: int) -> Move:
        """Where this correction sends the stage. `sent` says that it went.

        Raises
        ------
        ValueError
            Its numbers are none.
        """
        totals, deltas = ([_number(message, f"{what}_{axis}_nm") for axis in "xy"]
                          for what in ("total", "delta"))
        is_new = self.is_new(message)
        self._lock = (message["session"], message["lock_id"])
        targets_nm, limited = list(self._target_nm), set()
        for number, direction, total, delta in zip(self._numbers, self._directions, totals, deltas):
            scale, zero_nm = direction.sign * direction.scale, self._zero_nm[number]
            if zero_nm is None:
                zero_nm = self._target_nm[number] - scale * (total - delta)
            elif is_new:
                zero_nm = self._target_nm[number]
            self._zero_nm[number] = zero_nm
            wanted_nm = zero_nm + scale * total
            targets_nm[number] = self._limit(number, wanted_nm, now_ns, limited)
        return Move(tuple(targets_nm), frozenset(limited))

    def _limit(self, number: int, wanted_nm: float, now_ns: int, limited: set[str]) -> float:
        at_nm, axis = self._target_nm[number], self._axes[number]
        # Outside of what is allowed, as a stage that rests at -0.2 nm, it may go back or stay.
        for name, low, high in (("range", self._home_nm[number] - self._limits.range_nm,
                                 self._home_nm[number] + self._limits.range_nm),
                                ("travel", axis.min_nm, axis.max_nm)):
            low = -math.inf if low is None else min(low, at_nm)
            high = math.inf if high is None else max(high, at_nm)
            if not low <= wanted_nm <= high:
                wanted_nm = min(max(wanted_nm, low), high)
                limited.add(name)
        seconds = max(0, now_ns - self._moved_ns) / 1e9
        for name, most_nm, span_nm in (("step", self._limits.step_nm, self._span_nm[number]),
                                       ("rate", self._limits.rate_nm_per_s * seconds, (at_nm, at_nm))):
            middle_nm = sum(span_nm) / 2  # a step from either end of the span, or in its middle
            low, high = min(span_nm[1] - most_nm, middle_nm), max(span_nm[0] + most_nm, middle_nm)
            if not low <= wanted_nm <= high:
                wanted_nm = min(max(wanted_nm, low), high)
                limited.add(name)
        return wanted_nm

    def sent(self, move: Move, now_ns: int) -> None:
        """The stage took this target."""
        self._recent.append((now_ns, self._target_nm))
        for number, learnt_ns in enumerate(self._learnt_ns):
            if learnt_ns is None:
                self._learnt_ns[number], self._doubt_ns[number] = now_ns + LEARNING_NS, 0
                self._before_nm[number] = self._offset_nm[number]
        self._target_nm, self._commanded, self._moved_ns = list(move.targets_nm), [True, True], now_ns
        self._span_nm = [(target_nm, target_nm) for target_nm in move.targets_nm]

    def perhaps_sent(self, move: Move, now_ns: int) -> None:
        """The stage went away while this target was sent: `found_at` finds out whether it took it."""
        self.sent(move, now_ns)
        self._unsure = True

    @property
    def targets_nm(self) -> list[float | None]:
        """Where each axis was sent last; None before."""
        return [target_nm if commanded else None
                for target_nm, commanded in zip(self._target_nm, self._commanded)]

    def totals_nm(self, positions_nm: Sequence[float]) -> list[float | None]:
        """These positions as x and y of the corrections, from the lock's zero; None without one."""
        zeros_nm = [self._zero_nm[number] for number in self._numbers]
        if None in zeros_nm:
            return [None, None]
        return [(positions_nm[number] - zero_nm) / (direction.sign * direction.scale)
                for number, zero_nm, direction in zip(self._numbers, zeros_nm, self._directions)]


def _number(message: dict, name: str) -> float:
    value = message.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= FARTHEST_NM:
        raise ValueError(f"`{name}` of a correction is {str(value)[:40]}")
    return float(value)
