# SPDX-License-Identifier: MIT
"""Drives a stage of this program by driftd-stage, which this starts: it follows the corrections and reports to the
daemon, and asks here for what only the stage can do."""
from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Any, Callable, Sequence

import driftd

from .contract import SettingsError, Stage
from .serve import serve, serve_standard_streams

WRONG_SETTINGS = 2  # exit code of driftd-stage


def _check_above_zero(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise SettingsError(f"{name} is a number above 0, not {value!r}")


@dataclass(frozen=True)
class Direction:
    """Which axis of the stage is x (or y, or z) of the corrections, and how it counts.

    Attributes
    ----------
    axis : int or str, optional
        Number of the axis as connected, from 0, or its name; None: 0 for x, 1 for y, the last for z.
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
        _check_above_zero("scale", self.scale)


@dataclass(frozen=True)
class Limits:
    """Limits that hold whatever a correction says; nm on the stage's own axes.

    Attributes
    ----------
    step_nm : float
        Largest distance between two targets.
    rate_nm_per_s : float
        Fastest change of targets.
    range_nm : float
        Largest distance from where the stage was when the lock engaged. The stage's own travel holds besides.
    """

    step_nm: float = 100.0
    rate_nm_per_s: float = 10_000.0
    range_nm: float = 10_000.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            _check_above_zero(name, value)


@dataclass(frozen=True)
class Settings:
    """What driftd-stage needs to know beside the stage.

    Attributes
    ----------
    corrections, commands : str
        ``wire.corrections`` and ``wire.commands`` of the daemon's configuration.
    axes : str
        ``xy``, ``xyz`` or ``z``: what is followed.
    x, y, z : Direction
        Which axis of the stage is which, its sign and scale.
    limits : Limits
        Of x and y.
    z_limits : Limits
    z_ends_nm : pair of float, optional
        Where z may be sent, on the stage's own axis; must be given with z: an objective may meet the cover glass.
    max_rate_hz : float
        The most moves a second to send: what the stage's controller takes.
    """

    corrections: str = driftd.CORRECTIONS
    commands: str = driftd.COMMANDS
    x: Direction = Direction()
    y: Direction = Direction()
    limits: Limits = field(default_factory=Limits)
    max_rate_hz: float = 1000.0
    axes: str = "xy"
    z: Direction = Direction()
    z_limits: Limits = Limits(50.0, 2000.0, 2000.0)
    z_ends_nm: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        _check_above_zero("max_rate_hz", self.max_rate_hz)
        if self.axes not in ("xy", "xyz", "z"):
            raise SettingsError(f"axes are xy, xyz or z, not {self.axes!r}")
        if "z" in self.axes and self.z_ends_nm is None:
            raise SettingsError("say where z may be sent, off the cover glass (--z-min-nm and --z-max-nm)")

    def configuration(self, device: str) -> dict:
        """driftd-stage's, for a program that listens at `device`. A limit that is none becomes the most allowed."""
        axes = {}
        for number, letter in enumerate(self.axes):
            direction, limits = getattr(self, letter), self.z_limits if letter == "z" else self.limits
            axis = number if direction.axis is None else direction.axis
            axes[letter] = {"axis": axis if isinstance(axis, str) else f"#{axis + 1}",
                            "reversed": direction.sign < 0, "scale": direction.scale,
                            "step_limit_nm": min(limits.step_nm, limits.range_nm, 1e6),
                            "rate_limit_nm_per_s": min(limits.rate_nm_per_s, 1e7),
                            "range_limit_nm": min(limits.range_nm, 1e9)}
        if "z" in axes:
            axes["z"].update(min_nm=self.z_ends_nm[0], max_nm=self.z_ends_nm[1])
        # A call of the stage may take as long as it likes.
        return {"controller": {"driver": "program", "device": device, "timeout_ms": 5000, "start_timeout_ms": 60_000},
                **axes, "motion": {**({} if self.axes == "xy" else {"axes": self.axes}),
                                    "max_rate_hz": min(self.max_rate_hz, 1e5)},
                "connection": {"start_without_controller": True},
                "daemon": {"corrections": self.corrections, "commands": self.commands}}


def find_driftd_stage() -> str:
    """The program, or a SettingsError that says what to do."""
    named = os.environ.get("DRIFTD_STAGE")
    built = pathlib.Path(__file__).resolve().parents[4] / "build/release/bin/driftd-stage"
    found = shutil.which(named or "driftd-stage") or (not named and built.is_file() and str(built))
    if not found:
        raise SettingsError(f"{named or 'driftd-stage'} is not there, which moves the stage: install the package "
                            "driftd-stage, or name the program by the environment's DRIFTD_STAGE")
    return found


class Driver:
    """Moves a stage to where driftd's corrections say, and reports.

    Parameters
    ----------
    stage : Stage
    settings : Settings
    """

    def __init__(self, stage: Stage, settings: Settings = Settings()) -> None:
        self._stage, self._settings = stage, settings
        self._ended = False
        self._driftd_stage: subprocess.Popen | None = None

    def stop(self) -> None:
        """Makes `run` return soon. From any thread, or a signal's handler."""
        self._ended = True
        if self._driftd_stage is not None:
            self._driftd_stage.terminate()

    def run(self) -> None:
        """Follows corrections until `stop`; the stage then stays where it is.

        Raises
        ------
        SettingsError
            The stage can never be driven like this.
        """
        with tempfile.TemporaryDirectory(prefix="driftd-stage-") as folder, \
                socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{folder}/stage")
            listener.listen()
            listener.settimeout(0.1)
            file = pathlib.Path(folder, "stage.yaml")  # of which JSON is a part
            file.write_text(json.dumps(self._settings.configuration(f"unix:{folder}/stage")))
            command = [find_driftd_stage(), "--config", str(file)]
            checked = subprocess.run([*command, "--check-config"], capture_output=True, text=True)
            if checked.returncode:
                where = re.compile(rf"^{re.escape(str(file))}(:\d+:\d+)?: ", re.MULTILINE)
                raise SettingsError(where.sub("", checked.stderr.strip()))
            # What it prints goes to the log; killed, this program leaves none behind that reports to the daemon.
            self._driftd_stage = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *command],
                                                  stdin=subprocess.DEVNULL, stdout=2)
            try:
                self._serve(listener)
            finally:
                self._driftd_stage.terminate()
                code = self._driftd_stage.wait()
                with contextlib.suppress(Exception):
                    self._stage.stop()
        if code not in (0, -signal.SIGTERM):
            raise SettingsError(f"driftd-stage ended with exit code {code}")

    def _serve(self, listener: socket.socket) -> None:
        while not self._ended and self._driftd_stage.poll() is None:
            with contextlib.suppress(TimeoutError, ConnectionError):  # it connects again
                connection, _ = listener.accept()
                with connection, connection.makefile("rw", encoding="utf-8", errors="replace") as lines:
                    serve(self._stage, lines, lines)


def run(stage: Stage, settings: Settings = Settings()) -> None:
    """Drives a stage until SIGTERM or Ctrl-C. Only in a program's main thread.

    Raises
    ------
    SettingsError
        The stage can never be driven like this.
    """
    driver = Driver(stage, settings)
    previous: dict[int, Any] = {}

    def end(*_: Any) -> None:
        driver.stop()
        for number, handler in previous.items():  # a second signal ends even a stage that hangs
            signal.signal(number, handler)

    for number in (signal.SIGTERM, signal.SIGINT):
        previous[number] = signal.signal(number, end)
    try:
        driver.run()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that make `settings`."""
    group = parser.add_argument_group("what every driver has")
    group.add_argument("--serve", action="store_true",
                       help="as driftd-stage's `controller.command`: its configuration has all that is below")
    group.add_argument("--driftd", metavar="FILE",
                       help="the daemon's configuration, for its endpoints (needs python3-yaml)")
    group.add_argument("--corrections", metavar="ENDPOINT", help="instead of the daemon's")
    group.add_argument("--commands", metavar="ENDPOINT", help="instead of the daemon's")
    group.add_argument("--axes", choices=("xy", "xyz", "z"), default="xy",
                       help="what is followed: corrections of x and y, of z, or both (xy)")
    for letter, which in (("x", "first"), ("y", "second"), ("z", "last")):
        group.add_argument(f"--{letter}-axis", metavar="NAME",
                           help=f"name of the stage's axis that is {letter} (the {which})")
        group.add_argument(f"--{letter}-sign", type=int, choices=(1, -1), default=1,
                           help="-1 where the axis counts the other way (1)")
        group.add_argument(f"--{letter}-scale", type=float, default=1.0, metavar="N",
                           help="units of the axis for each nm of the stage (1)")
    for end in ("min", "max"):
        group.add_argument(f"--z-{end}-nm", type=float, metavar="N",
                           help="where z may be sent on its own axis: off the cover glass; wanted with z")
    limits, z_limits = Limits(), Settings.z_limits
    for name, default, what in (
            ("--step-limit-nm", limits.step_nm, "largest distance between two targets"),
            ("--rate-limit-nm-per-s", limits.rate_nm_per_s, "fastest change of targets"),
            ("--range-limit-nm", limits.range_nm, "largest distance from where the stage was when the lock engaged"),
            ("--z-step-limit-nm", z_limits.step_nm, "the same of z"),
            ("--z-rate-limit-nm-per-s", z_limits.rate_nm_per_s, "the same of z"),
            ("--z-range-limit-nm", z_limits.range_nm, "the same of z"),
            ("--max-rate-hz", Settings.max_rate_hz, "the most moves a second")):
        group.add_argument(name, type=float, default=default, metavar="N", help=f"{what} (%(default)g)")


def settings(options: argparse.Namespace) -> Settings:
    """What the options of `add_options` say."""
    endpoints = driftd.endpoints(options.driftd)
    ends_nm = (options.z_min_nm, options.z_max_nm)
    return Settings(
        corrections=options.corrections or endpoints.corrections,
        commands=options.commands or endpoints.commands,
        x=Direction(options.x_axis, options.x_sign, options.x_scale),
        y=Direction(options.y_axis, options.y_sign, options.y_scale),
        limits=Limits(options.step_limit_nm, options.rate_limit_nm_per_s, options.range_limit_nm),
        max_rate_hz=options.max_rate_hz, axes=options.axes,
        z=Direction(options.z_axis, options.z_sign, options.z_scale),
        z_limits=Limits(options.z_step_limit_nm, options.z_rate_limit_nm_per_s, options.z_range_limit_nm),
        z_ends_nm=None if None in ends_nm else ends_nm)


def main(make_stage: Callable[[argparse.Namespace], Stage], parser: argparse.ArgumentParser | None = None,
         arguments: Sequence[str] | None = None) -> int:
    """A driver program: options, messages on stderr, and the exit code (0; 1: cannot be driven like this).

    Parameters
    ----------
    make_stage : callable
        Makes the stage from the options.
    parser : argparse.ArgumentParser, optional
        With the stage's own options; those of `add_options` are added.
    arguments : sequence of str, optional
        Instead of the program's.
    """
    parser = parser or argparse.ArgumentParser()
    add_options(parser)
    options = parser.parse_args(arguments)
    try:
        if options.serve:
            serve_standard_streams(make_stage(options))
        else:
            run(make_stage(options), settings(options))
    except (SettingsError, driftd.Unreachable, ValueError, OSError, ImportError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    return 0
