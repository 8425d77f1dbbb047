# SPDX-License-Identifier: MIT
"""A stage driver as a program: signals, options, messages on stderr."""
from __future__ import annotations

import argparse
import logging
import signal
import sys
from typing import Any, Callable, Sequence

import driftd

from .contract import SettingsError, Stage
from .driver import Driver, Settings
from .follower import Direction, Limits


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
    group.add_argument("--driftd", metavar="FILE",
                       help="the daemon's configuration, for its endpoints (needs python3-yaml)")
    group.add_argument("--corrections", metavar="ENDPOINT", help="instead of the daemon's")
    group.add_argument("--commands", metavar="ENDPOINT", help="instead of the daemon's")
    for letter, which in (("x", "first"), ("y", "second")):
        group.add_argument(f"--{letter}-axis", metavar="NAME",
                           help=f"name of the stage's axis that is {letter} (the {which})")
        group.add_argument(f"--{letter}-sign", type=int, choices=(1, -1), default=1,
                           help="-1 where the axis counts the other way (1)")
        group.add_argument(f"--{letter}-scale", type=float, default=1.0, metavar="N",
                           help="units of the axis for each nm of the stage (1)")
    limits = Limits()
    for name, default, what in (
            ("--step-limit-nm", limits.step_nm, "largest distance between two targets"),
            ("--rate-limit-nm-per-s", limits.rate_nm_per_s, "fastest change of targets"),
            ("--range-limit-nm", limits.range_nm, "largest distance from where the stage was found"),
            ("--max-rate-hz", Settings.max_rate_hz, "the most moves a second")):
        group.add_argument(name, type=float, default=default, metavar="N", help=f"{what} (%(default)g)")


def settings(options: argparse.Namespace) -> Settings:
    """What the options of `add_options` say."""
    endpoints = driftd.endpoints(options.driftd)
    return Settings(
        corrections=options.corrections or endpoints.corrections,
        commands=options.commands or endpoints.commands,
        x=Direction(options.x_axis, options.x_sign, options.x_scale),
        y=Direction(options.y_axis, options.y_sign, options.y_scale),
        limits=Limits(options.step_limit_nm, options.rate_limit_nm_per_s, options.range_limit_nm),
        max_rate_hz=options.max_rate_hz)


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
    logging.basicConfig(level=logging.INFO, format=f"{parser.prog}: %(message)s", stream=sys.stderr)
    try:
        run(make_stage(options), settings(options))
    except (SettingsError, driftd.Unreachable, ValueError, OSError, ImportError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    return 0
