# SPDX-License-Identifier: MIT
"""Command line of driftd-stage-emulator. Exit codes: 0 stopped by signal, 1 an address cannot be had or, with
--strict, the client made a mistake; 2 a mistake in the command line."""
from __future__ import annotations

import argparse
import gc
import signal
import sys

from .asi import Asi
from .control import Control
from .emulator import Emulator
from .journal import Journal, StrictError
from .lc400 import Lc400
from .pi_gcs2 import PiGcs2
from .piezoconcept import Piezoconcept
from .simulated_stage import SimulatedStage
from .stage import QUEUE, REFUSE, REPLACE, Axis, Stage, StageSettings
from .thorlabs_apt import ThorlabsApt
from .transport import PtyLink, TcpLink

KINDS = {kind.kind: kind for kind in (PiGcs2, Lc400, Asi, Piezoconcept, ThorlabsApt)}


class Stopped(Exception):
    """A signal asked for the end."""


def _stop(number, frame) -> None:
    raise Stopped


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="driftd-stage-emulator", description="Emulates a stage's controller.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="kinds:\n" + "\n".join(f"  {kind.kind:14}{kind.title}" for kind in KINDS.values()))
    made.add_argument("kind", choices=KINDS, metavar="KIND", help="one of: " + ", ".join(KINDS))
    wire = made.add_mutually_exclusive_group(required=True)
    wire.add_argument("--listen", metavar="HOST:PORT", help="TCP; port 0: a free one, which the ready line tells")
    wire.add_argument("--pty", metavar="LINK", help="a pseudo-terminal under this symbolic link")
    made.add_argument("--cooked", action="store_true", help="the pty is as a fresh tty is, not raw")
    made.add_argument("--baud", type=int, help="pace of the bytes, both ways; 0: they take no time")
    made.add_argument("--buffer", type=int, default=4096, help="bytes that wait before reading pauses")
    made.add_argument("--sim", metavar="PATH", help="driftd-sim's --stage-input: its stage is moved")
    made.add_argument("--sim-axes", choices=("xy", "xyz", "z"), default="xy",
                      help="which axes of that stage the controller's first ones are")
    made.add_argument("--control", metavar="PATH", help="UNIX datagram socket for faults and counts")
    made.add_argument("--strict", action="store_true", help="end with exit code 1 at a client's mistake")

    axes = made.add_argument_group("axes")
    axes.add_argument("--axes", help="names, with commas between; the first are those of --sim-axes")
    axes.add_argument("--range", nargs=2, type=float, metavar=("LOW", "HIGH"), help="nm")
    axes.add_argument("--resolution", type=float, metavar="NM", help="of a target")
    axes.add_argument("--zero", nargs="+", type=float, metavar="NM",
                      help="the controller's place that is 0,0 of the simulated stage, axis by axis; else the middle")
    axes.add_argument("--power-on", choices=("zero", "bottom"), default="zero",
                      help="where a power cycle leaves the stage: at that place, or at the lower end (0 V)")
    axes.add_argument("--servo-on", action="store_true", help="servos are on at the start")
    axes.add_argument("--tau-ms", type=float, default=1.0, help="time constant of the response")
    axes.add_argument("--dead-ms", type=float, default=0.0, help="time before it begins to move")
    axes.add_argument("--window", type=float, default=10.0, metavar="NM", help="on target within")
    axes.add_argument("--settle-ms", type=float, default=5.0, help="on target after so long within")
    axes.add_argument("--noise", type=float, default=0.3, metavar="NM", help="of a position read")
    axes.add_argument("--during-move", choices=(REPLACE, QUEUE, REFUSE), default=REPLACE,
                      help="what a move during a move does")
    axes.add_argument("--beyond", choices=("clamp", "ignore"), default="clamp",
                      help="lc400, thorlabs_apt: what a target out of range does")

    device = made.add_argument_group("device")
    device.add_argument("--latency-ms", type=float, default=0.0, help="to carry out a command")
    device.add_argument("--jitter-ms", type=float, default=0.0, help="exponential, added to it")
    device.add_argument("--seed", type=int, default=1, help="of jitter and noise")
    device.add_argument("--model", default="", help="asi: tiger, ms2000; thorlabs_apt: bpc303, kpz101; "
                                                    "pi_gcs2: what *IDN? says")
    device.add_argument("--unit", choices=("um", "mm"), default="um", help="pi_gcs2")
    device.add_argument("--unit-code", type=int, default=0, help="lc400: what its unit register holds")
    device.add_argument("--reference", action="store_true", help="pi_gcs2: axes need FRF first")
    device.add_argument("--piezo", action="store_true", help="asi: piezo axes")
    device.add_argument("--error-text", default="", help="piezoconcept: what it says instead of Ok")
    return made


def make_stage(kind, options, journal: Journal) -> Stage:
    names = options.axes.split(",") if options.axes else list(kind.axes)
    low_nm, high_nm = options.range or kind.range_nm
    steps = {"piezoconcept": 65535, "thorlabs_apt": 32767}
    resolution_nm = options.resolution
    if resolution_nm is None:
        resolution_nm = kind.resolution_nm
        if options.piezo and kind is Asi:
            resolution_nm = 1.0
        if resolution_nm < 0:
            resolution_nm = (high_nm - low_nm) / steps[kind.kind]
    axes = [Axis(name, low_nm, high_nm, resolution_nm) for name in names]
    zero_nm = [(low_nm + high_nm) / 2] * len(axes)
    if options.zero:
        zero_nm[:len(options.zero)] = options.zero
    options.power_on_nm = zero_nm if options.power_on == "zero" else [low_nm] * len(axes)
    settings = StageSettings(
        tau_ns=options.tau_ms * 1e6, dead_ns=round(options.dead_ms * 1e6), window_nm=options.window,
        settle_ns=round(options.settle_ms * 1e6), noise_nm=options.noise, during=options.during_move,
        beyond=options.beyond, seed=options.seed)
    sim = SimulatedStage(options.sim, journal.say, options.sim_axes) if options.sim else None
    return Stage(axes, settings, zero_nm, sim)


def make_link(kind, options, journal: Journal):
    """@return the link and its pace"""
    baud = kind.baud_pty if options.pty else kind.baud_tcp
    if kind is Asi and options.model == "ms2000":
        baud = 9600
    if options.baud is not None:
        baud = options.baud
    if options.pty:
        return PtyLink(options.pty, options.cooked), baud
    host, _, port = options.listen.rpartition(":")
    return TcpLink(host or "127.0.0.1", int(port), journal.say), baud


def check(made: argparse.ArgumentParser, options) -> None:
    if options.listen and not options.listen.rpartition(":")[2].isdigit():
        made.error("--listen takes HOST:PORT")
    count = len(options.axes.split(",")) if options.axes else len(KINDS[options.kind].axes)
    if options.axes and len(set(options.axes.split(","))) < count:
        made.error("--axes takes names that differ")
    if count < len(options.sim_axes) and options.sim:
        made.error(f"--sim-axes {options.sim_axes} takes as many --axes")
    if options.zero and len(options.zero) > count:
        made.error(f"--zero takes at most {count} places")
    if options.range and options.range[0] >= options.range[1]:
        made.error("--range takes LOW below HIGH")
    if options.kind == "piezoconcept" and options.axes:
        made.error("piezoconcept: the commands name the axes X, Y and Z")


def main(arguments=None) -> int:
    made = parser()
    options = made.parse_args(arguments)
    check(made, options)
    kind = KINDS[options.kind]
    journal = Journal(kind.kind, options.strict)
    emulator = None
    try:
        stage = make_stage(kind, options, journal)
        link, baud = make_link(kind, options, journal)
        emulator = Emulator(link, kind(stage, journal, options), stage, journal, options, baud)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _stop)
        emulator.start(options.servo_on or kind.servo_at_power_on)
        if options.control:
            emulator.control = Control(options.control, emulator)
        pace = f"{baud} baud" if baud else "unpaced"
        print(f"driftd-stage-emulator ready: {kind.kind} at {link.name}, {pace}", flush=True)
        gc.freeze()
        gc.disable()  # no cycles are made while it runs, and a collection would be a pause
        emulator.run()
    except Stopped:
        pass
    except StrictError as error:
        print(f"driftd-stage-emulator: ended by --strict: {error}", file=sys.stderr, flush=True)
        return 1
    except OSError as error:
        print(f"driftd-stage-emulator: {error}", file=sys.stderr, flush=True)
        return 1
    finally:
        if emulator is not None:
            emulator.close()
    return 0
