# SPDX-License-Identifier: MIT
"""The whole chain of a real instrument: simulated camera and stage, driftd, driftd-stage, and an emulated
controller between driver and stage. Used by test_stage_controllers.py and tests/bench/stage_controllers_bench.py."""
from __future__ import annotations

import dataclasses
import json
import pathlib
import socket
import sys
import time

import harness
from harness import BIN, SLOW, SOURCE

EMULATOR = SOURCE / "tools/stage-emulator/driftd-stage-emulator"
SCENARIO = SOURCE / "config/examples/scenario-demo.yaml"
TIMEOUT_MS = 2000  #: of driftd-stage: a busy machine may leave an emulator waiting
LIBRARY = BIN / "simulated_stage_library.so"
# The demo's stage; below, each controller's own share is added to delay_us.
STAGE = {"image_to_stage": "[[0.992546, 0.121869], [0.121869, -0.992546]]", "delay_us": "2500",
         "time_constant_us": "1500"}


@dataclasses.dataclass(frozen=True)
class Controller:
    """One kind of controller on one kind of line.

    Attributes
    ----------
    wire_us : int
        What its line needs for a move of both axes by the bytes: 10 bits each, over the baud rate.
    emulator, baud : how it is emulated and opened
    """

    name: str
    driver: str
    axes: tuple[str, str]
    wire_us: int = 0
    pty: bool = True
    baud: int = 115200
    emulator: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return f"{self.driver}, {f'{self.baud} baud' if self.pty else 'TCP'}"


CONTROLLERS = {c.name: c for c in (
    Controller("pi_tcp", "pi_gcs2", ("1", "2"), pty=False),
    Controller("pi_serial", "pi_gcs2", ("1", "2"), wire_us=2100),
    Controller("lc400", "lc400", ("1", "2"), wire_us=67, baud=3000000,
               emulator=("--baud", "3000000")),
    Controller("asi", "asi", ("X", "Y"), wire_us=2100, emulator=("--piezo",)),
    Controller("piezoconcept", "piezoconcept", ("X", "Y"), wire_us=2700),
    Controller("thorlabs", "thorlabs_apt", ("bay1", "bay2"), wire_us=1740),
)}
# Without an emulator: a library in the driver's own process moves the simulated stage.
VENDOR = Controller("library", "library", ("1", "2"), pty=False)


class LockRig(harness.Rig):
    """A `harness.Rig` whose stage is moved through a controller; `controller` None: the simulator's own
    stage, by driftd-stage's driver `simulator`."""

    def __init__(self, controller: Controller | None, rate_hz: float):
        super().__init__()
        self.controller, self.rate_hz = controller, rate_hz
        self.emulator: harness.Process | None = None
        self.driver: harness.Process | None = None
        self._control = self.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        self._control.bind("")
        self._control.settimeout(10 * SLOW)

    # --- starting ---
    def run(self, name: str, *arguments) -> harness.Process:
        return self.enter_context(harness.Process(name, arguments, self.folder))

    def start_world(self, scenario: pathlib.Path = SCENARIO, own_stage: bool = False) -> None:
        """Starts the camera and the stage; `own_stage`: corrections move it, without any driver."""
        stage = ("--stage", self.corrections) if own_stage else ("--stage-input", self.folder / "input")
        self.sim = self.run("sim", BIN / "driftd-sim", "--scenario", scenario, "--address", self.address,
                            *stage, "--truth", self.truth_endpoint, "--control", self.control_endpoint,
                            "--rate", str(self.rate_hz))
        self.sim.wait_for("driftd-sim ready")

    def start_emulator(self, *arguments, sim: bool = True) -> None:
        """`sim` False: its stage is a model of its own."""
        wire = ("--pty", self.folder / "tty") if self.controller.pty else ("--listen", "127.0.0.1:0")
        self.emulator = self.run("emulator", sys.executable, EMULATOR, self.controller.driver, *wire, "--control",
                                 self.folder / "faults", *self.controller.emulator, *arguments,
                                 *(("--sim", self.folder / "input") if sim else ()))
        self.emulator.wait_for("driftd-stage-emulator ready: ")
        self._control.connect(str(self.folder / "faults"))

    def device(self) -> str:
        if self.controller.pty:
            return str(self.folder / "tty")
        return self.emulator.text().partition(" at ")[2].partition(",")[0]

    def start_driver(self, limits: str = "", more: str = "") -> harness.Process:
        """driftd-stage. `limits`: further keys of both axes, such as ", step_limit_nm: 40"; `more`: other sections."""
        controller, names = self.controller, "xy"
        section = f"driver: simulator, device: {self.folder}/input"
        if controller is not None:
            names = controller.axes
            section = f"driver: {controller.driver}, timeout_ms: {TIMEOUT_MS}, switch_servo_on: true, " + (
                f"library: {LIBRARY}, device: {self.folder}/input" if controller is VENDOR
                else f"device: '{self.device()}', baud: {controller.baud}")
        file = self.folder / f"stage{time.monotonic_ns()}.yaml"
        file.write_text(f"controller: {{{section}}}\n"
                        + "".join(f"{a}: {{axis: '{name}'{limits}}}\n" for a, name in zip("xy", names))
                        + f"daemon: {{corrections: '{self.corrections}', commands: '{self.commands}'}}\n{more}")
        self.driver = self.run(file.stem, BIN / "driftd-stage", "--config", file)
        self.driver.wait_for("driftd-stage ready")
        return self.driver

    def start_daemon_for(self, extra_us: int = 0, **sections) -> None:
        """Starts the daemon, which is told the simulator's matrix, and the delay with the controller's share."""
        delay_us = int(STAGE["delay_us"]) + extra_us
        self.daemon = self.run("driftd", BIN / "driftd", "--config", self.config(**{
            "camera": {"frame_rate_hz": self.rate_hz, "readout_us": 300},
            "stage": {**STAGE, "delay_us": delay_us},
            "control": {"step_limit_nm": 20, "range_limit_nm": 5000}, **sections}))
        self.daemon.wait_for("publishing on")
        self.wait_markers()

    # --- asking ---
    def ask(self, command: str) -> dict | None:
        """A fault, or `stats N`, of the emulated controller."""
        self._control.send(command.encode())
        answer = self._control.recv(1 << 20).decode()
        if answer.startswith("{"):
            return json.loads(answer)
        assert answer == "ok", answer
        return None

    def wait_driver(self, state: str) -> dict:
        return self.wait_until(lambda s: (s["stage_driver"] or {}).get("state") == state,
                               f"a driver that is {state}")["stage_driver"]

    def said(self) -> str:
        """What all programs said, for the message of a failed test."""
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')}" for log in logs)
