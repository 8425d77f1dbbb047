# SPDX-License-Identifier: MIT
"""What the kinds of controller have in common."""
from __future__ import annotations

from .journal import Journal
from .stage import Stage


class Controller:
    """Cuts the bytes of a client into frames and answers each. One object for each run.

    A kind says its name, defaults and axes by class attributes; ranges are the device's usual ones.
    """

    kind = ""
    title = ""  #: for --help
    axes = ("1", "2")  #: names that a client uses
    range_nm = (0.0, 100_000.0)
    resolution_nm = 0.1
    zero_nm: float | None = None  #: None: the middle of the range
    baud_tcp = 0  #: 0: bytes take no time
    baud_pty = 115200
    servo_at_power_on = False
    longest = 4096  #: no frame is longer

    def __init__(self, stage: Stage, journal: Journal, options) -> None:
        self.stage = stage
        self.journal = journal
        self.options = options

    def frame_length(self, buffer: bytearray) -> int:
        """Length of the first frame, or of the bytes that cannot be one; 0: not all there yet."""
        raise NotImplementedError

    def handle(self, frame: bytes, received_ns: int, now_ns: int) -> bytes:
        """Carries a frame out. @return the answer"""
        raise NotImplementedError

    def power_on(self, now_ns: int) -> None:
        """Forgets what a power cycle makes it forget; called when the stage has been placed."""

    def client_gone(self) -> None:
        """Ends what goes on for the sake of the client alone."""

    def set_error(self, number: int) -> bytes:
        """The fault "error N". @return what is said unasked"""
        return b""

    def servo_off(self, axis: int | None = None) -> bytes:
        """The fault "servo_off": servos switch themselves off, all or that of the axis (0: the first)."""
        self.set_servos(axis, False)
        return b""

    def set_servos(self, axis: int | None, on: bool) -> None:
        for one in self.stage.axes if axis is None else [self.stage.axes[axis]]:
            one.servo = on

    def next_event_ns(self) -> int | None:
        """When tick() has something to do."""
        return None

    def tick(self, now_ns: int) -> bytes:
        """@return what is said unasked"""
        return b""

    # --- for the kinds ---
    def go(self, targets: list[tuple[int, float]], received_ns: int, now_ns: int) -> bool:
        """Moves and notes it. False: refused because it is moving."""
        if not self.stage.move(targets, now_ns):
            self.journal.refuse()
            return False
        goals = [axis.target_nm for axis in self.stage.axes]
        for index, nm in targets:  # a queued target is not the axis' yet
            goals[index] = nm
        self.journal.move(received_ns, goals)
        return True

    def within(self, index: int, nm: float) -> float | None:
        """The target, clamped, for controllers that have no error for it; None: it is ignored."""
        axis = self.stage.axes[index]
        if axis.legal(nm):
            return nm
        return axis.clamped(nm) if self.stage.settings.beyond == "clamp" else None


def line_length(buffer: bytearray, end: int, longest: int) -> int:
    """Length of a frame of a text protocol: up to and with the byte `end`."""
    at = buffer.find(end)
    if at >= 0:
        return at + 1
    return len(buffer) if len(buffer) > longest else 0
