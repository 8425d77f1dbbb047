# SPDX-License-Identifier: MIT
"""Follows corrections with a stage: everything between the daemon's sockets and `Stage`'s calls.

`Driver.run` owns the stage and the subscription; a thread of its own reports (reporter.py), so that
neither waits for the other.
"""
from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from dataclasses import dataclass, field
from typing import Callable, Iterator

import driftd

from .contract import CONDITIONS, Health, Refused, SettingsError, Stage
from .follower import FARTHEST_NM, Direction, Follower, Limits
from .report import Account, plain
from .reporter import LOG, Reporter

SURE = 3  # readings that must agree before one becomes the stage's place
READ_S, HEALTH_S = 0.05, 0.1  # how often the stage is asked; less often where it takes long
SHARE = 5  # a stage is asked for at most a fifth of the time, so that moves have the rest
SLICE_S = 0.1  # of waiting for a correction: `stop` is looked at in between
BRIEFLY_NS, LONG_NS = 500_000_000, 5_000_000_000  # how long trouble is told that may be over
BACK_OFF_S = (0.2, 5.0)  # the first and the longest pause before connecting again
ELSEWHERE = "the stage is elsewhere than it was sent: its place is the new zero"
DISAGREE = "readings of the stage's place do not agree: nothing is moved until they do"
MOVABLE = ("ready", "limit", "error")  # with its servo off it would jump when that is on again


@dataclass(frozen=True)
class Settings:
    """What a driver needs to know beside its stage.

    Attributes
    ----------
    corrections, commands : str
        ``wire.corrections`` and ``wire.commands`` of the daemon's configuration.
    x, y : Direction
        Which axis of the stage is which, its sign and scale.
    limits : Limits
    max_rate_hz : float
        The most moves a second to send: what the stage's controller takes.
    """

    corrections: str = driftd.CORRECTIONS
    commands: str = driftd.COMMANDS
    x: Direction = Direction()
    y: Direction = Direction()
    limits: Limits = field(default_factory=Limits)
    max_rate_hz: float = 1000.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.max_rate_hz) and self.max_rate_hz > 0):
            raise SettingsError(f"max_rate_hz is a number above 0, not {self.max_rate_hz!r}")
        for endpoint in (self.corrections, self.commands):
            with contextlib.suppress(driftd.Unreachable):  # a daemon that comes later
                driftd.find_endpoint(endpoint)


class Driver:
    """Moves a stage to where driftd's corrections say, and reports.

    Parameters
    ----------
    stage : Stage
    settings : Settings
    """

    def __init__(self, stage: Stage, settings: Settings = Settings()) -> None:
        self._stage, self._settings = stage, settings
        self._follower = Follower(settings.x, settings.y, settings.limits)
        self._account = Account(stage.driver, settings.max_rate_hz)
        self._reporter: Reporter | None = None
        self._ended = threading.Event()
        self._connected = self._movable = False
        self._obeys = False  # by its own health
        self._read_due_s = self._health_due_s = self._move_due_s = self._connect_due_s = 0.0
        self._pause_s = BACK_OFF_S[0]
        self._skipped = 0  # of Corrections.ignored, in the account already
        self._told = ""
        self._told_s = 0.0

    def stop(self) -> None:
        """Makes `run` return soon. From any thread, or a signal's handler."""
        self._ended.set()

    def report(self) -> dict:
        """The report as it would be sent now."""
        return self._account.message(time.monotonic_ns())

    def run(self) -> None:
        """Follows corrections until `stop`; the stage then stays where it is.

        Raises
        ------
        SettingsError
            The stage can never be driven like this.
        """
        why = "ended"
        with driftd.Corrections(self._settings.corrections) as corrections:
            self._reporter = reporter = Reporter(self._account, self._settings.commands)
            try:
                while not self._ended.is_set():
                    self._turn(corrections)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                why = f"{type(error).__name__}: {error}"
                raise
            finally:
                if self._connected:
                    with contextlib.suppress(Exception):
                        self._stage.stop()
                self._account.stopped(why)
                reporter.close()

    def _turn(self, corrections: driftd.Corrections) -> None:
        """Connects, or asks the stage what is due, or carries out one correction."""
        now_s = time.monotonic()
        if not self._connected:
            if now_s < self._connect_due_s:
                self._ended.wait(self._connect_due_s - now_s)
            else:
                self._connect()
            return
        if now_s >= self._read_due_s:
            self._ask_place()
        elif now_s >= self._health_due_s:
            self._ask_health()
        elif now_s < self._move_due_s:
            self._ended.wait(min(self._move_due_s, self._read_due_s, self._health_due_s) - now_s)
        else:
            due_s = min(self._read_due_s, self._health_due_s) - now_s
            message = self._next_correction(corrections, min(due_s, SLICE_S))
            if message is not None:
                self._carry_out(message)

    # --- the stage ---
    @contextlib.contextmanager
    def _calling(self, what: str) -> Iterator[None]:
        self._account.calling(what, time.monotonic_ns())
        try:
            yield
        finally:
            self._account.called()

    def _connect(self) -> None:
        """Asks which axes there are and where; also when a servo is on again, which may bring a sensor."""
        gone = not self._connected
        try:
            with self._calling("connect"):
                axes = self._stage.connect()
            self._follower.use(axes)
            positions_nm, sure = self._look(lambda positions_nm, now_ns: True)
            if not sure:
                raise ValueError(DISAGREE)
            with self._calling("description"):
                description = self._stage.description()
        except SettingsError:
            raise
        except Exception as error:
            self._lost("connect", error)
            return
        elsewhere = self._follower.found_at(positions_nm, time.monotonic_ns(), connected=gone)
        self._connected, self._movable, self._pause_s = True, False, BACK_OFF_S[0]
        self._account.connected(description, axes, self._follower.numbers,
                                [self._follower.travel_nm(number) for number in (0, 1)])
        self._place(positions_nm)
        self._tell(f"connected to {plain(description)}" +
                   (", its place is the new zero" if elsewhere else ", where it was sent last"),
                   level=logging.INFO)
        self._ask_health(found=True)

    def _read(self) -> list[float]:
        positions_nm = [float(nm) for nm in self._stage.read()]
        if len(positions_nm) != 2 or not all(abs(nm) < FARTHEST_NM for nm in positions_nm):  # nor nan
            raise ValueError(f"read() returned {positions_nm}, not two positions in nm within a metre")
        return positions_nm

    def _place(self, positions_nm: list[float]) -> None:
        self._account.place(positions_nm, self._follower.totals_nm(positions_nm),
                            [self._follower.travel_nm(number) for number in (0, 1)],
                            time.monotonic_ns())

    def _look(self, doubts: Callable[[list[float], int], bool]) -> tuple[list[float], bool | None]:
        """Asks where the stage is, and goes on asking while that `doubts`.

        Returns
        -------
        positions_nm : list of float
            Read last.
        sure : bool, optional
            Whether `SURE` readings agree that it is where that doubts; None: they do not agree.
        """
        readings: list[list[float]] = []
        while True:
            start_ns = time.monotonic_ns()
            with self._calling("read"):
                readings.append(self._read())
            if not doubts(readings[-1], start_ns):
                return readings[-1], False
            if len(readings) >= SURE and self._follower.agree(readings[-SURE:]):
                return readings[-1], True
            if len(readings) == 2 * SURE or self._ended.is_set():
                return readings[-1], None

    def _ask_place(self, find: bool = False) -> bool:
        """Asks where the stage is; elsewhere than it was sent, its place is the new zero.

        Parameters
        ----------
        find : bool
            It is to be where it was sent last: any other target that it may be on its way from is another
            place.

        Returns
        -------
        bool
            Whether the stage may be moved, as far as that goes.
        """
        start_s = time.monotonic()
        try:
            positions_nm, sure = self._look(
                lambda positions_nm, now_ns:
                self._movable and self._follower.is_away(positions_nm, now_ns)
                or find and self._follower.is_elsewhere(positions_nm))
        except Exception as error:
            self._lost("read", error)
            return False
        if sure is None:
            self._movable = False  # tried again when its health is asked next
            self._trouble(DISAGREE, BRIEFLY_NS)
        elif (find or sure) and self._follower.found_at(positions_nm, time.monotonic_ns()):
            self._tell(ELSEWHERE)
        if self._movable and not sure and (ignored := self._follower.find_ignored(
                positions_nm, time.monotonic_ns())):
            self._trouble(f"axis {' and '.join(map(plain, ignored))} has not moved for a second, and its "
                          "targets have: where it is now is the new zero", LONG_NS)
        self._place(positions_nm)
        end_s = time.monotonic()
        self._read_due_s = end_s + max(READ_S - (end_s - start_s), SHARE * (end_s - start_s))
        return sure is not None

    def _trouble(self, text: str, lasts_ns: int) -> None:
        self._account.troubled(text, time.monotonic_ns() + lasts_ns)
        self._tell(text)

    def _another_drives(self) -> bool:
        return self._reporter is not None and self._reporter.busy

    def _ask_health(self, found: bool = False) -> None:
        start_s = time.monotonic()
        try:
            with self._calling("health"):
                health = self._stage.health()
            if not isinstance(health, Health) or health.state not in CONDITIONS:
                raise ValueError(f"health() returned {health!r}, whose state is none of "
                                 f"{', '.join(CONDITIONS)}")
            health = Health(health.state, str(health.text), int(health.error),
                            None if health.on_target is None else bool(health.on_target))
        except Exception as error:
            self._lost("health", error)
            return
        end_s = time.monotonic()
        self._health_due_s = end_s + max(HEALTH_S, SHARE * (end_s - start_s))
        obeyed, self._obeys = self._obeys, health.state in MOVABLE
        if self._obeys and not obeyed and not found:
            self._connect()
            return
        movable = self._obeys and not self._another_drives()
        if movable and not self._movable and not found:  # moved meanwhile?
            movable = self._ask_place(find=True)
            if not self._connected:
                return
        self._movable = movable
        self._account.health(health)
        if health.state != "ready":
            self._tell(f"{health.state}: {plain(health.text)}")

    def _lost(self, what: str, error: Exception) -> None:
        """The stage is gone: to be connected again after a pause."""
        self._connected = False
        self._connect_due_s = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, BACK_OFF_S[1])
        text = f"{what}(): {type(error).__name__}: {error}"
        self._account.gone(text)
        self._tell(f"the stage is gone: {plain(text)}")
        LOG.debug("the stage is gone", exc_info=error)

    def _tell(self, text: str, subject: str = "", level: int = logging.WARNING) -> None:
        """For people: at once when the subject is new, once in ten seconds when it is not."""
        now_s = time.monotonic()
        subject = subject or text
        if subject != self._told or now_s - self._told_s > 10:
            self._told, self._told_s = subject, now_s
            LOG.log(level, "%s", text)

    # --- corrections ---
    def _next_correction(self, corrections: driftd.Corrections,
                         timeout_s: float) -> driftd.Message | None:
        message = None
        try:
            message = corrections.receive(max(0.0, timeout_s))
        except TimeoutError:
            pass
        except (ValueError, RecursionError) as error:
            self._ignore(error)
        self._account.ignored(corrections.ignored - self._skipped)
        self._skipped = corrections.ignored
        return message

    def _ignore(self, error: Exception) -> None:
        self._account.ignored()
        self._tell(f"not a correction: {plain(error)}", "not a correction")

    def _carry_out(self, message: driftd.Message) -> None:
        self._movable = self._movable and not self._another_drives()
        if not self._movable or self._follower.is_new(message) and not self._ask_place(find=True):
            self._account.ignored()  # what is in the way is told already
            return
        try:
            move = self._follower.follow(message, time.monotonic_ns())
        except ValueError as error:
            self._ignore(error)
            return
        now_ns = time.monotonic_ns()
        if now_ns > message["expires_ns"]:
            self._account.ignored()
            return
        try:
            with self._calling("move_to"):
                self._stage.move_to(move.targets_nm)
        except Refused as error:
            self._account.refused(str(error), error.code, time.monotonic_ns())
            self._tell(f"the stage refused a target: {plain(error)}")
        except Exception as error:
            self._follower.perhaps_sent(move, now_ns)
            self._lost("move_to", error)
        else:
            self._follower.sent(move, now_ns)
            self._account.carried_out(message, self._follower.targets_nm, move.limited,
                                      time.monotonic_ns())
        self._move_due_s = now_ns / 1e9 + 1 / self._settings.max_rate_hz
