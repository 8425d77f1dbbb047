# SPDX-License-Identifier: MIT
"""What a driver tells the daemon about its stage (docs/protocol.md, command ``stage``).

The driver's thread writes into an `Account`, the reporter's makes messages of it: a lock guards it, held
for microseconds.
"""
from __future__ import annotations

import collections
import math
import secrets
import threading
from typing import Sequence

from .contract import Axis, Health

NO_ANSWER_NS = 400_000_000  # a call of the stage that takes longer is told as an error
TELL_NS = 500_000_000  # how long a step or rate limit, or a first refusal, is told after the last
MOST_TELL_NS = 30_000_000_000  # each refusal after that is told for twice as long, up to this
ENDLESS = {"range", "travel"}  # limits that are told until the lock is over or does not need them
LIMITS = {"range": "the range limit", "travel": "the end of the stage's travel",
          "step": "the step limit", "rate": "the rate limit"}


class Latencies:
    """Durations since the start, in bins 2 % wide."""

    def __init__(self) -> None:
        self.count = 0
        self.max_us = 0.0
        self._bins: collections.Counter[int] = collections.Counter()

    def add(self, us: float) -> None:
        self.count += 1
        self.max_us = max(self.max_us, us)
        self._bins[math.ceil(math.log(max(us, 0.1)) / math.log(1.02))] += 1

    def percentile(self, share: float) -> float | None:
        """The upper edge of the bin below or in which this share of all durations lies."""
        left = math.ceil(share * self.count)
        for number in sorted(self._bins):
            left -= self._bins[number]
            if left <= 0:
                return min(round(1.02 ** number, 1), self.max_us)
        return None

    def summary(self) -> dict:
        return {"n": self.count, "p50": self.percentile(0.5), "p99": self.percentile(0.99),
                "max": self.max_us if self.count else None}


def plain(text: object, most: int = 300) -> str:
    """Text of a stage as it may be sent on: one printable line of at most so many bytes of UTF-8."""
    line = " ".join(str(text).split())
    line = "".join(c if c.isprintable() else "?" for c in line)
    data = line.encode(errors="replace")
    return line if len(data) <= most else data[:most - 3].decode(errors="ignore") + "..."


class Account:
    """State, place, counts and times of one driver.

    Parameters
    ----------
    driver : str
        The word for the kind of stage.
    max_rate_hz : float
        The most moves a second that the driver sends.
    """

    def __init__(self, driver: str, max_rate_hz: float) -> None:
        self._driver, self._max_rate_hz = plain(driver, 40), max_rate_hz
        self._instance = secrets.token_hex(8)
        self._mutex = threading.Lock()
        self._description, self._axes = "", ()  # type: ignore[var-annotated]
        self._travel_nm: list[tuple[float, float]] = []
        self._numbers = (0, 1)
        self._health = Health()
        self._gone: str | None = "not connected yet"  # why, None: connected
        self._stopped: str | None = None
        self._positions_nm: list[float] | None = None
        self._read_ns: int | None = None
        self._totals_nm: Sequence[float | None] = (None, None)
        self._targets_nm: Sequence[float | None] = (None, None)
        self._lock: tuple[str | None, int | None] = (None, None)
        self._counts = {"carried_out": 0, "ignored": 0, "refused": 0}
        self._moves_ns: collections.deque[int] = collections.deque()
        self._latencies = Latencies()
        self._limited: tuple[frozenset[str], int] = (frozenset(), 0)
        self._beyond: frozenset[str] = frozenset()  # of ENDLESS, that act on the lock
        self._refusal: tuple[str, int, int] | None = None  # text, code, when
        self._refused_ns: int | None = None  # last; None: a target was taken since
        self._tell_refusal_ns = TELL_NS
        self._trouble: tuple[str, int] = ("", 0)  # that the driver found, until when it is told
        self._call: tuple[str, int] | None = None  # what the stage is asked, since when

    # --- the driver's thread ---
    def connected(self, description: str, axes: Sequence[Axis], numbers: tuple[int, int],
                  travel_nm: Sequence[tuple[float, float]]) -> None:
        with self._mutex:
            self._gone, self._refusal, self._health = None, None, Health()
            self._trouble = ("", 0)
            self._description, self._axes, self._numbers = plain(description), tuple(axes), numbers
            self._travel_nm = list(travel_nm)

    def gone(self, why: str) -> None:
        with self._mutex:
            self._gone, self._positions_nm, self._totals_nm = why, None, (None, None)

    def stopped(self, why: str) -> None:
        with self._mutex:
            self._stopped = why

    def calling(self, what: str, now_ns: int) -> None:
        self._call = (what, now_ns)  # one assignment: no lock

    def called(self) -> None:
        self._call = None

    def health(self, health: Health) -> None:
        with self._mutex:
            self._health = health

    def place(self, positions_nm: Sequence[float], totals_nm: Sequence[float | None],
              travel_nm: Sequence[tuple[float, float]], now_ns: int) -> None:
        with self._mutex:
            self._positions_nm, self._read_ns = list(positions_nm), now_ns
            self._totals_nm, self._travel_nm = totals_nm, list(travel_nm)

    def carried_out(self, message: dict, targets_nm: Sequence[float | None], limited: frozenset[str],
                    now_ns: int) -> None:
        with self._mutex:
            self._counts["carried_out"] += 1
            self._lock = (message["session"], message["lock_id"])
            self._targets_nm, self._refusal, self._refused_ns = targets_nm, None, None
            self._moves_ns.append(now_ns)
            self._forget(now_ns)
            self._beyond = limited & ENDLESS
            if limited:
                self._limited = (limited, now_ns)
            sent_ns = message.get("sent_ns")
            if isinstance(sent_ns, int) and 0 <= now_ns - sent_ns < 10**10:
                self._latencies.add((now_ns - sent_ns) / 1000)

    def ignored(self, corrections: int = 1) -> None:
        with self._mutex:
            self._counts["ignored"] += corrections

    def refused(self, text: str, code: int, now_ns: int) -> None:
        with self._mutex:
            self._counts["refused"] += 1
            since_ns = math.inf if self._refused_ns is None else now_ns - self._refused_ns
            if since_ns > 2 * MOST_TELL_NS:
                self._tell_refusal_ns = TELL_NS
            elif since_ns > self._tell_refusal_ns:  # told no more, tried again, refused again
                self._tell_refusal_ns = min(2 * self._tell_refusal_ns, MOST_TELL_NS)
            self._refused_ns = now_ns
            self._refusal = (text, code, now_ns)

    def troubled(self, text: str, until_ns: int) -> None:
        with self._mutex:
            self._trouble = (text, until_ns)

    # --- any thread ---
    def lock_is_over(self, now_ns: int) -> None:
        """The daemon says so; a lock that has just begun may be newer than its word."""
        with self._mutex:
            if not self._moves_ns or now_ns - self._moves_ns[-1] > TELL_NS:
                self._beyond, self._refused_ns, self._tell_refusal_ns = frozenset(), None, TELL_NS

    @property
    def counts(self) -> dict[str, int]:
        with self._mutex:
            return dict(self._counts)

    def _forget(self, now_ns: int) -> None:
        while self._moves_ns and now_ns - self._moves_ns[0] > 10**9:
            self._moves_ns.popleft()

    def _state(self, now_ns: int) -> tuple[str, str, int]:
        """State, text and error, the first that holds."""
        call, (limited, limited_ns) = self._call, self._limited
        if self._stopped is not None:
            return "stopped", self._stopped, 0
        if self._gone is not None:
            return "disconnected", self._gone, 0
        if call is not None and now_ns - call[1] > NO_ANSWER_NS:
            return "error", f"no answer to {call[0]}() for {(now_ns - call[1]) / 1e9:.1f} s", 0
        if self._health.state != "ready":
            return self._health.state, self._health.text, self._health.error
        if now_ns < self._trouble[1]:
            return "error", self._trouble[0], 0
        if self._refusal is not None and now_ns - self._refusal[2] <= self._tell_refusal_ns:
            return "error", self._refusal[0], self._refusal[1]
        limited = self._beyond | (limited - ENDLESS if now_ns - limited_ns <= TELL_NS else frozenset())
        if limited:
            text = "held at " + " and ".join(LIMITS[name] for name in sorted(limited))
            return "limit" if limited & ENDLESS else "ready", text, 0
        return "ready", self._health.text, self._health.error

    def _axis(self, letter: str, number: int) -> dict:
        axis = self._axes[number]
        position_nm = None if self._positions_nm is None else self._positions_nm[number]
        return {"axis": letter, "name": plain(axis.name, 40),
                "min_nm": rounded(self._travel_nm[number][0] if axis.min_nm is None else axis.min_nm),
                "max_nm": rounded(self._travel_nm[number][1] if axis.max_nm is None else axis.max_nm),
                "resolution_nm": rounded(axis.resolution_nm), "closed_loop": bool(axis.closed_loop),
                "position_nm": rounded(position_nm), "target_nm": rounded(self._targets_nm[number])}

    def message(self, now_ns: int) -> dict:
        """The report as it is now."""
        with self._mutex:
            self._forget(now_ns)
            state, text, error = self._state(now_ns)
            return {
                "command": "stage", "instance": self._instance, "driver": self._driver,
                "description": self._description, "max_rate_hz": self._max_rate_hz,
                "axes": [self._axis(letter, number)
                         for letter, number in zip("xy", self._numbers)] if self._axes else [],
                "state": state, "text": plain(text), "error": int(error),
                "on_target": self._health.on_target if self._gone is None else None,
                "time_ns": self._read_ns, "session": self._lock[0], "lock_id": self._lock[1],
                "total_x_nm": rounded(self._totals_nm[0]), "total_y_nm": rounded(self._totals_nm[1]),
                **self._counts, "rate_hz": float(len(self._moves_ns)),
                "latency_us": self._latencies.summary()}


def rounded(nm: float | None) -> float | None:
    """To 0.1 pm. What is not finite, such as the travel of an axis without an end, is None."""
    return round(float(nm), 4) if nm is not None and math.isfinite(nm) else None
