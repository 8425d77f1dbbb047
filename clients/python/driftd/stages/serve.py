# SPDX-License-Identifier: MIT
"""Answers driftd-stage's lines with a stage's calls: one request a line, one answer a line (docs/use/stages.md)."""
from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import Iterable, Protocol, Sequence

from .contract import CONDITIONS, Axis, Health, Refused, SettingsError, Stage

VERSION = "1"
_COUNTS = ("", "one position", "two positions", "three positions")
MOST_CHARACTERS = 300  # of an answer; a report holds no longer text


class Output(Protocol):
    def write(self, text: str) -> object: ...
    def flush(self) -> object: ...


def serve(stage: Stage, requests: Iterable[str], answers: Output) -> None:
    """Answers each request until there are none.

    Raises
    ------
    SettingsError
        The stage can never be driven like this; that is the last answer, too.
    """
    calls = _Calls(stage)
    for line in requests:
        word, _, rest = line.strip().partition(" ")
        error = None
        try:
            answer = calls.answer(word, rest)
        except SettingsError as never:
            answer, error = f"gone {never}", never
        except Exception as gone:
            answer = f"gone {word}: {type(gone).__name__}: {gone}"
        answers.write(_plain(answer) + "\n")
        answers.flush()
        if error is not None:
            raise error


def serve_standard_streams(stage: Stage) -> None:
    """Serves as a child of driftd-stage. What the stage prints goes to standard error, which is the log; what it
    starts finds nothing on its standard input, where it would take requests away."""
    with os.fdopen(os.dup(0), encoding="utf-8", errors="replace") as requests, \
            os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace") as answers, open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        try:
            serve(stage, requests, answers)
        finally:
            with contextlib.suppress(Exception):
                stage.stop()


class _Calls:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._axes: Sequence[Axis] = ()
        self._numbers: list[int] = []  # of the stage's axes, in the order in which they were asked for

    def answer(self, word: str, rest: str) -> str:
        if word == "hello":
            self._axes, self._numbers = list(self._stage.connect()), []
            if not 1 <= len(self._axes) <= 3:
                raise SettingsError(f"a stage has one to three axes for driftd, this one has {len(self._axes)}")
            return f"hello {VERSION} {self._stage.driver}: {self._stage.description()}"
        if word == "axis":
            return self._axis(rest)
        if word == "move":
            *targets_nm, expires_ns = rest.split()
            return self._move([None if nm == "-" else float(nm) for nm in targets_nm], int(expires_ns))
        if word == "read":
            position_nm = [float(nm) for nm in self._stage.read()]
            if len(position_nm) != len(self._axes):
                raise ValueError(f"read() returned {position_nm}, not {_COUNTS[len(self._axes)]} in nm")
            return "place " + " ".join(repr(position_nm[number]) for number in self._numbers)
        if word == "health":
            health = self._stage.health()
            if not isinstance(health, Health) or health.state not in CONDITIONS:
                raise ValueError(f"health() returned {health!r}, whose state is none of {', '.join(CONDITIONS)}")
            on_target = "-" if health.on_target is None else "yes" if health.on_target else "no"
            return f"health {health.state} {on_target} {int(health.error)} {health.text or ''}"
        raise ValueError("driftd-stage asks for what this version of driftd.stages does not know")

    def _axis(self, name: str) -> str:
        """An axis by its name, or by #1, #2 or #3."""
        names = [str(axis.name) for axis in self._axes]
        if name not in names and name not in [f"#{number + 1}" for number in range(len(names))]:
            raise SettingsError(f"axis `{name}` is to be moved, but the stage has {' and '.join(names)}")
        number = names.index(name) if name in names else int(name[1]) - 1
        if number in self._numbers:
            raise SettingsError("x, y and z are to be axes of the stage, one each")
        self._numbers.append(number)
        axis = self._axes[number]
        if axis.min_nm is not None and axis.max_nm is not None and not axis.min_nm < axis.max_nm:
            raise SettingsError(f"axis `{axis.name}` has a travel of {axis.min_nm} to {axis.max_nm} nm")
        numbers = " ".join(map(_known, (axis.min_nm, axis.max_nm, axis.resolution_nm)))
        return f"axis {numbers} {'closed' if axis.closed_loop else 'open'} {axis.name}"

    def _move(self, targets_nm: list[float | None], expires_ns: int) -> str:
        if not self._numbers or len(targets_nm) != len(self._numbers):
            raise ValueError("each axis that was asked for has a target")
        if time.monotonic_ns() > expires_ns:
            return "late"
        try:
            self._stage.move_to(tuple(targets_nm[self._numbers.index(number)] if number in self._numbers else None
                                      for number in range(len(self._axes))))
        except Refused as refusal:
            return f"refused {refusal.code} {refusal}"
        return "ok"


def _known(nm: float | None) -> str:
    """A length as text; "-" where it is not known or not finite, as the travel of an axis without an end."""
    return "-" if nm is None or not abs(nm) <= 1e9 else repr(float(nm))


def _plain(text: str) -> str:
    """One printable line."""
    line = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    return line if len(line) <= MOST_CHARACTERS else line[:MOST_CHARACTERS - 3] + "..."
