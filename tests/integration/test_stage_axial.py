# SPDX-License-Identifier: MIT
"""z by driftd-stage: a publisher of corrections, the program, emulated controllers of three axes or two controllers,
and the simulated stage behind them, whose truth says where z was sent. The daemon is played here."""
from __future__ import annotations

import json
import pathlib
import random
import signal
import socket
import sys
import tempfile
import time
import unittest

import zmq

from harness import BIN, DEADLINE_S, SOURCE, Process

sys.path.insert(0, str(SOURCE / "tests/support"))
from stage_daemon import StageDaemon, is_of_z  # noqa: E402

EMULATOR = SOURCE / "tools/stage-emulator/driftd-stage-emulator"
WORLD = """
camera: {width_px: 64, height_px: 64, rate_hz: 20}
markers: {positions_px: [[32, 32]]}
stage: {noise_nm: 0, z: {noise_nm: 0, range_nm: 1e6}}
"""
# Far from real time: neither a busy machine nor the pauses of a test make a correction late or a move too fast.
CALM = "timeout_ms: 5000"
LIMITS = "rate_limit_nm_per_s: 1e7"
#: Emulated, its driver's axes, and what the emulator is told.
THREE_AXES = {"pi_gcs2": ("1", "2", "3"), "lc400": ("1", "2", "3"), "asi": ("X", "Y", "Z"),
              "piezoconcept": ("X", "Y", "Z"), "thorlabs_apt": ("bay1", "bay2", "bay3")}
ENDS = {"pi_gcs2": (48_000, 51_500), "lc400": (-2000, 1500), "asi": (-2000, 1500), "piezoconcept": (48_000, 51_500),
        "thorlabs_apt": (8000, 11_500)}  #: around the middle of each emulator's range, where 0 of the simulated z is


class Emulator:
    """An emulated controller in front of the simulated stage, and its faults."""

    def __init__(self, test: "AxialTest", kind: str, *arguments):
        axes = THREE_AXES[kind]
        named = () if kind == "piezoconcept" else ("--axes", ",".join(axes))
        self.control = test.folder / f"{kind}.faults"
        self.process = test.run_program(kind, sys.executable, EMULATOR, kind, "--listen", "127.0.0.1:0", "--servo-on",
                                        *named, "--noise", "0", "--tau-ms", "0", "--control", self.control,
                                        "--sim", test.folder / "input", *arguments)
        self.process.wait_for("driftd-stage-emulator ready: ")
        self.device = self.process.text().partition(" at ")[2].partition(",")[0]
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        test.addCleanup(self._socket.close)
        self._socket.bind("")
        self._socket.settimeout(DEADLINE_S)
        self._socket.connect(str(self.control))

    def ask(self, text: str):
        self._socket.send(text.encode())
        answer = self._socket.recv(1 << 20).decode()
        return json.loads(answer) if answer.startswith("{") else answer


class AxialTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="driftd-axial-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.daemon = StageDaemon()
        self.addCleanup(self.daemon.close)
        self.driver: Process | None = None

    def tearDown(self):
        self.assertEqual(self.daemon.mistakes, [])

    def run_program(self, name: str, *arguments) -> Process:
        process = Process(name, list(arguments), self.folder)
        self.addCleanup(process.__exit__)
        return process

    def start_world(self) -> None:
        file = self.folder / "world.yaml"
        file.write_text(WORLD)
        address = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}.{random.randrange(2, 255)}"
        self.run_program("sim", BIN / "driftd-sim", "--scenario", file, "--address", address, "--stage-input",
                         self.folder / "input", "--control", f"ipc://{self.folder}/sim").wait_for("driftd-sim ready")
        context = zmq.Context()
        self.addCleanup(context.destroy, 0)
        self._world = context.socket(zmq.REQ)
        self._world.connect(f"ipc://{self.folder}/sim")

    def sent(self) -> tuple[float, float, float]:
        """Where the simulated stage was sent last."""
        self._world.send_string('{"command":"status"}')
        self.assertTrue(self._world.poll(DEADLINE_S * 1000))
        status = json.loads(self._world.recv())
        return tuple(status[f"commanded_{letter}_nm"] for letter in "xyz")

    def start_driver(self, text: str) -> None:
        file = self.folder / "stage.yaml"
        file.write_text(text + "realtime: {mode: 'off'}\n"
                        f"daemon: {{corrections: '{self.daemon.corrections}', commands: '{self.daemon.commands}'}}\n")
        self.driver = self.run_program(f"driver-{time.monotonic_ns()}", BIN / "driftd-stage", "--config", file)
        self.driver.wait_for("driftd-stage ready")

    def wait(self, condition, what: str, send=lambda: None):
        end = time.monotonic() + DEADLINE_S
        while not (found := condition()):
            said = f"never: {what}: {self.daemon.reports[-2:]}\n{self.driver.text()}"
            self.assertLess(time.monotonic(), end, said)
            send()
            time.sleep(0.02)
        return found

    def report(self, of_z: bool, condition=lambda report: True) -> dict:
        """The next report of z, or of x and y, of which the condition holds."""
        seen = len(self.daemon.reports)
        def found():
            return next((r for r in self.daemon.reports[seen:] if is_of_z(r) == of_z and condition(r)), None)
        return self.wait(found, f"a report of {'z' if of_z else 'x, y'}")

    def reach(self, x=None, z=None, step_nm=1.0) -> None:
        """Sends corrections until the simulated stage is sent there (within what the controller's resolution leaves)."""
        def there():
            sent = self.sent()
            return all(want is None or abs(sent[axis] - want) < step_nm for axis, want in ((0, x), (2, z)))

        def send():
            if x is not None:
                self.daemon.send((x, 0.0))  # all of it new, as the first of a lock says
            if z is not None:
                self.daemon.send_axial(z)
        self.wait(there, f"x {x} z {z}", send)


class OneController(AxialTest):
    """x, y and z of one emulated controller."""

    def start(self, kind: str, *arguments, z_state: str = "ready") -> Emulator:
        self.start_world()
        emulator = Emulator(self, kind, "--sim-axes", "xyz", *arguments)
        if z_state == "servo_off":
            emulator.ask("servo_off 3")
        low_nm, high_nm = ENDS[kind]
        axes = dict(zip("xyz", THREE_AXES[kind]))
        extra = {"lc400": ", baud: 3000000"}.get(kind, "")
        self.start_driver(
            f"controller: {{driver: {kind}, device: '{emulator.device}'{extra}, {CALM}}}\n"
            f"motion: {{axes: xyz}}\n"
            f"x: {{axis: '{axes['x']}', {LIMITS}}}\ny: {{axis: '{axes['y']}', {LIMITS}}}\n"
            f"z: {{axis: '{axes['z']}', {LIMITS}, min_nm: {low_nm}, max_nm: {high_nm}}}\n")
        for of_z, state in ((False, "ready"), (True, z_state)):
            self.report(of_z, lambda r: r["state"] == state)
        return emulator

    def moves(self, kind: str, *arguments, resolution_nm: float = 1.0) -> None:
        emulator = self.start(kind, *arguments)
        low_nm, high_nm = ENDS[kind]
        near = 2 * resolution_nm
        report = self.report(True)
        self.assertEqual((report["axes"][0]["min_nm"], report["axes"][0]["max_nm"]), (low_nm, high_nm))
        self.reach(x=20, z=-15, step_nm=near)
        for letter, of_z, total in (("x", False, 20), ("z", True, -15)):
            self.report(of_z, lambda r: abs((r[f"total_{letter}_nm"] or 0) - total) < near + 1)
        # z is nobody's now: somebody else moves it, and x and y leave it there.
        self.reach(x=30, step_nm=near)
        self.assertAlmostEqual(self.sent()[2], -15, delta=near)
        self.reach(z=-25, step_nm=near)
        self.assertAlmostEqual(self.sent()[0], 30, delta=near)
        # Whatever is wanted, z stays within its ends.
        for total in (1500, -3000):
            for _ in range(60):
                self.daemon.send_axial(total, total)
                time.sleep(0.003)
        self.report(True, lambda r: r["state"] == "limit" and "z is at the end" in r["text"])
        self.report(False, lambda r: r["state"] == "ready")
        stats = emulator.ask("stats 2000")
        self.assertEqual(stats["syntax_errors"], 0, stats["last_syntax_error"])
        self.assertEqual(stats["refused"], 0)
        places = [target[2] for target in stats["targets_nm"]]
        self.assertGreaterEqual(min(places), low_nm - near)
        self.assertLessEqual(max(places), high_nm + near)
        self.assertLessEqual(max(abs(b - a) for a, b in zip(places, places[1:])), 50 + near)
        self.assertEqual(self.driver.stop(), 0)
        for of_z in (False, True):
            last = [r for r in self.daemon.reports if is_of_z(r) == of_z][-1]
            self.assertEqual(last["state"], "stopped")

    def test_pi(self):
        self.moves("pi_gcs2")

    def test_lc400(self):  # tier: full
        self.moves("lc400")

    def test_asi(self):  # tier: full
        self.moves("asi", "--piezo")

    def test_piezoconcept(self):  # tier: full
        self.moves("piezoconcept", resolution_nm=1.6)

    def test_thorlabs(self):  # tier: full
        self.moves("thorlabs_apt")

    def check_that_a_servo_is_its_group_s(self, kind: str) -> None:
        """A fault of one axis is told of its lock alone, in whose place the other goes on."""
        emulator = self.start(kind)
        self.reach(x=20, z=-15, step_nm=3)
        for axis, of_z in ((3, True), (1, False)):
            seen = len(self.daemon.reports)
            emulator.ask(f"servo_off {axis}")
            ill = self.report(of_z, lambda r: r["state"] == "servo_off")
            self.assertEqual(ill["text"].count(" is off") + ill["text"].count("switched itself off") + ill["text"].count("open loop"), 1)
            if of_z:
                self.reach(x=40, step_nm=3)
            else:
                self.reach(z=-35, step_nm=3)
            well = self.report(not of_z)
            self.assertEqual((well["state"], well["text"], well["error"]), ("ready", "", 0))
            emulator.ask(f"servo_on {axis}")
            self.report(of_z, lambda r: r["state"] == "ready")
            states = [r["state"] for r in self.daemon.reports[seen:] if is_of_z(r) != of_z]
            self.assertEqual(set(states), {"ready"})
            # It goes on from where it is: what was sent meanwhile is not made up for.
            at = self.sent()
            if of_z:
                self.daemon.send_axial(-16, -1)
                self.wait(lambda: abs(self.sent()[2] - at[2]) < 60, "z follows", lambda: self.daemon.send_axial(-16, 0.0))
                self.reach(z=-15, step_nm=3)
            else:
                self.reach(x=20, step_nm=3)

    def test_a_servo_that_was_off_at_the_connection_is_known_to_be_on(self):
        emulator = self.start("pi_gcs2", z_state="servo_off")
        self.assertFalse(self.report(True)["axes"][0]["closed_loop"])
        emulator.ask("servo_on 3")
        self.assertTrue(self.report(True, lambda r: r["state"] == "ready")["axes"][0]["closed_loop"])

    def test_a_servo_of_z_or_of_x_is_its_lock_s_alone_pi(self):
        self.check_that_a_servo_is_its_group_s("pi_gcs2")

    def test_a_servo_of_z_or_of_x_is_its_lock_s_alone_lc400(self):
        self.check_that_a_servo_is_its_group_s("lc400")

    def test_a_servo_of_z_or_of_x_is_its_lock_s_alone_thorlabs(self):
        self.check_that_a_servo_is_its_group_s("thorlabs_apt")

    def test_the_simulator(self):
        self.start_world()
        self.start_driver(f"controller: {{driver: simulator, device: {self.folder}/input, {CALM}}}\n"
                          "motion: {axes: xyz}\n"
                          f"x: {{axis: x, {LIMITS}}}\ny: {{axis: 'y', {LIMITS}}}\nz: {{axis: z, {LIMITS}}}\n")
        self.reach(x=20, z=-15)
        self.reach(z=-25)
        self.assertEqual(self.sent(), (20, 0, -25))


class TwoControllers(AxialTest):
    """x and y by one controller, z by another, as by a nosepiece's piezo."""

    def setUp(self):
        super().setUp()
        self.start_world()
        self.xy = Emulator(self, "pi_gcs2")
        self.z = Emulator(self, "lc400", "--axes", "1", "--sim-axes", "z")
        self.start_driver(
            f"controller: {{driver: pi_gcs2, device: '{self.xy.device}', {CALM}}}\n"
            f"second_controller: {{driver: lc400, device: '{self.z.device}', {CALM}}}\n"
            "motion: {axes: xyz}\nconnection: {reconnect_max_ms: 300}\n"
            f"x: {{axis: '1', {LIMITS}}}\ny: {{axis: '2', {LIMITS}}}\n"
            f"z: {{controller: second, axis: '1', {LIMITS}, min_nm: -3000, max_nm: 3000}}\n")
        self.reach(x=20, z=-15)

    def test_each_has_a_health_of_its_own(self):
        self.z.ask("servo_off")
        self.report(True, lambda r: r["state"] == "servo_off")
        self.report(False, lambda r: r["state"] == "ready")
        self.daemon.send_axial(-25)
        self.report(True, lambda r: r["ignored"] > 0)
        self.reach(x=40)
        self.assertAlmostEqual(self.sent()[2], -15, delta=1)

    def test_z_that_is_gone_leaves_x_and_y_and_comes_back_without_a_jump(self):
        self.z.ask("unplug 1")
        self.report(True, lambda r: r["state"] == "disconnected")
        self.report(False, lambda r: r["state"] == "ready")
        self.reach(x=40)
        self.report(True, lambda r: r["state"] == "ready")
        before = self.sent()[2]
        self.daemon.send_axial(-18, -3)
        self.wait(lambda: abs(self.sent()[2] + 18) < 1, "z follows again", lambda: self.daemon.send_axial(-18, 0.0))
        self.assertAlmostEqual(before, -15, delta=1)

    def test_x_and_y_that_are_gone_leave_z(self):
        self.xy.ask("unplug 30")
        self.report(False, lambda r: r["state"] == "disconnected")
        self.report(True, lambda r: r["state"] == "ready")
        self.reach(z=-35)

    def test_a_driver_that_is_killed_leaves_z_where_it_is(self):
        self.driver.stop(signal.SIGKILL)
        for _ in range(20):
            self.daemon.send_axial(-1500, -1500)
            time.sleep(0.005)
        self.assertAlmostEqual(self.sent()[2], -15, delta=1)


if __name__ == "__main__":
    unittest.main()
